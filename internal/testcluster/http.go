package testcluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/fsm"
	"github.com/runlog/runlog/gateway"
	"github.com/runlog/runlog/raftlog"
)

// URLs are the nodes' base URLs, for a client whose transport has [Cluster.Dial].
func (c *Cluster) URLs() []string {
	var urls []string
	for i := range c.nodes {
		urls = append(urls, "http://"+id(i)+".http:80")
	}
	return urls
}

// Dial connects to a node's HTTP API through a pipe: no socket, so that a testing/synctest bubble's time
// passes while both ends wait. A stopped node refuses; stopping one breaks its connections.
func (c *Cluster) Dial(ctx context.Context, _, addr string) (net.Conn, error) {
	for i := range c.nodes {
		if !strings.HasPrefix(addr, id(i)+".") {
			continue
		}
		c.mu.Lock()
		f := c.fronts[i]
		c.mu.Unlock()
		if f == nil {
			return nil, fmt.Errorf("dial %s: it is not running", addr)
		}
		return f.dial(ctx)
	}
	return nil, fmt.Errorf("dial %s: no such node", addr)
}

// front is a node's HTTP server on pipes: its own net.Listener.
type front struct {
	server *http.Server
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	served sync.WaitGroup
}

func newFront(n *Node) (*front, error) {
	g, err := gateway.New(gateway.Config{Log: n.Node, Reader: reader{n.State}, Cluster: members{n.Node, n.State}, Leases: leases{n.Node, n.State}, Threads: threads{n.State}})
	if err != nil {
		return nil, err
	}
	f := &front{server: gateway.NewServer(g, nil), conns: make(chan net.Conn), closed: make(chan struct{})}
	f.server.ConnContext = nil // there are no sockets
	f.served.Go(func() { _ = f.server.Serve(f) })
	return f, nil
}

func (f *front) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case f.conns <- far:
		return near, nil
	case <-f.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close breaks all connections, as the death of a process does.
func (f *front) close() {
	_ = f.server.Close()
	f.served.Wait()
}

// Accept, Close and Addr are net.Listener's.
func (f *front) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (f *front) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

// Addr names the listener.
func (f *front) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// What the gateway asks of a node, as cmd/runlog puts it together.

type reader struct{ *fsm.Machine }

func (r reader) Watch(id event.RunID) gateway.Watch { return r.Machine.Watch(id) }

type threads struct{ *fsm.Machine }

func (t threads) WatchThread(id event.ThreadID) gateway.Watch { return t.Machine.WatchThread(id) }
func (t threads) WatchChanges() gateway.Watch                 { return t.Machine.WatchChanges() }

type members struct {
	*raftlog.Node
	state *fsm.Machine
}

func (m members) AddNode(ctx context.Context, n gateway.NewNode) error {
	return m.Node.AddNode(ctx, raftlog.NodeSpec(n))
}

func (m members) Backup(ctx context.Context, w io.Writer) error { return m.state.Backup(ctx, w) }

func (members) Members(context.Context) (gateway.Members, error) { return gateway.Members{}, nil }
func (members) Ready() []gateway.Check                           { return nil }

type leases struct {
	*raftlog.Node
	state *fsm.Machine
}

func (l leases) HolderRuns(h event.HolderID) ([]event.LeaseView, error) { return l.state.HolderRuns(h) }
func (l leases) Lock(name event.LockName) (event.LeaseView, bool)       { return l.state.Lock(name) }
func (l leases) WatchLock(name event.LockName) gateway.Watch            { return l.state.WatchLock(name) }
