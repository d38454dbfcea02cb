package raftlog

import (
	"fmt"
	"io"

	"github.com/hashicorp/raft"
)

// machine is the state machine as raft sees it: the State, plus what the snapshot store must know of
// local and of restored snapshots.
type machine struct {
	State
	snapshots *snapshots
}

// Snapshot implements raft.FSM.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	s, err := m.State.Snapshot()
	if err != nil {
		return nil, err
	}
	return localSnapshot{s}, nil
}

type localSnapshot struct{ raft.FSMSnapshot }

// Persist implements raft.FSMSnapshot; only local snapshots come this way.
func (s localSnapshot) Persist(to raft.SnapshotSink) error {
	if k, ok := to.(*sink); ok {
		k.markLocal()
	}
	return s.FSMSnapshot.Persist(to)
}

// Restore implements raft.FSM: it replaces the state and then turns the snapshot into a marker.
func (m *machine) Restore(rc io.ReadCloser) error {
	if err := m.State.Restore(rc); err != nil {
		return fmt.Errorf("restore state: %w", err)
	}
	src := rc
	if w, ok := rc.(raft.ReadCloserWrapper); ok {
		src = w.WrappedReadCloser()
	}
	if r, ok := src.(*receivedSnapshot); ok {
		return m.snapshots.restored(r.id, m.State.Applied())
	}
	return nil
}
