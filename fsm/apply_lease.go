package fsm

import (
	"errors"

	"github.com/runlog/runlog/event"
)

// leaseCommand dispatches the commands about leases and locks; ok is false for any other.
func (a *applier) leaseCommand(c event.Command) (result event.Result, err error, ok bool) {
	switch c := c.(type) {
	case event.AcquireLease:
		result, err = a.acquireLease(&c)
	case event.ReviveLease:
		result, err = a.reviveLease(&c)
	case event.ReleaseLease:
		result, err = a.releaseLease(&c)
	case event.LapseLease:
		result, err = a.lapseLease(&c)
	case event.ExpireRun:
		result, err = a.expireRun(&c)
	case event.CancelRun:
		result, err = a.cancelRun(&c)
	case event.EnforceCancel:
		result, err = a.enforceCancel(&c)
	case event.AcquireLock:
		result = a.acquireLock(&c)
	case event.ReleaseLock:
		result = a.releaseLock(&c)
	case event.LapseLock:
		result = a.lapseLock(&c)
	default:
		return event.Result{}, nil, false
	}
	return result, err, true
}

// existing finds a run that a command names; a refusal when there is none.
func (a *applier) existing(id event.RunID) (*run, event.Refusal, error) {
	r, err := a.m.find(id)
	if errors.Is(err, event.ErrRunNotFound) || errors.Is(err, event.ErrRunDeleted) {
		return nil, err.(event.Refusal), nil
	}
	return r, nil, err
}

func (a *applier) acquireLease(c *event.AcquireLease) (event.Result, error) {
	r, refusal, err := a.existing(c.Run)
	if refusal != nil || err != nil {
		return event.Result{Refusal: refusal}, err
	}
	_, again := r.acquiredBy(c.Key)
	if c.IfEpoch != nil && *c.IfEpoch != r.epoch && !again {
		return refuse(&event.Fenced{Epoch: *c.IfEpoch, CurrentEpoch: r.epoch}), nil
	}
	if c.Steal && !again && !r.ended() {
		return a.take(r, c.Holder, c.LeaseMs, c.Key), nil
	}
	return a.acquire(r, c.Holder, c.LeaseMs, c.Key)
}

// acquire gives a run's lease to holder at a new epoch, unless another holder's is held. The same
// request repeated gets the epoch it got before, so that no two answers grant one epoch to two
// requests and no request is granted two.
func (a *applier) acquire(r *run, holder event.HolderID, leaseMs int64, key event.IdempotencyKey) (event.Result, error) {
	if epoch, ok := r.acquiredBy(key); ok {
		return repeated(r, epoch), nil
	}
	switch {
	case r.ended():
		return refuse(&event.RunEnded{TerminalOffset: r.terminal}), nil
	case r.lease == event.LeaseStateHeld && r.holder != holder:
		return refuse(&event.LeaseHeld{Holder: r.holder}), nil
	}
	return a.take(r, holder, leaseMs, key), nil
}

// acquiredBy returns the epoch that a request with that key was granted.
func (r *run) acquiredBy(key event.IdempotencyKey) (event.Epoch, bool) {
	if key == (event.IdempotencyKey{}) {
		return 0, false
	}
	for _, a := range r.acquired {
		if a.key == key {
			return a.epoch, true
		}
	}
	return 0, false
}

// repeated answers a request that was granted epoch before. When somebody acquired since, it is
// fenced: its answer would name an epoch that is another's.
func repeated(r *run, epoch event.Epoch) event.Result {
	if epoch != 0 && epoch != r.epoch {
		return refuse(&event.Fenced{Epoch: epoch, CurrentEpoch: r.epoch})
	}
	return event.Result{Run: r.view()}
}

func (a *applier) take(r *run, holder event.HolderID, leaseMs int64, key event.IdempotencyKey) event.Result {
	r = a.writable(r)
	a.hold(r, holder, leaseMs, key)
	a.changedLease(r, true)
	return event.Result{Run: r.view()}
}

// hold makes holder the run's holder at the next epoch.
func (a *applier) hold(r *run, holder event.HolderID, leaseMs int64, key event.IdempotencyKey) {
	r.epoch++
	r.holder, r.leaseMs, r.lease = holder, leaseMs, event.LeaseStateHeld
	if key != (event.IdempotencyKey{}) {
		keep := r.acquired[max(0, len(r.acquired)-maxAcquisitions+1):]
		r.acquired = append(append([]acquisition(nil), keep...), acquisition{key, r.epoch})
	}
	r.windowMs = nil
	r.updatedAt = a.now
	if r.takeoverMs == nil {
		r.takeoverMs = new(int64)
	}
	a.tell(event.ChangeAcquired, r)
}

// changedLease records a change of a run's lease for the hash, the lessor and whoever waits.
func (a *applier) changedLease(r *run, renewed bool) {
	a.effectRun(r)
	a.touch(r)
	a.noteLease(r, renewed)
}

func (a *applier) reviveLease(c *event.ReviveLease) (event.Result, error) {
	r, refusal, err := a.existing(c.Run)
	switch {
	case refusal != nil || err != nil:
		return event.Result{Refusal: refusal}, err
	case c.Epoch != r.epoch:
		return refuse(&event.Fenced{Epoch: c.Epoch, CurrentEpoch: r.epoch}), nil
	case r.ended():
		return refuse(&event.RunEnded{TerminalOffset: r.terminal}), nil
	case r.lease == event.LeaseStateLapsed || r.lease == event.LeaseStateHeld && c.LeaseMs > 0 && c.LeaseMs != r.leaseMs:
		r = a.writable(r)
		r.lease = event.LeaseStateHeld
		if c.LeaseMs > 0 {
			r.leaseMs = c.LeaseMs
		}
		a.changedLease(r, true)
	}
	return event.Result{Run: r.view()}, nil
}

// releaseLease gives a lease up. Releasing an ended run's lease changes nothing and is no error: a
// host that shuts down need not know which of its runs have ended.
func (a *applier) releaseLease(c *event.ReleaseLease) (event.Result, error) {
	r, refusal, err := a.existing(c.Run)
	switch {
	case refusal != nil || err != nil:
		return event.Result{Refusal: refusal}, err
	case c.Epoch != r.epoch || r.epoch == 0:
		return refuse(&event.Fenced{Epoch: c.Epoch, CurrentEpoch: r.epoch}), nil
	case r.ended() || r.lease == event.LeaseStateReleased:
		return event.Result{Run: r.view()}, nil
	}
	r = a.writable(r)
	r.lease = event.LeaseStateReleased
	window := max(deref(r.takeoverMs), event.DefaultReleaseWindowMs)
	if c.TakeoverMs != nil {
		window = *c.TakeoverMs
	}
	r.windowMs = &window
	r.updatedAt = a.now
	a.tell(event.ChangeReleased, r)
	a.changedLease(r, false)
	return event.Result{Run: r.view()}, nil
}

func (a *applier) lapseLease(c *event.LapseLease) (event.Result, error) {
	r, stale, err := a.judged(c.Run, c.Epoch, c.Tail)
	if stale || err != nil || r.lease != event.LeaseStateHeld {
		return refuse(event.ErrStaleVerdict), err
	}
	r = a.writable(r)
	r.lease = event.LeaseStateLapsed
	a.tell(event.ChangeLapsed, r)
	a.changedLease(r, false)
	return event.Result{Run: r.view()}, nil
}

// judged finds the run of a verdict, and whether the verdict came too late: somebody acquired
// (another epoch), wrote (another tail) or ended it since the lessor looked.
func (a *applier) judged(id event.RunID, epoch event.Epoch, tail event.Offset) (r *run, stale bool, err error) {
	r, refusal, err := a.existing(id)
	if refusal != nil || err != nil {
		return nil, true, err
	}
	return r, r.epoch != epoch || r.tail != tail || r.ended(), nil
}
