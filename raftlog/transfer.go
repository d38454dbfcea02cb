package raftlog

import (
	"context"
	"fmt"

	"github.com/hashicorp/raft"
)

// TransferLeadership makes the leader hand over to another voter, whichever node it is called on.
// Proposals in between are held. ErrUnavailable: there is no leader, or no voter could take over.
func (n *Node) TransferLeadership(ctx context.Context) error {
	leader, id := n.raft.LeaderWithID()
	var err error
	switch {
	case leader == "":
		return ErrUnavailable
	case id == n.id:
		err = n.handOver(ctx)
	default:
		err = n.ask(ctx, leader, "Transfer", &Empty{}, &Empty{})
	}
	if err != nil {
		return fmt.Errorf("%w: transfer leadership: %w", ErrUnavailable, err)
	}
	return nil
}

// handOver transfers this node's leadership; it returns when another node was told to stand, or with
// ctx.
func (n *Node) handOver(ctx context.Context) error {
	if n.raft.State() != raft.Leader {
		return nil
	}
	done := make(chan error, 1)
	future := n.raft.LeadershipTransfer()
	// Not waited for: raft need not answer when it shuts down or hangs in its store.
	go func() { done <- future.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
