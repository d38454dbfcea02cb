package raftlog

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/lease"
)

// lessor runs the judge of leases while this node leads: it tells it of time that passed and of what
// was applied, answers renewals from it (renew.go) and proposes its verdicts (verdicts.go).
//
// The judge's time is counted probe by probe, and only where it is certain that renewals came
// through (soundness.go).
type lessor struct {
	n       *Node
	tick    time.Duration
	maxStep time.Duration // a longer time between two probes does not count

	changes changes
	wake    chan struct{} // holds a token when changes came that the loop must not wait a tick for
	idle    atomic.Bool
	term    atomic.Uint64 // of this node's latest tenure; 0: it never led

	mu       sync.Mutex // guards the judge and what belongs to it
	judge    *lease.Lessor
	ten      *tenure   // whose leases the judge knows; nil: of none
	last     time.Time // up to when its time was counted
	answered signal    // a verdict was answered, or the tenure ended

	sound   soundness      // the loop's own
	waiting sync.WaitGroup // for verdicts to be answered
	pending atomic.Int64   // verdicts under way
}

// Bounds of the lessor's tick; in between it is a twentieth of the shortest lease.
const (
	minTick = 5 * time.Millisecond
	maxTick = 50 * time.Millisecond
)

func newLessor(n *Node) *lessor {
	tick := min(max(n.cfg.MinLease/20, minTick), maxTick)
	return &lessor{n: n, tick: tick, maxStep: 10 * tick, wake: make(chan struct{}, 1), judge: lease.New(lease.Config{})}
}

// run serves tenure after tenure until the node closes.
func (l *lessor) run() {
	defer l.waiting.Wait()
	for {
		changed := l.n.leadership.C()
		if ten := l.n.tenure.Load(); ten != nil {
			l.serve(ten)
			continue
		}
		select {
		case <-changed:
		case <-l.n.closing:
			return
		}
	}
}

// serve judges during one tenure.
func (l *lessor) serve(ten *tenure) {
	l.begin(ten)
	defer l.end()
	timer := time.NewTimer(l.tick)
	defer timer.Stop()
	for {
		changed := l.n.leadership.C()
		if l.n.tenure.Load() != ten {
			return
		}
		due := timer.C
		if l.rests() {
			due = nil
		}
		select {
		case <-due:
			l.step(ten)
			timer.Reset(l.tick)
		case <-l.wake:
			l.hurry(ten)
			if due == nil {
				timer.Reset(l.tick)
			}
		case <-changed:
		case <-l.n.closing:
			return
		}
	}
}

// begin gives every lease a full term. Changes are gathered before the state is read, so that
// none is missed; one that the state includes already does no harm.
func (l *lessor) begin(ten *tenure) {
	l.changes.start()
	views, unreadable := l.n.state.Leases()
	for _, err := range unreadable {
		l.n.metrics.unreadable.Inc()
		l.n.logger.Error("a run cannot be read; its lease is not judged", "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.judge.Restart(views)
	l.ten, l.last = ten, time.Now()
	l.sound = soundness{}
}

func (l *lessor) end() {
	l.changes.stop()
	l.mu.Lock()
	l.ten = nil
	l.judge.Restart(nil)
	l.mu.Unlock()
	l.answered.Notify()
}

// rests reports whether there is nothing to judge. Then no time is counted, and nobody is asked for
// its soundness, until something changes.
func (l *lessor) rests() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle.Store(true) // before looking: a change that is not seen here sends a token
	l.take()
	if l.judge.Len() > 0 {
		l.idle.Store(false)
	}
	return l.idle.Load()
}

// take tells the judge of the time since the last probe and of what was applied; l.mu is held. Time
// beyond maxStep is not going to count, and time in which there was nothing to judge is nobody's.
func (l *lessor) take() {
	if l.judge.Len() == 0 {
		l.last = time.Now()
	}
	l.judge.Passed(min(time.Since(l.last), l.maxStep))
	l.judge.Changed(l.changes.take())
}

// step is one tick: it probes, counts the time up to now, and proposes what is due.
func (l *lessor) step(ten *tenure) {
	err := l.probe()
	l.mu.Lock()
	now := time.Now()
	elapsed := now.Sub(l.last)
	sound := l.sound.judge(l.n, now, err == nil && elapsed <= l.maxStep && l.n.tenure.Load() == ten, l.maxStep)
	// What was applied up to here was applied before now: it is told before the time moves, so
	// that its terms begin no earlier than they did.
	l.take()
	l.judge.Advance(elapsed, sound)
	l.last = now
	l.mu.Unlock()
	if !sound {
		l.n.metrics.leaseGap.Add(elapsed.Seconds())
	}
	if l.sound.settled() {
		l.propose(ten, l.judge.Due)
	}
}

// hurry proposes what is due whatever the time.
func (l *lessor) hurry(ten *tenure) {
	l.mu.Lock()
	l.take()
	l.mu.Unlock()
	l.propose(ten, l.judge.DueAnyway)
}

// probe asks a quorum whether this node still leads. It fails on a node that was cut off, and
// comes late on one whose raft waits for its disk.
func (l *lessor) probe() error {
	ctx, cancel := context.WithTimeout(context.Background(), l.maxStep)
	defer cancel()
	_, err := l.n.verified.await(ctx)
	return err
}

// applied is what the state machine calls with what an entry of a term changed.
func (l *lessor) applied(term uint64, views []leaseView) {
	l.report(term, views)
	if l.changes.add(views) && (l.idle.Load() || slices.ContainsFunc(views, urgent)) {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// urgent reports whether there may be a verdict that no time has to pass for.
func urgent(v leaseView) bool {
	return v.CancelRequested && !v.Ended && v.State != event.LeaseStateHeld
}

// turnedAway hears the hosts whose appends were not admitted on this node.
func (l *lessor) turnedAway(commands ...[]byte) {
	if l.n.tenure.Load() == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.take()
	for _, c := range commands {
		if run, epoch, ok := event.AppendTarget(c); ok {
			l.judge.Heard(run, epoch)
		}
	}
}
