package event

// Kind numbers a command in the Raft log. The numbers must stay stable; a node that meets one
// it does not know stops.
type Kind uint8

// The command kinds.
const (
	KindLeaderStart Kind = 1
	KindAppend      Kind = 2
	KindCreateRun   Kind = 3
	KindPatchRun    Kind = 4
	KindDeleteRun   Kind = 5
)

// Command is one change proposed to the state machine. One Raft entry carries many.
type Command interface {
	Kind() Kind
}

// LeaderStart opens a leader's term: it fixes the log's time (Entry.Time takes the new leader's
// wall clock here and nowhere else) and, in a cluster that has none, the cluster's id.
type LeaderStart struct {
	Term      uint64
	ClusterID string
}

// Append is a [Batch] as a command; *Append is the Command.
type Append struct{ Batch }

// CreateRun creates a run, or acquires an existing one when Holder is set.
type CreateRun struct {
	Run     RunID // never empty: filled in before proposing
	Thread  ThreadID
	Parent  RunID
	Grammar Grammar
	// Started is the RUN_STARTED event to write at offset 0; nil writes nothing.
	Started *Event
	// Holder acquires the run's lease, for LeaseMs; empty: no lease.
	Holder  HolderID
	LeaseMs int64
	// TakeoverMs is the takeover window; nil without a lease: the run never ends by itself.
	TakeoverMs *int64
	// RejectBusy refuses when the thread has an open run.
	RejectBusy bool
	// Metadata is a JSON object of the creator's, or nil.
	Metadata []byte
	// Key tells a repeated request from a new one: [HashKey] of its Idempotency-Key, or zero.
	Key IdempotencyKey
}

// IdempotencyKey is a digest of a caller's Idempotency-Key and of what it was used for; zero: none.
type IdempotencyKey [16]byte

// PatchRun merges a JSON merge patch (RFC 7396) into a run's metadata.
type PatchRun struct {
	Run   RunID
	Epoch *Epoch // checked when the request named one
	Patch []byte
}

// DeleteRun deletes an ended run, leaving a tombstone: its id is never usable again.
type DeleteRun struct {
	Run RunID
}

// Kind returns the command's number.
func (LeaderStart) Kind() Kind { return KindLeaderStart }

// Kind returns the command's number.
func (*Append) Kind() Kind { return KindAppend }

// Kind returns the command's number.
func (CreateRun) Kind() Kind { return KindCreateRun }

// Kind returns the command's number.
func (PatchRun) Kind() Kind { return KindPatchRun }

// Kind returns the command's number.
func (DeleteRun) Kind() Kind { return KindDeleteRun }

// Entry is what one Raft log entry holds: a group of commands that share a log time.
type Entry struct {
	// Time is the leader's clock when it formed the group; Apply never lets time go backwards.
	Time     Time
	Commands []Command
}

// Limits of one entry.
const (
	MaxEntryCommands = 4096
	MaxEntryBytes    = 1 << 20 // of encoded commands, before the one that would pass it is added
)

// Result is Apply's answer to one command.
type Result struct {
	// Refusal is set when nothing was written.
	Refusal Refusal
	// Appended answers an Append.
	Appended Appended
	// Created reports that a CreateRun made the run (or repeats a request that did).
	Created bool
	// Run is the run right after the command, for CreateRun and PatchRun. Its Error, Outcome,
	// Usage and Result are not filled in: they are read from the terminal event.
	Run *Run
	// LockEpoch answers an AcquireLock.
	LockEpoch Epoch
	// Stream answers a command about a plain stream.
	Stream *StreamResult
	// Subscription answers a command about a subscription: what it is then. NextWake says that an
	// AckWake ended one wake and began another.
	Subscription *Subscription
	NextWake     bool
	// Index is the log index whose application made the result visible.
	Index uint64
}

// Appended is what an accepted or repeated append answers.
type Appended struct {
	FirstOffset Offset
	// Tail is the tail after the append; for a duplicate, after its first write.
	Tail      Offset
	Duplicate bool
	// Forgotten reports a duplicate so old that its offsets are no longer remembered;
	// FirstOffset is then 0 and Tail the present tail.
	Forgotten       bool
	CancelRequested bool
}

// MaxMetadataBytes bounds a run's metadata.
const MaxMetadataBytes = 64 << 10

// MaxEntryCost bounds the sum of [Cost] over one entry's commands, so that what one entry changes
// always fits the state machine's transaction, whatever the commands are.
const MaxEntryCost = 5 << 20

// costFixed is what applying any command may write beside what it carries: a head, a producer's record,
// its thread's head and places in lists, and messages of the stream of changes.
const costFixed = 2560

// Cost is an upper bound, in bytes, of what applying a command may write to the state. encoded is
// what [AppendCommand] made of it.
func Cost(encoded []byte) int {
	cost := 2*len(encoded) + costFixed
	if len(encoded) == 0 {
		return cost
	}
	switch Kind(encoded[0]) {
	case KindPatchRun:
		cost += MaxMetadataBytes
	case KindExpireRun, KindEnforceCancel:
		cost += closingCost(encoded)
	case KindCreateStream, KindAppendStream, KindDeleteStream, KindExpireStream:
		cost += MaxSubscriptions * (linkCost + min(len(encoded), MaxStreamNameBytes))
	case KindSubscribe, KindLinkStreams, KindAckWake, KindClaimWake, KindLapseWake:
		cost += wakeCost + namedStreams(encoded)*linkCost
	}
	return cost
}

const (
	// linkCost is what applying writes for one stream of a subscription, beside the stream's name.
	linkCost = 128
	// wakeCost is what a wake writes: the subscription and the event on its wake stream.
	wakeCost = MaxSubscriptionBytes + 3<<10
)

// namedStreams counts the streams that a command about a subscription names.
func namedStreams(encoded []byte) int {
	switch c, _ := DecodeCommand(encoded); c := c.(type) {
	case *Subscribe:
		return len(c.Config.Streams)
	case *LinkStreams:
		return len(c.Add) + len(c.Remove)
	case *AckWake:
		return len(c.Acks)
	}
	return 0
}

// closingCost is what a verdict that ends a run allows Apply to write.
func closingCost(encoded []byte) int {
	switch c, _ := DecodeCommand(encoded); c := c.(type) {
	case ExpireRun:
		return int(min(c.MaxBytes, MaxEntryCost))
	case EnforceCancel:
		return int(min(c.MaxBytes, MaxEntryCost))
	}
	return MaxEntryCost
}
