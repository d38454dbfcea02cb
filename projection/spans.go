package projection

import (
	"slices"

	"github.com/runlog/runlog/event"
)

// spanKind is what somebody opened and has to close. The numbers are persisted.
type spanKind uint8

const (
	spanText          spanKind = 1
	spanCall          spanKind = 2
	spanReasoning     spanKind = 3 // a reasoning message
	spanReasoningSpan spanKind = 4
	spanStep          spanKind = 5
	spanSubagent      spanKind = 6
	spanThinking      spanKind = 7 // the deprecated forms; they carry no id
	spanThinkingText  spanKind = 8
)

type spanKey struct {
	kind  spanKind
	owner string // of a step: key of its subagentRunId
	id    string
}

// span is something open in the run: what would have to be said to somebody who joins now.
type span struct {
	seq   uint64 // order of opening
	start string // the event that opens it, without what must not be said twice (metadata, rawEvent)
	end   string // of a finished subagent: the event that ended it; its id stays used
}

// spans keeps what the client's verifier holds open. Streams made of chunks are in lanes.
type spans struct {
	open  map[spanKey]*span
	seq   uint64
	bytes int
}

func (s *spans) reset() { *s = spans{open: make(map[spanKey]*span)} }

// startFields names the members of an opening event that a joining client needs.
var startFields = []struct {
	n    field
	name string
}{
	{fMessageID, "messageId"}, {fToolCallID, "toolCallId"}, {fToolCallName, "toolCallName"},
	{fParentMessageID, "parentMessageId"}, {fStepName, "stepName"}, {fRole, "role"}, {fName, "name"},
	{fDescription, "description"}, {fSubagent, "subagentRunId"}, {fParentSubagent, "parentSubagentRunId"},
	{fParentToolCall, "parentToolCallId"},
}

func (s *spans) take(f *fields) {
	switch f.typ {
	case event.TypeRunStarted, event.TypeRunFinished, event.TypeRunError:
		s.reset()
	case event.TypeTextMessageStart:
		s.start(f, spanKey{spanText, "", string(f.key(fMessageID))})
	case event.TypeTextMessageEnd:
		s.end(spanKey{spanText, "", string(f.key(fMessageID))})
	case event.TypeToolCallStart:
		s.start(f, spanKey{spanCall, "", string(f.key(fToolCallID))})
	case event.TypeToolCallEnd:
		s.end(spanKey{spanCall, "", string(f.key(fToolCallID))})
	case event.TypeReasoningMessageStart:
		s.start(f, spanKey{spanReasoning, "", string(f.key(fMessageID))})
	case event.TypeReasoningMessageEnd:
		s.end(spanKey{spanReasoning, "", string(f.key(fMessageID))})
	case event.TypeReasoningStart:
		s.start(f, spanKey{spanReasoningSpan, "", string(f.key(fMessageID))})
	case event.TypeReasoningEnd:
		s.end(spanKey{spanReasoningSpan, "", string(f.key(fMessageID))})
	case event.TypeStepStarted:
		s.start(f, spanKey{spanStep, string(f.key(fSubagent)), string(f.key(fStepName))})
	case event.TypeStepFinished:
		s.end(spanKey{spanStep, string(f.key(fSubagent)), string(f.key(fStepName))})
	case event.TypeSubagentStarted:
		s.start(f, spanKey{spanSubagent, "", string(f.key(fSubagent))})
	case event.TypeSubagentFinished, event.TypeSubagentError:
		s.endSubagent(f)
	case event.TypeThinkingStart:
		s.start(f, spanKey{kind: spanThinking})
	case event.TypeThinkingEnd:
		s.end(spanKey{kind: spanThinking})
	case event.TypeThinkingTextMessageStart:
		s.start(f, spanKey{kind: spanThinkingText})
	case event.TypeThinkingTextMessageEnd:
		s.end(spanKey{kind: spanThinkingText})
	}
}

func (s *spans) start(f *fields, key spanKey) {
	if s.open[key] != nil {
		return
	}
	b := append([]byte(`{"type":"`), f.typ.String()...)
	b = append(b, '"')
	for _, sf := range startFields {
		b = appendMember(b, sf.name, string(f.get(sf.n)))
	}
	s.put(key, &span{seq: s.seq, start: string(append(b, '}'))})
}

func (s *spans) put(key spanKey, sp *span) {
	s.open[key] = sp
	s.seq = sp.seq + 1
	s.bytes += sp.size(key)
}

func (sp *span) size(key spanKey) int {
	return len(key.id) + len(key.owner) + len(sp.start) + len(sp.end) + 8
}

func (s *spans) end(key spanKey) {
	if sp := s.open[key]; sp != nil {
		s.bytes -= sp.size(key)
		delete(s.open, key)
	}
}

// endSubagent remembers the end: another subagent may still name this one as its parent, which
// the verifier wants to have seen started.
func (s *spans) endSubagent(f *fields) {
	key := spanKey{spanSubagent, "", string(f.key(fSubagent))}
	if sp := s.open[key]; sp != nil && sp.end == "" {
		sp.end = `{"type":"SUBAGENT_FINISHED","subagentRunId":` + string(f.get(fSubagent)) + `}`
		s.bytes += len(sp.end)
	}
}

// keys returns the keys of what is open, in the order of opening.
func (s *spans) keys() []spanKey {
	keys := make([]spanKey, 0, len(s.open))
	for k := range s.open {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b spanKey) int {
		if s.open[a].seq < s.open[b].seq {
			return -1
		}
		return 1
	})
	return keys
}
