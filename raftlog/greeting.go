package raftlog

import (
	"context"
	"errors"
	"fmt"
	"net/rpc"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// Greeting is the first thing that two nodes say to each other, on a connection of either kind.
type Greeting struct {
	NodeID, DirID, ClusterID string
	// Level is the newest level of commands that the node applies; 0: it does not say.
	Level event.Level
	// Refused says, in an answer, why the node does not take the one that greeted it; empty: it does.
	Refused string
	// Stranger says that it is refused because its node id is that of another data directory.
	Stranger bool
	// Opened says that the node which answers has its configuration, Known that the one which greeted
	// is in it.
	Opened, Known bool
}

// ErrStranger means that a node id is in use by another data directory: a node whose disk was replaced
// has forgotten what it acknowledged and voted, and must not pass for the one that it was.
var ErrStranger = errors.New("the cluster knows this node id with another data directory; remove the node from the cluster (runlog cluster remove), then start it on an empty directory with --join")

func (n *Node) greeting() Greeting {
	return Greeting{NodeID: n.cfg.NodeID, DirID: n.identity.DirID, ClusterID: n.state.ClusterID(), Level: n.cfg.Level}
}

// admits says why this node does not talk to the one that greeted it; nil: it does. Raft itself has
// neither a cluster id nor the identity of a disk.
func (n *Node) admits(g *Greeting) error {
	if mine := n.state.ClusterID(); mine != "" && g.ClusterID != "" && mine != g.ClusterID {
		return fmt.Errorf("node %s is of cluster %s, node %s of cluster %s", n.cfg.NodeID, mine, g.NodeID, g.ClusterID)
	}
	if m, ok := n.state.Roster().Member(g.NodeID); ok && m.DirID != g.DirID {
		return fmt.Errorf("node %s: %w", g.NodeID, ErrStranger)
	}
	return nil
}

// greetBack is the greeting in return for g.
func (n *Node) greetBack(g *Greeting) Greeting {
	mine := n.greeting()
	if err := n.admits(g); err != nil {
		mine.Refused, mine.Stranger = err.Error(), errors.Is(err, ErrStranger)
	}
	select {
	case <-n.opened:
		mine.Opened = true
		_, mine.Known = serverOf(n.raft.GetConfiguration().Configuration(), g.NodeID)
	default:
	}
	return mine
}

// greeted judges the answer to this node's greeting. A node that knows nothing of the cluster yet
// and is told that its id is another directory's must stop; one that does may have been told by a node
// that lags.
func (n *Node) greeted(theirs *Greeting) error {
	if theirs.Stranger {
		err := fmt.Errorf("node %s refuses node %s: %w", theirs.NodeID, n.cfg.NodeID, ErrStranger)
		if n.state.ClusterID() == "" {
			n.fatal(err)
		}
		return err
	}
	if theirs.Refused != "" {
		return errors.New(theirs.Refused)
	}
	return n.admits(theirs)
}

// greet is said on a new connection of the internal RPC.
func (n *Node) greet(c *rpc.Client) error {
	mine, theirs := n.greeting(), Greeting{}
	if err := c.Call("Node.Hello", &mine, &theirs); err != nil {
		return err
	}
	return n.greeted(&theirs)
}

// Hello answers a greeting.
func (s *service) Hello(args *Greeting, reply *Greeting) error {
	*reply = s.n.greetBack(args)
	return nil
}

// askAround asks the other members of the bootstrap list, as far as they answer, whether a node
// without a history may found a cluster with them: it may not when its history was lost.
func (n *Node) askAround(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	answers := make([]Greeting, len(n.cfg.Bootstrap))
	var asked sync.WaitGroup
	for i, m := range n.cfg.Bootstrap {
		if m.ID == n.cfg.NodeID {
			continue
		}
		asked.Go(func() {
			mine := n.greeting()
			if n.questions.call(ctx, raft.ServerAddress(m.Raft), "Hello", &mine, &answers[i]) != nil {
				answers[i] = Greeting{}
			}
		})
	}
	asked.Wait()
	if err := n.failure.Load(); err != nil {
		return *err
	}
	for _, a := range answers {
		if a.ClusterID != "" && !a.Known && a.Refused == "" && a.Opened {
			return fmt.Errorf("cluster %s exists and node %s is not in it: start it with --join instead of --bootstrap", a.ClusterID, n.cfg.NodeID)
		}
	}
	return nil
}

func serverOf(c raft.Configuration, id string) (raft.Server, bool) {
	for _, s := range c.Servers {
		if s.ID == raft.ServerID(id) {
			return s, true
		}
	}
	return raft.Server{}, false
}
