package raftlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// The roles of a node.
const (
	RoleLeader    = "leader"
	RoleFollower  = "follower"
	RoleCandidate = "candidate"
	RoleStopped   = "stopped"
)

// Status is one node's view of itself and of the cluster. Indexes and terms are raft's.
type Status struct {
	NodeID    string `json:"id"`
	ClusterID string `json:"clusterId"`
	HTTP      string `json:"http"`
	Role      string `json:"role"`
	LeaderID  string `json:"leader"` // empty: none known
	Term      uint64 `json:"term"`
	// Applied is the last entry in the state, Commit the last one this node knows to be
	// committed, LastIndex the last in its log. Lag is Commit-Applied.
	Applied   uint64 `json:"appliedIndex"`
	Commit    uint64 `json:"commitIndex"`
	LastIndex uint64 `json:"lastIndex"`
	Lag       uint64 `json:"lag"`
	// DirID names the node's data directory, Level what its build applies.
	DirID string      `json:"dirId"`
	Level event.Level `json:"level"`
}

// NodeStatus is one node of a [ClusterStatus].
type NodeStatus struct {
	ID    string `json:"id"`
	HTTP  string `json:"http"`
	Raft  string `json:"raft"`
	Role  string `json:"role"` // RoleUnreachable when the node did not answer
	Voter bool   `json:"voter"`
	// Promoting: it gets a vote once it has caught up.
	Promoting bool `json:"promoting,omitempty"`
	// AppliedIndex and Lag, behind the furthest commit index any node knows, are nil when the
	// node did not answer.
	AppliedIndex *uint64 `json:"appliedIndex,omitempty"`
	Lag          *uint64 `json:"lag,omitempty"`
}

// RoleUnreachable stands for the role of a node that did not answer.
const RoleUnreachable = "unreachable"

// RoleStranger stands for the role of a node under whose id another data directory answers.
const RoleStranger = "stranger"

// ClusterStatus is the cluster as one node sees it.
type ClusterStatus struct {
	ClusterID string       `json:"clusterId"`
	Leader    string       `json:"leader"` // node id; empty: none known
	Level     event.Level  `json:"level"`  // the commands that all members know
	Nodes     []NodeStatus `json:"nodes"`
}

// Status returns this node's view, without asking anyone.
func (n *Node) Status() Status {
	_, leader := n.raft.LeaderWithID()
	s := Status{
		NodeID: n.cfg.NodeID, ClusterID: n.state.ClusterID(), HTTP: n.cfg.HTTPAddr, LeaderID: string(leader),
		Term: n.raft.CurrentTerm(), Commit: n.raft.CommitIndex(), LastIndex: n.raft.LastIndex(), Applied: n.state.Applied(),
		DirID: n.identity.DirID, Level: n.cfg.Level,
	}
	switch n.raft.State() {
	case raft.Leader:
		s.Role = RoleLeader
	case raft.Candidate:
		s.Role = RoleCandidate
	case raft.Shutdown:
		s.Role = RoleStopped
	default:
		s.Role = RoleFollower
	}
	if s.Commit > s.Applied {
		s.Lag = s.Commit - s.Applied
	}
	return s
}

const statusTimeout = time.Second

// Cluster asks every member for its status, at most a second. A member that does not answer is
// listed as unreachable; that is not an error.
func (n *Node) Cluster(ctx context.Context) (ClusterStatus, error) {
	conf := n.raft.GetConfiguration()
	if err := conf.Error(); err != nil {
		return ClusterStatus{}, err
	}
	servers := conf.Configuration().Servers
	return n.assemble(servers, n.askMembers(ctx, servers)), nil
}

// askMembers asks each server for its status, at most a second.
func (n *Node) askMembers(ctx context.Context, servers []raft.Server) []memberReply {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	replies := make([]memberReply, len(servers))
	var asked sync.WaitGroup
	for i, srv := range servers {
		if srv.ID == n.id {
			s := n.Status()
			replies[i].status = &s
			continue
		}
		asked.Go(func() {
			s := new(Status)
			switch err := n.ask(ctx, srv.Address, "Status", &Empty{}, s); {
			case err == nil && s.NodeID == string(srv.ID):
				replies[i].status = s
			case errors.Is(err, ErrStranger):
				replies[i].stranger = true
			}
		})
	}
	asked.Wait()
	return replies
}

func (n *Node) assemble(servers []raft.Server, replies []memberReply) ClusterStatus {
	_, leader := n.raft.LeaderWithID()
	roster := n.state.Roster()
	c := ClusterStatus{ClusterID: n.state.ClusterID(), Leader: string(leader), Level: max(roster.Level, event.LevelRuns)}
	commit := uint64(0)
	for _, r := range replies {
		if s := r.status; s != nil {
			commit = max(commit, s.Commit)
		}
	}
	for i, srv := range servers {
		ns := NodeStatus{
			ID: string(srv.ID), Raft: string(srv.Address), HTTP: n.httpAddr(srv.ID),
			Role: RoleUnreachable, Voter: srv.Suffrage == raft.Voter,
		}
		if m, ok := roster.Member(ns.ID); ok {
			ns.Promoting = m.Voter && !ns.Voter
			if m.HTTP != "" {
				ns.HTTP = m.HTTP
			}
		}
		if replies[i].stranger {
			ns.Role = RoleStranger
		}
		if s := replies[i].status; s != nil {
			applied, lag := s.Applied, commit-min(commit, s.Applied)
			ns.Role, ns.AppliedIndex, ns.Lag = s.Role, &applied, &lag
			if s.HTTP != "" {
				ns.HTTP = s.HTTP
			}
		}
		c.Nodes = append(c.Nodes, ns)
	}
	return c
}

// httpAddr is what the bootstrap list says of a node: before the roster does.
func (n *Node) httpAddr(id raft.ServerID) string {
	for _, m := range n.cfg.Bootstrap {
		if m.ID == string(id) {
			return m.HTTP
		}
	}
	return ""
}
