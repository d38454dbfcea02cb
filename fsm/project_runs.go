package fsm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// A thread's folds leave checkpoints of their own, since what a run's events mean depends on the
// runs before it. Their lineage, a hash over those runs, is part of the key: a whole thread and a
// chain of parents do not take each other's. They lie under the thread, so that deleting one of
// its runs takes all of them away.
//
// One is left whenever what was folded since the last one exceeds threadCheckpointBytes and half of
// the projection's size, so that a thread's checkpoints take about as much room as twice its
// records. Each run counts for runFoldCost more than its records: opening it costs that much.
const (
	threadCheckpointBytes = 64 << 10
	runFoldCost           = 2 << 10
)

// threadFolder folds a list of runs.
type threadFolder struct {
	m        *Machine
	runs     []*snapshotRead
	prefixes [][]byte // of the runs' checkpoints; for those that have only ended runs before them
	fold     projection.Fold
	far      int // what was folded since the last checkpoint
}

// foldRuns folds runs one after the other, the last up to offset to, from the nearest checkpoint
// on. An error is errThreadChanged when one of them was deleted meanwhile.
func (m *Machine) foldRuns(ctx context.Context, runs []*snapshotRead, kind projection.Kind, to event.Offset) (projection.Fold, error) {
	f := threadFolder{m: m, runs: runs}
	f.addPrefixes(kind)
	i, from := f.nearest(kind, to)
	for ; i < len(runs); i++ {
		end := runs[i].run.tail
		if i == len(runs)-1 {
			end = to
		}
		if from == 0 {
			projection.BeginRun(f.fold, runs[i].run.id)
		}
		if err := f.run(ctx, i, from, end); err != nil {
			return nil, m.deletedMeanwhile(runs[i], err)
		}
		from = 0
	}
	return f.fold, nil
}

// deletedMeanwhile tells a run that was deleted while it was read from one that cannot be read.
func (m *Machine) deletedMeanwhile(s *snapshotRead, err error) error {
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	now, gone := m.read(s.run.id)
	if gone == nil {
		now.release()
	} else if errors.Is(gone, event.ErrRunDeleted) {
		return errThreadChanged
	}
	return err
}

func (f *threadFolder) addPrefixes(kind projection.Kind) {
	thread := fingerprintOf(f.runs[0].run.thread)
	head := append(append([]byte{keyThreadFold}, thread[:]...), byte(kind))
	lineage := sha256.New()
	for _, s := range f.runs {
		p := append(append(make([]byte, 0, len(head)+24), head...), s.run.sid[:]...)
		f.prefixes = append(f.prefixes, append(p, lineage.Sum(nil)[:8]...))
		if !s.run.ended() {
			return // what follows may change its meaning
		}
		lineage.Write(s.run.sid[:])
	}
}

// nearest makes the fold of the last checkpoint there is, and says where to go on.
func (f *threadFolder) nearest(kind projection.Kind, to event.Offset) (run int, from event.Offset) {
	for i := len(f.prefixes) - 1; i >= 0; i-- {
		s := f.runs[i]
		limit := s.run.tail
		if i == len(f.runs)-1 {
			limit = to
		}
		state, at, err := s.store.readCheckpoint(f.prefixes[i], limit)
		if err == nil && state == nil {
			continue
		}
		f.fold = projection.New(kind)
		if err == nil {
			err = f.fold.UnmarshalBinary(state)
		}
		if err == nil {
			return i, at
		}
		f.m.cfg.Logger.Warn("thread checkpoint passed over", "run", s.run.id, "offset", at, "error", err)
	}
	f.fold = projection.New(kind)
	return 0, 0
}

// run folds records [from, to) of the i-th run.
func (f *threadFolder) run(ctx context.Context, i int, from, to event.Offset) error {
	f.far += runFoldCost
	if from < to {
		err := f.runs[i].each(ctx, from, func(r event.Record) bool {
			f.fold.Apply(r)
			f.far += len(r.Raw)
			if r.Offset+1 < to {
				f.checkpoint(i, r.Offset+1)
				return true
			}
			return false
		})
		if err != nil {
			return err
		}
	}
	f.checkpoint(i, to)
	return ctx.Err()
}

// checkpoint leaves one at that offset of the i-th run if it is worth it.
func (f *threadFolder) checkpoint(i int, at event.Offset) {
	if i >= len(f.prefixes) || at == 0 || f.far < max(min(threadCheckpointBytes, f.m.cfg.CheckpointBytes), f.fold.Size()/2) {
		return
	}
	f.far = 0
	state, err := f.fold.MarshalBinary()
	if err != nil {
		f.m.cfg.Logger.Warn("no thread checkpoint", "run", f.runs[i].run.id, "offset", at, "error", err)
		return
	}
	st, prefix := f.runs[i].store, f.prefixes[i]
	lineage := make([]streamID, 0, i+1)
	for _, s := range f.runs[:i+1] {
		lineage = append(lineage, s.run.sid)
	}
	f.m.flusher.offer(func(now *store) error {
		if now != st {
			return nil // a restore came in between
		}
		if gone, err := st.anyDeleted(lineage); gone || err != nil {
			return err // the thread's checkpoints may have been swept already
		}
		f.m.metrics.checkpoints.Inc()
		return st.writeCheckpoint(prefix, at, st.packer.compress(state))
	})
}

// anyDeleted reports whether the deletion of one of the runs has reached Badger.
func (st *store) anyDeleted(runs []streamID) (gone bool, err error) {
	err = st.db.View(func(txn *badger.Txn) error {
		for _, s := range runs {
			if _, err := txn.Get(sidKey(keyHead, s)); errors.Is(err, badger.ErrKeyNotFound) {
				continue // not flushed yet
			}
			value, err := get(txn, sidKey(keyHead, s))
			if err != nil {
				return fmt.Errorf("thread checkpoint: %w", err)
			}
			gone = gone || isDeleted(value)
		}
		return nil
	})
	return gone, err
}
