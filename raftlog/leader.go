package raftlog

import (
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// tenure is this node's leadership in one term, from the application of its LeaderStart on. Nothing
// but LeaderStart is proposed outside a tenure.
type tenure struct {
	term  uint64
	base  event.Time
	since time.Time
}

// now is the log's time: within a term it follows this node's monotonic clock, so that a stepped
// wall clock neither stops nor jumps leases.
func (t *tenure) now() event.Time {
	return t.base + event.Time(time.Since(t.since).Milliseconds())
}

// retryEvery paces what is tried again while nothing is known to have changed.
const retryEvery = 50 * time.Millisecond

// runLeadership follows who leads: it begins and ends this node's tenures, and wakes whoever waits
// for a leader. It ends when the node closes.
func (n *Node) runLeadership() {
	var retry <-chan time.Time
	for {
		select {
		case <-n.observations:
		case <-n.raft.LeaderCh():
		case <-retry:
		case <-n.closing:
			n.tenure.Store(nil)
			return
		}
		retry = nil
		if !n.reconcile() {
			retry = time.After(retryEvery)
		}
		n.leadership.Notify()
	}
}

// observer makes raft report changes of its state and of the known leader. Observations carry no data that is used: each
// makes runLeadership look again, so dropping some when the channel is full loses nothing.
func (n *Node) observer() *raft.Observer {
	return raft.NewObserver(n.observations, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.RaftState, raft.LeaderObservation:
			return true
		}
		return false
	})
}

// reconcile makes the tenure fit raft's state; false: try again soon.
func (n *Node) reconcile() bool {
	leads, term := n.raft.State() == raft.Leader, n.raft.CurrentTerm()
	switch ten := n.tenure.Load(); {
	case !leads:
		if ten != nil {
			n.tenure.Store(nil)
			n.logger.Info("leadership lost", "term", ten.term)
		}
		return true
	case ten != nil && ten.term == term:
		return true
	}
	n.tenure.Store(nil)
	if err := n.startTerm(term); err != nil {
		n.logger.Warn("leader start failed", "term", term, "error", err)
		return false
	}
	if n.raft.State() != raft.Leader || n.raft.CurrentTerm() != term || n.state.LeaderTerm() != term {
		return false
	}
	n.lessor.term.Store(term) // before it can propose an end
	n.tenure.Store(&tenure{term: term, base: n.state.LogTime(), since: time.Now()})
	n.metrics.leaderships.Inc()
	n.logger.Info("leadership gained", "term", term, "index", n.state.Applied())
	return true
}

// startTerm proposes LeaderStart and waits until it is applied, and with it everything that
// earlier leaders committed. It takes the wall clock, once a term; Apply never lets time go back.
func (n *Node) startTerm(term uint64) error {
	c := event.LeaderStart{Term: term, ClusterID: n.state.ClusterID()}
	commands := []event.Command{c}
	if c.ClusterID == "" {
		// A cluster is founded by nodes of one build.
		c.ClusterID = randomID()
		commands = append(commands[:0], c)
		if n.cfg.Level > event.LevelRuns {
			commands = append(commands, event.RaiseLevel{Level: n.cfg.Level})
		}
	}
	entry := event.AppendEntry(nil, event.Entry{Time: event.Time(time.Now().UnixMilli()), Commands: commands})
	return n.raft.Apply(entry, enqueueTimeout).Error()
}
