package proptest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/internal/testcluster"
	"github.com/runlog/runlog/raftlog"
)

// stall is a disk that can be made to hang.
type stall struct {
	mu    sync.Mutex
	until time.Time
}

func (s *stall) hang(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(d)
}

type stalling struct {
	raft.LogStore
	s *stall
}

// StoreLogs waits while the disk hangs.
func (l stalling) StoreLogs(logs []*raft.Log) error {
	l.s.mu.Lock()
	wait := time.Until(l.s.until)
	l.s.mu.Unlock()
	time.Sleep(wait)
	return l.LogStore.StoreLogs(logs)
}

// weather is what is done to the nodes, and the record of it.
type weather struct {
	c      *testcluster.Cluster
	stalls map[string]*stall

	mu      sync.Mutex
	leaders []time.Time // when each new leader was first seen
	faults  []fault
}

type fault struct{ from, to time.Time }

func newWeather() *weather {
	return &weather{stalls: map[string]*stall{"n1": {}, "n2": {}, "n3": {}}}
}

// adjust gives a node a disk that can hang.
func (w *weather) adjust(cfg *raftlog.Config) {
	s := w.stalls[cfg.NodeID]
	cfg.LogStore = raftlog.LogStoreBolt
	cfg.WrapLogStore = func(l raft.LogStore) raft.LogStore { return stalling{l, s} }
}

// blow does one thing after the other to the nodes until ctx ends.
func (w *weather) blow(ctx context.Context, rnd *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rnd.IntN(15_000)) * time.Millisecond)
		i := rnd.IntN(3)
		d := time.Duration(rnd.IntN(3000)) * time.Millisecond
		kind := rnd.IntN(4)
		now := time.Now()
		w.mu.Lock()
		w.faults = append(w.faults, fault{now, now.Add(d)})
		w.mu.Unlock()
		switch kind {
		case 0:
			w.c.Isolate(i)
			time.Sleep(d)
			w.c.Heal(i)
		case 1:
			w.c.Stop(i)
			time.Sleep(d)
			w.c.Open(i)
		case 2:
			_ = w.c.Node(i).TransferLeadership(ctx)
		case 3:
			w.stalls[fmt.Sprintf("n%d", i+1)].hang(d)
		}
	}
}

// observe records new leaders until ctx ends.
func (w *weather) observe(ctx context.Context) {
	for term := uint64(0); ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		for i := range 3 {
			n := w.c.Node(i)
			if n == nil {
				continue
			}
			if t := n.State.LeaderTerm(); t > term {
				term = t
				w.mu.Lock()
				w.leaders = append(w.leaders, time.Now())
				w.mu.Unlock()
			}
		}
	}
}

// bound is how much later than from, up to to, a lease may have lapsed whose host was gone at from:
// each leader gives it a full term, and no time counts during faults.
func (w *weather) bound(from, to time.Time, lease time.Duration) (d time.Duration, leaders int) {
	const slack = 3 * time.Second // an election, a client's way to another node, the verdict
	w.mu.Lock()
	defer w.mu.Unlock()
	d = lease + slack
	for _, at := range w.leaders {
		if at.After(from) && !at.After(to) {
			d += lease + slack
			leaders++
		}
	}
	for _, f := range w.faults {
		if f.to.After(from) && f.from.Before(to) {
			d += f.to.Sub(f.from) + slack
		}
	}
	return d, leaders
}
