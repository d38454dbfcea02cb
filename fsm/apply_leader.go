package fsm

import "github.com/runlog/runlog/event"

// leaderStart begins a leader's term. A leader proposes nothing else before it.
func (a *applier) leaderStart(c *event.LeaderStart) (event.Result, error) {
	mt := &a.m.active.meta
	mt.leaderTerm = c.Term
	if mt.clusterID == "" {
		mt.clusterID = c.ClusterID
	}
	a.effect(c.Term)
	a.effects.WriteString(mt.clusterID)
	return event.Result{}, nil
}
