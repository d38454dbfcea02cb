package raftlog

import (
	"errors"
	"time"

	"github.com/runlog/runlog/event"
)

// Bounds of the search for plain streams that outlived their TTL or their time, and for wakes of
// subscriptions whose consumer let its lease run out.
const (
	expiryEvery = 100 * time.Millisecond
	maxExpiries = 256 // ends proposed at a time
)

// runExpiry ends overdue streams and wakes while this node leads. The state machine judges each by the log's
// clocks; here only the time to ask comes from this node's.
func (n *Node) runExpiry() {
	tick := time.NewTicker(expiryEvery)
	defer tick.Stop()
	for {
		changed := n.leadership.C()
		if n.tenure.Load() == nil {
			select {
			case <-changed:
				continue
			case <-n.closing:
				return
			}
		}
		select {
		case <-tick.C:
			n.expire(n.overdue())
		case <-changed:
		case <-n.closing:
			return
		}
	}
}

func (n *Node) overdue() []event.Command {
	var due []event.Command
	for _, c := range n.state.Overdue(maxExpiries) {
		due = append(due, c)
	}
	for _, c := range n.state.OverdueWakes() {
		due = append(due, c)
	}
	return due
}

// expire proposes ends and waits for the answers. They pass by the admission, as verdicts about
// leases do, and are not forwarded: another leader asks for itself.
func (n *Node) expire(due []event.Command) {
	if len(due) == 0 {
		return
	}
	commands := make([][]byte, len(due))
	for i, c := range due {
		commands[i] = event.AppendCommand(nil, c)
	}
	tickets, err := n.queue.add(make([]ticket, 0, len(commands)), true, commands...)
	if err != nil {
		return // the node closes
	}
	for i, t := range tickets {
		select {
		case <-t.group.done:
		case <-n.abort:
			return
		}
		switch o := t.outcome(); {
		case o.err != nil:
			n.logger.Warn("what is overdue was not ended", "what", due[i], "error", o.err)
		case o.result.Refusal != nil && !errors.Is(o.result.Refusal, event.ErrStaleVerdict):
			n.logger.Error("the end of what is overdue was refused", "what", due[i], "error", o.result.Refusal)
		}
	}
}
