package raftlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// inBubble runs f on a fresh cluster in virtual time.
func inBubble(t *testing.T, adjust func(string, *Config), f func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, adjust)
		defer c.close()
		c.leader()
		f(t, c)
	})
}

func expecting(a *event.Append, at event.Offset) *event.Append {
	a.Expect = &at
	return a
}

func producing(a *event.Append, id event.ProducerID, seq uint64) *event.Append {
	a.Producer = &event.Producer{ID: id, Seq: seq}
	return a
}

func TestProposalIsHeldThroughAnElection(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		f := c.follower()
		c.kill(c.leader())
		began := time.Now()
		r, err := c.nodes[f].Propose(t.Context(), producing(appendOf("r", `{"a":1}`), "p", 0))
		if err != nil || r.Appended.Tail != 1 {
			t.Fatalf("after %v: %+v, %v", time.Since(began), r, err)
		}
		if waited := time.Since(began); waited > 5*time.Second {
			t.Errorf("held for %v", waited)
		}
	})
}

// stopAnswers makes the leader lose contact with everybody right after it committed an event that
// holds mark, and never apply it.
func stopAnswers(c *cluster, mark string) (release func()) {
	l := c.leader()
	gate := make(chan struct{})
	var once sync.Once
	before := func(e event.Entry) {
		for _, cmd := range e.Commands {
			if a, ok := cmd.(*event.Append); ok && string(a.Events[0].Raw) == mark {
				once.Do(func() { c.fabric.Isolate(raft.ServerAddress(c.nodes[l].id)) })
				<-gate
			}
		}
	}
	c.nodes[l].fake.beforeApply.Store(&before)
	return sync.OnceFunc(func() { close(gate) })
}

func TestLeaderLostBetweenCommitAndAnswer(t *testing.T) {
	const mark = `{"mark":1}`
	for _, via := range []string{"follower", "leader"} {
		for name, c := range map[string]struct {
			cmd  event.Command
			want event.Appended
			err  error
		}{
			"nothing to repeat by": {appendOf("r", mark), event.Appended{}, ErrOutcomeUnknown},
			"producer":             {producing(appendOf("r", mark), "p", 0), event.Appended{Tail: 1, Duplicate: true}, nil},
			"expected offset":      {expecting(appendOf("r", mark), 0), event.Appended{Tail: 1, Duplicate: true}, nil},
		} {
			t.Run(name+" via "+via, func(t *testing.T) {
				inBubble(t, nil, func(t *testing.T, cl *cluster) {
					node := cl.nodes[cl.leader()]
					if via == "follower" {
						node = cl.nodes[cl.follower()]
					}
					old := cl.leader()
					release := stopAnswers(cl, mark)
					defer release()
					// What was proposed through the cut-off leader itself is answered once it is back.
					time.AfterFunc(4*time.Second, func() {
						release()
						cl.fabric.Heal(raft.ServerAddress(cl.nodes[old].id))
					})
					r, err := node.Propose(t.Context(), c.cmd)
					if via == "leader" && err == nil && c.err != nil {
						// Its entry was committed, and the old leader applied it after all.
						c.err, c.want = nil, event.Appended{Tail: 1}
					}
					if via == "leader" {
						r.Appended.Duplicate, c.want.Duplicate = false, false
					}
					if !errors.Is(err, c.err) || r.Appended != c.want {
						t.Fatalf("%+v, %v; want %+v, %v", r, err, c.want, c.err)
					}
					time.Sleep(10 * time.Second)
					cl.settle()
					for _, n := range cl.nodes {
						if got := n.fake.raws("r"); !slices.Equal(got, []string{mark}) {
							t.Errorf("%s holds %q", n.id, got)
						}
					}
				})
			})
		}
	}
}

func TestRefusalOfARepeatIsOursOnlyIfTheEventsAre(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		n := c.nodes[0].Node
		for _, raw := range []string{`{"a":1}`, `{"b":2}`} {
			if _, err := n.Propose(t.Context(), appendOf("r", raw)); err != nil {
				t.Fatal(err)
			}
		}
		c.settle() // node 0 may be a follower that has yet to apply them
		settle := func(a *event.Append) (event.Result, error) {
			h := hold{n: n, cmd: a, doubt: true}
			return h.settle(t.Context(), event.Result{Index: n.state.Applied(), Refusal: &event.OffsetConflict{Expected: *a.Expect, Tail: 2}})
		}
		if r, err := settle(expecting(appendOf("r", `{"a":1}`, `{"b":2}`), 0)); err != nil || r.Refusal != nil || r.Appended.Tail != 2 {
			t.Errorf("ours: %+v, %v", r, err)
		}
		for name, a := range map[string]*event.Append{
			"other event":   expecting(appendOf("r", `{"a":1}`, `{"b":3}`), 0),
			"reaches past":  expecting(appendOf("r", `{"b":2}`, `{"c":3}`), 1),
			"past the tail": expecting(appendOf("r", `{"c":3}`), 5),
		} {
			if r, err := settle(a); err != nil || !errors.Is(r.Refusal, event.ErrOffsetConflict) {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
	})
}

func TestSettle(t *testing.T) {
	t.Parallel()
	key := event.HashKey("create", "k")
	plain, produced := appendOf("r", `{}`), producing(appendOf("r", `{}`), "p", 1)
	for name, c := range map[string]struct {
		cmd     event.Command
		answer  event.Result
		unknown bool
	}{
		"created":                     {event.CreateRun{Run: "r"}, event.Result{Created: true}, false},
		"exists, perhaps ours":        {event.CreateRun{Run: "r"}, event.Result{}, true},
		"exists by key":               {event.CreateRun{Run: "r", Key: key}, event.Result{}, false},
		"busy, perhaps with ours":     {event.CreateRun{Run: "r", Key: key}, event.Result{Refusal: &event.ThreadBusy{}}, true},
		"deleted":                     {event.DeleteRun{Run: "r"}, event.Result{Refusal: &event.RunDeleted{}}, false},
		"not found":                   {plain, event.Result{Refusal: &event.RunNotFound{}}, false},
		"fenced since":                {produced, event.Result{Refusal: &event.Fenced{}}, true},
		"run deleted since":           {produced, event.Result{Refusal: &event.RunDeleted{}}, true},
		"ended, and not a duplicate":  {produced, event.Result{Refusal: &event.RunEnded{}}, false},
		"a later sequence is missing": {produced, event.Result{Refusal: &event.ProducerGap{}}, false},
	} {
		h := hold{cmd: c.cmd, doubt: true}
		_, err := h.settle(context.Background(), c.answer)
		if errors.Is(err, ErrOutcomeUnknown) != c.unknown || (!c.unknown && err != nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRepeatable(t *testing.T) {
	t.Parallel()
	key := event.HashKey("create", "k")
	for name, c := range map[string]struct {
		cmd  event.Command
		want bool
	}{
		"append":                    {appendOf("r", `{}`), false},
		"append, producer":          {producing(appendOf("r", `{}`), "p", 0), true},
		"append, expected offset":   {expecting(appendOf("r", `{}`), 3), true},
		"empty append":              {expecting(appendOf("r"), 3), false},
		"creation":                  {event.CreateRun{Run: "r"}, true},
		"acquisition":               {event.CreateRun{Run: "r", Holder: "h"}, false},
		"acquisition with key":      {event.CreateRun{Run: "r", Holder: "h", Key: key}, true},
		"metadata patch":            {event.PatchRun{Run: "r"}, false},
		"deletion":                  {event.DeleteRun{Run: "r"}, true},
		"a leader's start is never": {event.LeaderStart{}, false},
	} {
		if got := repeatable(c.cmd); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestNoLeader(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		l, f := c.leader(), c.follower()
		for i, n := range c.nodes {
			if i != f {
				c.fabric.Isolate(raft.ServerAddress(n.id))
			}
		}
		// The old leader sends it into its log and cannot know what becomes of it.
		if _, err := c.nodes[l].Propose(t.Context(), appendOf("r", `{"l":1}`)); !errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("through the old leader: %v", err)
		}
		time.Sleep(5 * time.Second)
		began := time.Now()
		for i, n := range c.nodes {
			if _, err := n.Propose(t.Context(), appendOf("r", `{"f":1}`)); !errors.Is(err, ErrUnavailable) {
				t.Errorf("through node %d: %v", i, err)
			}
		}
		if waited := time.Since(began); waited < 30*time.Second || waited > 31*time.Second {
			t.Errorf("three proposals were held for %v", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.nodes[f].Propose(ctx, appendOf("r", `{"f":1}`)); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a deadline: %v", err)
		}
		for _, n := range c.nodes {
			c.fabric.Heal(raft.ServerAddress(n.id))
		}
	})
}

func TestReadIndex(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		l, f := c.leader(), c.follower()
		for i := range 20 {
			r, err := c.nodes[l].Propose(t.Context(), appendOf("r", `{"a":1}`))
			if err != nil {
				t.Fatal(err)
			}
			if err := c.nodes[f].ReadIndex(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := len(c.nodes[f].fake.raws("r")); got != i+1 || c.nodes[f].fake.Applied() < r.Index {
				t.Fatalf("after a read index the follower holds %d events, not %d", got, i+1)
			}
		}
		// Cut off, the old leader still believes it leads for a while; it must not vouch for that.
		c.fabric.Isolate(raft.ServerAddress(c.nodes[l].id))
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if err := c.nodes[l].ReadIndex(ctx); !errors.Is(err, ErrUnavailable) {
					t.Errorf("the cut-off leader answered %v", err)
				}
			})
		}
		if err := c.nodes[f].ReadIndex(t.Context()); err != nil {
			t.Errorf("the majority answered %v", err)
		}
		wg.Wait()
		c.fabric.Heal(raft.ServerAddress(c.nodes[l].id))
		if err := c.nodes[l].ReadIndex(t.Context()); err != nil {
			t.Errorf("healed: %v", err)
		}
	})
}

func TestOverload(t *testing.T) {
	inBubble(t, func(_ string, c *Config) { c.MaxPending = 8 }, func(t *testing.T, c *cluster) {
		l := c.leader()
		gate := make(chan struct{})
		blocked := func(event.Entry) { <-gate }
		c.nodes[l].fake.beforeApply.Store(&blocked)
		var full, done atomic.Int32
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_, err := c.nodes[l].Propose(t.Context(), appendOf("r", fmt.Sprintf(`{"i":%d}`, i)))
				switch {
				case errors.Is(err, ErrOverloaded):
					full.Add(1)
				case err == nil:
					done.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if full.Load() != 12 || done.Load() != 0 {
			t.Errorf("%d refused, %d done, while 8 may wait", full.Load(), done.Load())
		}
		close(gate)
		wg.Wait()
		if got := len(c.nodes[l].fake.raws("r")); done.Load() != 8 || got != 8 {
			t.Errorf("%d done, %d written", done.Load(), got)
		}
	})
}

func TestCancelledBeforeItIsSent(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		n := c.nodes[c.leader()]
		gate := make(chan struct{})
		blocked := func(event.Entry) { <-gate }
		n.fake.beforeApply.Store(&blocked)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var unavailable, unknown atomic.Int32
		for i := range depth + 3 {
			wg.Go(func() {
				_, err := n.Propose(ctx, appendOf("r", fmt.Sprintf(`{"i":%d}`, i)))
				switch {
				case errors.Is(err, ErrUnavailable):
					unavailable.Add(1)
				case errors.Is(err, ErrOutcomeUnknown):
					unknown.Add(1)
				}
			})
			synctest.Wait() // one group each, as long as there are slots
		}
		cancel()
		wg.Wait()
		if unavailable.Load() != 3 || unknown.Load() != depth {
			t.Errorf("%d unavailable, %d unknown", unavailable.Load(), unknown.Load())
		}
		close(gate)
		if _, err := n.Propose(t.Context(), appendOf("r", `{"last":1}`)); err != nil {
			t.Fatal(err)
		}
		if got := n.fake.raws("r"); len(got) != depth+1 {
			t.Errorf("what was called off is there: %q", got)
		}
	})
}

func TestCloseAnswersWhatWaits(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		for _, n := range c.nodes {
			c.fabric.Isolate(raft.ServerAddress(n.id))
		}
		time.Sleep(5 * time.Second)
		n := c.nodes[0]
		errs := make(chan error, 2)
		go func() {
			_, err := n.Propose(t.Context(), appendOf("r", `{}`))
			errs <- err
		}()
		go func() { errs <- n.ReadIndex(t.Context()) }()
		synctest.Wait()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := n.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for range 2 {
			if err := <-errs; !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrClosed) {
				t.Errorf("closing answered %v", err)
			}
		}
		if _, err := n.Propose(t.Context(), appendOf("r", `{}`)); !errors.Is(err, ErrClosed) {
			t.Errorf("closed, Propose answered %v", err)
		}
		n.Node = nil
	})
}

func TestTransferLosesNothing(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		acked := make([]int, len(c.nodes))
		for i, n := range c.nodes {
			wg.Go(func() {
				for ctx.Err() == nil {
					r, err := n.Propose(t.Context(), producing(appendOf("r", fmt.Sprintf(`{"n":%d,"k":%d}`, i, acked[i])), event.ProducerID(n.id), uint64(acked[i])))
					if err != nil || r.Refusal != nil {
						t.Errorf("%s: %+v, %v", n.id, r, err)
						return
					}
					acked[i]++
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		for i := range 6 {
			before := c.leader()
			if err := c.nodes[i%3].TransferLeadership(t.Context()); err != nil {
				t.Errorf("transfer: %v", err)
			}
			time.Sleep(300 * time.Millisecond)
			if after := c.leader(); after == before {
				t.Errorf("%s still leads", c.nodes[before].id)
			}
		}
		cancel()
		wg.Wait()
		if got, want := len(c.nodes[c.leader()].fake.raws("r")), acked[0]+acked[1]+acked[2]; got != want {
			t.Errorf("%d events for %d acknowledged", got, want)
		}
	})
}
