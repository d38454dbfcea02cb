package raftlog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// history is what one writer was told about its events.
type history struct {
	acked   []string
	unknown map[string]bool
	refused map[string]bool
}

// Whatever happens to nodes and links, an acknowledged event is in the log exactly once, an event of
// unknown outcome at most once, a refused or unavailable one never; all nodes hold the same; and a
// linearizable read sees everything acknowledged before it.
func TestNothingIsLostOrDoubled(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			store := []string{LogStoreWAL, LogStoreBolt}[seed%2]
			inBubble(t, func(_ string, c *Config) {
				c.LogStore, c.SnapshotBytes, c.TrailingBytes = store, 20<<10, 1
				c.HoldFor = 3 * time.Second
			}, func(t *testing.T, c *cluster) { runChaos(t, c, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func runChaos(t *testing.T, c *cluster, rnd *rand.Rand) {
	ctx, cancel := context.WithCancel(t.Context())
	nodes := &running{c: c}
	var wg sync.WaitGroup
	histories := make([]history, 6)
	for w := range histories {
		seed := rnd.Uint64()
		wg.Go(func() { histories[w] = write(ctx, t, nodes, w, rand.New(rand.NewPCG(seed, 2))) })
	}
	for range 12 {
		time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
		i := rnd.IntN(3)
		addr := raft.ServerAddress(c.nodes[i].id)
		switch rnd.IntN(4) {
		case 0: // cut off
			c.fabric.Isolate(addr)
			time.Sleep(time.Duration(rnd.IntN(4000)) * time.Millisecond)
			c.fabric.Heal(addr)
		case 1, 2: // die and come back
			nodes.restart(t, i)
		case 3:
			_ = c.nodes[i].TransferLeadership(ctx)
		}
	}
	cancel()
	wg.Wait()
	c.leader()
	if _, err := c.nodes[0].Propose(t.Context(), producing(appendOf("end", `{}`), "end", 0)); err != nil {
		t.Fatalf("after all: %v", err)
	}
	c.settle()
	for w, h := range histories {
		checkHistory(t, c, event.RunID(fmt.Sprintf("run-%d", w)), h)
	}
}

// running hands out the nodes while they come and go. Its lock is never held while virtual time must pass.
type running struct {
	mu sync.Mutex
	c  *cluster
}

func (r *running) get(i int) (*Node, *fakeState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.c.nodes[i].Node, r.c.nodes[i].fake
}

// restart takes node i from its peers, closes it under those who use it, and opens it again.
func (r *running) restart(t *testing.T, i int) {
	n, _ := r.get(i)
	addr := raft.ServerAddress(r.c.nodes[i].id)
	r.c.fabric.Isolate(addr)
	if err := n.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	r.c.fabric.Heal(addr)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.c.start(i)
}

// write appends to a run of its own through random nodes, in one of the ways an append can be
// repeated or not.
func write(ctx context.Context, t *testing.T, nodes *running, w int, rnd *rand.Rand) history {
	h := history{unknown: map[string]bool{}, refused: map[string]bool{}}
	run := event.RunID(fmt.Sprintf("run-%d", w))
	for seq := 0; ctx.Err() == nil; seq++ {
		raw := fmt.Sprintf(`{"w":%d,"seq":%d}`, w, seq)
		a := appendOf(run, raw)
		switch w % 3 {
		case 0:
			producing(a, "p", uint64(seq))
		case 1:
			expecting(a, event.Offset(len(h.acked)+len(h.unknown)))
		}
		n, state := nodes.get(rnd.IntN(3))
		r, err := n.Propose(context.Background(), a)
		var read error = errors.New("not tried")
		if err == nil && rnd.IntN(5) == 0 {
			read = n.ReadIndex(context.Background())
		}
		if read == nil && state.Applied() < r.Index {
			t.Errorf("a read index led to entry %d, before the acknowledged %d", state.Applied(), r.Index)
		}
		switch {
		case err == nil && r.Refusal == nil:
			h.acked = append(h.acked, raw)
		case errors.Is(err, ErrOutcomeUnknown):
			h.unknown[raw] = true
			if w%3 == 1 {
				return h // it does not know where its run ends
			}
		case err == nil, errors.Is(err, ErrUnavailable), errors.Is(err, ErrClosed):
			h.refused[raw] = true
		default:
			t.Errorf("writer %d: %v", w, err)
		}
		time.Sleep(time.Duration(rnd.IntN(200)) * time.Millisecond)
	}
	return h
}

func checkHistory(t *testing.T, c *cluster, run event.RunID, h history) {
	t.Helper()
	got := c.nodes[0].fake.raws(run)
	for _, n := range c.nodes[1:] {
		if !slices.Equal(n.fake.raws(run), got) {
			t.Errorf("%s: %s holds something else than n1", run, n.id)
		}
	}
	count := map[string]int{}
	for _, raw := range got {
		count[raw]++
		if h.refused[raw] {
			t.Errorf("%s: %s was not to be written", run, raw)
		}
		if count[raw] > 1 {
			t.Errorf("%s: %s is there %d times", run, raw, count[raw])
		}
	}
	for _, raw := range h.acked {
		if count[raw] != 1 {
			t.Errorf("%s: acknowledged %s is there %d times", run, raw, count[raw])
		}
	}
	if len(h.acked) == 0 {
		t.Errorf("%s: nothing was acknowledged", run)
	}
	t.Logf("%s: %d acknowledged, %d unknown, %d not written", run, len(h.acked), len(h.unknown), len(h.refused))
}
