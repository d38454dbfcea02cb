package raftlog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// NodeSpec is a node that is to be a member of the cluster.
type NodeSpec struct {
	ID    string
	Raft  string // host:port that peers dial; the node listens there already
	HTTP  string // host:port of its HTTP API
	Voter bool   // it is to vote once it has caught up
}

// The codes of a [MembershipError].
const (
	MemberNotFound = "node_not_found"
	MemberRefused  = "node_refused"
	MemberAtRisk   = "quorum_at_risk"
)

// MembershipError says why the membership stays as it is.
type MembershipError struct{ Code, Reason string }

// Error returns the reason.
func (e *MembershipError) Error() string { return e.Reason }

func refused(format string, args ...any) error {
	return &MembershipError{MemberRefused, fmt.Sprintf(format, args...)}
}

// MemberReply answers AddNode and RemoveNode. With neither a code nor Done the leader has moved, or moves.
type MemberReply struct {
	Code, Reason string
	Done         bool
}

// NodeID names a node to the internal RPC.
type NodeID struct{ ID string }

// AddNode makes a node a member, whichever node it is called on: without a vote at first; the leader
// gives it one when it has caught up, if spec says so. A member with the same directory gets the
// spec's addresses and vote; asking again changes nothing. *[MembershipError]: the node cannot be a
// member as it is. [ErrUnavailable]: there is no leader, or it did not get it done in time.
func (n *Node) AddNode(ctx context.Context, spec NodeSpec) error {
	return n.askForChange(ctx, "AddNode", &spec, func() error { return n.addNode(ctx, spec) })
}

// RemoveNode takes a node out of the cluster, whichever node it is called on. A leader hands over first.
// *[MembershipError]: there is no such member, or those that are left could not do without it.
// [ErrUnavailable] as of [Node.AddNode].
func (n *Node) RemoveNode(ctx context.Context, id string) error {
	return n.askForChange(ctx, "RemoveNode", &NodeID{id}, func() error { return n.removeNode(ctx, id) })
}

// errMoved says that this node does not lead, or is about not to.
var errMoved = errors.New("another node leads")

// askForChange has the leader make a change, and asks the next one when leadership moves meanwhile:
// each change may be made twice.
func (n *Node) askForChange(ctx context.Context, method string, args any, here func() error) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.HoldFor)
	defer cancel()
	for {
		changed := n.leadership.C()
		err := n.changeOnce(ctx, method, args, here)
		if err == nil || errors.As(err, new(*MembershipError)) {
			return err
		}
		select {
		case <-changed:
		case <-time.After(retryEvery):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		case <-n.closing:
			return ErrClosed
		}
	}
}

func (n *Node) changeOnce(ctx context.Context, method string, args any, here func() error) error {
	if n.tenure.Load() != nil {
		return here()
	}
	leader, id := n.raft.LeaderWithID()
	if leader == "" || id == n.id {
		return errMoved
	}
	var reply MemberReply
	if err := n.ask(ctx, leader, method, args, &reply); err != nil {
		return err
	}
	switch {
	case reply.Code != "":
		return &MembershipError{reply.Code, reply.Reason}
	case !reply.Done:
		return fmt.Errorf("%w: %s", errMoved, reply.Reason)
	}
	return nil
}

// AddNode answers a peer's call of [Node.AddNode].
func (s *service) AddNode(args *NodeSpec, reply *MemberReply) error {
	return s.change(reply, func(ctx context.Context) error { return s.n.addNode(ctx, *args) })
}

// RemoveNode answers a peer's call of [Node.RemoveNode].
func (s *service) RemoveNode(args *NodeID, reply *MemberReply) error {
	return s.change(reply, func(ctx context.Context) error { return s.n.removeNode(ctx, args.ID) })
}

func (s *service) change(reply *MemberReply, f func(context.Context) error) error {
	if err := s.n.started(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.n.cfg.HoldFor)
	defer cancel()
	err := f(ctx)
	var refusal *MembershipError
	switch {
	case err == nil:
		reply.Done = true
	case errors.As(err, &refusal):
		reply.Code, reply.Reason = refusal.Code, refusal.Reason
	default:
		reply.Reason = err.Error()
	}
	return nil
}

// lockMembers lets one change of the membership happen at a time, on a leader.
func (n *Node) lockMembers(ctx context.Context) (unlock func(), err error) {
	select {
	case <-n.members:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-n.closing:
		return nil, ErrClosed
	}
	unlock = func() { n.members <- struct{}{} }
	if n.tenure.Load() == nil {
		unlock()
		return nil, errMoved
	}
	return unlock, nil
}

// configuration is the membership at one moment; index is for raft to refuse a change of a later one.
func (n *Node) configuration() (c raft.Configuration, index uint64, err error) {
	f := n.raft.GetConfiguration()
	return f.Configuration(), f.Index(), f.Error()
}

// addNode is AddNode on the leader.
func (n *Node) addNode(ctx context.Context, spec NodeSpec) error {
	unlock, err := n.lockMembers(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	conf, index, err := n.configuration()
	if err != nil {
		return err
	}
	record, err := n.introduce(ctx, conf, spec)
	if err != nil {
		return err
	}
	if err := n.enter(ctx, record); err != nil {
		return err
	}
	have, member := serverOf(conf, spec.ID)
	id, addr := raft.ServerID(spec.ID), raft.ServerAddress(spec.Raft)
	switch {
	case member && have.Suffrage == raft.Voter && !spec.Voter:
		return n.demote(ctx, conf, index, have)
	case member && have.Address == addr:
		return nil
	case member && have.Suffrage == raft.Voter:
		err = n.await(ctx, n.raft.AddVoter(id, addr, index, 0))
	default:
		err = n.await(ctx, n.raft.AddNonvoter(id, addr, index, 0))
	}
	if err == nil {
		n.logger.Info("member added", "member", spec.ID, "raft", spec.Raft)
	}
	return err
}

// introduce asks the node that is to be a member who it is, and returns what to remember of it.
func (n *Node) introduce(ctx context.Context, conf raft.Configuration, spec NodeSpec) (event.ClusterMember, error) {
	none := event.ClusterMember{}
	roster := n.state.Roster()
	if spec.ID == "" {
		return none, refused("the node has no id")
	}
	if _, _, err := net.SplitHostPort(spec.Raft); err != nil && n.cfg.Network == nil {
		return none, refused("the raft address %q is not host:port", spec.Raft)
	}
	if roster.Level < event.LevelMembers {
		return none, refused("some member runs a build that does not know of membership changes: upgrade all of them first")
	}
	for _, s := range conf.Servers {
		if s.Address == raft.ServerAddress(spec.Raft) && s.ID != raft.ServerID(spec.ID) {
			return none, refused("the raft address %s is that of node %s", spec.Raft, s.ID)
		}
	}
	theirs, err := n.meet(ctx, raft.ServerAddress(spec.Raft))
	switch {
	case errors.Is(err, ErrStranger):
		return none, refused("node %s: %v", spec.ID, ErrStranger)
	case err != nil:
		return none, refused("node %s at %s: %v", spec.ID, spec.Raft, err)
	case theirs.NodeID != spec.ID:
		return none, refused("the node at %s is %s, not %s", spec.Raft, theirs.NodeID, spec.ID)
	case theirs.Level < roster.Level:
		return none, refused("node %s runs a build of level %d and the cluster has reached %d: upgrade the node first", spec.ID, theirs.Level, roster.Level)
	}
	return event.ClusterMember{ID: spec.ID, DirID: theirs.DirID, HTTP: spec.HTTP, Voter: spec.Voter}, nil
}

// meetTimeout bounds how long a leader waits for a node that somebody wants to add.
const meetTimeout = 3 * time.Second

// meet exchanges greetings with the node at addr; the node that leads knows itself.
func (n *Node) meet(ctx context.Context, addr raft.ServerAddress) (Greeting, error) {
	mine, theirs := n.greeting(), Greeting{}
	if addr == n.network.Raft().LocalAddr() {
		return mine, nil
	}
	ctx, cancel := context.WithTimeout(ctx, meetTimeout)
	defer cancel()
	if err := n.questions.call(ctx, addr, "Hello", &mine, &theirs); err != nil {
		return theirs, err
	}
	return theirs, n.greeted(&theirs)
}

// enter makes the roster say record.
func (n *Node) enter(ctx context.Context, record event.ClusterMember) error {
	if have, ok := n.state.Roster().Member(record.ID); ok && have == record {
		return nil
	}
	_, err := n.Propose(ctx, event.SetMember{ClusterMember: record})
	return err
}

// await waits for a change that raft was asked for. Raft need not answer when it shuts down.
func (n *Node) await(ctx context.Context, f raft.Future) error {
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-n.abort:
		return ErrClosed
	}
}
