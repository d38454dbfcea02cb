package raftlog

import "github.com/runlog/runlog/event"

// report counts and logs the runs that an entry ended, if this node proposed it: each end once in
// the cluster. It goes by what is applied and not by the verdict's answer, which a leader that is
// deposed does not get: the entry is committed all the same, and this node applies it as a follower.
//
// It runs on raft's goroutine, since nobody else sees every entry. That ends wait for the logger is
// no more than raft itself does.
func (l *lessor) report(term uint64, views []leaseView) {
	if term != l.term.Load() { // another leader's, or applied again after a restart
		return
	}
	for i := range views {
		v := &views[i]
		reason := ""
		switch v.EndedBy {
		case event.StatusLost:
			reason = endedLost
		case event.StatusCancelled:
			reason = endedCancelled
		default:
			continue
		}
		l.n.metrics.ended[reason].Inc()
		l.n.logger.Info("run ended by the cluster", "run", v.Run, "epoch", v.Epoch, "offset", v.Tail-1, "reason", reason)
	}
}

// Reasons for which the cluster ends a run.
const (
	endedLost      = event.CodeHostLost
	endedCancelled = "cancelled"
)
