package projection

import "github.com/runlog/runlog/event"

// transcriptFold folds events into the messages array of the published client.
type transcriptFold struct {
	lanes lanes
	conv  conversation
	spans spans
	turn  uint64 // counts the runs that began
	bytes int    // estimate of the serialised size
}

func newTranscript() *transcriptFold {
	t := new(transcriptFold)
	t.conv.reset()
	t.spans.reset()
	return t
}

// Apply folds one record in.
func (t *transcriptFold) Apply(r event.Record) {
	var f fields
	if !f.parse(r.Raw) {
		return
	}
	s := t.lanes.take(&f)
	if s.reject {
		return
	}
	if s.lane != nil {
		t.chunk(&f, s)
		return
	}
	t.spans.take(&f)
	t.reduce(&f)
}

// chunk applies the START and CONTENT that a chunk stands for.
func (t *transcriptFold) chunk(f *fields, s step) {
	ln := s.lane
	switch {
	case s.start && ln.kind == streamText:
		t.textStart(f, ln.id, textRole([]byte(ln.role[1:len(ln.role)-1])), ln.name, ln.sub)
	case s.start && ln.kind == streamReasoning:
		t.textStart(f, ln.id, roleReasoning, "", ln.sub)
	case s.start:
		t.callStart(f, ln.id, ln.name, ln.parent, ln.sub)
	}
	if !s.content {
		return
	}
	if ln.kind == streamTool {
		t.callArgs(f, []byte(ln.key))
	} else {
		t.textContent(f, []byte(ln.key))
	}
}

// reduce applies an event that is no chunk, as defaultApplyEvents does.
func (t *transcriptFold) reduce(f *fields) {
	switch f.typ {
	case event.TypeTextMessageStart:
		r := roleAssistant
		if f.has(fRole) {
			r = textRole(f.body(fRole))
		}
		t.textStart(f, string(f.get(fMessageID)), r, string(f.get(fName)), string(f.get(fSubagent)))
	case event.TypeReasoningMessageStart:
		t.textStart(f, string(f.get(fMessageID)), roleReasoning, "", string(f.get(fSubagent)))
	case event.TypeTextMessageContent, event.TypeReasoningMessageContent:
		t.textContent(f, f.key(fMessageID))
	case event.TypeTextMessageEnd, event.TypeReasoningMessageEnd:
		if e := t.conv.byID[string(f.key(fMessageID))]; e != nil && e.msg.role != roleActivity {
			t.bytes += e.msg.meta.merge(f.get(fMetadata))
		}
	case event.TypeToolCallStart:
		t.callStart(f, string(f.get(fToolCallID)), string(f.get(fToolCallName)),
			string(f.get(fParentMessageID)), string(f.get(fSubagent)))
	case event.TypeToolCallArgs:
		t.callArgs(f, f.key(fToolCallID))
	case event.TypeToolCallEnd:
		if ref, ok := t.conv.calls[string(f.key(fToolCallID))]; ok {
			t.bytes += ref.call.meta.merge(f.get(fMetadata))
		}
	case event.TypeToolCallResult:
		t.callResult(f)
	case event.TypeMessagesSnapshot:
		t.messagesSnapshot(f)
	case event.TypeActivitySnapshot:
		t.activitySnapshot(f)
	case event.TypeActivityDelta:
		t.activityDelta(f)
	case event.TypeRunStarted:
		t.runStarted(f)
	case event.TypeReasoningEncryptedValue:
		t.encryptedValue(f)
	}
}

func (t *transcriptFold) push(m *message) *entry {
	t.bytes += m.size()
	return t.conv.push(m)
}

// textStart begins a text or reasoning message, or goes on with the message of that id.
func (t *transcriptFold) textStart(f *fields, id string, r role, name, sub string) {
	e := t.conv.byID[keyOf(id)]
	if e == nil {
		e = t.push(&message{id: id, role: r, kind: contentText, name: name, sub: sub})
	} else if e.msg.role == roleActivity {
		return // an activity's content is no text
	}
	t.bytes += e.msg.meta.merge(f.get(fMetadata))
}

func (t *transcriptFold) textContent(f *fields, key []byte) {
	e := t.conv.byID[string(key)]
	if e == nil || e.msg.role == roleActivity {
		return
	}
	delta := f.body(fDelta)
	e.msg.appendText(delta)
	t.bytes += len(delta) + e.msg.meta.merge(f.get(fMetadata))
}

func (t *transcriptFold) callStart(f *fields, id, name, parent, sub string) {
	if ref, ok := t.conv.calls[keyOf(id)]; ok {
		ref.call.name = name // a replayed START keeps the arguments
		if ref.call.turn != t.turn {
			ref.call.turn, ref.call.again = t.turn, len(ref.call.args)
		}
		t.bytes += ref.call.meta.merge(f.get(fMetadata))
		return
	}
	owner := t.callOwner(id, parent, sub)
	c := &call{id: id, name: name, turn: t.turn}
	t.conv.addCall(owner, c)
	t.bytes += c.size() + c.meta.merge(f.get(fMetadata))
}

// callOwner finds or makes the assistant message that a new call belongs to.
func (t *transcriptFold) callOwner(callID, parent, sub string) *entry {
	id := callID
	if len(parent) > 2 { // the empty string names no parent
		existing := t.conv.byID[keyOf(parent)]
		if existing != nil && existing.msg.role == roleAssistant {
			return existing
		}
		if existing == nil {
			id = parent
		}
	}
	m := &message{id: id, role: roleAssistant, hasCalls: true}
	if t.conv.byID[keyOf(id)] == nil {
		m.sub = sub
	}
	return t.push(m)
}

func (t *transcriptFold) callArgs(f *fields, key []byte) {
	ref, ok := t.conv.calls[string(key)]
	if !ok {
		return
	}
	delta := f.body(fDelta)
	ref.call.args = append(ref.call.args, delta...)
	t.bytes += len(delta) + ref.call.meta.merge(f.get(fMetadata))
}

// callResult always makes a new message: the client removes no duplicates here.
func (t *transcriptFold) callResult(f *fields) {
	m := &message{
		id: string(f.get(fMessageID)), role: roleTool,
		toolCallID: string(f.get(fToolCallID)), sub: string(f.get(fSubagent)),
	}
	if !m.setContent(f.get(fContent)) {
		return
	}
	m.meta.merge(f.get(fMetadata))
	ref, ok := t.conv.calls[string(f.key(fToolCallID))]
	if !ok {
		t.push(m)
		return
	}
	t.bytes += m.size()
	t.conv.insertResult(ref.owner, m)
}

func (t *transcriptFold) encryptedValue(f *fields) {
	value := string(f.get(fEncryptedValue))
	if string(f.key(fSubtype)) == "tool-call" {
		if ref, ok := t.conv.calls[string(f.key(fEntityID))]; ok {
			t.bytes += len(value) - len(ref.call.encrypted)
			ref.call.encrypted = value
		}
		return
	}
	if e := t.conv.byID[string(f.key(fEntityID))]; e != nil && e.msg.role != roleActivity {
		t.bytes += len(value) - len(e.msg.encrypted)
		e.msg.encrypted = value
	}
}

// AppendJSON appends the messages array.
func (t *transcriptFold) AppendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	for e := t.conv.head; e != nil; e = e.next {
		if e != t.conv.head {
			dst = append(dst, ',')
		}
		dst = e.msg.appendJSON(dst)
	}
	return append(dst, ']')
}

// Size estimates the serialised size in bytes.
func (t *transcriptFold) Size() int { return t.bytes + t.spans.bytes + overhead }
