package event

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Refusal is a negative answer decided in Apply: nothing was written, every node decided the
// same, and the answer is final for that request. Its JSON fields are those of the problem
// that the gateway answers with; client turns the problem back into the same value.
type Refusal interface {
	error
	// Code is the problem's code, stable across versions.
	Code() string
}

// Sentinels of the refusals, for errors.Is. Those that carry data are wrapped by the type of
// the same name.
//
// Any operation on a run.
var (
	ErrRunNotFound error = &RunNotFound{}
	ErrRunDeleted  error = &RunDeleted{}
)

// Appending.
var (
	ErrEpochRequired    error = &EpochRequired{}
	ErrFenced           error = &Fenced{}
	ErrRunEnded         error = &RunEnded{}
	ErrOffsetConflict   error = &OffsetConflict{}
	ErrProducerGap      error = &ProducerGap{}
	ErrProducerFenced   error = &ProducerFenced{}
	ErrProducerConflict error = &ProducerConflict{}
	ErrTooManyProducers error = &TooManyProducers{}
	ErrInvalidEvent     error = &InvalidEvent{}
)

// Creating, deleting, leasing.
var (
	ErrRunExists  error = &RunExists{}
	ErrThreadBusy error = &ThreadBusy{}
	ErrLeaseHeld  error = &LeaseHeld{}
	ErrRunActive  error = &RunActive{}
	ErrTooLarge   error = &TooLarge{}
)

// ErrStaleVerdict answers a verdict of the lessor that came too late; no client sees it.
var ErrStaleVerdict error = &StaleVerdict{}

// ErrDiverged answers a replay that does not reproduce what the log holds.
var ErrDiverged error = &Diverged{}

// Reading.
var ErrOffsetOutOfRange error = &OffsetOutOfRange{}

// RunNotFound: no run of that id was ever created.
type RunNotFound struct{}

// RunDeleted: the run was deleted; its id stays used.
type RunDeleted struct{}

// EpochRequired: the run has been leased, so a write must say at which epoch it is made.
type EpochRequired struct {
	CurrentEpoch Epoch `json:"currentEpoch"`
}

// Fenced: the write's epoch is not the run's; somebody else acquired the run since.
type Fenced struct {
	Epoch        Epoch `json:"epoch"`
	CurrentEpoch Epoch `json:"currentEpoch"`
}

// RunEnded: the run has a terminal event; nothing follows it.
type RunEnded struct {
	TerminalOffset Offset `json:"terminalOffset"`
}

// OffsetConflict: the tail is not where the writer expected it.
type OffsetConflict struct {
	Expected Offset `json:"expected"`
	Tail     Offset `json:"tail"`
}

// ProducerGap: the producer skipped a sequence number.
type ProducerGap struct {
	ExpectedSeq uint64 `json:"expectedSeq"`
	ReceivedSeq uint64 `json:"receivedSeq"`
}

// ProducerFenced: the producer wrote at a higher Producer-Epoch since.
type ProducerFenced struct {
	ProducerEpoch        uint64 `json:"producerEpoch"`
	CurrentProducerEpoch uint64 `json:"currentProducerEpoch"`
}

// ProducerConflict: this sequence number was used for another body.
type ProducerConflict struct {
	Seq uint64 `json:"seq"`
}

// TooManyProducers: the stream remembers as many producers as it may; none is forgotten early.
type TooManyProducers struct {
	Limit int `json:"limit"`
}

// InvalidEvent: the event at Index of the batch cannot follow what the run holds.
type InvalidEvent struct {
	Index  int    `json:"index"`
	Reason string `json:"reason"`
}

// RunExists: the run id is in use in another thread.
type RunExists struct {
	Run *Run `json:"run,omitempty"`
}

// ThreadBusy: the thread has an open run and the caller asked not to add another.
type ThreadBusy struct {
	ActiveRunID RunID `json:"activeRunId"`
}

// LeaseHeld: another holder's lease is live.
type LeaseHeld struct {
	Holder      HolderID `json:"holder"`
	ExpiresInMs *int64   `json:"expiresInMs,omitempty"`
}

// RunActive: the run is open and the operation needs an ended one.
type RunActive struct{}

// StaleVerdict: the run moved on since the lessor judged it.
type StaleVerdict struct{}

// Diverged: the replay differs from what the log holds. Nothing was written past the difference.
type Diverged struct {
	Offset   Offset          `json:"offset"`   // of the first stored event that was not reproduced
	Stored   json.RawMessage `json:"stored"`   // that event
	Replayed json.RawMessage `json:"replayed"` // what came in its place
	Field    string          `json:"field"`    // the first member that differs
	Hint     string          `json:"hint,omitempty"`
}

// TooLarge: what the operation would store is larger than the limit, in bytes or events.
type TooLarge struct {
	What  string `json:"what"`
	Limit int    `json:"limit"`
}

// OffsetOutOfRange: the cursor lies beyond the tail.
type OffsetOutOfRange struct {
	Offset Offset `json:"offset"`
	Tail   Offset `json:"tail"`
}

// The codes of the refusals.
const (
	CodeRunNotFound      = "run_not_found"
	CodeRunDeleted       = "run_deleted"
	CodeEpochRequired    = "epoch_required"
	CodeFenced           = "fenced"
	CodeRunEnded         = "run_ended"
	CodeOffsetConflict   = "offset_conflict"
	CodeProducerGap      = "producer_gap"
	CodeProducerFenced   = "producer_fenced"
	CodeProducerConflict = "producer_conflict"
	CodeTooManyProducers = "too_many_producers"
	CodeInvalidEvent     = "invalid_event"
	CodeRunExists        = "run_exists"
	CodeThreadBusy       = "thread_busy"
	CodeLeaseHeld        = "lease_held"
	CodeRunActive        = "run_active"
	CodeStaleVerdict     = "stale_verdict"
	CodeDiverged         = "diverged"
	CodeTooLarge         = "too_large"
	CodeOffsetOutOfRange = "offset_out_of_range"
)

func (*RunNotFound) Code() string      { return CodeRunNotFound }
func (*RunDeleted) Code() string       { return CodeRunDeleted }
func (*EpochRequired) Code() string    { return CodeEpochRequired }
func (*Fenced) Code() string           { return CodeFenced }
func (*RunEnded) Code() string         { return CodeRunEnded }
func (*OffsetConflict) Code() string   { return CodeOffsetConflict }
func (*ProducerGap) Code() string      { return CodeProducerGap }
func (*ProducerFenced) Code() string   { return CodeProducerFenced }
func (*ProducerConflict) Code() string { return CodeProducerConflict }
func (*TooManyProducers) Code() string { return CodeTooManyProducers }
func (*InvalidEvent) Code() string     { return CodeInvalidEvent }
func (*RunExists) Code() string        { return CodeRunExists }
func (*ThreadBusy) Code() string       { return CodeThreadBusy }
func (*LeaseHeld) Code() string        { return CodeLeaseHeld }
func (*RunActive) Code() string        { return CodeRunActive }
func (*StaleVerdict) Code() string     { return CodeStaleVerdict }
func (*Diverged) Code() string         { return CodeDiverged }
func (*TooLarge) Code() string         { return CodeTooLarge }
func (*OffsetOutOfRange) Code() string { return CodeOffsetOutOfRange }

func (*RunNotFound) Error() string { return "no such run" }
func (*RunDeleted) Error() string  { return "the run was deleted; its id cannot be used again" }
func (e *EpochRequired) Error() string {
	return fmt.Sprintf("the run has been leased (epoch %d); send Run-Epoch", e.CurrentEpoch)
}
func (e *Fenced) Error() string {
	return fmt.Sprintf("epoch %d may not write; the run is at epoch %d", e.Epoch, e.CurrentEpoch)
}
func (e *RunEnded) Error() string {
	return fmt.Sprintf("the run ended at offset %d", e.TerminalOffset)
}
func (e *OffsetConflict) Error() string {
	return fmt.Sprintf("expected the tail at %d; it is at %d", e.Expected, e.Tail)
}
func (e *ProducerGap) Error() string {
	return fmt.Sprintf("the producer's next sequence number is %d, not %d", e.ExpectedSeq, e.ReceivedSeq)
}
func (e *ProducerFenced) Error() string {
	return fmt.Sprintf("producer epoch %d may not write; the producer is at epoch %d", e.ProducerEpoch, e.CurrentProducerEpoch)
}
func (e *ProducerConflict) Error() string {
	return fmt.Sprintf("sequence number %d was used for another body", e.Seq)
}
func (e *TooManyProducers) Error() string {
	return fmt.Sprintf("the run remembers %d producers, which is the limit; each is kept for at least 24 hours", e.Limit)
}
func (e *InvalidEvent) Error() string { return fmt.Sprintf("event %d: %s", e.Index, e.Reason) }
func (*RunExists) Error() string      { return "the run exists in another thread" }
func (e *ThreadBusy) Error() string {
	return fmt.Sprintf("the thread has an open run, %s", e.ActiveRunID)
}
func (e *LeaseHeld) Error() string  { return fmt.Sprintf("the lease is held by %s", e.Holder) }
func (*RunActive) Error() string    { return "the run has not ended" }
func (*StaleVerdict) Error() string { return "the run moved on since it was judged" }
func (e *Diverged) Error() string {
	text := fmt.Sprintf("the replay differs from the event at offset %d in its %s", e.Offset, e.Field)
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}
func (e *TooLarge) Error() string {
	return fmt.Sprintf("%s over the limit of %d", e.What, e.Limit)
}
func (e *OffsetOutOfRange) Error() string {
	return fmt.Sprintf("offset %d is beyond the tail, %d", e.Offset, e.Tail)
}

func sameCode(r Refusal, target error) bool {
	t, ok := target.(Refusal)
	return ok && t.Code() == r.Code()
}

// Is makes errors.Is(err, ErrFenced) hold for a *Fenced with any data; likewise below.
func (e *RunNotFound) Is(t error) bool      { return sameCode(e, t) }
func (e *RunDeleted) Is(t error) bool       { return sameCode(e, t) }
func (e *EpochRequired) Is(t error) bool    { return sameCode(e, t) }
func (e *Fenced) Is(t error) bool           { return sameCode(e, t) }
func (e *RunEnded) Is(t error) bool         { return sameCode(e, t) }
func (e *OffsetConflict) Is(t error) bool   { return sameCode(e, t) }
func (e *ProducerGap) Is(t error) bool      { return sameCode(e, t) }
func (e *ProducerFenced) Is(t error) bool   { return sameCode(e, t) }
func (e *ProducerConflict) Is(t error) bool { return sameCode(e, t) }
func (e *TooManyProducers) Is(t error) bool { return sameCode(e, t) }
func (e *InvalidEvent) Is(t error) bool     { return sameCode(e, t) }
func (e *RunExists) Is(t error) bool        { return sameCode(e, t) }
func (e *ThreadBusy) Is(t error) bool       { return sameCode(e, t) }
func (e *LeaseHeld) Is(t error) bool        { return sameCode(e, t) }
func (e *RunActive) Is(t error) bool        { return sameCode(e, t) }
func (e *StaleVerdict) Is(t error) bool     { return sameCode(e, t) }
func (e *Diverged) Is(t error) bool         { return sameCode(e, t) }
func (e *TooLarge) Is(t error) bool         { return sameCode(e, t) }
func (e *OffsetOutOfRange) Is(t error) bool { return sameCode(e, t) }

var refusals = map[string]func() Refusal{
	CodeRunNotFound:      func() Refusal { return new(RunNotFound) },
	CodeRunDeleted:       func() Refusal { return new(RunDeleted) },
	CodeEpochRequired:    func() Refusal { return new(EpochRequired) },
	CodeFenced:           func() Refusal { return new(Fenced) },
	CodeRunEnded:         func() Refusal { return new(RunEnded) },
	CodeOffsetConflict:   func() Refusal { return new(OffsetConflict) },
	CodeProducerGap:      func() Refusal { return new(ProducerGap) },
	CodeProducerFenced:   func() Refusal { return new(ProducerFenced) },
	CodeProducerConflict: func() Refusal { return new(ProducerConflict) },
	CodeTooManyProducers: func() Refusal { return new(TooManyProducers) },
	CodeInvalidEvent:     func() Refusal { return new(InvalidEvent) },
	CodeRunExists:        func() Refusal { return new(RunExists) },
	CodeThreadBusy:       func() Refusal { return new(ThreadBusy) },
	CodeLeaseHeld:        func() Refusal { return new(LeaseHeld) },
	CodeRunActive:        func() Refusal { return new(RunActive) },
	CodeStaleVerdict:     func() Refusal { return new(StaleVerdict) },
	CodeDiverged:         func() Refusal { return new(Diverged) },
	CodeTooLarge:         func() Refusal { return new(TooLarge) },
	CodeOffsetOutOfRange: func() Refusal { return new(OffsetOutOfRange) },

	CodeInterruptNotPending: func() Refusal { return new(InterruptNotPending) },
}

// ErrUnknownCode is returned by [DecodeRefusal] for a code that this build does not know.
var ErrUnknownCode = errors.New("unknown refusal code")

// DecodeRefusal returns the refusal with that code, its data read from a JSON object that may
// hold other fields too.
func DecodeRefusal(code string, fields []byte) (Refusal, error) {
	for _, known := range allRefusals {
		if mk, ok := known[code]; ok {
			return decodeRefusal(mk(), code, fields)
		}
	}
	return nil, fmt.Errorf("%w %q", ErrUnknownCode, code)
}

// allRefusals are the refusals about runs, about plain streams and about subscriptions, by code.
var allRefusals = []map[string]func() Refusal{refusals, streamRefusals, subscriptionRefusals}

func decodeRefusal(r Refusal, code string, fields []byte) (Refusal, error) {
	if err := json.Unmarshal(fields, r); err != nil {
		return nil, fmt.Errorf("refusal %s: %w", code, err)
	}
	return r, nil
}

// RefusalCodes returns every code that [DecodeRefusal] knows, in no particular order.
func RefusalCodes() []string {
	var codes []string
	for _, known := range allRefusals {
		for c := range known {
			codes = append(codes, c)
		}
	}
	return codes
}
