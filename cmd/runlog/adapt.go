package main

import (
	"context"
	"io"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/fsm"
	"github.com/runlog/runlog/gateway"
	"github.com/runlog/runlog/raftlog"
)

// reader is a state machine as the gateway reads it.
type reader struct{ *fsm.Machine }

// Watch subscribes to a run.
func (r reader) Watch(id event.RunID) gateway.Watch { return r.Machine.Watch(id) }

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
