package raftlog

import (
	"errors"

	"github.com/hashicorp/raft"
)

// Bounds of how many entries are kept behind a snapshot, whatever their size.
const (
	minTrailing = 64
	maxTrailing = 1_000_000
)

// runSnapshots takes a snapshot whenever SnapshotBytes of log were stored since the last one. It
// ends when the node closes.
func (n *Node) runSnapshots() {
	for {
		select {
		case <-n.guard.full:
		case <-n.closing:
			return
		}
		bytes, entries := n.guard.counted()
		if bytes < n.cfg.SnapshotBytes {
			continue
		}
		rc := n.raft.ReloadableConfig()
		rc.TrailingLogs = trailingEntries(n.cfg.TrailingBytes, bytes, entries)
		err := n.raft.ReloadConfig(rc)
		if err == nil {
			err = n.raft.Snapshot().Error()
		}
		// Counted down even after a failure, so that the next try comes after as much log again.
		n.guard.taken(bytes, entries)
		if err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) && !errors.Is(err, raft.ErrRaftShutdown) {
			n.logger.Warn("snapshot failed", "error", err)
		}
	}
}

// trailingEntries says how many entries of the average size seen make up want bytes: raft keeps
// its trailing log by entries, whose sizes differ a thousandfold between a lone event and a full group.
func trailingEntries(want, bytes, entries int64) uint64 {
	if bytes <= 0 || entries <= 0 {
		return minTrailing
	}
	per := max(bytes/entries, 1)
	return uint64(min(max(want/per, minTrailing), maxTrailing))
}
