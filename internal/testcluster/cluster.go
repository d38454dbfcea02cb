package testcluster

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/fsm"
	"github.com/runlog/runlog/internal/fabric"
	"github.com/runlog/runlog/raftlog"
)

// Node is one member: its Raft node and its state.
type Node struct {
	*raftlog.Node
	State *fsm.Machine
}

// Cluster is three nodes n1, n2, n3. Its methods may be called from any goroutine.
type Cluster struct {
	Fabric *fabric.Fabric

	t      testing.TB
	dir    string
	adjust func(*raftlog.Config)

	mu     sync.Mutex
	nodes  [3]*Node  // nil while stopped
	fronts [3]*front // likewise
}

// Start opens three nodes on fresh directories. adjust, if not nil, changes each node's
// configuration before it opens. The caller closes the cluster.
func Start(t testing.TB, adjust func(*raftlog.Config)) *Cluster {
	t.Helper()
	c := &Cluster{Fabric: fabric.New(), t: t, dir: t.TempDir(), adjust: adjust}
	for i := range c.nodes {
		c.Open(i)
	}
	return c
}

func id(i int) string               { return fmt.Sprintf("n%d", i+1) }
func addr(i int) raft.ServerAddress { return raft.ServerAddress(id(i)) }

// Open opens node i on what its disk holds.
func (c *Cluster) Open(i int) {
	c.t.Helper()
	fatal := func(err error) { c.t.Errorf("%s: fatal: %v", id(i), err) }
	state, err := fsm.Open(fsm.Config{Dir: filepath.Join(c.dir, id(i), "state"), Fatal: fatal})
	if err != nil {
		c.t.Fatalf("open %s: %v", id(i), err)
	}
	cfg := raftlog.Config{
		NodeID: id(i), Dir: filepath.Join(c.dir, id(i), "raft"), HTTPAddr: id(i) + ".http", State: state,
		Network: c.Fabric.Join(addr(i)), Fatal: fatal, Logger: slog.New(slog.DiscardHandler),
	}
	for k := range c.nodes {
		cfg.Bootstrap = append(cfg.Bootstrap, raftlog.Member{ID: id(k), Raft: id(k), HTTP: id(k) + ".http"})
	}
	if c.adjust != nil {
		c.adjust(&cfg)
	}
	n, err := raftlog.Open(cfg)
	if err != nil {
		c.t.Fatalf("open %s: %v", id(i), err)
	}
	node := &Node{Node: n, State: state}
	f, err := newFront(node)
	if err != nil {
		c.t.Fatalf("serve %s: %v", id(i), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[i], c.fronts[i] = node, f
}

// Node returns node i, or nil while it is stopped.
func (c *Cluster) Node(i int) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[i]
}

// Stop closes node i after the others have lost sight of it, as when its process dies.
func (c *Cluster) Stop(i int) {
	c.t.Helper()
	c.mu.Lock()
	n, f := c.nodes[i], c.fronts[i]
	c.nodes[i], c.fronts[i] = nil, nil
	c.mu.Unlock()
	if n == nil {
		return
	}
	c.Fabric.Isolate(addr(i))
	f.close()
	if err := n.Close(); err != nil {
		c.t.Errorf("close %s: %v", id(i), err)
	}
	c.Fabric.Heal(addr(i))
}

// Isolate cuts node i off from the others; Heal undoes it.
func (c *Cluster) Isolate(i int) { c.Fabric.Isolate(addr(i)) }

// Heal restores node i's links.
func (c *Cluster) Heal(i int) { c.Fabric.Heal(addr(i)) }

// Settle waits until every running node has applied what any of them had committed.
func (c *Cluster) Settle(ctx context.Context) error {
	for i := range c.nodes {
		if n := c.Node(i); n != nil {
			if err := n.ReadIndex(ctx); err != nil {
				return fmt.Errorf("%s: %w", id(i), err)
			}
		}
	}
	return nil
}

// Close stops all nodes. In a bubble it then lets a minute pass: Raft leaves goroutines behind that
// end with their messages' timeouts.
func (c *Cluster) Close() {
	for i := range c.nodes {
		c.Stop(i)
	}
	time.Sleep(time.Minute)
}
