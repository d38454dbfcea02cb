package raftlog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync"
)

// server answers the internal RPC.
type server struct {
	rpc      *rpc.Server
	listener net.Listener
	running  sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

func newServer(l net.Listener, n *Node) (*server, error) {
	s := &server{rpc: rpc.NewServer(), listener: l, conns: make(map[net.Conn]struct{})}
	if err := s.rpc.RegisterName("Node", &service{n}); err != nil {
		return nil, fmt.Errorf("internal rpc: %w", err)
	}
	s.running.Go(s.accept)
	return s, nil
}

func (s *server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return // the listener is closed; the network retries other errors itself
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			c.Close()
			return
		}
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		s.running.Go(func() {
			s.rpc.ServeConn(c)
			c.Close()
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}

// close ends all connections and waits for the calls being answered.
func (s *server) close() {
	s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// started returns an error until the node is open: peers may call it before.
func (n *Node) started() error {
	select {
	case <-n.opened:
		return nil
	default:
		return errors.New("the node is starting")
	}
}

// service is what peers may call. net/rpc wants its shape: exported methods of two arguments.
type service struct{ n *Node }

// Empty is an argument or reply without content. (gob refuses a struct without fields.)
type Empty struct{ Unused bool }

// ReadIndexReply is a log index that includes everything committed before the call.
type ReadIndexReply struct{ Index uint64 }

// Forward commits a peer's group. It does not hold: the peer does.
func (s *service) Forward(args *ForwardArgs, reply *ForwardReply) error {
	n := s.n
	if n.tenure.Load() == nil { // nor while it starts
		return nil
	}
	bytes := 0
	for _, c := range args.Commands {
		bytes += len(c)
	}
	reply.Answers = make([][]byte, len(args.Commands))
	if err := n.admission.enter(len(args.Commands), bytes); err != nil {
		n.lessor.turnedAway(args.Commands...)
		for i := range reply.Answers {
			reply.Answers[i] = encodeAnswer(outcome{err: err})
		}
		return nil
	}
	defer n.admission.leave(len(args.Commands), bytes)
	tickets, err := n.queue.add(make([]ticket, 0, len(args.Commands)), true, args.Commands...)
	if err != nil {
		return err
	}
	for i, t := range tickets {
		select {
		case <-t.group.done:
			reply.Answers[i] = encodeAnswer(t.outcome())
		case <-n.abort:
			reply.Answers[i] = encodeAnswer(outcome{err: ErrOutcomeUnknown})
		}
	}
	return nil
}

// ReadIndex answers a follower's read index.
func (s *service) ReadIndex(_ *Empty, reply *ReadIndexReply) error {
	if err := s.n.started(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.n.cfg.HoldFor)
	defer cancel()
	index, err := s.n.verified.await(ctx)
	reply.Index = index
	return err
}

// Status answers what [Node.Status] does.
func (s *service) Status(_ *Empty, reply *Status) error {
	if err := s.n.started(); err != nil {
		return err
	}
	*reply = s.n.Status()
	return nil
}

// Transfer hands over leadership if this node leads.
func (s *service) Transfer(_ *Empty, _ *Empty) error {
	if s.n.tenure.Load() == nil {
		return errors.New("not the leader")
	}
	return s.n.raft.LeadershipTransfer().Error()
}
