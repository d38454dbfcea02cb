package raftlog

import "time"

// soundness tells whether the time up to a probe may be counted against leases. It may if
//
//   - a quorum confirmed this node's leadership in this probe, in time (the caller's part): renewals could be
//     confirmed, the process was not paused, the loop was not late, and raft's main loop, which
//     writes the log, does not hang in its disk;
//   - what was in the log when it was last looked at has been applied by now: appends, which renew
//     too, get through, so neither a majority's disks nor the state machine hang.
//
// An append that was turned away for want of room is no gap for all, but a sign of its host's life
// (lessor.turnedAway): otherwise a cluster that is overloaded for long would end nothing.
type soundness struct {
	index  uint64    // last index in the log
	since  time.Time // when it was looked at
	streak int       // sound probes in a row
}

// judge takes in a probe; contact is the caller's part of its soundness. bound is how long the log
// may take to be applied.
func (s *soundness) judge(n *Node, now time.Time, contact bool, bound time.Duration) bool {
	sound := contact
	switch {
	case n.state.Applied() >= s.index:
		s.index, s.since = n.raft.LastIndex(), now
	case now.Sub(s.since) > bound:
		sound = false
	}
	if s.streak++; !sound {
		s.streak = 0
	}
	return sound
}

// settled reports whether verdicts may be proposed: not in the first sound moment after a gap, when
// renewals that wait in the network may not have been read yet.
func (s *soundness) settled() bool { return s.streak >= 2 }
