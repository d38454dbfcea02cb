package event

import "encoding/json"

// Status is what became of a run.
type Status string

// The statuses of a run. Only StatusRunning is not an end.
const (
	StatusRunning   Status = "running"
	StatusCompleted Status = "completed" // RUN_FINISHED
	StatusWaiting   Status = "waiting"   // RUN_FINISHED with an interrupt outcome
	StatusCancelled Status = "cancelled" // RUN_FINISHED with outcome cancelled
	StatusFailed    Status = "failed"    // RUN_ERROR
	StatusLost      Status = "lost"      // ended by the cluster: RUN_ERROR with code host_lost
)

// Grammar says which sequences of events a run accepts.
type Grammar string

// GrammarStrict accepts what the published AG-UI verifier accepts and forbids reopening an id;
// GrammarLenient accepts anything but events after a terminal one.
const (
	GrammarStrict  Grammar = "strict"
	GrammarLenient Grammar = "lenient"
)

// LeaseState is how a run's lease stands.
type LeaseState string

// The states of a lease.
const (
	LeaseStateHeld     LeaseState = "held"
	LeaseStateLapsed   LeaseState = "lapsed"
	LeaseStateReleased LeaseState = "released"
)

// Lease is the right to write a run, as readers see it.
type Lease struct {
	Holder  HolderID   `json:"holder"`
	LeaseMs int64      `json:"leaseMs"`
	State   LeaseState `json:"state"`
	// ExpiresInMs is known to the leader alone, hence often absent.
	ExpiresInMs *int64 `json:"expiresInMs,omitempty"`
}

// Open lists what a run has started and not finished, in order of starting.
type Open struct {
	Messages  []string `json:"messages"`
	ToolCalls []string `json:"toolCalls"`
}

// RunError is what a RUN_ERROR said.
type RunError struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
}

// Run is a run as readers see it; its JSON is the contract's.
type Run struct {
	RunID       RunID    `json:"runId"`
	ThreadID    ThreadID `json:"threadId"`
	ParentRunID RunID    `json:"parentRunId,omitempty"`
	Status      Status   `json:"status"`
	Ended       bool     `json:"ended"`
	Epoch       Epoch    `json:"epoch"`
	Tail        Offset   `json:"tail"`
	Lease       *Lease   `json:"lease"`
	// TakeoverMs is how long the run may be without a live lease; nil: it never ends by itself.
	TakeoverMs      *int64          `json:"takeoverMs"`
	StartedAt       Time            `json:"startedAt"`
	UpdatedAt       Time            `json:"updatedAt"`
	EndedAt         *Time           `json:"endedAt,omitempty"`
	TerminalOffset  *Offset         `json:"terminalOffset,omitempty"`
	Error           *RunError       `json:"error,omitempty"`
	Outcome         json.RawMessage `json:"outcome,omitempty"`
	Usage           json.RawMessage `json:"usage,omitempty"`
	Result          json.RawMessage `json:"result,omitempty"`
	CancelRequested bool            `json:"cancelRequested,omitempty"`
	Grammar         Grammar         `json:"grammar"`
	Open            *Open           `json:"open,omitempty"` // absent in listings
	Metadata        json.RawMessage `json:"metadata,omitempty"`
}
