package lease

import "container/heap"

// queue is a heap of the items about which a verdict will come, by key. A renewal only moves its
// item's deadline away, so the queue is not touched by it: Due finds the true deadline when the key
// comes up. That makes a renewal cost a map lookup, however many leases there are.
type queue []*item

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].key < q[j].key }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	it := x.(*item)
	it.index = len(*q)
	*q = append(*q, it)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	it := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	it.index = -1
	return it
}

// schedule makes the queue fit an item whose deadlines changed.
func (l *Lessor) schedule(it *item) {
	_, at, ok := it.judge()
	at = max(at, it.notBefore)
	switch {
	case !ok:
		l.unschedule(it)
	case it.index < 0:
		it.key = at
		heap.Push(&l.queue, it)
	case at < it.key:
		it.key = at
		heap.Fix(&l.queue, it.index)
	}
}

func (l *Lessor) unschedule(it *item) {
	if it.index >= 0 {
		heap.Remove(&l.queue, it.index)
	}
}
