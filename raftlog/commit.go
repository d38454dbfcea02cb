package raftlog

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// depth is how many groups are on their way at a time. While they are, the next one gathers. One
// leaves the log idle between a commit and the next group; more make the groups smaller.
const depth = 2

// enqueueTimeout bounds the wait for raft's main loop to take an entry.
const enqueueTimeout = time.Second

// runCommits sends one group after the other until the node closes. Commit order is queue order.
func (n *Node) runCommits() {
	slots := make(chan struct{}, depth)
	for {
		select {
		case slots <- struct{}{}:
		case <-n.closing:
			return
		}
		g := n.nextGroup()
		if g == nil {
			return
		}
		n.metrics.groupSize.Observe(float64(len(g.commands)))
		done := func() { <-slots }
		if ten := n.tenure.Load(); ten != nil {
			n.commit(ten, g, done)
		} else {
			n.inFlight.Go(func() {
				defer done()
				n.forward(g)
			})
		}
	}
}

// nextGroup waits for a group; nil when the node closes.
func (n *Node) nextGroup() *group {
	for {
		select {
		case <-n.queue.ready:
		case <-n.closing:
			return nil
		}
		if g := n.queue.take(); g != nil {
			return g
		}
	}
}

// commit proposes the group as one log entry and waits for it elsewhere. The tenure may have ended
// since it was loaded; then raft refuses the entry, or, had this node been re-elected in between, takes it
// before the new term's LeaderStart. That is harmless: Apply lets time only grow.
func (n *Node) commit(ten *tenure, g *group, done func()) {
	count, tooNew := n.admissible(g)
	if count == 0 {
		g.outcomes = make([]outcome, len(g.commands))
		g.unwritten(tooNew)
		close(g.done)
		done()
		return
	}
	// Not pooled: raft, the recent entries and the state machine keep parts of it.
	entry := event.AppendEntryHeader(make([]byte, 0, g.bytes+32), count)
	for _, c := range g.commands {
		entry = append(entry, c...)
	}
	event.SealEntry(entry, ten.now())
	began := time.Now()
	future := n.raft.Apply(entry, enqueueTimeout)
	n.inFlight.Go(func() {
		defer done()
		if err := future.Error(); err != nil {
			g.fail(applyError(err, future.Index() != 0))
			return
		}
		n.metrics.commit.Observe(time.Since(began).Seconds())
		n.answer(g, count, tooNew, future)
	})
}

// admissible takes commands out of the group that some member could not apply, and returns how many
// are left, not counting those that were withdrawn.
func (n *Node) admissible(g *group) (count int, tooNew map[int]bool) {
	level := max(n.state.Roster().Level, event.LevelRuns)
	for i, c := range g.commands {
		switch {
		case c == nil:
		case event.Kind(c[0]).Level() > level:
			if tooNew == nil {
				tooNew = make(map[int]bool)
			}
			tooNew[i], g.commands[i] = true, nil
		default:
			count++
		}
	}
	return count, tooNew
}

// unwritten gives the commands that are not in the entry their outcomes.
func (g *group) unwritten(tooNew map[int]bool) {
	for i, c := range g.commands {
		switch {
		case tooNew[i]:
			g.outcomes[i].err = ErrUpgrading
		case c == nil:
			g.outcomes[i].err = errNotAppended
		}
	}
}

// answer hands the state machine's results to the group's commands, of which count are in the entry.
func (n *Node) answer(g *group, count int, tooNew map[int]bool, future raft.ApplyFuture) {
	results, ok := future.Response().([]event.Result)
	if !ok || len(results) != count {
		n.fatal(fmt.Errorf("entry %d: the state machine answered %T for %d commands", future.Index(), future.Response(), count))
		g.fail(ErrOutcomeUnknown)
		return
	}
	g.outcomes = make([]outcome, len(g.commands))
	g.unwritten(tooNew)
	for i, c := range g.commands {
		if c == nil {
			continue
		}
		g.outcomes[i].result = results[0]
		results = results[1:]
	}
	close(g.done)
}

// applyError sorts raft's errors into "certainly not in the log" and "unknown". indexed: the entry
// got an index, so raft may have stored or sent it, whatever the error says.
func applyError(err error, indexed bool) error {
	definite := errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrEnqueueTimeout) ||
		errors.Is(err, raft.ErrLeadershipTransferInProgress) || errors.Is(err, raft.ErrRaftShutdown)
	if definite && !indexed {
		return fmt.Errorf("%w: %w", errNotAppended, err)
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
}
