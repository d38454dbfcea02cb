package event

import "encoding/json"

// InterruptStatus is how an interrupt stands.
type InterruptStatus string

// The statuses of an interrupt. A pending one is answered by the RUN_STARTED of a later run; it is
// pending again when that run ends failed, cancelled or lost.
const (
	InterruptPending   InterruptStatus = "pending"
	InterruptResolved  InterruptStatus = "resolved"
	InterruptCancelled InterruptStatus = "cancelled"
)

// Interrupt is a question that a run's end left open, as readers see it; its JSON is the contract's.
type Interrupt struct {
	InterruptID string          `json:"interruptId"`
	RunID       RunID           `json:"runId"` // the run that asked
	Status      InterruptStatus `json:"status"`
	Interrupt   json.RawMessage `json:"interrupt"`          // as in RUN_FINISHED's outcome
	Response    json.RawMessage `json:"response,omitempty"` // the payload of the answer; absent while pending
	ByRunID     RunID           `json:"byRunId,omitempty"`  // the run that answered; absent while pending
}
