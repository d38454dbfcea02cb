package raftlog

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/internal/watchdog"
)

// guard stands between raft and its log store.
//
// It checks each command entry's checksum before the entry is stored, and after it is read from
// the store to be sent or applied: neither bbolt nor a flipped bit in memory would be noticed otherwise. It
// stops the node when the store errors or is slow (fail): raft would retry for ever, and heartbeats,
// which need no disk, would keep a leader whose disk hangs in office. It keeps the newest entries
// in memory, since each entry is read back at once, by the leader for each follower and by a
// follower to apply it. And it counts the log's bytes for the snapshot trigger.
type guard struct {
	inner   raft.LogStore
	timeout time.Duration
	fail    func(error)
	metrics *metrics

	recent   recentEntries
	deadline *watchdog.Timer // runs while StoreLogs does; StoreLogs is never called concurrently

	// bytes and entries were stored since the last snapshot. full is signalled at limit bytes.
	bytes, entries atomic.Int64
	limit          int64
	full           chan struct{}
	// counting makes reads count, too: while raft starts it reads the log after the snapshot once.
	counting atomic.Bool
}

func newGuard(inner raft.LogStore, timeout time.Duration, limit int64, m *metrics, fail func(error)) *guard {
	g := &guard{inner: inner, timeout: timeout, fail: fail, metrics: m, limit: limit, full: make(chan struct{}, 1)}
	g.deadline = watchdog.New(timeout, func() {
		fail(fmt.Errorf("a write of the log takes longer than %s", timeout))
	})
	return g
}

// StoreLogs stores entries durably, or stops the node.
func (g *guard) StoreLogs(logs []*raft.Log) error {
	size := int64(0)
	for _, l := range logs {
		if err := checkLog(l); err != nil {
			g.fail(fmt.Errorf("entry %d is damaged before it is stored: %w", l.Index, err))
			return err
		}
		size += int64(len(l.Data))
	}
	began := time.Now()
	g.deadline.Start()
	err := g.inner.StoreLogs(logs)
	g.deadline.Stop()
	g.metrics.storeLogs.Observe(time.Since(began).Seconds())
	if err != nil {
		g.fail(fmt.Errorf("write the log: %w", err))
		return err
	}
	g.recent.add(logs)
	g.count(size, int64(len(logs)))
	return nil
}

// StoreLog stores one entry.
func (g *guard) StoreLog(l *raft.Log) error { return g.StoreLogs([]*raft.Log{l}) }

// GetLog reads one entry. A damaged one stops the node; raft must not send or apply it.
func (g *guard) GetLog(index uint64, l *raft.Log) error {
	if g.recent.get(index, l) {
		return nil
	}
	if err := g.inner.GetLog(index, l); err != nil {
		return err // not wrapped: raft asks for compacted entries and compares with ErrLogNotFound
	}
	if err := checkLog(l); err != nil {
		g.fail(fmt.Errorf("entry %d is damaged in the log: %w", index, err))
		return err
	}
	if g.counting.Load() {
		g.count(int64(len(l.Data)), 1)
	}
	return nil
}

// DeleteRange drops a prefix (compaction) or a suffix (conflict with the leader's log). Raft's own
// picture of the log's end is wrong after a failed truncation, so that stops the node, too.
func (g *guard) DeleteRange(min, max uint64) error {
	g.recent.drop(min, max)
	if err := g.inner.DeleteRange(min, max); err != nil {
		g.fail(fmt.Errorf("delete log entries %d to %d: %w", min, max, err))
		return err
	}
	return nil
}

// FirstIndex returns the first index in the log, 0 when it is empty.
func (g *guard) FirstIndex() (uint64, error) { return g.inner.FirstIndex() }

// LastIndex returns the last index in the log, 0 when it is empty.
func (g *guard) LastIndex() (uint64, error) { return g.inner.LastIndex() }

// IsMonotonic reports whether the store refuses gaps, for raft to empty it after a restore.
func (g *guard) IsMonotonic() bool {
	m, ok := g.inner.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

func (g *guard) count(bytes, entries int64) {
	g.entries.Add(entries)
	if g.bytes.Add(bytes) >= g.limit {
		select {
		case g.full <- struct{}{}:
		default:
		}
	}
}

// counted returns what was stored since the last snapshot; taken subtracts what one covers.
func (g *guard) counted() (bytes, entries int64) { return g.bytes.Load(), g.entries.Load() }

func (g *guard) taken(bytes, entries int64) {
	g.bytes.Add(-bytes)
	g.entries.Add(-entries)
}

func checkLog(l *raft.Log) error {
	if l.Type != raft.LogCommand {
		return nil
	}
	return event.CheckEntry(l.Data)
}
