package fsm

import (
	"github.com/runlog/runlog/event"
)

// openRuns lists the runs that have not ended, by thread, in order of creation. It is resident:
// a creation asks whether its thread is busy, and the lessor goes through all of them.
type openRuns struct {
	byThread map[event.ThreadID][]openRun
	count    int
}

type openRun struct {
	sid streamID
	id  event.RunID
}

func newOpenRuns() openRuns { return openRuns{byThread: make(map[event.ThreadID][]openRun)} }

func (o *openRuns) add(r *run) {
	o.byThread[r.thread] = append(o.byThread[r.thread], openRun{r.sid, r.id})
	o.count++
}

func (o *openRuns) remove(r *run) {
	list := o.byThread[r.thread]
	for i := range list {
		if list[i].sid == r.sid {
			o.byThread[r.thread] = append(list[:i:i], list[i+1:]...)
			o.count--
			break
		}
	}
	if len(o.byThread[r.thread]) == 0 {
		delete(o.byThread, r.thread)
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
