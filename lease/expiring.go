package lease

import (
	"time"

	"github.com/runlog/runlog/event"
)

// Expiring is a run whose lease is live and ends soon.
type Expiring struct {
	Run   event.RunID
	Epoch event.Epoch
	Left  time.Duration
}

// Expiring returns the runs whose leases are live and end within the given time, in no order.
func (l *Lessor) Expiring(within time.Duration) []Expiring {
	var soon []Expiring
	for n, it := range l.items {
		if n.lock || it.leaseEnd > l.start()+within {
			continue
		}
		if left, ok := l.Remaining(n.id); ok && left <= within {
			soon = append(soon, Expiring{n.id, it.epoch, left})
		}
	}
	return soon
}
