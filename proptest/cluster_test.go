package proptest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/internal/testcluster"
	"github.com/runlog/runlog/raftlog"
)

var schedules = flag.Int("schedules", 8, "how many fault schedules each cluster law goes through")

// TestClusterKeepsItsPromises: three whole nodes on disk, in virtual time, while nodes are cut off,
// die and come back. Promise 5: what was acknowledged is there once, what was not is there at
// most once. Promise 2: a reader of any node gets every event once, in order. And all nodes end in
// the same state.
func TestClusterKeepsItsPromises(t *testing.T) {
	for seed := range uint64(*schedules) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := testcluster.Start(t, func(cfg *raftlog.Config) {
					cfg.SnapshotBytes, cfg.TrailingBytes = 20<<10, 1 // so that a node that was away needs a snapshot
				})
				defer c.Close()
				runSchedule(t, c, rand.New(rand.NewPCG(seed, 7)))
			})
		})
	}
}

const writers = 4

func runSchedule(t *testing.T, c *testcluster.Cluster, rnd *rand.Rand) {
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	logs := make([]writeLog, writers)
	for w := range logs {
		seed := rnd.Uint64()
		wg.Go(func() { logs[w] = write(ctx, c, runOf(w), rand.New(rand.NewPCG(seed, 1))) })
	}
	followed := make([][]string, 2*writers)
	done, readers := context.WithCancel(t.Context())
	var rg sync.WaitGroup
	for r := range followed {
		seed := rnd.Uint64()
		rg.Go(func() { followed[r] = follow(done, c, runOf(r%writers), rand.New(rand.NewPCG(seed, 2))) })
	}
	for range 8 {
		time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
		i := rnd.IntN(3)
		switch rnd.IntN(3) {
		case 0:
			c.Isolate(i)
			time.Sleep(time.Duration(rnd.IntN(4000)) * time.Millisecond)
			c.Heal(i)
		case 1:
			c.Stop(i)
			time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
			c.Open(i)
		case 2:
			_ = c.Node(i).TransferLeadership(ctx)
		}
	}
	stop()
	wg.Wait()
	end(t, c, logs)
	rg.Wait()
	readers()
	for w, log := range logs {
		checkWritten(t, c, runOf(w), log)
	}
	for r, got := range followed {
		want := stored(t, c, 0, runOf(r%writers))
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("reader %d: %d events, want %d:\n%v\n%v", r, len(got), len(want), got, want)
		}
	}
	checkSameState(t, c)
}

func runOf(w int) event.RunID { return event.RunID(fmt.Sprint("run-", w)) }

// writeLog is what a writer was told.
type writeLog struct {
	acked   []string
	unknown []string
	next    uint64 // producer sequence number
}

// write appends one event after the other, through any node, until ctx ends. An event whose outcome
// is unknown or that nobody took is sent again with the same sequence number, as a client does.
func write(ctx context.Context, c *testcluster.Cluster, run event.RunID, rnd *rand.Rand) (log writeLog) {
	for i := 0; ctx.Err() == nil; i++ {
		raw := fmt.Sprintf(`{"type":"CUSTOM","name":"n","value":%d}`, i)
		if i == 0 {
			raw = `{"type":"RUN_STARTED"}`
		}
		for {
			ok, known := propose(c, run, log.next, raw, rnd)
			if ok {
				log.acked = append(log.acked, raw)
				break
			}
			if ctx.Err() != nil {
				if !known {
					log.unknown = append(log.unknown, raw)
				}
				return log
			}
		}
		log.next++
		time.Sleep(time.Duration(rnd.IntN(40)) * time.Millisecond)
	}
	return log
}

// propose sends one event to some node; known is false when it may have been written all the same.
func propose(c *testcluster.Cluster, run event.RunID, seq uint64, raw string, rnd *rand.Rand) (ok, known bool) {
	n := c.Node(rnd.IntN(3))
	if n == nil {
		time.Sleep(10 * time.Millisecond)
		return false, false // an earlier try may have been written
	}
	e, err := event.ParseEvent([]byte(raw))
	if err != nil {
		panic(err)
	}
	a := &event.Append{Batch: event.Batch{Run: run, Events: []event.Event{e}, Producer: &event.Producer{ID: "p", Seq: seq}}}
	a.BodyHash = event.HashBody(a.Events)
	res, err := n.Propose(context.Background(), a)
	if err != nil {
		time.Sleep(10 * time.Millisecond)
		return false, false
	}
	if res.Refusal != nil {
		panic(fmt.Sprintf("%s refused: %v", raw, res.Refusal))
	}
	return true, true
}

// follow reads a run from its first event to its end, changing nodes now and then.
func follow(ctx context.Context, c *testcluster.Cluster, run event.RunID, rnd *rand.Rand) (got []string) {
	for ctx.Err() == nil {
		n := c.Node(rnd.IntN(3))
		if n == nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		watch := n.State.Watch(run)
		page, err := n.State.Records(ctx, run, event.Offset(len(got)), 1+rnd.IntN(20), 1<<20)
		if err == nil {
			for _, r := range page.Records {
				got = append(got, string(r.Raw))
			}
			if page.Ended && len(got) == int(page.Tail) {
				watch.Close()
				return got
			}
		}
		if err != nil || len(page.Records) == 0 {
			select {
			case <-watch.C():
			case <-time.After(time.Duration(rnd.IntN(500)) * time.Millisecond): // and on to another node
			}
		}
		watch.Close()
	}
	return got
}

// end finishes every run, which proves that the cluster works again.
func end(t *testing.T, c *testcluster.Cluster, logs []writeLog) {
	t.Helper()
	for w := range logs {
		log := &logs[w]
		for attempt := 0; len(log.unknown) > 0 || attempt == 0; attempt++ {
			raw := `{"type":"RUN_FINISHED"}`
			if len(log.unknown) > 0 {
				raw = log.unknown[0]
			}
			ok, _ := propose(c, runOf(w), log.next, raw, rand.New(rand.NewPCG(uint64(attempt), 9)))
			if attempt > 100 {
				t.Fatalf("run %d cannot be ended", w)
			}
			if !ok {
				continue
			}
			log.acked = append(log.acked, raw)
			log.next++
			if len(log.unknown) > 0 {
				log.unknown = nil
				attempt = -1
			}
		}
	}
}

func stored(t *testing.T, c *testcluster.Cluster, i int, run event.RunID) (raws []string) {
	t.Helper()
	for {
		page, err := c.Node(i).State.Records(t.Context(), run, event.Offset(len(raws)), 1000, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Records) == 0 {
			return raws
		}
		for _, r := range page.Records {
			raws = append(raws, string(r.Raw))
		}
	}
}

func checkWritten(t *testing.T, c *testcluster.Cluster, run event.RunID, log writeLog) {
	t.Helper()
	if err := c.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if got := stored(t, c, i, run); fmt.Sprint(got) != fmt.Sprint(log.acked) {
			t.Errorf("n%d holds of %s:\n%v\nacknowledged:\n%v", i+1, run, got, log.acked)
		}
	}
}

func checkSameState(t *testing.T, c *testcluster.Cluster) {
	t.Helper()
	type sums struct{ index, hash, digest uint64 }
	var all [3]sums
	for i := range all {
		s := c.Node(i).State
		digest, err := s.Digest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all[i].index, all[i].hash = s.StateHash()
		all[i].digest = digest
	}
	if all[0] != all[1] || all[1] != all[2] {
		t.Errorf("the nodes differ: %x", all)
	}
}
