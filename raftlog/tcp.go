package raftlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// The first byte of a connection says what it is for. The values must stay stable.
const (
	streamRaft  byte = 'I' // and a handshake
	streamPeers byte = 'F'
)

const (
	dialTimeout      = 2 * time.Second
	firstByteTimeout = 5 * time.Second
	// raftIOTimeout bounds one raft message; raft scales it for snapshots.
	raftIOTimeout = 10 * time.Second
)

// tcp is the Network over one TCP port.
type tcp struct {
	listener    net.Listener
	raft, peers *stream
	transport   *raft.NetworkTransport
	hands       handshake
	logger      *slog.Logger

	mu      sync.Mutex
	closed  bool
	conns   map[net.Conn]struct{} // accepted and not yet closed by whoever serves them
	running sync.WaitGroup        // the accept loop, first bytes being read, and conns
}

// listenTCP listens on addr, which peers dial too, and takes connections for raft and for the internal RPC.
func listenTCP(addr string, hands handshake, logger *slog.Logger) (*tcp, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for raft: %w", err)
	}
	t := &tcp{listener: l, hands: hands, logger: logger, conns: make(map[net.Conn]struct{})}
	// Told to peers as it was given: a name keeps its meaning when the address behind it changes.
	local := tcpAddr(addr)
	if _, port, err := net.SplitHostPort(addr); err == nil && port == "0" {
		local = tcpAddr(l.Addr().String())
	}
	t.raft, t.peers = newStream(local), newStream(local)
	t.transport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: raftStream{t.raft, hands}, MaxPool: 3, Timeout: raftIOTimeout, Logger: newHCLog(logger.With("component", "raft-net")),
	})
	t.running.Go(t.accept)
	return t, nil
}

// Raft implements Network.
func (t *tcp) Raft() raft.Transport { return t.transport }

// Peers implements Network.
func (t *tcp) Peers() net.Listener { return t.peers }

// DialPeer implements Network.
func (t *tcp) DialPeer(ctx context.Context, addr raft.ServerAddress) (net.Conn, error) {
	return dialStream(ctx, string(addr), streamPeers)
}

func dialStream(ctx context.Context, addr string, kind byte) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	_ = c.SetWriteDeadline(deadline)
	if _, err := c.Write([]byte{kind}); err != nil {
		c.Close()
		return nil, err
	}
	return c, c.SetWriteDeadline(time.Time{})
}

func (t *tcp) accept() {
	for {
		c, err := t.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of file descriptors, most likely: some will be closed.
			t.logger.Warn("accept failed", "error", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if tracked := t.track(c); tracked != nil {
			t.running.Go(func() { t.dispatch(tracked) })
		}
	}
}

func (t *tcp) dispatch(c *trackedConn) {
	_ = c.SetReadDeadline(time.Now().Add(firstByteTimeout))
	var first [1]byte
	_, err := c.Read(first[:])
	if err == nil {
		err = c.SetReadDeadline(time.Time{})
	}
	ok := false
	if err == nil {
		switch first[0] {
		case streamRaft:
			if err = t.hands.accept(c); err == nil {
				ok = t.raft.offer(c)
			} else if !errors.Is(err, io.EOF) {
				t.logger.Warn("raft connection refused", "remote", c.RemoteAddr().String(), "error", err)
			}
		case streamPeers:
			ok = t.peers.offer(c)
		}
	}
	if !ok {
		c.Close()
	}
}

// track counts an accepted connection until whoever serves it closes it; nil after Close.
func (t *tcp) track(c net.Conn) *trackedConn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		c.Close()
		return nil
	}
	t.conns[c] = struct{}{}
	t.running.Add(1)
	return &trackedConn{Conn: c, t: t}
}

type trackedConn struct {
	net.Conn
	t    *tcp
	once sync.Once
}

// Close closes the connection; its server calls it last.
func (c *trackedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.t.mu.Lock()
		delete(c.t.conns, c.Conn)
		c.t.mu.Unlock()
		c.t.running.Done()
	})
	return err
}

// Close implements Network.
func (t *tcp) Close() error {
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil
	}
	t.closed = true
	t.mu.Unlock()
	t.transport.CloseStreams()
	err := errors.Join(t.listener.Close(), t.transport.Close())
	t.raft.Close()
	t.peers.Close()
	t.mu.Lock()
	for c := range t.conns {
		c.Close() // wakes the server, which then closes its trackedConn
	}
	t.mu.Unlock()
	t.running.Wait()
	return err
}

// stream is the listener of one kind of connection.
type stream struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

type tcpAddr string

func (tcpAddr) Network() string  { return "tcp" }
func (a tcpAddr) String() string { return string(a) }

func newStream(addr net.Addr) *stream {
	return &stream{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (s *stream) offer(c net.Conn) bool {
	select {
	case s.conns <- c:
		return true
	case <-s.closed:
		return false
	}
}

// Accept implements net.Listener.
func (s *stream) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *stream) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr implements net.Listener.
func (s *stream) Addr() net.Addr { return s.addr }

// raftStream is raft's StreamLayer.
type raftStream struct {
	*stream
	hands handshake
}

// Dial implements raft.StreamLayer.
func (s raftStream) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, err := dialStream(ctx, string(addr), streamRaft)
	if err != nil {
		return nil, err
	}
	if err := s.hands.open(c); err != nil {
		return nil, fmt.Errorf("greet %s: %w", addr, err)
	}
	return c, nil
}
