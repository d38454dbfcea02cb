package raftlog

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/internal/fabric"
)

// testNode is a node that can be restarted on its data.
type testNode struct {
	*Node
	id    string
	disk  *fakeDisk
	fake  *fakeState
	fatal chan error // holds what Fatal was called with
}

// cluster is three nodes in one process.
type cluster struct {
	t      testing.TB
	fabric *fabric.Fabric
	dir    string
	nodes  [3]*testNode
	// adjust changes a node's config before it opens.
	adjust func(id string, c *Config)
	logs   *syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func newCluster(t testing.TB, adjust func(id string, c *Config)) *cluster {
	c := &cluster{t: t, fabric: fabric.New(), dir: t.TempDir(), adjust: adjust, logs: &syncBuffer{}}
	for i := range c.nodes {
		c.nodes[i] = &testNode{id: fmt.Sprintf("n%d", i+1), disk: &fakeDisk{}, fatal: make(chan error, 1)}
		c.start(i)
	}
	t.Cleanup(func() {
		if t.Failed() && os.Getenv("RAFTLOG_TEST_LOG") != "" {
			t.Log(c.logs.b.String())
		}
	})
	return c
}

// start opens node i on what its disk holds.
func (c *cluster) start(i int) {
	c.t.Helper()
	n := c.nodes[i]
	n.fake = openFake(n.disk)
	cfg := Config{
		NodeID: n.id, Dir: filepath.Join(c.dir, n.id), HTTPAddr: n.id + ".http", State: n.fake,
		Network: c.fabric.Join(raft.ServerAddress(n.id)), Fatal: func(err error) { n.fatal <- err },
		Logger: slog.New(slog.NewTextHandler(c.logs, nil)),
	}
	for _, m := range []string{"n1", "n2", "n3"} {
		cfg.Bootstrap = append(cfg.Bootstrap, Member{ID: m, Raft: m, HTTP: m + ".http"})
	}
	if c.adjust != nil {
		c.adjust(n.id, &cfg)
	}
	node, err := Open(cfg)
	if err != nil {
		c.t.Fatalf("open %s: %v", n.id, err)
	}
	n.Node = node
}

// stop closes node i; what its state had not flushed is gone.
func (c *cluster) stop(i int) {
	c.t.Helper()
	if c.nodes[i].Node == nil {
		return
	}
	if err := c.nodes[i].Close(); err != nil {
		c.t.Errorf("close %s: %v", c.nodes[i].id, err)
	}
	c.nodes[i].Node = nil
}

// kill is stop for a node that the others lose sight of first, as when its process dies.
func (c *cluster) kill(i int) {
	c.t.Helper()
	addr := raft.ServerAddress(c.nodes[i].id)
	c.fabric.Isolate(addr)
	c.stop(i)
	c.fabric.Heal(addr)
}

func (c *cluster) close() {
	for i := range c.nodes {
		c.stop(i)
	}
	// Raft leaves goroutines behind that end with their messages' timeouts; a bubble must not end
	// before them. The time is virtual.
	time.Sleep(time.Minute)
}

// leader waits for a node whose tenure has begun and returns it.
func (c *cluster) leader() int {
	c.t.Helper()
	for range 1000 {
		for i, n := range c.nodes {
			if n.Node != nil && n.tenure.Load() != nil && !c.fabric.Isolated(raft.ServerAddress(n.id)) {
				return i
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatal("no leader within 10 s")
	return -1
}

// follower returns a running node that is not the leader.
func (c *cluster) follower() int {
	l := c.leader()
	for i, n := range c.nodes {
		if i != l && n.Node != nil {
			return i
		}
	}
	c.t.Fatal("no follower")
	return -1
}

// settle waits until all running nodes have applied what the leader has.
func (c *cluster) settle() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	index := c.nodes[c.leader()].fake.Applied()
	for _, n := range c.nodes {
		if n.Node != nil {
			if err := n.WaitApplied(ctx, index); err != nil {
				c.t.Fatalf("%s at %d of %d: %v", n.id, n.fake.Applied(), index, err)
			}
		}
	}
}

func appendOf(run event.RunID, raws ...string) *event.Append {
	a := &event.Append{Batch: event.Batch{Run: run}}
	for _, r := range raws {
		a.Events = append(a.Events, event.Event{Raw: []byte(r)})
	}
	return a
}
