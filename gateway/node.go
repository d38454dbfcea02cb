package gateway

import (
	"context"
	"io"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// Log is the replicated log as the gateway needs it; raftlog.Node implements it. All methods may
// be called from any goroutine.
type Log interface {
	// Propose carries cmd to the leader and returns what Apply answered; a refusal is part of the
	// Result. Errors are raftlog.ErrUnavailable and raftlog.ErrOverloaded, which mean that nothing
	// was written, and raftlog.ErrOutcomeUnknown. After a nil error nothing of cmd is retained;
	// after any other, byte slices of cmd may still be read at any later time.
	Propose(ctx context.Context, cmd event.Command) (event.Result, error)
	// ReadIndex returns once this node's state includes everything committed when it was called.
	ReadIndex(ctx context.Context) error
	// WaitApplied returns once this node's state includes the log up to index.
	WaitApplied(ctx context.Context, index uint64) error
}

// Reader is a node's own state; fsm.Machine implements it. It may lag behind what is committed.
//
// Errors are event.ErrRunNotFound, event.ErrRunDeleted and *event.OffsetOutOfRange, the first and
// the last of which may only mean that this node lags. Byte slices returned are never changed.
type Reader interface {
	Run(ctx context.Context, id event.RunID) (event.Run, error)
	// RunAt is the run as it was when it had the events before at.
	RunAt(ctx context.Context, id event.RunID, at event.Offset) (event.Run, error)
	// Runs returns a page of the runs that q selects, and the cursor of the next page or "". The
	// error is event.ErrBadCursor when q.Cursor is none that it returned.
	Runs(ctx context.Context, q event.RunQuery) (runs []event.Run, next string, err error)
	// Records reads from offset from on, at most maxRecords and, unless the first record alone is
	// larger, at most maxBytes of raw JSON. At the tail the page is empty.
	Records(ctx context.Context, id event.RunID, from event.Offset, maxRecords, maxBytes int) (event.Page, error)
	// Watch subscribes to changes of a run, which need not exist.
	Watch(id event.RunID) Watch
	// Fold folds the events before at, or all of them; offset is how many of the run's it folded.
	// With event.ScopeThread the thread's earlier runs come first. The caller owns the fold.
	Fold(ctx context.Context, id event.RunID, kind projection.Kind, at *event.Offset, scope event.Scope) (f projection.Fold, offset event.Offset, err error)
}

// Watch is a subscription to changes of a run: creation, appends, deletion.
type Watch interface {
	// C returns the channel that tells of a change: it receives a value or is closed once
	// something changed after C was called. It carries no data; callers take C, read, then wait.
	C() <-chan struct{}
	Close()
}

// Streams is a node's own state of plain streams; fsm.Machine implements it. Like [Reader]'s it may
// lag. Errors are event.ErrStreamNotFound and event.ErrStreamGone; byte slices are never changed.
type Streams interface {
	Stream(ctx context.Context, name event.StreamName) (event.Stream, error)
	// Messages reads from offset from on, at most maxMessages and no further one once maxBytes are
	// reached. At the tail the page is empty, beyond it the error an *event.OffsetOutOfRange.
	Messages(ctx context.Context, name event.StreamName, from event.Offset, maxMessages, maxBytes int) (event.StreamPage, error)
	// WatchStream subscribes to changes of a stream, which need not exist.
	WatchStream(name event.StreamName) Watch
}

// Cluster is what is known of the nodes, and how to move the leadership; raftlog.Node provides it.
type Cluster interface {
	// Members describes every node, as far as it answers.
	Members(ctx context.Context) (Members, error)
	// TransferLeadership makes the leader hand over to another voter.
	TransferLeadership(ctx context.Context) error
	// AddNode makes a node a member, and RemoveNode takes one out; both are done by the leader, and
	// doing either again changes nothing. *raftlog.MembershipError says why not.
	AddNode(ctx context.Context, n NewNode) error
	RemoveNode(ctx context.Context, id string) error
	// Backup writes a consistent copy of this node's state.
	Backup(ctx context.Context, w io.Writer) error
	// Ready says whether this node can do its work, check by check.
	Ready() []Check
}

// Members is GET /v1/cluster's answer.
type Members struct {
	ClusterID string   `json:"clusterId"`
	Leader    string   `json:"leader"` // a node id; empty while there is none
	Level     uint64   `json:"level"`  // of commands, that all members know
	Nodes     []Member `json:"nodes"`
}

// Member is one node of [Members].
type Member struct {
	ID           string `json:"id"`
	HTTP         string `json:"http"`
	Raft         string `json:"raft"`
	Role         string `json:"role"` // leader, follower, candidate, unreachable when it does not answer, or stranger
	Voter        bool   `json:"voter"`
	Promoting    bool   `json:"promoting,omitempty"` // it gets a vote once it has caught up
	AppliedIndex uint64 `json:"appliedIndex"`
	Lag          uint64 `json:"lag"` // committed entries that it has not applied
}

// Check is one of the conditions that readiness depends on.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}
