package fsm

import "github.com/runlog/runlog/event"

// expireRun ends a run whose host is gone and that nobody took over.
func (a *applier) expireRun(c *event.ExpireRun) (event.Result, error) {
	r, stale, err := a.judged(c.Run, c.Epoch, c.Tail)
	if stale || err != nil {
		return refuse(event.ErrStaleVerdict), err
	}
	return a.end(r, event.StatusLost, c.MaxBytes)
}

// cancelRun notes that a run's end is wanted. The lessor sees to it when its holder does not.
func (a *applier) cancelRun(c *event.CancelRun) (event.Result, error) {
	r, refusal, err := a.existing(c.Run)
	switch {
	case refusal != nil || err != nil:
		return event.Result{Refusal: refusal}, err
	case r.ended():
		return refuse(&event.RunEnded{TerminalOffset: r.terminal}), nil
	case !r.cancelRequested:
		r = a.writable(r)
		r.cancelRequested, r.cancelWithinMs = true, c.WithinMs
		r.updatedAt = a.now
		a.tell(event.ChangeCancelRequested, r)
		a.changedLease(r, false)
	}
	return event.Result{Run: r.view()}, nil
}

// enforceCancel ends a run whose cancel nobody answered. What was written since the verdict does not
// stand against it: a host that only goes on writing has not answered.
func (a *applier) enforceCancel(c *event.EnforceCancel) (event.Result, error) {
	r, refusal, err := a.existing(c.Run)
	if refusal != nil || err != nil || r.epoch != c.Epoch || r.ended() || !r.cancelRequested {
		return refuse(event.ErrStaleVerdict), err
	}
	return a.end(r, event.StatusCancelled, c.MaxBytes)
}

// end writes the closing events and the terminal. More than maxBytes is refused: the verdict was
// made for a smaller run, and one entry may not write without bound.
func (a *applier) end(r *run, status event.Status, maxBytes uint64) (event.Result, error) {
	p := r.progress()
	if r.closingBytes(status) > maxBytes {
		return refuse(event.ErrStaleVerdict), nil
	}
	r = a.writable(r)
	first := r.tail
	walk := event.NewWalk(p, event.Rules{})
	for _, e := range event.Closers(&p, r.id, r.thread, status) {
		if reason := walk.Take(&e.Header); reason != "" {
			return event.Result{}, errClosers(r, reason)
		}
		a.addEvent(r, e.Raw)
	}
	walk.End = status
	r.updatedAt = a.now
	if r.lease == event.LeaseStateHeld {
		r.lease = event.LeaseStateLapsed
	}
	if err := a.progress(r, walk); err != nil {
		return event.Result{}, err
	}
	a.changedLease(r, false)
	if n := len(a.leases); n > 0 { // a run that the cluster ends is one that the lessor knows
		a.leases[n-1].EndedBy = status
	}
	return event.Result{Appended: event.Appended{FirstOffset: first, Tail: r.tail}, Run: r.view()}, nil
}
