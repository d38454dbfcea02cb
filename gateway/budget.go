package gateway

import (
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// budget bounds the bytes that requests of one sort hold together while their readers take them. It
// is never waited for: a slow reader would hold up the others.
type budget struct {
	size int64
	left *semaphore.Weighted
	held atomic.Int64
}

// Budgets of a gateway.
const (
	// answersBytes is for projections and for the snapshots that joining clients get.
	answersBytes = 128 << 20
	// piecesBytes is for the pieces of runs that tails are writing.
	piecesBytes = 64 << 20
)

func newBudget(size int64) *budget { return &budget{size: size, left: semaphore.NewWeighted(size)} }

// take takes n bytes, to be given back by free; false: too much is held already. Who asks for more than
// there is gets it when nobody else has anything.
func (b *budget) take(n int) (free func(), ok bool) {
	weight := min(int64(n), b.size)
	if !b.left.TryAcquire(weight) {
		return nil, false
	}
	b.held.Add(weight)
	return func() {
		b.held.Add(-weight)
		b.left.Release(weight)
	}, true
}
