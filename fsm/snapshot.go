package fsm

import (
	"context"
	"fmt"

	"github.com/hashicorp/raft"
)

// SnapshotMarker begins the content of a snapshot that this node took itself: the state is in
// Badger, and whoever opens the snapshot for another node exports it then.
const SnapshotMarker = "RUNLOGM1"

// Snapshot is called on Raft's FSM goroutine. The snapshot holds no state: Raft may drop the log
// below it once Persist has seen that Badger holds everything up to it.
func (m *Machine) Snapshot() (raft.FSMSnapshot, error) {
	return &marker{m: m, index: m.Applied()}, nil
}

type marker struct {
	m     *Machine
	index uint64
}

// Persist waits for the flush and writes the marker. It runs beside Apply.
func (s *marker) Persist(sink raft.SnapshotSink) error {
	err := s.m.Flush(context.Background())
	if err == nil {
		_, err = fmt.Fprintf(sink, "%s%016x", SnapshotMarker, s.index)
	}
	if err != nil {
		return fmt.Errorf("fsm: snapshot at index %d: %w", s.index, joinCancel(sink, err))
	}
	return sink.Close()
}

func joinCancel(sink raft.SnapshotSink, err error) error {
	if cancel := sink.Cancel(); cancel != nil {
		return fmt.Errorf("%w (and cancelling: %v)", err, cancel)
	}
	return err
}

// Release does nothing: a marker holds nothing.
func (s *marker) Release() {}
