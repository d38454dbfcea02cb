package event

import "crypto/sha256"

// SpanKind is what kind of thing a run has started. The numbers are persisted and must stay stable.
type SpanKind uint8

// The kinds of spans.
const (
	SpanText             SpanKind = 1 // TEXT_MESSAGE_*
	SpanReasoningMessage SpanKind = 2 // REASONING_MESSAGE_*
	SpanReasoning        SpanKind = 3 // REASONING_START … REASONING_END
	SpanToolCall         SpanKind = 4 // TOOL_CALL_*
	SpanStep             SpanKind = 5 // STEP_*
	SpanSubagent         SpanKind = 6 // SUBAGENT_*
	spanResult           SpanKind = 7 // a call's result, in IDHash only
)

// Span is something that a run started and that still wants an event: an END or, for a tool call
// that has ended, its result.
type Span struct {
	Kind SpanKind
	ID   string
	Lane string
	// Chunked says that a *_CHUNK opened it: it is closed by the lane's next stream, not by an END.
	Chunked bool
	// Ended says that a tool call's END came; it stays listed until its result comes.
	Ended bool
	// Answered says that a tool call's result came before its END.
	Answered bool
	// Seq numbers the spans of a run in order of starting, from 1.
	Seq uint64
}

// Limits on what a run may have open at once, so that what the cluster must write to close it
// stays far below an entry.
const (
	MaxOpenSpans   = 1024
	MaxOpenIDBytes = 64 << 10
)

// Progress is how far a run has come in its grammar. The zero value is a run without events.
//
// Spans is never changed in place: copies of a Progress may share it.
type Progress struct {
	Started bool
	// End is the run's last word; StatusRunning (or empty) while it has not ended.
	End   Status
	Spans []Span // in order of starting
	// LastSeq is the Seq of the span that was started last.
	LastSeq uint64
}

// Ended reports whether a terminal event was taken.
func (p *Progress) Ended() bool { return p.End != "" && p.End != StatusRunning }

// Open lists the messages and tool calls that have started and not ended.
func (p *Progress) Open() Open {
	o := Open{Messages: []string{}, ToolCalls: []string{}}
	for _, s := range p.Spans {
		switch {
		case s.Kind == SpanText || s.Kind == SpanReasoningMessage:
			o.Messages = append(o.Messages, s.ID)
		case s.Kind == SpanToolCall && !s.Ended:
			o.ToolCalls = append(o.ToolCalls, s.ID)
		}
	}
	return o
}

// IDHash stands for an id that a run has used, within its kind: the first 16 bytes of a SHA-256,
// so that ids chosen to collide cannot make one run's id block another's.
type IDHash [16]byte

// HashID returns the hash of an id used as kind.
func HashID(kind SpanKind, id string) IDHash {
	var buf [128]byte
	h := sha256.Sum256(append(append(buf[:0], byte(kind)), id...))
	return IDHash(h[:16])
}

func (p *Progress) find(kind SpanKind, id string) int {
	for i := len(p.Spans) - 1; i >= 0; i-- {
		if p.Spans[i].Kind == kind && p.Spans[i].ID == id {
			return i
		}
	}
	return -1
}

// chunk returns the index of the lane's chunk stream, or -1.
func (p *Progress) chunk(lane string) int {
	for i := range p.Spans {
		if s := &p.Spans[i]; s.Chunked && !s.Ended && s.Lane == lane {
			return i
		}
	}
	return -1
}

func (p *Progress) openBytes() int {
	n := 0
	for i := range p.Spans {
		n += len(p.Spans[i].ID) + len(p.Spans[i].Lane)
	}
	return n
}

func (p *Progress) add(s Span) {
	p.LastSeq++
	s.Seq = p.LastSeq
	p.Spans = append(p.Spans[:len(p.Spans):len(p.Spans)], s)
}

func (p *Progress) remove(i int) {
	next := make([]Span, 0, len(p.Spans)-1)
	p.Spans = append(append(next, p.Spans[:i]...), p.Spans[i+1:]...)
}

// end closes span i: a tool call without a result stays until that comes, everything else goes.
func (p *Progress) end(i int) {
	if s := &p.Spans[i]; s.Kind != SpanToolCall || s.Answered {
		p.remove(i)
		return
	}
	p.change(i, func(s *Span) { s.Ended = true })
}

// answer notes the result of call i: an ended call goes, an open one waits for its END.
func (p *Progress) answer(i int) {
	if p.Spans[i].Ended {
		p.remove(i)
		return
	}
	p.change(i, func(s *Span) { s.Answered = true })
}

func (p *Progress) change(i int, f func(*Span)) {
	next := append([]Span(nil), p.Spans...)
	f(&next[i])
	p.Spans = next
}
