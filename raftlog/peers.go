package raftlog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// peers holds one internal RPC connection to each node that was asked something.
type peers struct {
	dial func(context.Context, raft.ServerAddress) (net.Conn, error)
	// hello is called on a new connection, before anything else is sent on it.
	hello func(*rpc.Client) error

	mu     sync.Mutex
	byAddr map[raft.ServerAddress]*peer
	closed bool
}

func (n *Node) newPeers() *peers {
	return &peers{dial: n.network.DialPeer, hello: n.greet, byAddr: make(map[raft.ServerAddress]*peer)}
}

type peer struct {
	mu   sync.Mutex // held while dialling
	conn *peerConn
}

// peerConn is a client and whether its connection was seen to end: a call on such a client would
// fail as if it had been sent.
type peerConn struct {
	net.Conn
	client *rpc.Client
	ended  atomic.Bool
}

// Read implements net.Conn.
func (c *peerConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.ended.Store(true)
	}
	return n, err
}

// errNotSent marks a call that certainly did not reach the peer.
var errNotSent = errors.New("not sent")

// call calls method on the node at addr. An error that is neither errNotSent nor an
// rpc.ServerError leaves open whether the peer did what was asked. When ctx ends the call is given
// up; the connection stays, for other calls.
func (p *peers) call(ctx context.Context, addr raft.ServerAddress, method string, args, reply any) error {
	conn, err := p.connect(ctx, addr)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	call := conn.client.Go("Node."+method, args, reply, make(chan *rpc.Call, 1))
	select {
	case <-call.Done:
		return call.Error
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *peers) connect(ctx context.Context, addr raft.ServerAddress) (*peerConn, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	e := p.byAddr[addr]
	if e == nil {
		e = &peer{}
		p.byAddr[addr] = e
	}
	p.mu.Unlock()

	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.conn; c != nil {
		if !c.ended.Load() {
			return c, nil
		}
		c.client.Close()
		e.conn = nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := p.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	c := &peerConn{Conn: conn}
	// Closing it ends a hello that is not answered.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	c.client = rpc.NewClient(c)
	err = p.hello(c.client)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.client.Close()
		return nil, fmt.Errorf("greet %s: %w", addr, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.client.Close()
		return nil, ErrClosed
	}
	e.conn = c
	return c, nil
}

// drop closes the connection to addr: its pending calls fail with an unknown outcome, the next one
// dials.
func (p *peers) drop(addr raft.ServerAddress) {
	p.mu.Lock()
	e := p.byAddr[addr]
	p.mu.Unlock()
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conn != nil {
		e.conn.client.Close()
		e.conn = nil
	}
}

// close drops all connections and refuses new ones.
func (p *peers) close() {
	p.mu.Lock()
	p.closed = true
	addrs := make([]raft.ServerAddress, 0, len(p.byAddr))
	for a := range p.byAddr {
		addrs = append(addrs, a)
	}
	p.mu.Unlock()
	for _, a := range addrs {
		p.drop(a)
	}
}
