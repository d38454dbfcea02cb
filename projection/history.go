package projection

import (
	"encoding/json"
	"slices"
)

// History returns a transcript fold's messages, each as JSON, as a thread's readers and models
// need them. They are the fold's own, which are the published client's, but for three things that
// model providers refuse: an id stands once (its first message counts, as the client finds it); a
// tool message stands behind the message that made its call, where the client leaves one that came
// with a run's input or with a snapshot behind later text; and a call that a later run told again
// has its arguments once.
//
// transcript must come from [New] with KindTranscript.
func History(transcript Fold) []json.RawMessage {
	msgs := transcript.(*transcriptFold).history()
	out := make([]json.RawMessage, len(msgs))
	for i, m := range msgs {
		out[i] = m.once().appendJSON(nil)
	}
	return out
}

// AppendHistory appends [History] to dst as one JSON array.
func AppendHistory(dst []byte, transcript Fold) []byte {
	dst = append(dst, '[')
	for i, m := range transcript.(*transcriptFold).history() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = m.once().appendJSON(dst)
	}
	return append(dst, ']')
}

// history returns the messages in History's order.
func (t *transcriptFold) history() []*message {
	msgs := t.conv.unique()
	late := make(map[*message][]*message) // results that stand elsewhere, by the owner of their call
	stay := msgs[:0]
	var home *message // the last message that is no tool message
	for _, m := range msgs {
		owner := t.owner(m)
		if m.role != roleTool {
			home = m
		} else if owner != nil && owner != home {
			late[owner] = append(late[owner], m)
			continue
		}
		stay = append(stay, m)
	}
	if len(late) == 0 {
		return stay
	}
	out := make([]*message, 0, t.conv.len)
	home = nil
	for _, m := range stay {
		if m.role != roleTool {
			out = append(out, late[home]...)
			home = m
		}
		out = append(out, m)
	}
	return append(out, late[home]...)
}

// once returns m with each call as its last start made it.
func (m *message) once() *message {
	var own *message
	for i, c := range m.calls {
		if o := c.once(); o != c {
			if own == nil {
				copied := *m
				copied.calls = slices.Clone(m.calls)
				own = &copied
			}
			own.calls[i] = o
		}
	}
	if own == nil {
		return m
	}
	return own
}

// owner returns the message that made the call which m answers, or nil.
func (t *transcriptFold) owner(m *message) *message {
	if m.role != roleTool {
		return nil
	}
	if ref, ok := t.conv.calls[keyOf(m.toolCallID)]; ok && t.conv.byID[keyOf(ref.owner.msg.id)].msg == ref.owner.msg {
		return ref.owner.msg
	}
	return nil
}

// unique lists the messages without those whose id stood before. Messages without an id are all
// different.
func (c *conversation) unique() []*message {
	msgs := make([]*message, 0, c.len)
	for e := c.head; e != nil; e = e.next {
		if e.msg.id == "" || c.byID[keyOf(e.msg.id)] == e {
			msgs = append(msgs, e.msg)
		}
	}
	return msgs
}
