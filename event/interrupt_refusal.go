package event

import "fmt"

// CodeInterruptNotPending is the code of [InterruptNotPending].
const CodeInterruptNotPending = "interrupt_not_pending"

// ErrInterruptNotPending is an [InterruptNotPending] for errors.Is.
var ErrInterruptNotPending error = &InterruptNotPending{}

// InterruptNotPending: a resume answers an interrupt that is answered already, or that its thread
// does not know. Nothing of the batch was written.
type InterruptNotPending struct {
	InterruptID string `json:"interruptId"`
	// Status is how the interrupt stands; empty: no run of the thread asked it.
	//
	// It is not named status on the wire: a problem has a status of its own (RFC 9457).
	Status InterruptStatus `json:"interruptStatus,omitempty"`
	// ByRunID is the run that answered it.
	ByRunID RunID `json:"byRunId,omitempty"`
}

// Code is interrupt_not_pending.
func (*InterruptNotPending) Code() string { return CodeInterruptNotPending }

// Error says how the interrupt stands.
func (e *InterruptNotPending) Error() string {
	if e.Status == "" {
		return "the thread has no such interrupt"
	}
	return fmt.Sprintf("the interrupt is %s by run %s", e.Status, e.ByRunID)
}

// Is matches any [InterruptNotPending].
func (e *InterruptNotPending) Is(t error) bool { return sameCode(e, t) }
