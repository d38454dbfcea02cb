package event

import "unicode/utf8"

// CodeHostLost is the code of the RUN_ERROR that the cluster writes for a lost host.
const CodeHostLost = "host_lost"

// Closers returns the events by which the cluster ends a run at p: what is open is closed in an
// order that stock AG-UI clients accept, calls without a result get one that says they were
// interrupted, and the terminal comes last. It is a pure function of its arguments; a replayed log
// must give the same bytes, so what it writes must stay stable.
//
// With status StatusLost the terminal is RUN_ERROR with [CodeHostLost], with StatusCancelled it is
// RUN_FINISHED with outcome cancelled.
func Closers(p *Progress, run RunID, thread ThreadID, status Status) []Event {
	c := closers{}
	if !p.Started {
		c.add(Header{Type: TypeRunStarted, RunID: run, ThreadID: thread},
			`"threadId":`, quote(string(thread)), `,"runId":`, quote(string(run)))
	}
	c.messages(p)
	c.calls(p, status)
	c.steps(p)
	if status == StatusCancelled {
		c.subagents(p)
		c.add(Header{Type: TypeRunFinished, RunID: run, ThreadID: thread, Outcome: OutcomeCancelled},
			`"threadId":`, quote(string(thread)), `,"runId":`, quote(string(run)), `,"outcome":{"type":"cancelled"}`)
	} else {
		c.add(Header{Type: TypeRunError},
			`"message":"The host of this run was lost, and no other took it over in time.","code":"`+CodeHostLost+`"`)
	}
	return c.events
}

type closers struct{ events []Event }

// add appends an event whose JSON is its type and the given members.
func (c *closers) add(h Header, members ...string) {
	raw := append([]byte(`{"type":"`), h.Type.String()...)
	raw = append(raw, `",`...)
	for _, m := range members {
		raw = append(raw, m...)
	}
	if h.Lane != "" {
		raw = append(raw, `,"subagentRunId":`...)
		raw = append(raw, quote(h.Lane)...)
	}
	c.events = append(c.events, Event{Raw: append(raw, '}'), Header: h})
}

// messages ends what explicit events opened. Chunk streams end by themselves.
func (c *closers) messages(p *Progress) {
	for _, kind := range []struct {
		span SpanKind
		end  Type
	}{
		{SpanReasoningMessage, TypeReasoningMessageEnd}, {SpanReasoning, TypeReasoningEnd}, {SpanText, TypeTextMessageEnd},
	} {
		for _, s := range p.Spans {
			if s.Kind == kind.span && !s.Chunked {
				c.add(Header{Type: kind.end, ID: s.ID, Lane: s.Lane}, `"messageId":`, quote(s.ID))
			}
		}
	}
}

func (c *closers) calls(p *Progress, status Status) {
	for _, s := range p.Spans {
		if s.Kind == SpanToolCall && !s.Ended && !s.Chunked {
			c.add(Header{Type: TypeToolCallEnd, ID: s.ID, Lane: s.Lane}, `"toolCallId":`, quote(s.ID))
		}
	}
	for _, s := range p.Spans {
		if s.Kind == SpanToolCall && !s.Answered {
			c.add(Header{Type: TypeToolCallResult, ID: s.ID, MessageID: s.ID + "-result", Lane: s.Lane},
				`"messageId":`, quote(s.ID+"-result"), `,"toolCallId":`, quote(s.ID),
				`,"content":"{\"status\":\"interrupted\",\"reason\":\"`, interruptedBy(status), `\"}","role":"tool","metadata":{"interrupted":true}`)
		}
	}
}

func interruptedBy(status Status) string {
	if status == StatusCancelled {
		return "cancelled"
	}
	return CodeHostLost
}

func (c *closers) steps(p *Progress) {
	for _, s := range p.Spans {
		if s.Kind == SpanStep {
			c.add(Header{Type: TypeStepFinished, ID: s.ID, Lane: s.Lane}, `"stepName":`, quote(s.ID))
		}
	}
}

// subagents ends the open subagents, the one started last first: RUN_FINISHED wants none open.
func (c *closers) subagents(p *Progress) {
	for i := len(p.Spans) - 1; i >= 0; i-- {
		if s := p.Spans[i]; s.Kind == SpanSubagent {
			c.add(Header{Type: TypeSubagentError, ID: s.ID}, `"subagentRunId":`, quote(s.ID), `,"message":"cancelled"`)
		}
	}
}

// quote returns s as a JSON string. It is our own so that no library's change can change what a
// replayed log writes.
func quote(s string) string {
	const hex = "0123456789abcdef"
	b := make([]byte, 0, len(s)+2)
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return string(append(b, '"'))
}

// ClosingBytes is how many bytes of JSON [Closers] would write.
func ClosingBytes(p *Progress, run RunID, thread ThreadID, status Status) uint64 {
	n := 0
	for _, e := range Closers(p, run, thread, status) {
		n += len(e.Raw)
	}
	return uint64(n)
}
