package raftlog

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// A cancel that no time has to pass for does not wait for the lessor's next look either, with other
// leases to judge or without any.
func TestCancelWithoutALiveLeaseIsPrompt(t *testing.T) {
	for name, prepare := range map[string]func(l *leasing){
		"lapsed": func(l *leasing) {
			l.create("r", 1000, 60_000)
			l.until("r", 3*time.Second, inState(event.LeaseStateLapsed))
		},
		"released": func(l *leasing) {
			l.create("r", 60_000, 60_000)
			l.must(event.ReleaseLease{Run: "r", Epoch: 1})
		},
		"never leased": func(l *leasing) {
			started := parsed(l.t, `{"type":"RUN_STARTED"}`)
			l.must(event.CreateRun{Run: "r", Thread: "r", Started: &started, Grammar: event.GrammarStrict})
			time.Sleep(time.Minute) // the lessor rests
		},
	} {
		t.Run(name, func(t *testing.T) {
			withLeases(t, func(t *testing.T, l *leasing) {
				if name != "never leased" {
					l.create("other", 600_000, 0)
				}
				prepare(l)
				n := l.lead()
				l.must(event.CancelRun{Run: "r", WithinMs: 600_000})
				began, watch := time.Now(), l.machines[n.id].Watch("r")
				defer watch.Close()
				for {
					changed := watch.C()
					if r, err := l.machines[n.id].Run(t.Context(), "r"); err != nil || r.Ended {
						if took := time.Since(began); took >= minTick { // in virtual time: commits, and no tick
							t.Errorf("took %v, %v", took, err)
						}
						return
					}
					<-changed
				}
			})
		})
	}
}

// R2_12 through a change of leaders: an end that is committed under the next leader, while the one
// that proposed it hears nothing, is counted once all the same.
func TestEndThroughALeaderChangeIsCountedOnce(t *testing.T) {
	withLeases(t, func(t *testing.T, l *leasing) {
		l.create("r", 600_000, 0)
		l.must(event.CancelRun{Run: "r", WithinMs: 600_000})
		old := l.lead()
		for id, f := range l.faults {
			if id != old.id {
				f.hanging.Store(true)
			}
		}
		end := event.AppendEntry(nil, event.Entry{Time: 1, Commands: []event.Command{event.EnforceCancel{Run: "r", Epoch: 1, MaxBytes: 1 << 10}}})
		future := old.raft.Apply(end, time.Second)
		time.Sleep(100 * time.Millisecond) // it is with the followers, whose disks hang
		l.fabric.Isolate(raft.ServerAddress(old.id))
		for id, f := range l.faults {
			if id != old.id {
				f.hanging.Store(false)
				close(f.hang)
			}
		}
		if err := future.Error(); err == nil {
			t.Fatal("the old leader heard of the commit")
		}
		l.until("r", 10*time.Second, ended)
		if n := l.endedBy(endedCancelled); n != 0 {
			t.Errorf("%v counted by a leader that did not propose it", n)
		}
		l.fabric.Heal(raft.ServerAddress(old.id))
		time.Sleep(5 * time.Second)
		if r := l.run("r"); l.endedBy(endedCancelled) != 1 || r.Tail != 2 {
			t.Errorf("%v counted, tail %d", l.endedBy(endedCancelled), r.Tail)
		}
	})
}

// However long appends are turned away: hosts that go on trying keep their runs, whichever node they
// ask, and the runs of hosts that are gone end.
func TestOverloadEndsTheDeadAlone(t *testing.T) {
	withLeases(t, func(t *testing.T, l *leasing) {
		lead, follower := l.lead(), l.nodes[l.follower()]
		l.create("dead", 1500, 0)
		l.create("alive", 1500, 0)
		l.create("elsewhere", 1500, 0)
		lead.admission.commands.Add(lead.admission.maxCommands)
		try := func(n *testNode, id event.RunID) {
			one := event.Epoch(1)
			a := appendOf(id, `{"type":"CUSTOM","name":"n"}`)
			a.Epoch = &one
			if _, err := n.Propose(t.Context(), a); !errors.Is(err, ErrOverloaded) {
				t.Fatalf("%s: %v", id, err)
			}
		}
		for range 60 {
			try(lead, "alive")
			try(follower, "elsewhere")
			time.Sleep(500 * time.Millisecond)
		}
		lead.admission.commands.Add(-lead.admission.maxCommands)
		if r := l.run("dead"); r.Status != event.StatusLost {
			t.Errorf("the dead host's run: %+v", r)
		}
		for _, id := range []event.RunID{"alive", "elsewhere"} {
			if r := l.run(id); r.Ended || l.append(id, 1).Refusal != nil {
				t.Errorf("%s: %+v", id, r)
			}
		}
	})
}

// Time in which there is nothing to judge is no gap, whoever looks first once there is.
func TestQuietTimeIsNoGap(t *testing.T) {
	withLeases(t, func(t *testing.T, l *leasing) {
		n := l.lead()
		time.Sleep(time.Minute)
		l.create("r", 1500, 60_000)
		if _, ok := n.LeaseRemaining("r"); !ok { // a handler may ask before the lessor's loop has woken
			t.Error("the lease is not known")
		}
		time.Sleep(5 * time.Second)
		if gap := counted(n.metrics.leaseGap); gap != 0 {
			t.Errorf("%v s of gaps", gap)
		}
	})
}
