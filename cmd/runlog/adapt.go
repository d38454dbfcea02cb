package main

import (
	"context"
	"io"
	"time"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/fsm"
	"github.com/runlog/runlog/gateway"
	"github.com/runlog/runlog/raftlog"
)

// reader is a state machine as the gateway reads it, with the node that knows which leases end soon.
type reader struct {
	*fsm.Machine
	node *raftlog.Node
}

// Runs lists runs. Which leases end within a time is the leader's to say; the runs are this node's.
func (r reader) Runs(ctx context.Context, q event.RunQuery) ([]event.Run, string, error) {
	if q.ExpiresWithinMs == nil {
		return r.Machine.Runs(ctx, q)
	}
	const longest = int64(365 * 24 * time.Hour / time.Millisecond)
	soon, err := r.node.Expiring(ctx, time.Duration(min(*q.ExpiresWithinMs, longest))*time.Millisecond)
	if err != nil {
		return nil, "", err
	}
	return r.RunsAmong(ctx, q, soon)
}

// Watch subscribes to a run.
func (r reader) Watch(id event.RunID) gateway.Watch { return r.Machine.Watch(id) }

// threads is a state machine as the gateway reads threads and changes.
type threads struct{ *fsm.Machine }

// WatchThread subscribes to a thread.
func (t threads) WatchThread(id event.ThreadID) gateway.Watch { return t.Machine.WatchThread(id) }

// WatchChanges subscribes to the stream of changes.
func (t threads) WatchChanges() gateway.Watch { return t.Machine.WatchChanges() }

// cluster is a node as the gateway asks it about the cluster.
type cluster struct {
	*raftlog.Node
	state *fsm.Machine
}

// AddNode makes a node a member.
func (c cluster) AddNode(ctx context.Context, n gateway.NewNode) error {
	return c.Node.AddNode(ctx, raftlog.NodeSpec(n))
}

// Backup writes a copy of the state.
func (c cluster) Backup(ctx context.Context, w io.Writer) error { return c.state.Backup(ctx, w) }

// Members describes every node.
func (c cluster) Members(ctx context.Context) (gateway.Members, error) {
	s, err := c.Cluster(ctx)
	if err != nil {
		return gateway.Members{}, err
	}
	m := gateway.Members{ClusterID: s.ClusterID, Leader: s.Leader, Level: uint64(s.Level)}
	for _, n := range s.Nodes {
		member := gateway.Member{ID: n.ID, HTTP: n.HTTP, Raft: n.Raft, Role: n.Role, Voter: n.Voter, Promoting: n.Promoting}
		if n.AppliedIndex != nil {
			member.AppliedIndex = *n.AppliedIndex
		}
		if n.Lag != nil {
			member.Lag = *n.Lag
		}
		m.Nodes = append(m.Nodes, member)
	}
	return m, nil
}

// Ready returns the node's checks.
func (c cluster) Ready() []gateway.Check {
	var checks []gateway.Check
	for _, k := range c.Node.Ready() {
		checks = append(checks, gateway.Check{Name: k.Name, OK: k.OK, Detail: k.Detail})
	}
	return checks
}

// streams is a state machine as the gateway reads plain streams of it.
type streams struct{ *fsm.Machine }

// WatchStream subscribes to a stream.
func (s streams) WatchStream(name event.StreamName) gateway.Watch { return s.Machine.WatchStream(name) }

// subscriptions are a state machine's, and whether this node is to deliver their webhooks.
type subscriptions struct {
	*fsm.Machine
	node *raftlog.Node
}

// WatchSubscriptions subscribes to changes of any subscription.
func (s subscriptions) WatchSubscriptions() gateway.Watch { return s.Machine.WatchSubscriptions() }

// Leads reports whether this node is the leader.
func (s subscriptions) Leads() bool { return s.node.Status().Role == raftlog.RoleLeader }
