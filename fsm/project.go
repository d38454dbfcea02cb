package fsm

import (
	"context"
	"errors"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// Project folds a run's events before offset at (nil: all of them) and returns the projection's
// JSON and how many events of the run are in it. With event.ScopeThread the thread's earlier
// runs are folded in first. It costs what lies between the nearest checkpoint and at, not
// what lies before it.
func (m *Machine) Project(ctx context.Context, id event.RunID, kind projection.Kind, at *event.Offset, scope event.Scope) ([]byte, event.Offset, error) {
	fold, offset, err := m.Fold(ctx, id, kind, at, scope)
	if err != nil {
		return nil, 0, err
	}
	return fold.AppendJSON(nil), offset, nil
}

// Fold is [Machine.Project] before it is turned into JSON. The caller owns the fold.
func (m *Machine) Fold(ctx context.Context, id event.RunID, kind projection.Kind, at *event.Offset, scope event.Scope) (projection.Fold, event.Offset, error) {
	for tries := 0; ; tries++ {
		fold, offset, err := m.foldOnce(ctx, id, kind, at, scope)
		if err == nil || !errors.Is(err, errThreadChanged) || tries == maxThreadTries {
			return fold, offset, m.noteDamage(err)
		}
	}
}

func (m *Machine) foldOnce(ctx context.Context, id event.RunID, kind projection.Kind, at *event.Offset, scope event.Scope) (projection.Fold, event.Offset, error) {
	s, err := m.read(id)
	if err != nil {
		return nil, 0, err
	}
	defer s.release()
	to := s.run.tail
	if at != nil {
		if *at > to {
			return nil, 0, &event.OffsetOutOfRange{Offset: *at, Tail: to}
		}
		to = *at
	}
	if scope == event.ScopeRun {
		fold, err := m.foldRun(ctx, s, kind, to)
		return fold, to, m.deletedMeanwhile(s, err)
	}
	before, err := m.threadBefore(ctx, s)
	if err != nil {
		return nil, 0, err
	}
	defer releaseAll(before)
	fold, err := m.foldRuns(ctx, append(before, s), kind, to)
	return fold, to, err
}

// foldRun folds one run's records before offset to, from the nearest checkpoint on, and leaves
// checkpoints behind where it had to go far.
func (m *Machine) foldRun(ctx context.Context, s *snapshotRead, kind projection.Kind, to event.Offset) (projection.Fold, error) {
	fold, from := m.nearestCheckpoint(s, kind, to)
	if from == to {
		return fold, nil
	}
	far := 0
	err := s.each(ctx, from, func(r event.Record) bool {
		if r.Offset >= to {
			return false
		}
		fold.Apply(r)
		far += len(r.Raw)
		if far >= max(m.cfg.CheckpointBytes, fold.Size()) {
			m.leaveCheckpoint(s, kind, r.Offset+1, fold)
			far = 0
		}
		return r.Offset+1 < to
	})
	return fold, err
}
