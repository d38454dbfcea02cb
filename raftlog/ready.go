package raftlog

import (
	"fmt"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
)

// Check is one condition of readiness. Detail says what was seen, also when OK.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// readyLag is how many entries a node may be behind and still count as caught up.
const readyLag = 1000

// Ready tells whether this node should be sent requests: a leader is known, the state has caught up
// with that leader's term, the disk has room, and the store has not failed. It asks no other node
// and does not wait.
func (n *Node) Ready() []Check {
	return []Check{n.leaderCheck(), n.caughtUpCheck(), n.diskCheck(), n.storeCheck(), n.memberCheck()}
}

// memberCheck fails on a node that waits to be added to a cluster, or was removed from it.
func (n *Node) memberCheck() Check {
	conf, _, err := n.configuration()
	s, ok := serverOf(conf, n.cfg.NodeID)
	switch {
	case err != nil || !ok:
		return Check{"member", false, "this node is not a member of a cluster"}
	case s.Suffrage == raft.Voter:
		return Check{"member", true, "voter"}
	}
	return Check{"member", true, "without a vote"}
}

func (n *Node) leaderCheck() Check {
	_, id := n.raft.LeaderWithID()
	if id == "" {
		return Check{"leader", false, "no leader is known"}
	}
	return Check{"leader", true, string(id)}
}

// caughtUpCheck requires the present leader's LeaderStart: a follower learns the commit index only
// from its leader, so right after a restart its own lag of zero says nothing.
func (n *Node) caughtUpCheck() Check {
	s := n.Status()
	started := n.state.LeaderTerm()
	return Check{
		"caughtUp", started == s.Term && s.Lag <= readyLag,
		fmt.Sprintf("applied %d of %d, term %d of %d", s.Applied, s.Commit, started, s.Term),
	}
}

func (n *Node) diskCheck() Check {
	var fs unix.Statfs_t
	if err := unix.Statfs(n.cfg.Dir, &fs); err != nil {
		return Check{"disk", false, fmt.Sprintf("cannot be examined: %v", err)}
	}
	free := fs.Bavail * uint64(fs.Bsize)
	return Check{"disk", free >= n.cfg.MinFreeBytes, fmt.Sprintf("%d MiB free, %d MiB required", free>>20, n.cfg.MinFreeBytes>>20)}
}

func (n *Node) storeCheck() Check {
	if err := n.failure.Load(); err != nil {
		return Check{"store", false, (*err).Error()}
	}
	return Check{"store", true, n.cfg.LogStore}
}
