// Package raftlog runs one node of runlog's Raft group (Ongaro & Ousterhout, "In Search of an
// Understandable Consensus Algorithm", 2014), on hashicorp/raft.
//
// It carries commands to the leader, makes them durable on a quorum as one log entry per group
// (group commit), and hands the state machine's answers back. Between a caller and the log there
// are three outcomes, never two: done or refused (a [event.Result]), provably nothing written
// ([ErrUnavailable], [ErrOverloaded]) and unknown ([ErrOutcomeUnknown]).
//
// The journey of one command: [Node.Propose] encodes it and queues it (queue.go); the commit
// loop takes everything that waits as one group (commit.go) and gives it to raft.Apply when this
// node leads, or to the leader over the internal RPC when it does not (forward.go); the
// group's results wake its callers. A caller whose group certainly was not appended waits for
// the next leader and tries again (hold.go); after an unknown outcome only what cannot take effect twice
// is tried again (repeat.go).
//
// The log is the state machine's write-ahead log. The log store is therefore guarded (guard.go):
// an entry that fails its checksum is neither stored nor sent, and a store that errors or hangs stops
// the node, because a leader with a hanging disk would otherwise keep its leadership for ever.
// Snapshots are markers that say "everything up to here is in the state on disk"; only when a
// follower needs one is the state exported (snapshots.go).
//
// Data directory:
//
//	node.json         node id, random id of this directory, kind of log store
//	raft/stable.db    term and vote (bbolt)
//	raft/wal/         log, raft-wal          or   raft/log.db   log, bbolt
//	raft/snapshots/   markers, and received snapshots until they are restored
package raftlog
