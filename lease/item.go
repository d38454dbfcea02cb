package lease

import (
	"fmt"
	"time"

	"github.com/runlog/runlog/event"
)

// item is one run or lock. Times are the Lessor's.
type item struct {
	name
	epoch    event.Epoch
	tail     event.Offset
	leaseMs  int64 // as the log has it
	state    event.LeaseState
	windowMs *int64
	cancel   bool
	withinMs int64

	leaseEnd  time.Duration // counts while the lease is held
	windowEnd time.Duration // counts while it is not, and windowMs is not nil
	cancelEnd time.Duration // counts while cancel is set

	// pending: a verdict is under way. changed: something was applied meanwhile.
	pending, changed bool
	notBefore        time.Duration // of the next verdict
	key              time.Duration // position in the queue; never later than what is due first
	index            int           // in the queue; -1: not in it
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// newItem returns an item whose terms begin at now and last least at least.
func newItem(v *event.LeaseView, now, least time.Duration) *item {
	it := &item{name: name{v.Run, v.Lock}, index: -1}
	it.set(v)
	it.leaseEnd = now + max(ms(it.leaseMs), least)
	if it.windowMs != nil {
		it.windowEnd = now + max(ms(*it.windowMs), least)
	}
	if it.cancel {
		it.cancelEnd = now + max(ms(it.withinMs), least)
	}
	return it
}

func (it *item) set(v *event.LeaseView) {
	it.epoch, it.tail, it.leaseMs, it.state, it.windowMs = v.Epoch, v.Tail, v.LeaseMs, v.State, v.TakeoverMs
	it.cancel, it.withinMs = v.CancelRequested, v.CancelWithinMs
}

// change takes in the item's new view.
func (it *item) change(v *event.LeaseView, now time.Duration) {
	was := *it
	it.set(v)
	it.changed, it.notBefore = it.pending, 0
	held := it.state == event.LeaseStateHeld
	switch fresh := it.epoch != was.epoch || it.state != was.state; {
	case held && (fresh || it.leaseMs != was.leaseMs):
		it.leaseEnd = now + ms(it.leaseMs)
	case held && v.Renewed:
		it.leaseEnd = max(it.leaseEnd, now+ms(it.leaseMs))
	case !held && it.windowMs != nil && (fresh || was.windowMs == nil || *was.windowMs != *it.windowMs):
		it.windowEnd = now + ms(*it.windowMs)
	}
	if it.cancel && (!was.cancel || it.withinMs != was.withinMs) {
		it.cancelEnd = now + ms(it.withinMs)
	}
}

// renewable reports whether the holder of the present epoch may renew: it holds the lease, or held
// it until it lapsed. One who gave it up may not.
func (it *item) renewable() bool {
	return it.state == event.LeaseStateHeld || (it.state == event.LeaseStateLapsed && !it.lock)
}

// renew extends the lease and returns its length. A lapsed one stays lapsed until the log says
// otherwise; until then its window lasts as long as the lease is going to.
func (it *item) renew(leaseMs int64, now time.Duration) time.Duration {
	term := ms(leaseMs)
	if leaseMs == 0 {
		term = ms(it.leaseMs)
	}
	if it.state == event.LeaseStateHeld {
		it.leaseEnd = now + term
	} else {
		it.windowEnd = max(it.windowEnd, now+term)
	}
	return term
}

// heard makes the lease, or the window, last another term at least.
func (it *item) heard(now time.Duration) {
	end := &it.leaseEnd
	if it.state != event.LeaseStateHeld {
		end = &it.windowEnd
	}
	*end = max(*end, now+ms(it.leaseMs))
}

// judge returns the verdict that comes next, and when; false: none ever does as things stand.
func (it *item) judge() (verdict event.Kind, at time.Duration, ok bool) {
	held := it.state == event.LeaseStateHeld
	switch {
	case it.pending:
		return 0, 0, false
	case it.lock:
		return event.KindLapseLock, it.leaseEnd, held
	case it.cancel && held:
		return event.KindEnforceCancel, min(it.leaseEnd, it.cancelEnd), true
	case it.cancel: // nobody is there to answer
		return event.KindEnforceCancel, 0, true
	case held && it.windowMs != nil && *it.windowMs == 0:
		return event.KindExpireRun, it.leaseEnd, true
	case held:
		return event.KindLapseLease, it.leaseEnd, true
	case it.windowMs == nil:
		return 0, 0, false
	}
	return event.KindExpireRun, it.windowEnd, true
}

// command returns the verdict with what it was judged by.
func (it *item) command(verdict event.Kind) event.Command {
	switch verdict {
	case event.KindLapseLock:
		return event.LapseLock{Name: event.LockName(it.id), Epoch: it.epoch}
	case event.KindLapseLease:
		return event.LapseLease{Run: it.id, Epoch: it.epoch, Tail: it.tail}
	case event.KindEnforceCancel:
		return event.EnforceCancel{Run: it.id, Epoch: it.epoch, Tail: it.tail}
	case event.KindExpireRun:
		return event.ExpireRun{Run: it.id, Epoch: it.epoch, Tail: it.tail}
	}
	panic(fmt.Sprintf("lease: kind %d is no verdict", verdict))
}

// nameOf returns whom a verdict is about.
func nameOf(verdict event.Command) name {
	switch c := verdict.(type) {
	case event.LapseLock:
		return name{event.RunID(c.Name), true}
	case event.LapseLease:
		return name{id: c.Run}
	case event.EnforceCancel:
		return name{id: c.Run}
	case event.ExpireRun:
		return name{id: c.Run}
	}
	panic(fmt.Sprintf("lease: %T is no verdict", verdict))
}
