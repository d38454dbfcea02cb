package gateway

import (
	"context"
	"errors"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// Threads are a node's own state of threads and changes; fsm.Machine implements it. It may lag
// behind what is committed. An unknown thread is an empty one.
type Threads interface {
	// Thread returns one moment of a thread. A head that is no run of it is event.ErrRunNotFound or
	// event.ErrRunDeleted; a cursor that no answer carried is event.ErrBadCursor.
	Thread(ctx context.Context, id event.ThreadID, q event.ThreadQuery) (event.ThreadView, error)
	// Threads lists threads by their last activity, newest first.
	Threads(ctx context.Context, prefix string, limit int, cursor string) ([]event.ThreadSummary, string, error)
	// ThreadRecords reads the events of a thread after a cursor, in order of runs: those of a run
	// come once all runs before it have ended.
	ThreadRecords(ctx context.Context, id event.ThreadID, after event.ThreadCursor, maxRecords, maxBytes int) (event.ThreadRecordPage, error)
	// WatchThread subscribes to a thread, which need not exist: new runs, appends, deletions.
	WatchThread(id event.ThreadID) Watch
	// FoldThread folds a thread's runs, or the chain of parents that ends at head, one after the
	// other, all projections at one moment. The caller owns the folds.
	FoldThread(ctx context.Context, id event.ThreadID, head event.RunID, kinds ...projection.Kind) (projection.ThreadFold, error)
	// Changes reads the stream of changes from an offset on. First and Tail are set whatever from is;
	// there are no changes when it lies outside of them.
	Changes(ctx context.Context, from event.Offset, max int) (event.ChangePage, error)
	// WatchChanges subscribes to the stream of changes.
	WatchChanges() Watch
}

// threadRead is one moment of a thread: its view and its messages, which are those of the events
// before the view's cursor.
type threadRead struct {
	event.ThreadView
	transcript projection.Fold
	missing    event.RunID // where the chain of parents that ends at the query's head stopped early
}

// maxThreadReads is how often a read of a thread begins anew because the thread changed.
const maxThreadReads = 20

// readThread reads a thread. View and messages come from two reads of the state; either the second
// is told where the first stood, or both are repeated until they tell of the same events.
func (g *Gateway) readThread(ctx context.Context, id event.ThreadID, q event.ThreadQuery) (r threadRead, err error) {
	for range maxThreadReads {
		if r.ThreadView, err = g.threads.Thread(ctx, id, q); err != nil {
			return r, err
		}
		same := true
		if q.Head != "" {
			same, err = g.foldChain(ctx, &r, q.Head)
		} else {
			r.transcript, err = g.foldTo(ctx, &r.ThreadView)
		}
		if same && err == nil || err != nil && !movedOn(err) {
			return r, err
		}
	}
	return r, errUnavailable
}

// movedOn reports whether an error may say no more than that a run was deleted between two reads.
func movedOn(err error) bool {
	return errors.Is(err, event.ErrRunNotFound) || errors.Is(err, event.ErrRunDeleted) || errors.Is(err, event.ErrOffsetOutOfRange)
}

// foldChain folds the chain that ends at head and reports whether head stood then where the view
// saw it: its ancestors have ended. An older page of the chain does not show the head.
func (g *Gateway) foldChain(ctx context.Context, r *threadRead, head event.RunID) (same bool, err error) {
	fold, err := g.threads.FoldThread(ctx, r.ThreadID, head, projection.KindTranscript)
	if err != nil {
		return false, err
	}
	r.transcript, r.missing = fold.Folds[0], fold.Missing
	for i := range r.Runs {
		if r.Runs[i].RunID == head {
			return fold.Runs[len(fold.Runs)-1].Tail == r.Runs[i].Tail, nil
		}
	}
	return true, nil
}

// foldTo folds what lies before a view's cursor. All runs before the cursor's have ended, so naming
// that run and an offset in it names the moment.
func (g *Gateway) foldTo(ctx context.Context, v *event.ThreadView) (projection.Fold, error) {
	run, found, err := g.cursorRun(ctx, v)
	if err != nil {
		return nil, err
	}
	if found {
		fold, _, err := g.reader.Fold(ctx, run, projection.KindTranscript, &v.Cursor.Offset, event.ScopeThread)
		return fold, err
	}
	whole, err := g.threads.FoldThread(ctx, v.ThreadID, "", projection.KindTranscript)
	if err != nil {
		return nil, err
	}
	for _, r := range whole.Runs {
		if !r.Ended {
			return nil, event.ErrRunNotFound // it began after the view was read
		}
	}
	return whole.Folds[0], nil
}

// cursorRun returns the run that a view's cursor is in, or false when it is in none: the thread is
// empty, or its last run was deleted.
func (g *Gateway) cursorRun(ctx context.Context, v *event.ThreadView) (event.RunID, bool, error) {
	if v.Cursor.Offset == 0 {
		for i := len(v.Runs) - 1; i >= 0; i-- {
			if r := &v.Runs[i]; !r.Ended && r.Tail == 0 {
				return r.RunID, true, nil
			}
		}
		return "", false, nil
	}
	before := v.Cursor
	before.Offset--
	page, err := g.threads.ThreadRecords(ctx, v.ThreadID, before, 1, 1)
	if err != nil {
		return "", false, err
	}
	if len(page.Records) == 0 || page.Records[0].Cursor != v.Cursor {
		return "", false, event.ErrRunNotFound
	}
	return page.Records[0].Run, true, nil
}
