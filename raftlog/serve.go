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

// service is what peers may call. net/rpc wants its shape: exported methods of two arguments.
type service struct{ n *Node }

// Empty is an argument or reply without content. (gob refuses a struct without fields.)
type Empty struct{ Unused bool }

// Greeting is the first thing that two nodes say to each other.
type Greeting struct{ NodeID, DirID, ClusterID string }

// ReadIndexReply is a log index that includes everything committed before the call.
type ReadIndexReply struct{ Index uint64 }

// Hello exchanges identities. A node of another cluster is refused: raft itself has no cluster id.
func (s *service) Hello(args *Greeting, reply *Greeting) error {
	*reply = s.n.greeting()
	return sameCluster(args, reply)
}

func sameCluster(a, b *Greeting) error {
	if a.ClusterID != "" && b.ClusterID != "" && a.ClusterID != b.ClusterID {
		return fmt.Errorf("node %s is of cluster %s, node %s of cluster %s", a.NodeID, a.ClusterID, b.NodeID, b.ClusterID)
	}
	return nil
}

func (n *Node) greeting() Greeting {
	return Greeting{NodeID: n.cfg.NodeID, DirID: n.identity.DirID, ClusterID: n.state.ClusterID()}
}

func (n *Node) greet(c *rpc.Client) error {
	mine, theirs := n.greeting(), Greeting{}
	if err := c.Call("Node.Hello", &mine, &theirs); err != nil {
		return err
	}
	return sameCluster(&theirs, &mine)
}

// Forward commits a peer's group. It does not hold: the peer does.
func (s *service) Forward(args *ForwardArgs, reply *ForwardReply) error {
	n := s.n
	if n.tenure.Load() == nil {
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
	ctx, cancel := context.WithTimeout(context.Background(), s.n.cfg.HoldFor)
	defer cancel()
	index, err := s.n.verified.await(ctx)
	reply.Index = index
	return err
}

// Status answers what [Node.Status] does.
func (s *service) Status(_ *Empty, reply *Status) error {
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
