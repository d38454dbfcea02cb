package event

import "fmt"

// Rules is what a run's grammar is checked by.
type Rules struct {
	Strict bool
	// Run and Thread are what RUN_STARTED must name, where it names them.
	Run    RunID
	Thread ThreadID
	// Used reports whether the run has used an id before; it is asked only in strict runs.
	Used func(IDHash) bool
}

// Walk takes events one after the other, on a copy of a run's progress: the caller keeps the
// result when the whole batch was accepted and drops it otherwise.
//
// The rules are those of the published AG-UI verifier and chunk transform (npm @ag-ui/client
// 1.0.0, verify.ts and chunks/transform.ts), stricter in that an id is never started twice and a
// call has one result, and more lenient in that steps, spans and subagents may be open at the end.
type Walk struct {
	Progress
	rules Rules
	// Added lists the ids that the events taken so far used for the first time, in order.
	Added []IDHash
}

// NewWalk returns a walk that starts at p.
func NewWalk(p Progress, r Rules) *Walk { return &Walk{Progress: p, rules: r} }

// Take checks one event and moves on. It returns why the event cannot follow, or "". After a
// refusal the walk must not be used again.
func (w *Walk) Take(h *Header) (reason string) {
	if w.Ended() {
		return "nothing may follow the run's terminal event"
	}
	if w.rules.Strict {
		if h.Flaw != "" {
			return h.Type.String() + ": " + h.Flaw
		}
		if !w.Started && h.Type != TypeRunStarted {
			return "the first event of a run must be RUN_STARTED, not " + h.Type.String()
		}
	}
	w.closeChunks(h)
	if reason = w.take(h); reason != "" {
		return h.Type.String() + ": " + reason
	}
	w.Started = true
	return ""
}

func (w *Walk) take(h *Header) string {
	switch h.Type {
	case TypeRunStarted:
		return w.runStarted(h)
	case TypeRunFinished:
		return w.runFinished(h)
	case TypeRunError:
		w.End = StatusFailed
	case TypeTextMessageStart:
		return w.start(SpanText, h)
	case TypeTextMessageContent:
		return w.within(SpanText, h)
	case TypeTextMessageEnd:
		return w.finish(SpanText, h)
	case TypeReasoningMessageStart:
		return w.start(SpanReasoningMessage, h)
	case TypeReasoningMessageContent:
		return w.within(SpanReasoningMessage, h)
	case TypeReasoningMessageEnd:
		return w.finish(SpanReasoningMessage, h)
	case TypeReasoningStart:
		return w.start(SpanReasoning, h)
	case TypeReasoningEnd:
		return w.finish(SpanReasoning, h)
	case TypeToolCallStart:
		return w.start(SpanToolCall, h)
	case TypeToolCallArgs:
		return w.within(SpanToolCall, h)
	case TypeToolCallEnd:
		return w.finish(SpanToolCall, h)
	case TypeToolCallResult:
		return w.result(h)
	case TypeTextMessageChunk:
		return w.chunked(SpanText, h)
	case TypeReasoningMessageChunk:
		return w.chunked(SpanReasoningMessage, h)
	case TypeToolCallChunk:
		return w.chunked(SpanToolCall, h)
	case TypeStepStarted:
		return w.loose(SpanStep, h, true)
	case TypeStepFinished:
		return w.loose(SpanStep, h, false)
	case TypeSubagentStarted:
		return w.loose(SpanSubagent, h, true)
	case TypeSubagentFinished, TypeSubagentError:
		return w.loose(SpanSubagent, h, false)
	}
	return ""
}

// closeChunks ends the chunk streams that an event ends by being there. RAW, ACTIVITY_*,
// REASONING_ENCRYPTED_VALUE, SUBAGENT_STARTED, chunks and unknown types end none.
func (w *Walk) closeChunks(h *Header) {
	switch h.Type {
	case TypeRunStarted, TypeRunFinished, TypeRunError, TypeMessagesSnapshot:
		for i := 0; i < len(w.Spans); {
			if s := &w.Spans[i]; s.Chunked && !s.Ended {
				n := len(w.Spans)
				w.end(i)
				i += 1 - (n - len(w.Spans))
				continue
			}
			i++
		}
	case TypeTextMessageChunk, TypeToolCallChunk, TypeReasoningMessageChunk, TypeRaw, TypeUnknown,
		TypeActivitySnapshot, TypeActivityDelta, TypeReasoningEncryptedValue, TypeSubagentStarted:
	case TypeSubagentFinished, TypeSubagentError:
		w.closeLane(h.ID)
	default:
		w.closeLane(h.Lane)
	}
}

func (w *Walk) closeLane(lane string) {
	if i := w.chunk(lane); i >= 0 {
		w.end(i)
	}
}

func (w *Walk) runStarted(h *Header) string {
	if w.rules.Strict {
		switch {
		case w.Started:
			return "the run has started already"
		case h.RunID != "" && h.RunID != w.rules.Run:
			return fmt.Sprintf("runId %q is not this run's, %q", h.RunID, w.rules.Run)
		case h.ThreadID != "" && h.ThreadID != w.rules.Thread:
			return fmt.Sprintf("threadId %q is not this run's, %q", h.ThreadID, w.rules.Thread)
		}
	}
	return ""
}

func (w *Walk) runFinished(h *Header) string {
	if w.rules.Strict {
		for _, s := range w.Spans {
			switch {
			case s.Kind == SpanText || s.Kind == SpanReasoningMessage:
				return fmt.Sprintf("message %q is open", s.ID)
			case s.Kind == SpanToolCall && !s.Ended:
				return fmt.Sprintf("tool call %q is open", s.ID)
			}
		}
	}
	switch h.Outcome {
	case OutcomeInterrupt:
		w.End = StatusWaiting
	case OutcomeCancelled:
		w.End = StatusCancelled
	default:
		w.End = StatusCompleted
	}
	return ""
}

func (w *Walk) start(kind SpanKind, h *Header) string {
	if reason := w.use(kind, h.ID); reason != "" {
		return reason
	}
	return w.open(Span{Kind: kind, ID: h.ID, Lane: h.Lane})
}

// use marks an id as used; in a strict run that happens once.
func (w *Walk) use(kind SpanKind, id string) string {
	if !w.rules.Strict {
		return ""
	}
	hash := HashID(kind, id)
	if w.used(hash) {
		return fmt.Sprintf("id %q was used before in this run", id)
	}
	w.Added = append(w.Added, hash)
	return ""
}

// used reports whether an id was used before, in this walk or earlier.
func (w *Walk) used(hash IDHash) bool {
	return w.rules.Used != nil && w.rules.Used(hash) || w.added(hash)
}

func (w *Walk) added(hash IDHash) bool {
	for _, a := range w.Added {
		if a == hash {
			return true
		}
	}
	return false
}

// open lists a span. A lenient run may open one without an id, which nothing can close again.
func (w *Walk) open(s Span) string {
	if s.ID == "" {
		return ""
	}
	if i := w.find(s.Kind, s.ID); i >= 0 {
		if s.Chunked == w.Spans[i].Chunked && !w.Spans[i].Ended {
			return "" // lenient: already open
		}
		w.remove(i)
	}
	if len(w.Spans) >= MaxOpenSpans || w.openBytes()+len(s.ID)+len(s.Lane) > MaxOpenIDBytes {
		return fmt.Sprintf("over %d ids (or %d bytes of them) would be open at once", MaxOpenSpans, MaxOpenIDBytes)
	}
	// A result may have come first, for a call of that id in an earlier run.
	s.Answered = s.Kind == SpanToolCall && w.rules.Strict && w.used(HashID(spanResult, s.ID))
	w.add(s)
	return ""
}

func (w *Walk) isOpen(kind SpanKind, id string) int {
	if i := w.find(kind, id); i >= 0 && !w.Spans[i].Ended && !w.Spans[i].Chunked {
		return i
	}
	return -1
}

func (w *Walk) within(kind SpanKind, h *Header) string {
	if w.rules.Strict && w.isOpen(kind, h.ID) < 0 {
		return fmt.Sprintf("id %q is not open", h.ID)
	}
	return ""
}

func (w *Walk) finish(kind SpanKind, h *Header) string {
	i := w.isOpen(kind, h.ID)
	if i < 0 {
		if w.rules.Strict {
			return fmt.Sprintf("id %q is not open", h.ID)
		}
		return ""
	}
	w.end(i)
	return ""
}

// result takes the answer to a call: of this run, or of an earlier run of the thread.
func (w *Walk) result(h *Header) string {
	if w.rules.Strict {
		hash := HashID(spanResult, h.ID)
		if w.used(hash) {
			return fmt.Sprintf("tool call %q has a result already", h.ID)
		}
		w.Added = append(w.Added, hash)
	}
	if i := w.find(SpanToolCall, h.ID); i >= 0 {
		w.answer(i)
	}
	return ""
}

// chunked takes a *_CHUNK: one more piece of its lane's stream, or the first of a new one.
func (w *Walk) chunked(kind SpanKind, h *Header) string {
	lane, held := h.Lane, -1
	if h.ID != "" {
		if i := w.find(kind, h.ID); i >= 0 && w.Spans[i].Chunked && !w.Spans[i].Ended {
			held = i
		}
	} else if held = w.bareChunk(kind, h.Lane); held >= 0 {
		lane = w.Spans[held].Lane
	}
	if held >= 0 {
		if w.rules.Strict && h.Lane != "" && h.Lane != w.Spans[held].Lane {
			return fmt.Sprintf("subagentRunId %q does not match the open stream's", h.Lane)
		}
		return ""
	}
	w.closeLane(lane)
	if h.ID == "" {
		if w.rules.Strict {
			return "the first chunk of a stream must carry an id"
		}
		return ""
	}
	if kind == SpanToolCall && !h.Named && w.rules.Strict {
		return "the first chunk of a tool call must carry toolCallName"
	}
	if reason := w.use(kind, h.ID); reason != "" {
		return reason
	}
	return w.open(Span{Kind: kind, ID: h.ID, Lane: lane, Chunked: true})
}

// bareChunk finds the stream that a chunk without an id continues: its lane's; for a chunk
// without a lane the parent's, or the only one open of its kind.
func (w *Walk) bareChunk(kind SpanKind, lane string) int {
	only, n := -1, 0
	for i := range w.Spans {
		s := &w.Spans[i]
		if s.Kind != kind || !s.Chunked || s.Ended {
			continue
		}
		if s.Lane == lane {
			return i
		}
		only, n = i, n+1
	}
	if lane == "" && n == 1 {
		return only
	}
	return -1
}

// loose tracks what no rule is made for: steps and subagents, which may repeat.
func (w *Walk) loose(kind SpanKind, h *Header, start bool) string {
	i := w.find(kind, h.ID)
	switch {
	case start && i < 0:
		return w.open(Span{Kind: kind, ID: h.ID, Lane: h.Lane})
	case !start && i >= 0:
		w.remove(i)
	}
	return ""
}
