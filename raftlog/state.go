package raftlog

import (
	"context"
	"io"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// State is the replicated state machine as this package needs it. fsm.Machine implements it.
//
// Raft's methods (Apply, ApplyBatch, Snapshot, Restore) are called from one goroutine. ApplyBatch
// answers each log entry with a []event.Result, one per command of the entry, and nil for a
// configuration entry; entries at or below Applied are skipped. The FSMSnapshot's Persist must not
// return before everything applied when Snapshot was called is on disk: raft then compacts the log.
// Restore must not return before what it read is durable. All other methods may be called from any goroutine.
type State interface {
	raft.BatchingFSM

	// Applied is the index of the last log entry that the state includes.
	Applied() uint64
	// WaitApplied returns nil once Applied is at least index, or ctx's error.
	WaitApplied(ctx context.Context, index uint64) error
	// LogTime is the time of the last entry applied; it never decreases.
	LogTime() event.Time
	// ClusterID is the id that the first LeaderStart of the cluster brought; empty before it.
	ClusterID() string
	// LeaderTerm is the term of the last LeaderStart applied.
	LeaderTerm() uint64
	// Roster is what the cluster remembers of itself; the value is never changed.
	Roster() *event.Roster
	// Export writes a consistent copy of the state, which Restore reads, and returns its index.
	Export(ctx context.Context, w io.Writer) (index uint64, err error)
	// Records reads a run; [Node.Propose] compares with it after an unknown outcome.
	Records(ctx context.Context, run event.RunID, from event.Offset, maxRecords, maxBytes int) (event.Page, error)
	// Run reads a run; a renewal of a lease that nobody judges says why.
	Run(ctx context.Context, id event.RunID) (event.Run, error)
	// Leases returns what there is to judge: open runs with a lease, a takeover window or a pending
	// cancel, and locks. Runs that cannot be read are told apart and leave the others be.
	Leases() (views []event.LeaseView, unreadable []error)
	// OnLease sets what is told of every change of those, on Raft's goroutine, after the change was
	// applied, with the term of the entry that made it. It is called once, before the first entry,
	// and f does not block.
	OnLease(f func(term uint64, changed []event.LeaseView))
	// ClosingBytes returns how many bytes ending the run with that status would write.
	ClosingBytes(ctx context.Context, run event.RunID, status event.Status) (uint64, error)
	// Overdue returns at most limit commands that end plain streams whose TTL or time is over.
	Overdue(limit int) []event.ExpireStream
	// OverdueWakes returns the commands that end wakes of subscriptions whose lease is over.
	OverdueWakes() []event.LapseWake
	// Close releases the state; no other method is called afterwards.
	Close() error
}
