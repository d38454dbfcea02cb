package fsm

import (
	"errors"

	"github.com/runlog/runlog/event"
)

// deleteRun deletes an ended run. Its id stays used; its keys are removed later, by the flusher,
// and until then nothing refers to them.
func (a *applier) deleteRun(c *event.DeleteRun) (event.Result, error) {
	r, err := a.m.find(c.Run)
	switch {
	case errors.Is(err, event.ErrRunNotFound), errors.Is(err, event.ErrRunDeleted):
		return refuse(err), nil
	case err != nil:
		return event.Result{}, err
	case !r.ended():
		return refuse(&event.RunActive{}), nil
	}
	return event.Result{}, a.drop(r)
}

// drop takes an ended run out of the state.
func (a *applier) drop(r *run) error {
	if err := a.leaveThread(r); err != nil {
		return err
	}
	o := a.m.active
	o.setName(r.id, nameEntry{sid: r.sid, deleted: true})
	o.dropRun(r, a.m.sources[r.sid] > 0)
	o.meta.runs--
	a.m.cache.forget(r.id, r.sid)
	a.effects.WriteString("deleted")
	a.effects.Write(r.sid[:])
	a.touch(r)
	return nil
}
