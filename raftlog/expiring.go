package raftlog

import (
	"context"
	"fmt"
	"time"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/lease"
)

// Expiring returns the epochs of the runs whose leases are live and end within the given time. Only the
// leader's judge knows; a follower asks it. ErrUnavailable: there is no leader, or it judges nothing yet.
//
// Nobody confirms that the leader still leads: right after it was deposed the answer may be out of date.
func (n *Node) Expiring(ctx context.Context, within time.Duration) (map[event.RunID]event.Epoch, error) {
	soon, err := n.expiring(ctx, within)
	if err != nil {
		return nil, fmt.Errorf("%w: expiring leases: %w", ErrUnavailable, err)
	}
	runs := make(map[event.RunID]event.Epoch, len(soon))
	for _, e := range soon {
		runs[e.Run] = e.Epoch
	}
	return runs, nil
}

func (n *Node) expiring(ctx context.Context, within time.Duration) ([]lease.Expiring, error) {
	if ten := n.tenure.Load(); ten != nil {
		return n.lessor.expiring(ten, within)
	}
	leader, id := n.raft.LeaderWithID()
	if leader == "" || id == n.id {
		return nil, errNotReady
	}
	var reply ExpiringReply
	err := n.ask(ctx, leader, "Expiring", &ExpiringArgs{within}, &reply)
	return reply.Runs, err
}

func (l *lessor) expiring(ten *tenure, within time.Duration) ([]lease.Expiring, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ten != ten {
		return nil, errNotReady
	}
	l.take()
	return l.judge.Expiring(within), nil
}

// ExpiringArgs asks the leader for leases that end within a time.
type ExpiringArgs struct{ Within time.Duration }

// ExpiringReply lists them.
type ExpiringReply struct{ Runs []lease.Expiring }

// Expiring answers a follower's question.
func (s *service) Expiring(args *ExpiringArgs, reply *ExpiringReply) error {
	ten := s.n.tenure.Load()
	if ten == nil {
		return errNotReady
	}
	var err error
	reply.Runs, err = s.n.lessor.expiring(ten, args.Within)
	return err
}
