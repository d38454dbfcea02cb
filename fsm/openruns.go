package fsm

import (
	"slices"

	"github.com/runlog/runlog/event"
)

// openRuns lists the runs that have not ended, in order of creation, with what listings of them ask
// for. It is resident: a creation asks whether its thread is busy, the lessor goes through all of them,
// and a listing of the runs of one holder must not read every head.
type openRuns struct {
	byThread map[event.ThreadID][]*openRun
	bySID    map[streamID]*openRun
	order    []*openRun // of creation; those that have ended are taken out now and then
}

type openRun struct {
	sid    streamID // sid and id never change
	id     event.RunID
	holder event.HolderID
	lease  event.LeaseState
	gone   bool
}

func newOpenRuns() openRuns {
	return openRuns{byThread: make(map[event.ThreadID][]*openRun), bySID: make(map[streamID]*openRun)}
}

// add takes in a run, which was created after all others.
func (o *openRuns) add(r *run) {
	e := &openRun{sid: r.sid, id: r.id, holder: r.holder, lease: r.lease}
	o.byThread[r.thread] = append(o.byThread[r.thread], e)
	o.bySID[r.sid] = e
	o.order = append(o.order, e)
}

// change takes note of who holds an open run.
func (o *openRuns) change(r *run) {
	if e := o.bySID[r.sid]; e != nil {
		e.holder, e.lease = r.holder, r.lease
	}
}

func (o *openRuns) remove(r *run) {
	e := o.bySID[r.sid]
	if e == nil {
		return
	}
	delete(o.bySID, r.sid)
	list := o.byThread[r.thread]
	i := slices.Index(list, e)
	o.byThread[r.thread] = append(list[:i:i], list[i+1:]...)
	if len(o.byThread[r.thread]) == 0 {
		delete(o.byThread, r.thread)
	}
	if e.gone = true; len(o.order) > 2*len(o.bySID)+64 {
		o.order = slices.DeleteFunc(o.order, func(e *openRun) bool { return e.gone })
	}
}

// newest returns the thread's open run that was created last.
func (o *openRuns) newest(thread event.ThreadID) (event.RunID, bool) {
	list := o.byThread[thread]
	if len(list) == 0 {
		return "", false
	}
	return list[len(list)-1].id, true
}

// matching returns the open runs, in order of creation, that may match the query.
func (o *openRuns) matching(q *event.RunQuery) []streamID {
	var sids []streamID
	for _, e := range o.order {
		if !e.gone && (q.Holder == "" || e.holder == q.Holder) && matchesLease(e.lease, q.Lease) {
			sids = append(sids, e.sid)
		}
	}
	return sids
}
