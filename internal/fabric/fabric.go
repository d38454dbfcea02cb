package fabric

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Fabric is a set of nodes and the links between them. The zero value is not usable; see [New].
type Fabric struct {
	mu    sync.Mutex
	nodes map[raft.ServerAddress]*Network
	cut   map[[2]raft.ServerAddress]bool
}

// New returns a fabric without nodes, all of whose links work.
func New() *Fabric {
	return &Fabric{nodes: map[raft.ServerAddress]*Network{}, cut: map[[2]raft.ServerAddress]bool{}}
}

// Network is one node's end of a fabric; it is a raftlog.Network.
type Network struct {
	transport *raft.InmemTransport
	peers     *listener
	fabric    *Fabric
	addr      raft.ServerAddress

	mu    sync.Mutex
	conns map[net.Conn]raft.ServerAddress // that this node opened
}

// Join adds a node, or replaces the one that had the address.
func (f *Fabric) Join(a raft.ServerAddress) *Network {
	_, tr := raft.NewInmemTransportWithTimeout(a, 500*time.Millisecond)
	n := &Network{transport: tr, peers: newListener(string(a)), fabric: f, addr: a, conns: map[net.Conn]raft.ServerAddress{}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[a] = n
	for other := range f.nodes {
		f.link(other, a)
	}
	return n
}

// link makes raft's transports fit the cuts; f.mu is held.
func (f *Fabric) link(a, b raft.ServerAddress) {
	x, y := f.nodes[a], f.nodes[b]
	if a == b || x == nil || y == nil {
		return
	}
	if f.cut[[2]raft.ServerAddress{a, b}] {
		x.transport.Disconnect(b)
		y.transport.Disconnect(a)
		x.hangUp(b)
		y.hangUp(a)
		return
	}
	x.transport.Connect(b, y.transport)
	y.transport.Connect(a, x.transport)
}

// Isolate cuts a node off from all others; [Fabric.Heal] undoes it.
func (f *Fabric) Isolate(addr raft.ServerAddress) { f.setCut(addr, true) }

// Heal restores all links of a node.
func (f *Fabric) Heal(addr raft.ServerAddress) { f.setCut(addr, false) }

func (f *Fabric) setCut(x raft.ServerAddress, cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for a := range f.nodes {
		f.cut[[2]raft.ServerAddress{a, x}] = cut
		f.cut[[2]raft.ServerAddress{x, a}] = cut
		f.link(a, x)
	}
}

// Isolated reports whether every link of a node is cut.
func (f *Fabric) Isolated(a raft.ServerAddress) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for b := range f.nodes {
		if b != a && !f.cut[[2]raft.ServerAddress{a, b}] {
			return false
		}
	}
	return true
}

// Raft is raft's transport.
func (n *Network) Raft() raft.Transport { return n.transport }

// Peers accepts what other nodes dial.
func (n *Network) Peers() net.Listener { return n.peers }

// Close ends the node's part of the fabric.
func (n *Network) Close() error {
	n.peers.Close()
	return n.transport.Close()
}

func (n *Network) hangUp(peer raft.ServerAddress) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c, a := range n.conns {
		if a == peer {
			c.Close()
			delete(n.conns, c)
		}
	}
}

// DialPeer opens a connection for the internal RPC.
func (n *Network) DialPeer(ctx context.Context, addr raft.ServerAddress) (net.Conn, error) {
	n.fabric.mu.Lock()
	to, cut := n.fabric.nodes[addr], n.fabric.cut[[2]raft.ServerAddress{n.addr, addr}]
	n.fabric.mu.Unlock()
	if to == nil || cut {
		return nil, errors.New("no route")
	}
	here, there := net.Pipe()
	n.mu.Lock()
	n.conns[here] = addr
	n.mu.Unlock()
	select {
	case to.peers.conns <- there:
		return here, nil
	case <-to.peers.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listener hands over the connections that nodes dial.
type listener struct {
	addr   memAddr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newListener(addr string) *listener {
	return &listener{addr: memAddr(addr), conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }

type memAddr string

func (memAddr) Network() string  { return "mem" }
func (a memAddr) String() string { return string(a) }
