package event

// ChangeKind is what happened to a run, in the stream of changes.
type ChangeKind string

// The changes that are told. A renewal is none: a lease that stays held is not news.
const (
	ChangeCreated         ChangeKind = "created"
	ChangeAcquired        ChangeKind = "acquired"
	ChangeLapsed          ChangeKind = "lapsed"
	ChangeReleased        ChangeKind = "released"
	ChangeCancelRequested ChangeKind = "cancelRequested"
	ChangeWaiting         ChangeKind = "waiting" // ended with an interrupt
	ChangeEnded           ChangeKind = "ended"   // ended otherwise
)

// Change is one message of the stream of changes: a run right after what happened to it. Its JSON is
// the contract's.
type Change struct {
	Change   ChangeKind `json:"change"`
	RunID    RunID      `json:"runId"`
	ThreadID ThreadID   `json:"threadId"`
	Status   Status     `json:"status"`
	Epoch    Epoch      `json:"epoch"`
	Holder   HolderID   `json:"holder,omitempty"`
	Tail     Offset     `json:"tail"`
	Time     Time       `json:"time"` // log time
}
