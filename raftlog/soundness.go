package raftlog

import "time"

// soundness tells whether the time up to a probe may be counted against leases. It may if
//
//   - a quorum confirmed this node's leadership in this probe, in time (the caller's part): renewals could be
//     confirmed, the process was not paused, the loop was not late, and raft's main loop, which
//     writes the log, does not hang in its disk;
//   - what was in the log when it was last looked at has been applied by now: appends, which renew
//     too, get through, so neither a majority's disks nor the state machine hang;
//   - no proposal was turned away: one that was would perhaps have renewed.
type soundness struct {
	index   uint64    // last index in the log
	since   time.Time // when it was looked at
	refused int64     // proposals turned away so far
	streak  int       // sound probes in a row
}

// judge takes in a probe; contact is the caller's part of its soundness. bound is how long the log
// may take to be applied.
func (s *soundness) judge(n *Node, now time.Time, contact bool, bound time.Duration) bool {
	refused := n.admission.refused.Load()
	sound := contact && (refused == s.refused || s.since.IsZero())
	s.refused = refused
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
