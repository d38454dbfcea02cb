package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/runlog/runlog/client"
)

// joinEvery paces the attempts to join a cluster that does not answer.
const joinEvery = time.Second

// join asks the cluster at c.Join to have this node, with the addresses it has now, until it is done:
// a cluster that cannot be reached may come up later. A refusal ends the node: it would never get anything to do.
func (n *node) join(ctx context.Context, c *serveCmd) {
	cl, err := client.New(client.Config{Servers: c.Join, RetryFor: 30 * time.Second})
	if err != nil {
		n.fail(fmt.Errorf("join: %w", err))
		return
	}
	spec := client.NewNode{ID: c.ID, Raft: c.Raft, HTTP: c.HTTP, Voter: c.Voter}
	for ctx.Err() == nil {
		err := n.joinOnce(ctx, cl, spec)
		if err == nil {
			n.log.Info("joined", "node", c.ID)
			return
		}
		var refusal *client.Problem
		if errors.As(err, &refusal) && refusal.Status >= 400 && refusal.Status < 500 && refusal.Status != 429 {
			n.fail(fmt.Errorf("join: %w", err))
			return
		}
		n.log.Warn("cannot join yet", "node", c.ID, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(joinEvery):
		}
	}
}

func (n *node) joinOnce(ctx context.Context, cl *client.Client, spec client.NewNode) error {
	cluster, err := cl.Cluster(ctx)
	if err != nil {
		return err
	}
	if mine := n.raft.Status().ClusterID; mine != "" && cluster.ClusterID != "" && mine != cluster.ClusterID {
		return &client.Problem{Status: 409, Code: "node_refused",
			Detail: fmt.Sprintf("this node's data is of cluster %s, the one to join is cluster %s", mine, cluster.ClusterID)}
	}
	_, err = cl.AddNode(ctx, spec)
	return err
}
