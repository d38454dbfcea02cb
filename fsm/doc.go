// Package fsm is the replicated state machine: it applies committed Raft entries to memory and
// writes them behind to Badger, wakes tails, and serves views of what it holds.
//
// # How state is kept
//
// State is what Badger holds, overlaid by the frozen overlay, overlaid by the active one. Apply
// changes the active overlay only. A cut, always between two entries, freezes it; the flusher
// then writes the frozen overlay and the applied index of exactly that prefix of the log in one
// transaction, and only after its commit the overlay goes. Every read looks at active, then
// frozen, then a transaction opened after both. The Raft log is the write-ahead log: after a
// crash Badger lags, and the entries above its applied index are replayed.
//
// # What must hold
//
// Apply is pure: the same entries give the same state and the same state hash on every node,
// whatever was flushed, cached or restored in between. It reads no clock, random source,
// environment or map order. State that cannot be read (a bad checksum, a known run without its
// record) stops the node; it is never answered as "not found".
package fsm
