package main

import (
	"context"
	"fmt"
	"text/tabwriter"
)

// clusterCmd groups what is done to the cluster as a whole.
type clusterCmd struct {
	Status   clusterStatusCmd   `cmd:"" help:"Print the nodes and how far each has come."`
	Add      clusterAddCmd      `cmd:"" help:"Make a node a member."`
	Remove   clusterRemoveCmd   `cmd:"" help:"Take a node out of the cluster."`
	Transfer clusterTransferCmd `cmd:"" help:"Make the leader hand over to another node."`
	Recover  clusterRecoverCmd  `cmd:"" help:"Make a stopped node a cluster of its own, when a majority is lost."`
}

// clusterStatusCmd prints the nodes.
type clusterStatusCmd struct {
	connection
	Output string `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// Run prints one line a node.
func (c *clusterStatusCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	cluster, err := cl.Cluster(ctx)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSON(t.out, cluster)
	}
	leader := cluster.Leader
	if leader == "" {
		leader = "none"
	}
	fmt.Fprintf(t.out, "cluster %s, leader %s\n\n", cluster.ClusterID, leader)
	tw := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "NODE\tROLE\tVOTER\tAPPLIED\tLAG\tHTTP\tRAFT")
	for _, n := range cluster.Nodes {
		fmt.Fprintf(tw, "%s\t%s\t%t\t%d\t%d\t%s\t%s\n", n.ID, n.Role, n.Voter, n.AppliedIndex, n.Lag, n.HTTP, n.Raft)
	}
	return tw.Flush()
}

// clusterTransferCmd hands leadership over.
type clusterTransferCmd struct{ connection }

// Run asks and waits for the answer.
func (c *clusterTransferCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	if err := cl.TransferLeadership(ctx); err != nil {
		return err
	}
	cluster, err := cl.Cluster(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "leader %s\n", cluster.Leader)
	return nil
}
