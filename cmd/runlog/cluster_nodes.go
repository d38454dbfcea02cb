package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/fsm"
	"github.com/runlog/runlog/raftlog"
)

// clusterAddCmd makes a node a member.
type clusterAddCmd struct {
	ID string `arg:"" help:"The node's id."`
	connection
	Raft  string `help:"Its address for the other nodes; it listens there already." required:"" placeholder:"HOST:PORT"`
	HTTP  string `name:"http" help:"Its address for HTTP." placeholder:"HOST:PORT"`
	Voter bool   `help:"Give it a vote once it has caught up." default:"true" negatable:""`
}

// Run asks and waits for the answer.
func (c *clusterAddCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	if _, err := cl.AddNode(ctx, client.NewNode{ID: c.ID, Raft: c.Raft, HTTP: c.HTTP, Voter: c.Voter}); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "added %s\n", oneLine(c.ID))
	return nil
}

// clusterRemoveCmd takes a node out.
type clusterRemoveCmd struct {
	ID string `arg:"" help:"The node's id."`
	connection
}

// Run asks and waits for the answer.
func (c *clusterRemoveCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	if err := cl.RemoveNode(ctx, c.ID); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "removed %s\n", oneLine(c.ID))
	return nil
}

// clusterRecoverCmd makes a stopped node a cluster of its own.
type clusterRecoverCmd struct {
	ID   string `help:"The node's id." required:"" placeholder:"n1"`
	Data string `help:"Directory of the stopped node's data." required:"" placeholder:"DIR"`
	Raft string `help:"The address for other nodes that it will be served with." default:"127.0.0.1:5437" placeholder:"HOST:PORT"`
	Yes  bool   `help:"The other nodes are lost, and none of them will be started again." required:""`
}

// Run checks what there is, changes the log, and says how to go on.
func (c *clusterRecoverCmd) Run(ctx context.Context, t *terminal) error {
	state, err := fsm.VerifyState(ctx, filepath.Join(c.Data, "state"))
	if err != nil {
		return err
	}
	id := raftlog.NewClusterID()
	last, err := raftlog.Recover(c.Data, c.ID, c.Raft, id)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "node %s is a cluster of its own: %s, was %s. Its log of %d entries is kept (%d of them are in its state).\n",
		oneLine(c.ID), id, oneLine(state.ClusterID), last, state.Index)
	fmt.Fprintln(t.out, "Start it as before, then start new nodes on empty directories with --join.")
	return nil
}
