package lease

import (
	"container/heap"
	"errors"
	"time"

	"github.com/runlog/runlog/event"
)

// Config configures a [Lessor]. The zero value is useful.
type Config struct {
	// MinTerm is what every lease and window gets at least at a new leader: holders must find the new
	// leader before they can renew. Default 2 s.
	MinTerm time.Duration
}

// ErrJudged answers a renewal of a lease about which a verdict is under way: ask again once it is
// answered.
var ErrJudged = errors.New("a verdict about the lease is under way")

// Lessor judges the leases of one leader's tenure. Its methods never wait; it is not safe for
// concurrent use.
type Lessor struct {
	cfg   Config
	now   time.Duration // only ever grows, by sound time
	ahead time.Duration // has passed since, and is not judged yet
	items map[name]*item
	queue queue
}

// name names a run or a lock.
type name struct {
	id   event.RunID
	lock bool
}

// New returns a Lessor that knows no leases. Restart tells it of them.
func New(cfg Config) *Lessor {
	if cfg.MinTerm <= 0 {
		cfg.MinTerm = 2 * time.Second
	}
	return &Lessor{cfg: cfg, items: make(map[name]*item)}
}

// Restart begins a tenure: views are all runs and locks there is something to judge about. Each
// lease, window and pending cancel gets a full term from now on, Config.MinTerm at least, since
// nobody knows how much of it was used under the leader before.
func (l *Lessor) Restart(views []event.LeaseView) {
	clear(l.items)
	l.queue = l.queue[:0]
	l.ahead = 0
	for i := range views {
		v := &views[i]
		if v.Ended {
			continue
		}
		it := newItem(v, l.start(), l.cfg.MinTerm)
		l.items[it.name] = it
		l.schedule(it)
	}
}

// Advance lets elapsed pass, all that passed since Advance or Restart. sound says that every renewal
// sent meanwhile could have been received and confirmed; if not, no deadline comes nearer.
func (l *Lessor) Advance(elapsed time.Duration, sound bool) {
	l.ahead = 0
	if sound && elapsed > 0 {
		l.now += elapsed
	}
}

// Passed says how much time has passed since Advance or Restart and is not judged yet: terms that
// begin now begin after it.
func (l *Lessor) Passed(d time.Duration) { l.ahead = max(d, 0) }

// start is when a term begins that begins now.
func (l *Lessor) start() time.Duration { return l.now + l.ahead }

// Changed takes in what was applied, in the order of the log. Of several views of one run the last
// may stand for all.
func (l *Lessor) Changed(views []event.LeaseView) {
	for i := range views {
		v := &views[i]
		n := name{v.Run, v.Lock}
		it := l.items[n]
		switch {
		case v.Ended && it != nil:
			l.unschedule(it)
			delete(l.items, n)
			continue
		case v.Ended:
			continue
		case it == nil:
			it = newItem(v, l.start(), 0)
			l.items[n] = it
		default:
			it.change(v, l.start())
		}
		l.schedule(it)
	}
}

// Renewal is the answer to a renewal.
type Renewal struct {
	// Left is how long the lease lasts from now.
	Left time.Duration
	// CancelRequested tells the holder to end the run.
	CancelRequested bool
	// Write says that the renewal holds only once a [event.ReviveLease] was applied: the lease
	// had lapsed, or is to last longer than the log says, which a new leader would not know.
	Write bool
}

// Renew extends a run's lease to leaseMs from now; 0: the run's own term. The errors are
// [event.ErrRunNotFound] (nothing is judged about such a run: it ended, was never leased, or does not
// exist), *[event.Fenced] (another epoch, or a lease that was given up) and [ErrJudged].
func (l *Lessor) Renew(run event.RunID, epoch event.Epoch, leaseMs int64) (Renewal, error) {
	return l.renew(name{id: run}, epoch, leaseMs)
}

// RenewLock is Renew for a lock. Locks that have lapsed are not revived.
func (l *Lessor) RenewLock(lock event.LockName, epoch event.Epoch, leaseMs int64) (Renewal, error) {
	return l.renew(name{event.RunID(lock), true}, epoch, leaseMs)
}

func (l *Lessor) renew(n name, epoch event.Epoch, leaseMs int64) (Renewal, error) {
	it := l.items[n]
	switch {
	case it == nil:
		return Renewal{}, event.ErrRunNotFound
	case it.epoch != epoch || !it.renewable():
		return Renewal{}, &event.Fenced{Epoch: epoch, CurrentEpoch: it.epoch}
	case it.pending:
		return Renewal{}, ErrJudged
	}
	left := it.renew(leaseMs, l.start())
	l.schedule(it)
	return Renewal{
		Left: left, CancelRequested: it.cancel,
		Write: it.state != event.LeaseStateHeld || leaseMs > it.leaseMs,
	}, nil
}

// Heard takes note of a sign of life from the holder of an epoch that is no renewal, because it
// could not be carried out: its lease, or the window of one that lapsed, lasts another term.
func (l *Lessor) Heard(run event.RunID, epoch event.Epoch) {
	if it := l.items[name{id: run}]; it != nil && it.epoch == epoch && it.renewable() {
		it.heard(l.start())
	}
}

// Remaining returns how long the run's lease lasts from now; false: it has no live lease.
func (l *Lessor) Remaining(run event.RunID) (time.Duration, bool) {
	it := l.items[name{id: run}]
	if it == nil || it.state != event.LeaseStateHeld {
		return 0, false
	}
	return max(it.leaseEnd-l.start(), 0), true
}

// RemainingLock is Remaining for a lock.
func (l *Lessor) RemainingLock(lock event.LockName) (time.Duration, bool) {
	it := l.items[name{event.RunID(lock), true}]
	if it == nil || it.state != event.LeaseStateHeld {
		return 0, false
	}
	return max(it.leaseEnd-l.start(), 0), true
}

// Due returns at most limit verdicts that are due now, earliest first: [event.LapseLease],
// [event.ExpireRun], [event.EnforceCancel] and [event.LapseLock]. MaxBytes is left to the caller.
// A verdict is returned once, until Answered says what became of it.
func (l *Lessor) Due(limit int) []event.Command { return l.due(limit, l.now) }

// DueAnyway is Due for verdicts that no time has to pass for, sound or not: a cancel of a run that
// nobody holds.
func (l *Lessor) DueAnyway(limit int) []event.Command { return l.due(limit, 0) }

// due returns verdicts whose time is not after now.
func (l *Lessor) due(limit int, now time.Duration) []event.Command {
	var due []event.Command
	for len(due) < limit && len(l.queue) > 0 && l.queue[0].key <= now {
		it := l.queue[0]
		verdict, at, ok := it.judge()
		at = max(at, it.notBefore)
		switch {
		case !ok:
			heap.Pop(&l.queue)
		case at > now: // renewed since it was queued
			it.key = at
			heap.Fix(&l.queue, 0)
		default:
			heap.Pop(&l.queue)
			it.pending = true
			due = append(due, it.command(verdict))
		}
	}
	return due
}

// Answered says that a verdict is no longer under way. What it changed comes through Changed, which
// must be told first; if nothing changed, the verdict is due again after the given time.
func (l *Lessor) Answered(verdict event.Command, again time.Duration) {
	it := l.items[nameOf(verdict)]
	if it == nil || !it.pending {
		return
	}
	it.pending = false
	if !it.changed {
		it.notBefore = l.now + again
	}
	it.changed = false
	l.schedule(it)
}

// Len returns how many runs and locks are known.
func (l *Lessor) Len() int { return len(l.items) }

// Pending reports whether a verdict about the run is under way.
func (l *Lessor) Pending(run event.RunID) bool {
	it := l.items[name{id: run}]
	return it != nil && it.pending
}
