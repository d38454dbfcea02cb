package fsm

import (
	"context"
	"errors"
	"slices"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// FoldThread makes projections of the runs of a thread, folded one after the other in order of
// creation; those that are open too, as far as they have come. With head it folds only the chain of parents that ends
// there, root first: a chain stops where a parent is deleted, unknown or of another thread, and
// the answer says so. All of it is of one moment. A thread without runs gives empty folds; a head
// that is not a run of the thread is [event.ErrRunNotFound] or [event.ErrRunDeleted].
//
// It costs what was appended since the last checkpoint of the thread, plus the projection's size,
// not what the thread holds. The caller owns the folds.
func (m *Machine) FoldThread(ctx context.Context, thread event.ThreadID, head event.RunID, kinds ...projection.Kind) (projection.ThreadFold, error) {
	for tries := 0; ; tries++ {
		out, err := m.foldThreadOnce(ctx, thread, head, kinds)
		if err == nil || !errors.Is(err, errThreadChanged) || tries == maxThreadTries {
			return out, m.noteDamage(err)
		}
	}
}

// errThreadChanged says that a run was deleted, or a flush came by, while runs were read.
var errThreadChanged = errors.New("fsm: the thread changed while it was read")

// maxThreadTries is how often a read begins anew because of errThreadChanged.
const maxThreadTries = 10

func (m *Machine) foldThreadOnce(ctx context.Context, thread event.ThreadID, head event.RunID, kinds []projection.Kind) (out projection.ThreadFold, err error) {
	runs, err := m.readThread(ctx, thread)
	if err != nil {
		return out, err
	}
	defer releaseAll(runs)
	if head != "" {
		if runs, out.Missing, err = chainTo(runs, head); err != nil {
			return out, m.headError(head, err)
		}
	}
	for _, kind := range kinds {
		fold := projection.New(kind)
		if len(runs) > 0 {
			if fold, err = m.foldRuns(ctx, runs, kind, runs[len(runs)-1].run.tail); err != nil {
				return out, err
			}
		}
		out.Folds = append(out.Folds, fold)
	}
	for _, s := range runs {
		out.Runs = append(out.Runs, projection.ThreadRun{RunID: s.run.id, Tail: s.run.tail, Ended: s.run.ended()})
	}
	return out, nil
}

// headError tells a deleted head from an unknown one.
func (m *Machine) headError(head event.RunID, err error) error {
	if s, found := m.read(head); found == nil {
		s.release()
	} else if errors.Is(found, event.ErrRunDeleted) {
		return found
	}
	return err
}

// chainTo returns the runs from head's furthest ancestor in the thread down to head, and the run
// at which the way up stopped, if not at a root.
func chainTo(runs []*snapshotRead, head event.RunID) (chain []*snapshotRead, missing event.RunID, err error) {
	byID := make(map[event.RunID]*snapshotRead, len(runs))
	for _, s := range runs {
		byID[s.run.id] = s
	}
	for id := head; id != ""; {
		s := byID[id]
		if s == nil {
			missing = id // also where parents go round in a circle
			break
		}
		delete(byID, id)
		chain = append(chain, s)
		id = s.run.parent
	}
	if len(chain) == 0 {
		return nil, "", event.ErrRunNotFound
	}
	slices.Reverse(chain)
	return chain, missing, nil
}

// readThread picks up all runs of a thread at one moment, in order of creation. The caller
// releases them.
func (m *Machine) readThread(ctx context.Context, thread event.ThreadID) ([]*snapshotRead, error) {
	flushed := m.Flushed()
	listed := make(map[streamID]*run)
	err := m.eachRun(ctx, event.RunQuery{ThreadID: thread, Ascending: true}, func(r *run) bool {
		if r.thread == thread {
			listed[r.sid] = r
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.store == nil {
		return nil, errClosed
	}
	if m.flushed != flushed {
		return nil, errThreadChanged // what came in between may be in Badger alone
	}
	overlays := m.overlays()
	for i := len(overlays) - 1; i >= 0; i-- {
		for s, r := range overlays[i].runs {
			switch {
			case r == nil:
				delete(listed, s)
			case r.thread == thread:
				own := *r // the active overlay's copy may move on
				listed[s] = &own
			}
		}
	}
	runs := make([]*snapshotRead, 0, len(listed))
	for _, r := range listed { // any order: sorted below
		m.store.readers.Add(1)
		runs = append(runs, &snapshotRead{run: r, logRead: m.logRead(&r.logHead)})
	}
	slices.SortFunc(runs, func(a, b *snapshotRead) int { return slices.Compare(a.run.sid[:], b.run.sid[:]) })
	return runs, nil
}

// threadBefore picks up the runs of s's thread that were created before it. The caller releases them.
func (m *Machine) threadBefore(ctx context.Context, s *snapshotRead) ([]*snapshotRead, error) {
	runs, err := m.readThread(ctx, s.run.thread)
	if err != nil {
		return nil, err
	}
	n := 0
	for n < len(runs) && slices.Compare(runs[n].run.sid[:], s.run.sid[:]) < 0 {
		n++
	}
	releaseAll(runs[n:])
	return runs[:n:n], nil
}

func releaseAll(runs []*snapshotRead) {
	for _, s := range runs {
		s.release()
	}
}
