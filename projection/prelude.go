package projection

import "github.com/runlog/runlog/event"

// Prelude returns the events that bring a stock AG-UI client to where a transcript and a state
// fold stand, so that the rest of the run, sent as it is, is legal for its verifier and leads to
// the messages of the whole run: RUN_STARTED; STATE_SNAPSHOT if anything was said of the state;
// what opens the messages that a snapshot has dropped while they were open (the next event drops
// them again, but their ids stay legal); MESSAGES_SNAPSHOT; then what opens each text, reasoning, call, step and subagent that is open,
// in the order of opening; last, for each stream made of chunks, a chunk that names its id and
// carries nothing, so that chunks without an id find their stream.
//
// run and thread are those of the run being joined, which must be the last that transcript has
// seen. transcript and state must come from [New] with KindTranscript and KindState; state may
// be nil.
func Prelude(run event.RunID, thread event.ThreadID, transcript, state Fold) [][]byte {
	return prelude(run, thread, transcript.(*transcriptFold), state, nil)
}

// prelude puts first in front of the MESSAGES_SNAPSHOT, if it is not nil.
func prelude(run event.RunID, thread event.ThreadID, t *transcriptFold, state Fold, first []byte) [][]byte {
	started := appendMember([]byte(`{"type":"RUN_STARTED"`), "threadId", quote(string(thread)))
	out := [][]byte{append(appendMember(started, "runId", quote(string(run))), '}')}
	if s, ok := state.(*stateFold); ok && s.set {
		b := s.AppendJSON([]byte(`{"type":"STATE_SNAPSHOT","snapshot":`))
		out = append(out, append(b, '}'))
	}
	keys := t.spans.keys()
	for _, k := range keys {
		if t.dropped(k) {
			out = append(out, t.orphan(k))
		}
	}
	if first != nil {
		out = append(out, first)
	}
	b := t.AppendJSON([]byte(`{"type":"MESSAGES_SNAPSHOT","messages":`))
	out = append(out, append(b, '}'))
	for _, k := range keys {
		if t.dropped(k) {
			continue
		}
		sp := t.spans.open[k]
		out = append(out, []byte(sp.start))
		if sp.end != "" {
			out = append(out, []byte(sp.end))
		}
	}
	for _, ln := range t.lanes.open {
		out = append(out, ln.reopen())
	}
	return out
}

// dropped reports whether something is open whose message or call is no longer there.
func (t *transcriptFold) dropped(k spanKey) bool {
	switch k.kind {
	case spanText, spanReasoning:
		return t.conv.byID[k.id] == nil
	case spanCall:
		_, ok := t.conv.calls[k.id]
		return !ok
	}
	return false
}

// orphan is what opens something dropped. The assistant message that a call makes gets an id
// that nothing else has, lest the snapshot keep it.
func (t *transcriptFold) orphan(k spanKey) []byte {
	b := []byte{'{'}
	it := members([]byte(t.spans.open[k].start))
	for name, value, ok := it.next(); ok; name, value, ok = it.next() {
		if string(name) != "parentMessageId" {
			b = appendMember(b, string(name), string(value))
		}
	}
	if k.kind == spanCall {
		parent := k.id + "-dropped"
		for t.conv.byID[parent] != nil {
			parent += "-"
		}
		b = appendMember(b, "parentMessageId", quote(parent))
	}
	return append(b, '}')
}

// reopen is the chunk that opens the lane's stream and adds nothing to it.
func (ln *lane) reopen() []byte {
	var b []byte
	switch ln.kind {
	case streamText:
		b = appendMember([]byte(`{"type":"TEXT_MESSAGE_CHUNK"`), "messageId", ln.id)
		b = appendMember(appendMember(b, "role", ln.role), "name", ln.name)
	case streamTool:
		b = appendMember([]byte(`{"type":"TOOL_CALL_CHUNK"`), "toolCallId", ln.id)
		b = appendMember(appendMember(b, "toolCallName", ln.name), "parentMessageId", ln.parent)
	case streamReasoning:
		b = appendMember([]byte(`{"type":"REASONING_MESSAGE_CHUNK"`), "messageId", ln.id)
	}
	return append(appendMember(b, "subagentRunId", ln.sub), '}')
}
