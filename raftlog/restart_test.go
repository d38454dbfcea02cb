package raftlog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// big returns an event of about a kilobyte that no other call returns.
func big(i int) string { return fmt.Sprintf(`{"i":%d,"pad":"%s"}`, i, strings.Repeat("x", 1000)) }

func (c *cluster) proposeBig(t *testing.T, via, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if r, err := c.nodes[via].Propose(t.Context(), producing(appendOf("r", big(i)), "p", uint64(i))); err != nil || r.Refusal != nil {
			t.Fatalf("append %d: %+v, %v", i, r, err)
		}
	}
}

// holdsBig checks that all running nodes hold the first n big events.
func (c *cluster) holdsBig(t *testing.T, n int) {
	t.Helper()
	var want []string
	for i := range n {
		want = append(want, big(i))
	}
	for _, node := range c.nodes {
		if node.Node == nil {
			continue
		}
		if got := node.fake.raws("r"); !slices.Equal(got, want) {
			t.Errorf("%s holds %d events, not the %d", node.id, len(got), n)
		}
	}
}

func bothStores(t *testing.T, f func(t *testing.T, store string)) {
	for _, store := range []string{LogStoreWAL, LogStoreBolt} {
		t.Run(store, func(t *testing.T) { f(t, store) })
	}
}

// Nothing was flushed: the log alone brings everything back.
func TestRestartFromTheLog(t *testing.T) {
	bothStores(t, func(t *testing.T, store string) {
		inBubble(t, func(_ string, c *Config) { c.LogStore = store }, func(t *testing.T, c *cluster) {
			c.proposeBig(t, 0, 0, 50)
			cluster := c.nodes[0].Status().ClusterID
			for i := range c.nodes {
				c.kill(i)
			}
			for i := range c.nodes {
				c.start(i)
			}
			c.leader()
			c.proposeBig(t, 1, 50, 60)
			c.settle()
			c.holdsBig(t, 60)
			if again := c.nodes[2].Status().ClusterID; again != cluster {
				t.Errorf("cluster %s became %s", cluster, again)
			}
		})
	})
}

// Snapshots are taken by bytes of log, compact it, and a node restarts on what it flushed.
func TestSnapshotAndRestart(t *testing.T) {
	bothStores(t, func(t *testing.T, store string) {
		inBubble(t, func(_ string, c *Config) {
			c.LogStore, c.SnapshotBytes, c.TrailingBytes = store, 80<<10, 1
		}, func(t *testing.T, c *cluster) {
			c.proposeBig(t, 0, 0, 300)
			c.settle()
			time.Sleep(time.Second)
			for _, n := range c.nodes {
				m, err := n.snapshots.newest()
				if err != nil || m == nil || m.Kind != kindMarker {
					t.Fatalf("%s: newest snapshot %+v, %v", n.id, m, err)
				}
				if first, err := n.guard.FirstIndex(); err != nil || first == 1 {
					t.Errorf("%s: the log begins at %d, %v", n.id, first, err)
				}
			}
			for i := range c.nodes {
				c.kill(i)
			}
			for i := range c.nodes {
				c.start(i)
			}
			c.leader()
			c.proposeBig(t, 1, 300, 310)
			c.settle()
			c.holdsBig(t, 310)
			for _, n := range c.nodes {
				if n.fake.restores != 0 {
					t.Errorf("%s restored its own marker", n.id)
				}
			}
		})
	})
}

// compactedLog hides compacted entries, which raft-wal still returns until it drops their whole segment.
type compactedLog struct{ raft.LogStore }

func (c compactedLog) GetLog(index uint64, l *raft.Log) error {
	first, err := c.FirstIndex()
	if err != nil {
		return err
	}
	if index < first {
		return raft.ErrLogNotFound // raft compares with ==
	}
	return c.LogStore.GetLog(index, l)
}

func (c compactedLog) IsMonotonic() bool {
	m, ok := c.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// A follower that was away for longer than the log reaches gets the state, and keeps it.
func TestSnapshotInstall(t *testing.T) {
	bothStores(t, func(t *testing.T, store string) {
		inBubble(t, func(_ string, c *Config) {
			c.LogStore, c.SnapshotBytes, c.TrailingBytes = store, 80<<10, 1
			c.WrapLogStore = func(inner raft.LogStore) raft.LogStore { return compactedLog{inner} }
		}, func(t *testing.T, c *cluster) {
			away := c.follower()
			via := c.leader()
			c.proposeBig(t, via, 0, 20)
			c.settle()
			c.kill(away)
			c.proposeBig(t, via, 20, 320)
			lead := c.nodes[c.leader()]
			if first, err := lead.guard.FirstIndex(); err != nil || first < 50 {
				t.Fatalf("the leader's log begins at %d, %v", first, err)
			}
			c.start(away)
			c.settle()
			c.holdsBig(t, 320)
			if got := c.nodes[away].fake.restores; got != 1 {
				t.Errorf("restored %d times", got)
			}
			m, err := c.nodes[away].snapshots.newest()
			if err != nil || m.Kind != kindMarker || m.Restored < m.Index {
				t.Errorf("after the restore: %+v, %v", m, err)
			}
			c.proposeBig(t, via, 320, 330)
			c.settle()
			c.kill(away)
			c.start(away)
			c.settle()
			c.holdsBig(t, 330)
			if got := c.nodes[away].fake.restores; got != 0 {
				t.Errorf("restored %d times after the restart", got)
			}
		})
	})
}

// The process dies after it received the state and before the restore was recorded.
func TestCrashBeforeRestoreIsRecorded(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		c.proposeBig(t, 0, 0, 30)
		c.settle()
		image := c.nodes[0].fake.encode()
		applied := c.nodes[0].fake.Applied()
		away := c.follower()
		c.kill(away)
		n := c.nodes[away]
		s := testSnapshots(t, c.dir+"/"+n.id+"/raft/snapshots")
		conf := raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "n1"}, {ID: "n2", Address: "n2"}, {ID: "n3", Address: "n3"}}}
		k, err := s.Create(raft.SnapshotVersionMax, applied, c.nodes[c.leader()].Status().Term, conf, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.Write(image); err != nil {
			t.Fatal(err)
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		c.start(away)
		if n.fake.restores != 1 {
			t.Errorf("restored %d times", n.fake.restores)
		}
		c.proposeBig(t, c.leader(), 30, 40)
		c.settle()
		c.holdsBig(t, 40)
	})
}

func TestRefusesToStartOnARolledBackLog(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		c.proposeBig(t, 0, 0, 30)
		c.settle()
		f := c.follower()
		c.nodes[f].fake.flush()
		last, err := c.nodes[f].guard.LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		c.kill(f)
		n := c.nodes[f]
		st, err := openStores(c.dir+"/"+n.id+"/raft", LogStoreWAL, newHCLog(testSnapshots(t, t.TempDir()).logger))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(st.log.DeleteRange(last-5, last), st.Close()); err != nil {
			t.Fatal(err)
		}
		_, err = Open(Config{
			NodeID: n.id, Dir: c.dir + "/" + n.id, State: openFake(n.disk), Network: c.fabric.Join(raft.ServerAddress(n.id)), Fatal: func(error) {},
		})
		if err == nil || !strings.Contains(err.Error(), "the log was lost") {
			t.Errorf("opened: %v", err)
		}
	})
}

// A store that fails or hangs stops its node, and the others go on.
func TestFailStop(t *testing.T) {
	for _, hang := range []bool{false, true} {
		t.Run(fmt.Sprintf("hang=%v", hang), func(t *testing.T) {
			faults := map[string]*faultyLog{}
			inBubble(t, func(id string, c *Config) {
				c.WrapLogStore = func(inner raft.LogStore) raft.LogStore {
					faults[id] = &faultyLog{LogStore: inner, hang: make(chan struct{})}
					return faults[id]
				}
			}, func(t *testing.T, c *cluster) {
				l := c.leader()
				if hang {
					faults[c.nodes[l].id].hanging.Store(true)
				} else {
					faults[c.nodes[l].id].failing.Store(true)
				}
				f := c.follower()
				began := time.Now()
				answer := make(chan error, 1)
				go func() {
					_, err := c.nodes[f].Propose(t.Context(), producing(appendOf("r", `{"a":1}`), "p", 0))
					answer <- err
				}()
				err := <-c.nodes[l].fatal
				if waited := time.Since(began); err == nil || waited > 6*time.Second {
					t.Errorf("stopped with %v after %v", err, waited)
				}
				if ch := c.nodes[l].Ready()[3]; ch.OK {
					t.Errorf("ready: %+v", ch)
				}
				c.fabric.Isolate(raft.ServerAddress(c.nodes[l].id)) // the process exits
				if err := <-answer; err != nil {
					t.Errorf("held through the fail-stop: %v", err)
				}
				faults[c.nodes[l].id].hanging.Store(false)
				close(faults[c.nodes[l].id].hang)
				c.stop(l)
				c.fabric.Heal(raft.ServerAddress(c.nodes[l].id))
				if _, err := c.nodes[f].Propose(t.Context(), appendOf("r", `{"a":2}`)); err != nil {
					t.Error(err)
				}
				c.settle()
				if got := c.nodes[f].fake.raws("r"); !slices.Equal(got, []string{`{"a":1}`, `{"a":2}`}) {
					t.Errorf("%q", got)
				}
			})
		})
	}
}

// Inside a term the log's time follows the leader's monotonic clock, and it never goes back.
func TestLogTime(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, c *cluster) {
		var last event.Time
		for i := range 5 {
			if _, err := c.nodes[0].Propose(t.Context(), appendOf("r", `{}`)); err != nil {
				t.Fatal(err)
			}
			now := c.nodes[c.leader()].fake.LogTime()
			if i > 0 && now-last < 2000 || now > event.Time(time.Now().UnixMilli()) {
				t.Errorf("%d after %d at %d", now, last, time.Now().UnixMilli())
			}
			last = now
			time.Sleep(2 * time.Second)
			if i == 2 {
				if err := c.nodes[0].TransferLeadership(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
