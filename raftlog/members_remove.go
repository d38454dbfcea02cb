package raftlog

import (
	"context"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// removeNode is RemoveNode on the leader. The roster forgets the node only after it is out of the
// configuration: nobody else can become a member under its id in between.
func (n *Node) removeNode(ctx context.Context, id string) error {
	unlock, err := n.lockMembers(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	conf, index, err := n.configuration()
	if err != nil {
		return err
	}
	server, member := serverOf(conf, id)
	if !member {
		return &MembershipError{MemberNotFound, fmt.Sprintf("node %s is not a member of the cluster", id)}
	}
	if server.Suffrage == raft.Voter {
		if err := n.spare(ctx, conf, server.ID); err != nil {
			return err
		}
	}
	if server.ID == n.id {
		return n.stepAside(ctx)
	}
	if err := n.await(ctx, n.raft.RemoveServer(server.ID, index, 0)); err != nil {
		return err
	}
	n.logger.Info("member removed", "member", id)
	n.questions.drop(server.Address)
	n.proposals.drop(server.Address)
	_, err = n.Propose(ctx, event.DropMember{ID: id})
	return err
}

// demote takes a voter's vote.
func (n *Node) demote(ctx context.Context, conf raft.Configuration, index uint64, server raft.Server) error {
	if err := n.spare(ctx, conf, server.ID); err != nil {
		return err
	}
	if server.ID == n.id {
		return n.stepAside(ctx)
	}
	return n.await(ctx, n.raft.DemoteVoter(server.ID, index, 0))
}

// stepAside hands over, so that the next leader can do to this node what was asked for.
func (n *Node) stepAside(ctx context.Context) error {
	if err := n.handOver(ctx); err != nil {
		return fmt.Errorf("hand over first: %w", err)
	}
	return errMoved
}

// spare refuses unless the voters other than id could go on without it: a majority of them answers
// and has caught up.
func (n *Node) spare(ctx context.Context, conf raft.Configuration, id raft.ServerID) error {
	var voters, healthy int
	replies := n.askMembers(ctx, conf.Servers)
	for i, s := range conf.Servers {
		if s.Suffrage != raft.Voter || s.ID == id {
			continue
		}
		voters++
		if r := replies[i].status; r != nil && r.Applied+readyLag >= n.raft.CommitIndex() {
			healthy++
		}
	}
	switch {
	case voters == 0:
		return &MembershipError{MemberAtRisk, fmt.Sprintf("node %s is the last voter: without it there is no cluster", id)}
	case healthy < voters/2+1:
		return &MembershipError{MemberAtRisk, fmt.Sprintf("without node %s there would be %d voters, of which %d answer and have caught up: fewer than a majority", id, voters, healthy)}
	}
	return nil
}
