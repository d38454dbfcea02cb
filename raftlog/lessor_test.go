package raftlog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/fsm"
)

// leasing is a cluster of real state machines in virtual time.
type leasing struct {
	*cluster
	t        *testing.T
	machines map[string]*fsm.Machine
	faults   map[string]*faultyLog
	bad      atomic.Pointer[event.RunID]   // cannot be read when it is to be ended
	stuck    atomic.Pointer[chan struct{}] // the leader's machine waits for it, if set
}

// faulty is a machine that a test can make hang, or unable to say what the end of one run would write.
type faulty struct {
	*fsm.Machine
	l  *leasing
	id string
}

func (d faulty) ApplyBatch(logs []*raft.Log) []any {
	if stuck := d.l.stuck.Load(); stuck != nil && d.l.lead().id == d.id {
		<-*stuck
	}
	return d.Machine.ApplyBatch(logs)
}

func (d faulty) ClosingBytes(ctx context.Context, id event.RunID, s event.Status) (uint64, error) {
	if bad := d.l.bad.Load(); bad != nil && *bad == id {
		return 0, fsm.ErrDamaged
	}
	return d.Machine.ClosingBytes(ctx, id, s)
}

// withLeases runs f on a fresh cluster in virtual time.
func withLeases(t *testing.T, f func(t *testing.T, l *leasing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &leasing{t: t, machines: map[string]*fsm.Machine{}, faults: map[string]*faultyLog{}}
		l.cluster = newCluster(t, func(id string, c *Config) {
			m, err := fsm.Open(fsm.Config{InMemory: true, Fatal: func(err error) { t.Errorf("%s: %v", id, err) }})
			if err != nil {
				t.Fatal(err)
			}
			fault := &faultyLog{hang: make(chan struct{})}
			l.machines[id], l.faults[id] = m, fault
			c.State = faulty{m, l, id}
			c.WrapLogStore = func(s raft.LogStore) raft.LogStore { fault.LogStore = s; return fault }
			c.LogStore = LogStoreBolt
		})
		defer l.close()
		l.leader()
		f(t, l)
	})
}

func (l *leasing) lead() *testNode { return l.nodes[l.leader()] }

func (l *leasing) propose(c event.Command) event.Result {
	l.t.Helper()
	r, err := l.lead().Propose(l.t.Context(), c)
	if err != nil {
		l.t.Fatalf("%T: %v", c, err)
	}
	return r
}

func (l *leasing) must(c event.Command) event.Result {
	l.t.Helper()
	r := l.propose(c)
	if r.Refusal != nil {
		l.t.Fatalf("%T: %v", c, r.Refusal)
	}
	return r
}

func parsed(t testing.TB, raw string) event.Event {
	t.Helper()
	e, err := event.ParseEvent([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// create starts a run held by "h" for leaseMs.
func (l *leasing) create(id event.RunID, leaseMs, takeoverMs int64) {
	l.t.Helper()
	started := parsed(l.t, `{"type":"RUN_STARTED"}`)
	l.must(event.CreateRun{
		Run: id, Thread: event.ThreadID(id), Started: &started, Holder: "h", LeaseMs: leaseMs,
		TakeoverMs: &takeoverMs, Grammar: event.GrammarStrict,
	})
}

func (l *leasing) append(id event.RunID, epoch event.Epoch) event.Result {
	l.t.Helper()
	a := &event.Append{Batch: event.Batch{Run: id, Epoch: &epoch, Events: []event.Event{parsed(l.t, `{"type":"CUSTOM","name":"n","value":1}`)}}}
	return l.propose(a)
}

// run reads a run on the leader, with everything committed.
func (l *leasing) run(id event.RunID) event.Run {
	l.t.Helper()
	n := l.lead()
	if err := n.ReadIndex(l.t.Context()); err != nil {
		l.t.Fatal(err)
	}
	r, err := l.machines[n.id].Run(l.t.Context(), id)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

// until waits until the run is as asked for, and returns how long that took.
func (l *leasing) until(id event.RunID, bound time.Duration, is func(event.Run) bool) time.Duration {
	l.t.Helper()
	began := time.Now()
	for time.Since(began) < bound {
		if is(l.run(id)) {
			return time.Since(began)
		}
		time.Sleep(5 * time.Millisecond)
	}
	l.t.Fatalf("run %s is still %+v after %v", id, l.run(id), bound)
	return 0
}

func ended(r event.Run) bool { return r.Ended }
func inState(s event.LeaseState) func(event.Run) bool {
	return func(r event.Run) bool { return r.Lease.State == s }
}

func (l *leasing) renewOne(n *testNode, r Renewal) (RenewResult, error) {
	results, err := n.Renew(l.t.Context(), []Renewal{r})
	if err != nil {
		return RenewResult{}, err
	}
	return results[0], nil
}

// host renews a run every third of its lease, through one node after the other, until stop is called.
func (l *leasing) host(id event.RunID, leaseMs int64) (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			attempt, give := context.WithTimeout(ctx, time.Duration(leaseMs)*time.Millisecond/10)
			_, err := l.nodes[i%3].Renew(attempt, []Renewal{{Run: id, Epoch: 1}})
			give()
			if err != nil {
				continue // at once, with the next node
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(leaseMs) * time.Millisecond / 3):
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

func counted(c prometheus.Counter) float64 {
	var m dto.Metric
	if err := c.Write(&m); err != nil {
		panic(err)
	}
	return m.GetCounter().GetValue()
}

func (l *leasing) endedBy(reason string) (n float64) {
	synctest.Wait() // for the leader to have taken the answer
	for _, node := range l.nodes {
		if node.Node != nil {
			n += counted(node.metrics.ended[reason])
		}
	}
	return n
}

// R2_1, R2_6, R2_12: a run whose host is gone ends within lease + window + 1 s, once, with one log
// line and one count.
func TestLostHostsRunEnds(t *testing.T) {
	for _, c := range []struct{ lease, window int64 }{{1500, 0}, {1000, 0}, {1500, 3000}, {10_000, 0}} {
		t.Run(fmt.Sprintf("lease=%d,window=%d", c.lease, c.window), func(t *testing.T) {
			withLeases(t, func(t *testing.T, l *leasing) {
				l.create("r", c.lease, c.window)
				stop := l.host("r", c.lease)
				time.Sleep(time.Minute)
				if r := l.run("r"); r.Ended || r.Lease.State != event.LeaseStateHeld || r.Tail != 1 {
					t.Fatalf("renewed for a minute: %+v", r)
				}
				stop()
				if _, err := l.renewOne(l.nodes[0], Renewal{Run: "r", Epoch: 1}); err != nil {
					t.Fatal(err)
				}
				term := time.Duration(c.lease+c.window) * time.Millisecond
				took := l.until("r", time.Minute, ended)
				if took < term-20*time.Millisecond || took > term+500*time.Millisecond {
					t.Errorf("ended after %v, lease and window are %v", took, term)
				}
				if r := l.run("r"); r.Status != event.StatusLost || r.Error.Code != event.CodeHostLost || r.Tail != 2 {
					t.Errorf("%+v", r)
				}
				time.Sleep(time.Minute)
				if r := l.run("r"); r.Tail != 2 || l.endedBy(endedLost) != 1 {
					t.Errorf("tail %d, %v ends", r.Tail, l.endedBy(endedLost))
				}
				l.logs.mu.Lock()
				defer l.logs.mu.Unlock()
				if n := strings.Count(l.logs.b.String(), `msg="run ended by the cluster"`); n != 1 {
					t.Errorf("%d log lines", n)
				}
			})
		})
	}
}

// R2_13: neither transfers nor deaths of leaders end a run that is renewed.
func TestLeaderChangesEndNoRenewedRun(t *testing.T) {
	withLeases(t, func(t *testing.T, l *leasing) {
		l.create("r", 1500, 0)
		stop := l.host("r", 1500)
		for i := range 12 {
			at := l.leader()
			switch i % 3 {
			case 0:
				if err := l.nodes[at].TransferLeadership(t.Context()); err != nil {
					t.Log(err)
				}
			case 1:
				addr := raft.ServerAddress(l.nodes[at].id)
				l.fabric.Isolate(addr)
				time.Sleep(4 * time.Second)
				l.fabric.Heal(addr)
			case 2:
				// Hosts hold nodes by index, so the node is not replaced under their feet.
				addr := raft.ServerAddress(l.nodes[at].id)
				l.fabric.Isolate(addr)
				time.Sleep(700 * time.Millisecond)
				l.fabric.Heal(addr)
			}
			time.Sleep(3 * time.Second)
			if r := l.run("r"); r.Ended || r.Epoch != 1 {
				t.Fatalf("after change %d: %+v", i, r)
			}
		}
		stop()
		l.until("r", 10*time.Second, ended)
	})
}

// R2_13: a full restart gives every lease a full term, of at least 2 s.
func TestRestartOfAllNodesGivesAFullTerm(t *testing.T) {
	withLeases(t, func(t *testing.T, l *leasing) {
		l.create("r", 1000, 0)
		for i := range l.nodes {
			l.stop(i)
		}
		time.Sleep(20 * time.Second)
		for i := range l.nodes {
			l.start(i)
		}
		l.leader()
		began := time.Now()
		time.Sleep(1900 * time.Millisecond)
		if r := l.run("r"); r.Ended {
			t.Fatalf("ended %v after the new leader began: %+v", time.Since(began), r)
		}
		l.until("r", time.Second, ended)
	})
}

// R2_2: a stalled disk, a late loop or refused proposals are no proof that a host is dead.
func TestStallsEndNoRun(t *testing.T) {
	for name, stall := range map[string]func(l *leasing){
		"the leader's disk hangs": func(l *leasing) {
			f := l.faults[l.lead().id]
			f.hanging.Store(true)
			go l.lead().Propose(l.t.Context(), appendOf("x", `{"type":"RUN_STARTED"}`))
			time.Sleep(2500 * time.Millisecond)
			f.hanging.Store(false)
			close(f.hang)
		},
		"the followers' disks hang": func(l *leasing) {
			lead := l.lead()
			var hung []*faultyLog
			for id, f := range l.faults {
				if id != lead.id {
					f.hanging.Store(true)
					hung = append(hung, f)
				}
			}
			go lead.Propose(l.t.Context(), appendOf("x", `{"type":"RUN_STARTED"}`))
			time.Sleep(2500 * time.Millisecond)
			for _, f := range hung {
				f.hanging.Store(false)
				close(f.hang)
			}
		},
		"the leader's state machine hangs": func(l *leasing) {
			gate := make(chan struct{})
			l.stuck.Store(&gate)
			go l.lead().Propose(l.t.Context(), appendOf("x", `{"type":"RUN_STARTED"}`))
			time.Sleep(2500 * time.Millisecond)
			l.stuck.Store(nil)
			close(gate)
		},
		"the loop comes late": func(l *leasing) {
			s := l.lead().lessor
			s.mu.Lock()
			s.last = s.last.Add(-time.Hour)
			s.mu.Unlock()
			time.Sleep(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withLeases(t, func(t *testing.T, l *leasing) {
				l.create("r", 1500, 0)
				time.Sleep(400 * time.Millisecond)
				// Nobody renews: what the stall does not count must not end the run either.
				stall(l)
				if r := l.run("r"); r.Ended {
					t.Fatalf("%+v", r)
				}
				time.Sleep(100 * time.Millisecond)
				if r := l.append("r", 1); r.Refusal != nil {
					t.Fatalf("after the stall: %v", r.Refusal)
				}
				l.until("r", 5*time.Second, ended)
			})
		})
	}
}

// A leader that was cut off neither confirms renewals nor ends runs, and what the majority decided stays.
func TestDeposedLeaderConfirmsNothing(t *testing.T) {
	withLeases(t, func(t *testing.T, l *leasing) {
		l.create("r", 1500, 60_000)
		old := l.lead()
		ten := old.tenure.Load()
		l.fabric.Isolate(raft.ServerAddress(old.id))
		for range 40 {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			if got, err := old.lessor.renew(ctx, ten, []Renewal{{Run: "r", Epoch: 1}}); err == nil {
				t.Fatalf("confirmed %+v", got)
			}
			cancel()
		}
		if _, ok := old.LeaseRemaining("r"); ok {
			t.Error("a deposed leader knows what remains of a lease")
		}
		l.leader()
		l.until("r", 10*time.Second, inState(event.LeaseStateLapsed))
		if r := l.must(event.AcquireLease{Run: "r", Holder: "g", LeaseMs: 60_000}); r.Run.Epoch != 2 {
			t.Fatalf("%+v", r.Run)
		}
		l.fabric.Heal(raft.ServerAddress(old.id))
		time.Sleep(2 * time.Second)
		if got, err := l.renewOne(old, Renewal{Run: "r", Epoch: 1}); err != nil || !errors.Is(got.Refusal, event.ErrFenced) {
			t.Errorf("the old epoch: %+v, %v", got, err)
		}
		if r := l.append("r", 1); !errors.Is(r.Refusal, event.ErrFenced) {
			t.Errorf("the old epoch writes: %+v", r)
		}
	})
}

func TestTakeoverAndStealFence(t *testing.T) {
	withLeases(t, func(t *testing.T, l *leasing) {
		l.create("r", 1500, 5000)
		if r := l.propose(event.AcquireLease{Run: "r", Holder: "g", LeaseMs: 1500}); !errors.Is(r.Refusal, event.ErrLeaseHeld) {
			t.Fatalf("a live lease: %+v", r)
		}
		one := event.Epoch(1)
		steal := event.AcquireLease{Run: "r", Holder: "g", LeaseMs: 1500, IfEpoch: &one, Steal: true}
		if r := l.must(steal); r.Run.Epoch != 2 {
			t.Fatalf("%+v", r.Run)
		}
		if r := l.propose(steal); !errors.Is(r.Refusal, event.ErrFenced) {
			t.Fatalf("a delayed steal: %+v", r)
		}
		l.until("r", 3*time.Second, inState(event.LeaseStateLapsed))
		if r := l.append("r", 2); r.Refusal != nil {
			t.Fatalf("the lapsed holder: %v", r.Refusal)
		}
		if r := l.run("r"); r.Lease.State != event.LeaseStateHeld {
			t.Fatalf("revived: %+v", r.Lease)
		}
		l.until("r", 3*time.Second, inState(event.LeaseStateLapsed))
		l.must(event.AcquireLease{Run: "r", Holder: "h", LeaseMs: 1500})
		for _, old := range []event.Epoch{1, 2} {
			if r := l.append("r", old); !errors.Is(r.Refusal, event.ErrFenced) {
				t.Errorf("epoch %d writes: %+v", old, r)
			}
			for _, n := range l.nodes {
				if got, err := l.renewOne(n, Renewal{Run: "r", Epoch: old}); err != nil || !errors.Is(got.Refusal, event.ErrFenced) {
					t.Errorf("epoch %d renews through %s: %+v, %v", old, n.id, got, err)
				}
			}
		}
	})
}

// A renewal revives a lapsed lease, and one for longer than the log says outlives the leader.
func TestRenewalsThatAreWritten(t *testing.T) {
	withLeases(t, func(t *testing.T, l *leasing) {
		l.create("r", 1000, 5000)
		l.until("r", 3*time.Second, inState(event.LeaseStateLapsed))
		f := l.nodes[l.follower()]
		if got, err := l.renewOne(f, Renewal{Run: "r", Epoch: 1}); err != nil || got.Refusal != nil || got.ExpiresInMs != 1000 {
			t.Fatalf("lapsed: %+v, %v", got, err)
		}
		if r := l.run("r"); r.Lease.State != event.LeaseStateHeld || r.Epoch != 1 {
			t.Fatalf("%+v", r.Lease)
		}
		applied := l.lead().Status().Applied
		if got, err := l.renewOne(f, Renewal{Run: "r", Epoch: 1}); err != nil || got.Refusal != nil {
			t.Fatalf("held: %+v, %v", got, err)
		}
		if now := l.lead().Status().Applied; now != applied {
			t.Errorf("a renewal of a live lease wrote entries %d to %d", applied+1, now)
		}
		if got, err := l.renewOne(f, Renewal{Run: "r", Epoch: 1, LeaseMs: 30_000}); err != nil || got.ExpiresInMs != 30_000 {
			t.Fatalf("longer: %+v, %v", got, err)
		}
		if err := l.lead().TransferLeadership(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Second)
		if r := l.run("r"); r.Lease.State != event.LeaseStateHeld || r.Lease.LeaseMs != 30_000 {
			t.Fatalf("%+v", r.Lease)
		}
		if left, ok := l.lead().LeaseRemaining("r"); !ok || left <= 0 || left > 30*time.Second {
			t.Errorf("%v remains (%v)", left, ok)
		}
		if _, ok := l.nodes[l.follower()].LeaseRemaining("r"); ok {
			t.Error("a follower knows what remains")
		}
	})
}

func TestRefusedRenewals(t *testing.T) {
	withLeases(t, func(t *testing.T, l *leasing) {
		l.create("ended", 1000, 0)
		l.until("ended", 5*time.Second, ended)
		l.create("released", 1000, 0)
		l.must(event.ReleaseLease{Run: "released", Epoch: 1})
		l.create("r", 60_000, 0)
		for _, n := range l.nodes {
			got, err := n.Renew(t.Context(), []Renewal{
				{Run: "ended", Epoch: 1}, {Run: "nobody", Epoch: 1}, {Run: "r", Epoch: 2}, {Run: "released", Epoch: 1},
				{Run: "r", Epoch: 1}, {Run: "r", Lock: true, Epoch: 1},
			})
			if err != nil || len(got) != 6 {
				t.Fatal(got, err)
			}
			for i, want := range []error{event.ErrRunEnded, event.ErrRunNotFound, event.ErrFenced, event.ErrFenced, nil, event.ErrFenced} {
				if (want == nil) != (got[i].Refusal == nil) || want != nil && !errors.Is(got[i].Refusal, want) {
					t.Errorf("%s: renewal %d: %+v, want %v", n.id, i, got[i], want)
				}
			}
			var fenced *event.Fenced
			if !errors.As(got[2].Refusal, &fenced) || fenced.CurrentEpoch != 1 {
				t.Errorf("%s: %+v", n.id, got[2].Refusal)
			}
		}
	})
}

// A cancel is seen by the holder, and enforced when nobody answers it, even while the host goes on writing.
func TestCancelIsSeenAndEnforced(t *testing.T) {
	withLeases(t, func(t *testing.T, l *leasing) {
		l.create("r", 1500, 0)
		stop := l.host("r", 1500)
		defer stop()
		l.must(event.CancelRun{Run: "r", WithinMs: 3000})
		began := time.Now()
		if got, err := l.renewOne(l.nodes[1], Renewal{Run: "r", Epoch: 1}); err != nil || !got.CancelRequested {
			t.Fatalf("%+v, %v", got, err)
		}
		writes := 0
		for time.Since(began) < 10*time.Second && l.append("r", 1).Refusal == nil {
			writes++
			time.Sleep(10 * time.Millisecond)
		}
		took := time.Since(began)
		if r := l.run("r"); r.Status != event.StatusCancelled || took < 2900*time.Millisecond || took > 4*time.Second {
			t.Errorf("after %v and %d writes: %+v", took, writes, r)
		}
		if l.endedBy(endedCancelled) != 1 {
			t.Errorf("%v ends counted", l.endedBy(endedCancelled))
		}
	})
}

func TestCancelWithoutALiveLeaseEndsAtOnce(t *testing.T) {
	withLeases(t, func(t *testing.T, l *leasing) {
		l.create("r", 1000, 60_000)
		l.until("r", 3*time.Second, inState(event.LeaseStateLapsed))
		l.must(event.CancelRun{Run: "r", WithinMs: 600_000})
		if took := l.until("r", 5*time.Second, ended); took > 500*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// R2_5: a run that cannot be read keeps no other from ending.
func TestUnreadableRunBlocksNoOther(t *testing.T) {
	withLeases(t, func(t *testing.T, l *leasing) {
		bad := event.RunID("bad")
		l.bad.Store(&bad)
		l.create("bad", 1000, 0)
		l.create("good", 1200, 0)
		if took := l.until("good", 5*time.Second, ended); took > 2*time.Second {
			t.Errorf("took %v", took)
		}
		if l.run("bad").Ended || counted(l.lead().metrics.unreadable) != 1 {
			t.Error("the unreadable run is not reported")
		}
		l.bad.Store(nil)
		l.until("bad", time.Minute, ended)
	})
}

func TestLocksLapse(t *testing.T) {
	withLeases(t, func(t *testing.T, l *leasing) {
		first := l.must(event.AcquireLock{Name: "k", Holder: "h", LeaseMs: 1000})
		for range 10 {
			time.Sleep(500 * time.Millisecond)
			got, err := l.renewOne(l.nodes[l.follower()], Renewal{Run: "k", Lock: true, Epoch: first.LockEpoch})
			if err != nil || got.Refusal != nil {
				t.Fatalf("%+v, %v", got, err)
			}
		}
		if r := l.propose(event.AcquireLock{Name: "k", Holder: "g", LeaseMs: 1000}); !errors.Is(r.Refusal, event.ErrLeaseHeld) {
			t.Fatalf("%+v", r)
		}
		if left, ok := l.lead().LockRemaining("k"); !ok || left <= 0 || left > time.Second {
			t.Errorf("%v remains (%v)", left, ok)
		}
		time.Sleep(1200 * time.Millisecond)
		second := l.must(event.AcquireLock{Name: "k", Holder: "g", LeaseMs: 1000})
		if second.LockEpoch <= first.LockEpoch {
			t.Errorf("epochs %d, %d", first.LockEpoch, second.LockEpoch)
		}
	})
}

// The leases of a fleet that died at once all end, and in between the leader stays sound.
func TestFleetDies(t *testing.T) {
	withLeases(t, func(t *testing.T, l *leasing) {
		const n = 1000
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { l.create(event.RunID(fmt.Sprintf("r%d", i)), 2000, 0) })
		}
		wg.Wait()
		time.Sleep(4 * time.Second)
		if got := l.endedBy(endedLost); got != n {
			t.Errorf("%v of %d ended", got, n)
		}
	})
}
