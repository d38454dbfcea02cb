package event

import (
	"bytes"
	"context"
	"math"
)

// Verdict is what becomes of one replayed event.
type Verdict uint8

// The verdicts.
const (
	// VerdictHeld: the log holds it, or it says nothing.
	VerdictHeld Verdict = iota
	// VerdictRest: the log holds the first part of its delta; the rest is appended.
	VerdictRest
	// VerdictAppend: the log lacks it.
	VerdictAppend
	// VerdictLacking: a CUSTOM or RAW event that the log lacks before the place where it ends. It is
	// counted and not added: nothing can be put between stored events.
	VerdictLacking
)

// Aligner compares a replay, the whole stream of a run sent again from its first event, with what
// the run's log holds, and says which events are to be appended so that the log ends up as if one
// host had written it.
//
// Two streams are the same when their strict events (START, END, RESULT, STEP, state, snapshots,
// terminal, and every type not named otherwise) are the same in the same order, in the fields that
// a table names, and when the deltas of each id, joined, are the same text in UTF-16 units. Deltas
// may be cut differently and may stand elsewhere among other ids' events, but not beyond a strict
// event of their own id, a MESSAGES_SNAPSHOT or a terminal. CUSTOM and RAW events may be missing on
// either side. Empty deltas, timestamps and rawEvents count for nothing. Everything that the log
// holds counts the same, whoever wrote it.
//
// Nothing is ready to be appended before the replay has reproduced all that is stored, except at
// its end; so whatever is written was preceded by everything that the log holds, and a difference
// is found before anything is written after it.
//
// Both sides are read as they come. An Aligner holds what one side is ahead of the other by, within
// fixed bounds, and not the run. It belongs to one goroutine.
type Aligner struct {
	ahead ahead
	lanes chunkLanes // of the replay
	own   map[string]string
	// ready are the replayed events to append, in order. While there are any the log is not read.
	ready      []*item
	readyBytes int
	ended      bool // the replay is

	taken, matched, skipped, lacking, appended int

	broken mutation // of tests
}

// mutation switches off a part of the alignment, so that tests can show that they would notice.
type mutation uint8

const (
	sound         mutation = iota
	appendsAll             // nothing is found in the log
	appendsWhole           // a partly held delta is appended whole
	ignoresFields          // fields are not compared
	ignoresBounds          // deltas pass their own END
)

// NewAligner returns an alignment with the log of a run, which is of that thread.
func NewAligner(log Stored, run RunID, thread ThreadID) *Aligner {
	a := &Aligner{own: map[string]string{}}
	a.ahead.log = log
	a.ahead.texts = make(map[string][]segment)
	if run != "" {
		a.own["runId"] = string(units([]byte(run)))
	}
	if thread != "" {
		a.own["threadId"] = string(units([]byte(thread)))
	}
	return a
}

// Matched is how many stored events the replay has reproduced; stored empty deltas count as
// reproduced when they are passed.
func (a *Aligner) Matched() int { return a.matched }

// Skipped is how many stored CUSTOM and RAW events the replay has passed without sending them.
func (a *Aligner) Skipped() int { return a.skipped }

// Lacking is how many events had [VerdictLacking].
func (a *Aligner) Lacking() int { return a.lacking }

// Appended is how many events were appended for the replay.
func (a *Aligner) Appended() int { return a.appended }

// Tail is the offset after the last record read: the one to expect when appending.
func (a *Aligner) Tail() Offset { return a.ahead.next }

// Through is how many replayed events, from the first on, are done with: in the log, or nothing
// that it needs.
func (a *Aligner) Through() int {
	if len(a.ready) > 0 {
		return a.ready[0].ordinal
	}
	return a.taken
}

// Taken is how many replayed events were taken without an error.
func (a *Aligner) Taken() int { return a.taken }

// Ready returns the events to append at [Aligner.Tail], in order: at most most of them, and unless
// the first alone is larger at most maxBytes of JSON.
func (a *Aligner) Ready(most, maxBytes int) []Event {
	if len(a.ready) == 0 || !a.ended && !a.ahead.clear() {
		return nil
	}
	var events []Event
	size := 0
	for _, it := range a.ready[:min(most, len(a.ready))] {
		e := it.rest()
		if size += len(e.Raw); len(events) > 0 && size > maxBytes {
			break
		}
		events = append(events, e)
	}
	return events
}

// Confirm says that the first n events of [Aligner.Ready] are in the log, at Tail.
func (a *Aligner) Confirm(n int) {
	for _, it := range a.ready[:n] {
		stored := item{typ: it.typ, members: it.members, lane: it.lane}
		a.ahead.lanes.take(&stored)
		a.readyBytes -= len(it.event.Raw)
	}
	a.ready = a.ready[n:]
	a.ahead.next += Offset(n)
	a.appended += n
}

// Again takes up the alignment after an append of ready events that was refused because the tail
// had moved, or whose outcome is unknown: what the log holds by now is read, and what of the ready
// events is found there is no longer to be appended. With mine, which is for an unknown outcome,
// found events count as appended. The log must be read as of after the failure.
//
// An error is one of [Aligner.Take].
func (a *Aligner) Again(ctx context.Context, mine bool) error {
	items, matched := a.ready, a.matched
	a.ready, a.readyBytes = nil, 0
	for _, it := range items {
		if _, err := a.place(ctx, it); err != nil {
			return err
		}
	}
	if mine {
		a.appended += a.matched - matched
		a.matched = matched
	}
	return nil
}

// End says that the replay has ended; it may end anywhere. All that waits is then ready.
func (a *Aligner) End() {
	a.ended = true
	if a.ahead.clear() && (len(a.ready) > 0 || a.appended > 0) {
		a.passLive(math.MaxUint64)
	}
}

// Take takes the next replayed event. The event is kept, and its bytes must not change.
//
// An error is a *[Diverged], after which the Aligner is of no more use and nothing that waits must
// be appended, or one of reading the log.
func (a *Aligner) Take(ctx context.Context, e Event) (Verdict, error) {
	v := VerdictHeld
	same, err := a.takeSame(ctx, e)
	if err == nil && !same {
		it := newItem(e, &a.lanes)
		it.ordinal = a.taken
		if v, err = a.place(ctx, it); err == nil {
			err = a.closed(it)
		}
	}
	if err != nil {
		return 0, err
	}
	a.taken++
	return v, nil
}

// takeSame passes an event that the log holds next in the same bytes, when neither side is ahead
// and no chunk stream is open: the common case of an exact replay.
func (a *Aligner) takeSame(ctx context.Context, e Event) (bool, error) {
	s := &a.ahead
	if len(a.ready) > 0 || !s.clear() || len(s.texts) > 0 || len(s.live) > 0 ||
		len(s.lanes.open) > 0 || len(a.lanes.open) > 0 || a.broken != sound {
		return false, nil
	}
	switch e.Header.Type {
	case TypeTextMessageChunk, TypeToolCallChunk, TypeReasoningMessageChunk:
		return false, nil
	}
	rec, ok, err := s.log.Record(ctx, s.next)
	if err != nil || !ok || !bytes.Equal(rec.Raw, e.Raw) {
		return false, err
	}
	s.next++
	a.matched++
	return true, nil
}

// lost says that one side went on for so long without the other that they cannot be compared.
func (a *Aligner) lost(it *item) error {
	first := a.ahead.first()
	if first == nil {
		first = it
	}
	return diverged(first, it, "delta", "one of the two goes on for over 8 MiB before the other comes to this event")
}

func diverged(stored, replayed *item, field, hint string) *Diverged {
	return &Diverged{
		Offset: stored.offset, Stored: stored.event.Raw, Replayed: replayed.event.Raw, Field: field, Hint: hint,
	}
}
