package gateway

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// thread lists the visible runs of a thread in order of creation, deleted ones too.
func (n *fakeNode) thread(id event.ThreadID) []*fakeRun {
	var runs []*fakeRun
	for _, r := range n.order {
		if r.run.ThreadID == id && r.seen {
			runs = append(runs, r)
		}
	}
	return runs
}

// seenEnded reports whether the run's end is visible.
func (r *fakeRun) seenEnded() bool { return r.run.Ended && r.visible == len(r.records) }

// cursor returns where the thread stands: in the first open run, or at the end of the last.
func threadEnd(runs []*fakeRun) (c event.ThreadCursor) {
	for i, r := range runs {
		if r.deleted {
			continue
		}
		c = event.ThreadCursor{Ordinal: event.Ordinal(i), Offset: event.Offset(r.visible)}
		if !r.seenEnded() {
			break
		}
	}
	return c
}

func (n *fakeNode) Thread(ctx context.Context, id event.ThreadID, q event.ThreadQuery) (event.ThreadView, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.thread(id)
	v := event.ThreadView{ThreadID: id, Cursor: threadEnd(all)}
	var runs []event.Run
	for _, r := range all {
		if r.deleted {
			continue
		}
		run := *n.view(r)
		if run.Tail = event.Offset(r.visible); !r.seenEnded() {
			run.Status, run.Ended, run.TerminalOffset, run.EndedAt = event.StatusRunning, false, nil, nil
			v.ActiveRun = &run
		}
		runs = append(runs, run)
		for _, i := range n.interrupts {
			if i.RunID == run.RunID {
				v.Interrupts = append(v.Interrupts, i)
			}
		}
	}
	if q.Head != "" {
		if runs = chain(runs, q.Head); len(runs) == 0 {
			return v, event.ErrRunNotFound
		}
	}
	slices.Reverse(runs)
	from := 0
	if q.Before != "" {
		var err error
		if from, err = strconv.Atoi(q.Before); err != nil || from > len(runs) {
			return v, event.ErrBadCursor
		}
	}
	if v.Runs = runs[from:]; q.Limit > 0 && len(v.Runs) > q.Limit {
		v.Runs, v.NextCursor = v.Runs[:q.Limit], strconv.Itoa(from+q.Limit)
	}
	if n.afterThread != nil {
		n.mu.Unlock()
		n.afterThread()
		n.mu.Lock()
	}
	return v, nil
}

// chain returns the runs from a root down to head.
func chain(runs []event.Run, head event.RunID) (out []event.Run) {
	for id := head; id != ""; {
		i := slices.IndexFunc(runs, func(r event.Run) bool { return r.RunID == id })
		if i < 0 {
			break
		}
		out = append(out, runs[i])
		id = runs[i].ParentRunID
	}
	slices.Reverse(out)
	return out
}

func (n *fakeNode) Threads(_ context.Context, prefix string, limit int, cursor string) ([]event.ThreadSummary, string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cursor != "" {
		return nil, "", event.ErrBadCursor
	}
	byID := map[event.ThreadID]*event.ThreadSummary{}
	for _, r := range n.order {
		if id := r.run.ThreadID; r.seen && !r.deleted && strings.HasPrefix(string(id), prefix) {
			if byID[id] == nil {
				byID[id] = &event.ThreadSummary{ThreadID: id}
			}
			byID[id].Runs++
			byID[id].LastActivity = max(byID[id].LastActivity, r.run.UpdatedAt)
			if !r.run.Ended {
				byID[id].ActiveRuns = append(byID[id].ActiveRuns, r.run.RunID)
			}
		}
	}
	var all []event.ThreadSummary
	for _, s := range byID {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b event.ThreadSummary) int { return int(b.LastActivity - a.LastActivity) })
	return all[:min(limit, len(all))], "", nil
}

func (n *fakeNode) ThreadRecords(_ context.Context, id event.ThreadID, after event.ThreadCursor, maxRecords, maxBytes int) (event.ThreadRecordPage, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := event.ThreadRecordPage{Next: after}
	for i, r := range n.thread(id) {
		if uint64(i) < uint64(after.Ordinal) || r.deleted {
			continue
		}
		from := event.Offset(0)
		if uint64(i) == uint64(after.Ordinal) {
			from = after.Offset
		}
		for _, rec := range r.records[min(int(from), r.visible):r.visible] {
			if len(p.Records) == maxRecords {
				return p, nil
			}
			p.Next = event.ThreadCursor{Ordinal: event.Ordinal(i), Offset: rec.Offset + 1}
			p.Records = append(p.Records, event.ThreadRecord{Run: r.run.RunID, Cursor: p.Next, Record: rec})
		}
		if !r.seenEnded() {
			break
		}
	}
	return p, nil
}

func (n *fakeNode) FoldThread(_ context.Context, id event.ThreadID, head event.RunID, kinds ...projection.Kind) (out projection.ThreadFold, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var runs []event.Run
	for _, r := range n.thread(id) {
		if !r.deleted {
			runs = append(runs, r.run)
		}
	}
	if head != "" {
		if runs = chain(runs, head); len(runs) == 0 {
			return out, event.ErrRunNotFound
		}
		out.Missing = runs[0].ParentRunID
	}
	for _, k := range kinds {
		f := projection.New(k)
		for _, run := range runs {
			projection.BeginRun(f, run.RunID)
			for _, rec := range n.runs[run.RunID].records[:n.runs[run.RunID].visible] {
				f.Apply(rec)
			}
		}
		out.Folds = append(out.Folds, f)
	}
	for _, run := range runs {
		r := n.runs[run.RunID]
		out.Runs = append(out.Runs, projection.ThreadRun{RunID: run.RunID, Tail: event.Offset(r.visible), Ended: r.seenEnded()})
	}
	return out, nil
}

func (n *fakeNode) deleteThread(id event.ThreadID) event.Result {
	runs := n.thread(id)
	for _, r := range runs {
		if !r.deleted && !r.run.Ended {
			return refused(&event.RunActive{})
		}
	}
	for _, r := range runs {
		r.deleted = true
		n.show(r)
	}
	return event.Result{}
}

// The names under which watches of threads and of changes are kept among those of runs.
func threadWatch(id event.ThreadID) event.RunID { return event.RunID("thread " + string(id)) }

const changesWatch event.RunID = "changes"

func (n *fakeNode) WatchThread(id event.ThreadID) Watch { return n.Watch(threadWatch(id)) }
func (n *fakeNode) WatchChanges() Watch                 { return n.Watch(changesWatch) }

func (n *fakeNode) Changes(_ context.Context, from event.Offset, most int) (event.ChangePage, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := event.ChangePage{First: n.firstChange, Tail: event.Offset(len(n.changes))}
	if from >= p.First && from < p.Tail {
		p.Changes = n.changes[from:min(int(from)+most, len(n.changes))]
	}
	return p, nil
}

// tell appends a change.
func (n *fakeNode) tell(kind event.ChangeKind, r *fakeRun) {
	n.changes = append(n.changes, event.Change{Change: kind, RunID: r.run.RunID, ThreadID: r.run.ThreadID,
		Status: r.run.Status, Epoch: r.run.Epoch, Tail: event.Offset(len(r.records)), Time: n.now()})
	n.wake(changesWatch)
}
