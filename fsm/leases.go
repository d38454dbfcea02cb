package fsm

import (
	"context"
	"fmt"

	"github.com/runlog/runlog/event"
)

// OnLease sets what is told of every change of a lease, a lock, or the tail or end of a run that the
// lessor judges, and of which leader's term the entry is that made it. It is called on Raft's FSM goroutine, after the entry was applied, and must not
// block. It must be set before the first entry.
func (m *Machine) OnLease(f func(term uint64, changed []event.LeaseView)) { m.onLease = f }

// noteLease adds the run to what OnLease is told, if the lessor has anything to judge about it.
func (a *applier) noteLease(r *run, renewed bool) {
	if a.m.onLease == nil || r.lease == "" && r.takeoverMs == nil && !r.cancelRequested {
		return
	}
	v := leaseView(r)
	v.Renewed = renewed
	a.leases = append(a.leases, v)
}

func leaseView(r *run) event.LeaseView {
	v := event.LeaseView{
		Run: r.id, Ended: r.ended(), Epoch: r.epoch, Tail: r.tail, Holder: r.holder, LeaseMs: r.leaseMs, State: r.lease,
		TakeoverMs: r.takeoverMs, CancelRequested: r.cancelRequested, CancelWithinMs: r.cancelWithinMs,
	}
	if r.windowMs != nil && r.lease == event.LeaseStateReleased {
		v.TakeoverMs = r.windowMs
	}
	return v
}

// Leases returns every open run that the lessor has anything to judge about, and every lock. A
// run whose head cannot be read is reported in unreadable and leaves the others be.
func (m *Machine) Leases() (views []event.LeaseView, unreadable []error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, list := range m.openRuns.byThread {
		for _, o := range list {
			r, err := m.findRun(o.sid)
			if err != nil {
				unreadable = append(unreadable, fmt.Errorf("run %s: %w", o.id, err))
				continue
			}
			if r.lease != "" || r.takeoverMs != nil || r.cancelRequested {
				views = append(views, leaseView(r))
			}
		}
	}
	for name, l := range m.locks {
		views = append(views, lockView(name, l))
	}
	return views, unreadable
}

// ClosingBytes returns how many bytes ending the run now would write. It reads the run, so an
// unreadable one is found out before its end is proposed.
func (m *Machine) ClosingBytes(ctx context.Context, id event.RunID, status event.Status) (uint64, error) {
	s, err := m.read(id)
	if err != nil {
		return 0, err
	}
	defer s.release()
	return s.run.closingBytes(status), nil
}

// Lock returns who holds a lock; ok is false while nobody does.
func (m *Machine) Lock(name event.LockName) (view event.LeaseView, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	l := m.locks[name]
	if l == nil {
		return event.LeaseView{}, false
	}
	return lockView(name, l), true
}

// HolderRuns returns the open runs whose lease holder has not released.
func (m *Machine) HolderRuns(holder event.HolderID) ([]event.LeaseView, error) {
	views, unreadable := m.Leases()
	var runs []event.LeaseView
	for _, v := range views {
		if !v.Lock && v.Holder == holder && (v.State == event.LeaseStateHeld || v.State == event.LeaseStateLapsed) {
			runs = append(runs, v)
		}
	}
	if len(unreadable) > 0 {
		return runs, m.noteDamage(unreadable[0])
	}
	return runs, nil
}

// errClosers says that the cluster's own closing events do not fit a run: a fault of this program.
func errClosers(r *run, reason string) error {
	return fmt.Errorf("run %s cannot be closed: %s", r.sid, reason)
}
