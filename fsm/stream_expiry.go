package fsm

import (
	"container/heap"
	"time"

	"github.com/runlog/runlog/event"
)

// expiries orders the streams that end by themselves by when that may be, on the two clocks. A
// stream that was touched since is put back when its turn comes, so a touch costs nothing here.
type expiries struct {
	byUptime, byTime expiryHeap
}

type expiry struct {
	at   int64 // on the heap's clock
	sid  streamID
	name event.StreamName
}

// retryMs is after how long a stream that was reported overdue is reported again.
const retryMs = 1000

func (x *expiries) add(s *stream) {
	if s.ttlSeconds != nil {
		heap.Push(&x.byUptime, expiry{s.touched + s.ttlMs(), s.sid, s.name})
	}
	if s.expiresAt != nil {
		heap.Push(&x.byTime, expiry{int64(*s.expiresAt), s.sid, s.name})
	}
}

// Overdue returns at most limit commands that end streams which outlived their TTL or their time.
// The leader proposes them; Apply judges by its own clocks again. A stream whose command came to
// nothing is returned again a second later.
func (m *Machine) Overdue(limit int) []event.ExpireStream {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.store == nil {
		return nil
	}
	c := m.clocksNow()
	return append(m.overdue(&m.expiries.byUptime, c.uptime, c, limit), m.overdue(&m.expiries.byTime, int64(c.now), c, limit)...)
}

func (m *Machine) overdue(h *expiryHeap, now int64, c clocks, limit int) (due []event.ExpireStream) {
	for len(*h) > 0 && (*h)[0].at <= now && len(due) < limit {
		x := (*h)[0]
		s, err := m.findStream(x.name)
		switch {
		case err != nil || s.sid != x.sid || s.gone:
			heap.Pop(h) // deleted since; what is damaged shows when it is read
			continue
		case s.overdue(c):
			due = append(due, event.ExpireStream{Name: s.name, Generation: s.generation()})
			(*h)[0].at = now + retryMs
		default:
			(*h)[0].at = now + max(1, s.due(c))
		}
		heap.Fix(h, 0)
	}
	return due
}

// clocksNow estimates the log's clocks now: what the last entry said, and the time since. It is
// never ahead of the leader's, which stamped that entry before it came here. It needs mu.
func (m *Machine) clocksNow() clocks {
	c := m.active.meta.clocks()
	since := time.Since(m.appliedAt).Milliseconds()
	return clocks{c.now + event.Time(since), c.uptime + since}
}

type expiryHeap []expiry

func (h expiryHeap) Len() int           { return len(h) }
func (h expiryHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h expiryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *expiryHeap) Push(x any)        { *h = append(*h, x.(expiry)) }
func (h *expiryHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
