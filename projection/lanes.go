package projection

import "github.com/runlog/runlog/event"

// streamKind is what a chunk stream builds. The numbers are persisted.
type streamKind uint8

const (
	streamText      streamKind = 1
	streamTool      streamKind = 2
	streamReasoning streamKind = 3
)

// lane is the one stream that a producer (the run's agent, or a subagent) is sending as chunks.
// Values are JSON strings, quotes included; "" where absent.
type lane struct {
	owner  string // key of subagentRunId; absentID for the run's own agent
	sub    string // subagentRunId
	kind   streamKind
	id     string // messageId or toolCallId
	key    string // key of id
	role   string // text: as the opener said, "\"assistant\"" by default
	name   string // text: name; tool: toolCallName
	parent string // tool: parentMessageId
}

// lanes expands *_CHUNK events the way the client's transformChunks does: one stream a lane, in
// the order they opened. Its errors become reject: the event then counts for nothing.
type lanes struct {
	open   []*lane
	closed []*lane // of the step at hand; reused
}

// step says what one event means once chunks are expanded.
type step struct {
	closed  []*lane // streams that end before the event counts; valid until the next step
	lane    *lane   // for a chunk: its stream
	start   bool    // the chunk opens its stream
	content bool    // the chunk carries content (possibly empty)
	reject  bool
}

// take folds f in and says what it means.
func (l *lanes) take(f *fields) step {
	l.closed = l.closed[:0]
	switch f.typ {
	case event.TypeTextMessageChunk:
		return l.chunk(f, streamText, fMessageID)
	case event.TypeToolCallChunk:
		return l.chunk(f, streamTool, fToolCallID)
	case event.TypeReasoningMessageChunk:
		return l.chunk(f, streamReasoning, fMessageID)
	}
	if len(l.open) == 0 {
		return step{}
	}
	switch f.typ {
	case event.TypeRunStarted, event.TypeRunFinished, event.TypeRunError, event.TypeMessagesSnapshot:
		l.closed = append(l.closed, l.open...)
		l.open = l.open[:0]
	case event.TypeRaw, event.TypeActivitySnapshot, event.TypeActivityDelta,
		event.TypeReasoningEncryptedValue, event.TypeSubagentStarted:
	case event.TypeSubagentFinished, event.TypeSubagentError:
		if f.has(fSubagent) {
			l.close(f.key(fSubagent))
		}
	default:
		if f.typ < event.TypeThinkingStart { // which no fold reads
			l.close(f.key(fSubagent))
		}
	}
	return step{closed: l.closed}
}

func (l *lanes) chunk(f *fields, kind streamKind, idField field) step {
	owner, ok := l.resolve(f, kind, idField)
	if !ok {
		return step{reject: true}
	}
	content := f.has(fDelta) || (f.has(fRawEvent) && !isNull(f.get(fRawEvent)))
	if ln := l.of(owner); ln != nil && ln.kind == kind &&
		(!f.has(idField) || string(f.key(idField)) == ln.key) {
		if !ln.agrees(f) {
			return step{reject: true}
		}
		return step{lane: ln, content: content || f.has(fMetadata)}
	}
	if !f.has(idField) || (kind == streamTool && !f.has(fToolCallName)) {
		return step{reject: true} // "First …_CHUNK must have …"
	}
	l.close(owner)
	ln := opener(f, kind, idField)
	l.open = append(l.open, ln)
	return step{closed: l.closed, lane: ln, start: true, content: content}
}

// opener is the stream that a first chunk opens.
func opener(f *fields, kind streamKind, idField field) *lane {
	ln := &lane{
		owner: string(f.key(fSubagent)), sub: string(f.get(fSubagent)),
		kind: kind, id: string(f.get(idField)), key: string(f.key(idField)),
	}
	switch kind {
	case streamText:
		ln.role, ln.name = `"assistant"`, string(f.get(fName))
		if f.has(fRole) {
			ln.role = string(f.get(fRole))
		}
	case streamTool:
		ln.name, ln.parent = string(f.get(fToolCallName)), string(f.get(fParentMessageID))
	}
	return ln
}

// resolve returns the key of the lane that a chunk belongs to; false when it names none, or two.
func (l *lanes) resolve(f *fields, kind streamKind, idField field) (owner []byte, ok bool) {
	tag := f.key(fSubagent)
	if f.has(idField) {
		id := f.key(idField)
		for _, ln := range l.open {
			if ln.kind == kind && ln.key == string(id) {
				return []byte(ln.owner), !f.has(fSubagent) || string(tag) == ln.owner
			}
		}
		return tag, true
	}
	if f.has(fSubagent) {
		return tag, true
	}
	var only *lane
	for _, ln := range l.open {
		if ln.kind != kind {
			continue
		}
		if ln.owner == absentID {
			return absentKey, true
		}
		if only != nil {
			ok = true // a second one: ambiguous unless the run's own agent has one
		}
		only = ln
	}
	switch {
	case ok:
		return nil, false
	case only != nil:
		return []byte(only.owner), true
	}
	return absentKey, true
}

// agrees reports whether a continuing chunk repeats the opener's fields, if at all, unchanged.
func (ln *lane) agrees(f *fields) bool {
	same := func(n field, was string) bool {
		return !f.has(n) || (was != "" && string(f.key(n)) == keyOf(was))
	}
	switch ln.kind {
	case streamText:
		return same(fRole, ln.role) && same(fName, ln.name)
	case streamTool:
		return same(fToolCallName, ln.name) && same(fParentMessageID, ln.parent)
	}
	return true
}

func (l *lanes) of(owner []byte) *lane {
	for _, ln := range l.open {
		if ln.owner == string(owner) {
			return ln
		}
	}
	return nil
}

// close ends the lane's stream, if it has one.
func (l *lanes) close(owner []byte) {
	for i, ln := range l.open {
		if ln.owner == string(owner) {
			l.closed = append(l.closed, ln)
			l.open = append(l.open[:i], l.open[i+1:]...)
			return
		}
	}
}
