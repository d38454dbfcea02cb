package raftlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// fabric connects the nodes of one process, so that a cluster runs in a synctest bubble. Links between nodes
// can be cut; a cut link's connections end.
type fabric struct {
	mu    sync.Mutex
	nodes map[raft.ServerAddress]*memNetwork
	cut   map[[2]raft.ServerAddress]bool
}

func newFabric() *fabric {
	return &fabric{nodes: map[raft.ServerAddress]*memNetwork{}, cut: map[[2]raft.ServerAddress]bool{}}
}

// memNetwork is one node's Network in a fabric.
type memNetwork struct {
	*raft.InmemTransport
	*stream
	f    *fabric
	addr raft.ServerAddress

	mu    sync.Mutex
	conns map[net.Conn]raft.ServerAddress // both ends are listed with their own node
}

type memAddr string

func (memAddr) Network() string  { return "mem" }
func (a memAddr) String() string { return string(a) }

// join adds a node, or replaces the one that had the address.
func (f *fabric) join(addr raft.ServerAddress) *memNetwork {
	_, tr := raft.NewInmemTransportWithTimeout(addr, 500*time.Millisecond)
	m := &memNetwork{InmemTransport: tr, stream: newStream(memAddr(addr)), f: f, addr: addr, conns: map[net.Conn]raft.ServerAddress{}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[addr] = m
	for a := range f.nodes {
		f.link(a, addr)
	}
	return m
}

// link makes raft's transports fit the cuts; f.mu is held.
func (f *fabric) link(a, b raft.ServerAddress) {
	x, y := f.nodes[a], f.nodes[b]
	if a == b || x == nil || y == nil {
		return
	}
	if f.cut[[2]raft.ServerAddress{a, b}] {
		x.Disconnect(b)
		y.Disconnect(a)
		x.hangUp(b)
		y.hangUp(a)
		return
	}
	x.Connect(b, y.InmemTransport)
	y.Connect(a, x.InmemTransport)
}

// isolate cuts addr off from all others; heal undoes it.
func (f *fabric) isolate(addr raft.ServerAddress) { f.setCut(addr, true) }
func (f *fabric) heal(addr raft.ServerAddress)    { f.setCut(addr, false) }

func (f *fabric) setCut(addr raft.ServerAddress, cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for a := range f.nodes {
		f.cut[[2]raft.ServerAddress{a, addr}] = cut
		f.cut[[2]raft.ServerAddress{addr, a}] = cut
		f.link(a, addr)
	}
}

func (m *memNetwork) Raft() raft.Transport { return m.InmemTransport }
func (m *memNetwork) Peers() net.Listener  { return m.stream }

func (m *memNetwork) Close() error {
	m.stream.Close()
	return m.InmemTransport.Close()
}

func (m *memNetwork) hangUp(peer raft.ServerAddress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c, a := range m.conns {
		if a == peer {
			c.Close()
			delete(m.conns, c)
		}
	}
}

func (m *memNetwork) DialPeer(ctx context.Context, addr raft.ServerAddress) (net.Conn, error) {
	m.f.mu.Lock()
	to, cut := m.f.nodes[addr], m.f.cut[[2]raft.ServerAddress{m.addr, addr}]
	m.f.mu.Unlock()
	if to == nil || cut {
		return nil, errors.New("no route")
	}
	here, there := net.Pipe()
	m.mu.Lock()
	m.conns[here] = addr
	m.mu.Unlock()
	select {
	case to.stream.conns <- there:
		return here, nil
	case <-to.stream.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

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
	fabric *fabric
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
	c := &cluster{t: t, fabric: newFabric(), dir: t.TempDir(), adjust: adjust, logs: &syncBuffer{}}
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
		Network: c.fabric.join(raft.ServerAddress(n.id)), Fatal: func(err error) { n.fatal <- err },
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
	c.fabric.isolate(addr)
	c.stop(i)
	c.fabric.heal(addr)
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
			if n.Node != nil && n.tenure.Load() != nil && !c.fabric.isolated(n.id) {
				return i
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatal("no leader within 10 s")
	return -1
}

func (f *fabric) isolated(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := raft.ServerAddress(id)
	for b := range f.nodes {
		if b != a && !f.cut[[2]raft.ServerAddress{a, b}] {
			return false
		}
	}
	return true
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
