package raftlog

import (
	"context"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// tendEvery is how often a leader looks after the membership.
const tendEvery = 500 * time.Millisecond

// runMembers looks after the membership while this node leads, until it closes: it remembers who the
// members are, raises the level once all of them have reached it, and gives a vote to those who
// are to have one and have caught up.
func (n *Node) runMembers() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	caughtUp := map[string]int{}
	for {
		changed := n.leadership.C()
		if n.tenure.Load() == nil {
			clear(caughtUp)
		} else if err := n.tend(ctx, caughtUp); err != nil {
			n.logger.Debug("tending the membership", "error", err)
		}
		select {
		case <-tick.C:
		case <-changed:
		case <-n.closing:
			return
		}
	}
}

// tend makes one round. caughtUp counts the rounds in which a member had caught up.
func (n *Node) tend(ctx context.Context, caughtUp map[string]int) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.HoldFor)
	defer cancel()
	unlock, err := n.lockMembers(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	conf, index, err := n.configuration()
	if err != nil {
		return err
	}
	replies := n.askMembers(ctx, conf.Servers)
	if err := n.raiseLevel(ctx, replies); err != nil || n.state.Roster().Level < event.LevelMembers {
		return err
	}
	for i, s := range conf.Servers {
		if err := n.remember(ctx, s, replies[i].status); err != nil {
			return err
		}
	}
	for _, m := range n.state.Roster().Members {
		if _, member := serverOf(conf, m.ID); !member {
			if _, err := n.Propose(ctx, event.DropMember{ID: m.ID}); err != nil {
				return err
			}
		}
	}
	return n.promote(ctx, conf, index, replies, caughtUp)
}

// raiseLevel raises the level to what all members have said that they apply.
func (n *Node) raiseLevel(ctx context.Context, replies []memberReply) error {
	level := n.cfg.Level
	for _, r := range replies {
		if r.status == nil {
			return nil
		}
		level = min(level, r.status.Level)
	}
	if level <= max(n.state.Roster().Level, event.LevelRuns) {
		return nil
	}
	// Not proposed like other commands: it is of the level that it brings.
	n.logger.Info("all members have reached a level", "level", level)
	return n.applyNow(ctx, event.RaiseLevel{Level: level})
}

// remember makes the roster say what a member says of itself.
func (n *Node) remember(ctx context.Context, s raft.Server, status *Status) error {
	if status == nil || status.DirID == "" {
		return nil
	}
	record, known := n.state.Roster().Member(string(s.ID))
	if !known {
		record = event.ClusterMember{ID: string(s.ID), DirID: status.DirID, Voter: s.Suffrage == raft.Voter}
	}
	if status.HTTP != "" {
		record.HTTP = status.HTTP
	}
	if record.DirID != status.DirID {
		return nil
	}
	return n.enter(ctx, record)
}

// promote gives a vote to one member that is to have it, and had caught up in this round and the one before.
func (n *Node) promote(ctx context.Context, conf raft.Configuration, index uint64, replies []memberReply, caughtUp map[string]int) error {
	commit := n.raft.CommitIndex()
	for i, s := range conf.Servers {
		record, _ := n.state.Roster().Member(string(s.ID))
		status := replies[i].status
		if s.Suffrage == raft.Voter || !record.Voter || status == nil || status.Applied+promoteLag < commit {
			delete(caughtUp, string(s.ID))
			continue
		}
		if caughtUp[string(s.ID)]++; caughtUp[string(s.ID)] < 2 {
			continue
		}
		n.logger.Info("member has caught up and gets its vote", "member", string(s.ID))
		return n.await(ctx, n.raft.AddVoter(s.ID, s.Address, index, 0))
	}
	return nil
}

// promoteLag is how many entries a member may be behind and still get its vote.
const promoteLag = 100

// applyNow proposes a command as an entry of its own, past the queue.
func (n *Node) applyNow(ctx context.Context, c event.Command) error {
	ten := n.tenure.Load()
	if ten == nil {
		return errMoved
	}
	entry := event.AppendEntry(nil, event.Entry{Time: ten.now(), Commands: []event.Command{c}})
	return n.await(ctx, n.raft.Apply(entry, enqueueTimeout))
}

// memberReply is what became of asking one member.
type memberReply struct {
	status   *Status // nil: it did not answer
	stranger bool    // another directory answers under its id
}
