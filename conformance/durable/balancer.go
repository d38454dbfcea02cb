package main

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// balancer hands each connection to the next of its backends, and to the one after that when
// nobody answers there. It knows nothing of HTTP.
type balancer struct {
	l        net.Listener
	backends []string
	next     atomic.Uint64
	served   []atomic.Int64 // connections, by backend

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
	wait   sync.WaitGroup
}

// balance starts a balancer on a port of its own. The caller must close it.
func balance(backends []string) (*balancer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &balancer{l: l, backends: backends, served: make([]atomic.Int64, len(backends)), open: map[net.Conn]bool{}}
	b.wait.Go(b.accept)
	return b, nil
}

func (b *balancer) url() string { return "http://" + b.l.Addr().String() }

// counts returns how many connections each backend got.
func (b *balancer) counts() []int64 {
	n := make([]int64, len(b.served))
	for i := range b.served {
		n[i] = b.served[i].Load()
	}
	return n
}

// close ends all connections and returns once nothing of the balancer runs.
func (b *balancer) close() {
	b.l.Close()
	b.mu.Lock()
	b.closed = true
	for c := range b.open {
		c.Close()
	}
	b.mu.Unlock()
	b.wait.Wait()
}

func (b *balancer) accept() {
	for {
		c, err := b.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			b.wait.Go(func() { b.serve(c) })
		}
	}
}

func (b *balancer) serve(client net.Conn) {
	if !b.hold(client) {
		return
	}
	defer b.drop(client)
	backend := b.dial()
	if backend == nil || !b.hold(backend) {
		return
	}
	defer b.drop(backend)
	done := make(chan struct{})
	go func() {
		defer close(done)
		pipe(backend, client)
	}()
	pipe(client, backend)
	<-done
}

// pipe copies until either side is gone, and passes the end on.
func pipe(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if tcp, ok := to.(*net.TCPConn); ok && err == nil {
		_ = tcp.CloseWrite() // the other direction may still have something to say
		return
	}
	to.Close()
	from.Close()
}

func (b *balancer) dial() net.Conn {
	first := b.next.Add(1)
	for k := range b.backends {
		i := int((first + uint64(k)) % uint64(len(b.backends)))
		if c, err := net.Dial("tcp", b.backends[i]); err == nil {
			b.served[i].Add(1)
			return c
		}
	}
	return nil
}

// hold makes close end the connection; when the balancer is closed already, hold ends it.
func (b *balancer) hold(c net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		c.Close()
		return false
	}
	b.open[c] = true
	return true
}

func (b *balancer) drop(c net.Conn) {
	c.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, c)
}
