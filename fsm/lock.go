package fsm

import (
	"fmt"

	"github.com/runlog/runlog/event"
)

// lock is a lease that belongs to no run. Its epochs come from one counter of the whole cluster, so
// that a lock can be forgotten while it is free and still never gives an epoch twice.
type lock struct {
	epoch   event.Epoch // 0: free
	holder  event.HolderID
	leaseMs int64
	key     event.IdempotencyKey
}

func (l *lock) free() bool { return l.epoch == 0 }

const lockVersion = 1

func (l *lock) encode() []byte {
	e := enc{make([]byte, 0, 64)}
	e.u8(lockVersion)
	e.uv(uint64(l.epoch))
	e.str(string(l.holder))
	e.iv(l.leaseMs)
	e.raw(l.key[:])
	return e.b
}

func decodeLock(b []byte) (*lock, error) {
	d := dec{b: b}
	if v := d.u8(); v != lockVersion {
		return nil, fmt.Errorf("%w: lock version %d", ErrDamaged, v)
	}
	l := &lock{epoch: event.Epoch(d.uv()), holder: event.HolderID(d.str()), leaseMs: d.iv()}
	copy(l.key[:], d.take(16))
	return l, d.done("lock")
}

func (a *applier) acquireLock(c *event.AcquireLock) event.Result {
	if l := a.m.locks[c.Name]; l != nil {
		switch {
		case c.Key != event.IdempotencyKey{} && c.Key == l.key:
			return event.Result{LockEpoch: l.epoch}
		case l.holder != c.Holder:
			return refuse(&event.LeaseHeld{Holder: l.holder})
		}
	}
	a.m.active.meta.lockEpoch++
	l := &lock{epoch: a.m.active.meta.lockEpoch, holder: c.Holder, leaseMs: c.LeaseMs, key: c.Key}
	a.m.locks[c.Name] = l
	a.changedLock(c.Name, l)
	return event.Result{LockEpoch: l.epoch}
}

func (a *applier) releaseLock(c *event.ReleaseLock) event.Result {
	l := a.m.locks[c.Name]
	if l == nil || l.epoch != c.Epoch {
		return refuse(&event.Fenced{Epoch: c.Epoch, CurrentEpoch: deref(l).epoch})
	}
	a.freeLock(c.Name)
	return event.Result{}
}

func (a *applier) lapseLock(c *event.LapseLock) event.Result {
	if l := a.m.locks[c.Name]; l == nil || l.epoch != c.Epoch {
		return refuse(event.ErrStaleVerdict)
	}
	a.freeLock(c.Name)
	return event.Result{}
}

func (a *applier) freeLock(name event.LockName) {
	delete(a.m.locks, name)
	a.changedLock(name, &lock{})
}

func (a *applier) changedLock(name event.LockName, l *lock) {
	a.m.active.setLock(name, l)
	a.effects.WriteString(string(name))
	a.effects.Write(l.encode())
	a.touched = append(a.touched, watchedLock(name))
	a.leases = append(a.leases, lockView(name, l))
}

func lockView(name event.LockName, l *lock) event.LeaseView {
	v := event.LeaseView{Run: event.RunID(name), Lock: true, Ended: l.free(), Epoch: l.epoch, Holder: l.holder, LeaseMs: l.leaseMs, Renewed: true}
	if !l.free() {
		v.State = event.LeaseStateHeld
	}
	return v
}

// watchedLock is the name under which a lock is watched: no run id has a control character.
func watchedLock(name event.LockName) event.RunID { return "\x00" + event.RunID(name) }

// WatchLock wakes whoever waits for a lock when it is taken or freed.
func (m *Machine) WatchLock(name event.LockName) *Watch { return m.Watch(watchedLock(name)) }
