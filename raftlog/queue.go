package raftlog

import (
	"sync"

	"github.com/runlog/runlog/event"
)

// outcome is what became of one command of a group. err is nil (result is the state machine's
// answer), errNotAppended, ErrOverloaded, ErrUpgrading or ErrOutcomeUnknown, possibly wrapped.
type outcome struct {
	result event.Result
	err    error
}

// group is a number of commands that travel together, to the log or to the leader.
type group struct {
	commands [][]byte // encoded by event.AppendCommand; nil: withdrawn
	// foreign[i]: a peer sent commands[i] because it takes this node for the leader. Such a
	// command is never forwarded again; two nodes that take each other for the leader would play ball with it.
	foreign []bool
	bytes   int
	cost    int  // sum of event.Cost
	taken   bool // no longer in the queue
	// done is closed when outcomes holds one outcome per command; outcomes is not read before.
	done     chan struct{}
	outcomes []outcome
}

// fail gives all of the group's commands the same outcome.
func (g *group) fail(err error) {
	g.outcomes = make([]outcome, len(g.commands))
	for i := range g.outcomes {
		g.outcomes[i].err = err
	}
	close(g.done)
}

// ticket is one command's place in a group.
type ticket struct {
	group *group
	at    int
}

func (t ticket) outcome() outcome { return t.group.outcomes[t.at] }

// queue gathers commands into groups. What bounds it is the node's admission (admission.go): a
// command is only added by somebody who waits for it.
type queue struct {
	mu     sync.Mutex
	groups []*group // the last one is open, the others are full
	closed bool
	// ready holds a token while groups may be non-empty.
	ready chan struct{}
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

// add queues commands in order, as neighbours unless a limit parts them. It fails after close.
func (q *queue) add(tickets []ticket, foreign bool, commands ...[]byte) ([]ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, ErrClosed
	}
	for _, c := range commands {
		tickets = append(tickets, q.addOne(c, foreign))
	}
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return tickets, nil
}

func (q *queue) addOne(c []byte, foreign bool) ticket {
	var g *group
	if n := len(q.groups); n > 0 {
		g = q.groups[n-1]
	}
	cost := event.Cost(c)
	if g == nil || len(g.commands) >= event.MaxEntryCommands ||
		(len(g.commands) > 0 && (g.bytes+len(c) > event.MaxEntryBytes || g.cost+cost > event.MaxEntryCost)) {
		g = &group{done: make(chan struct{})}
		q.groups = append(q.groups, g)
	}
	g.commands = append(g.commands, c)
	g.foreign = append(g.foreign, foreign)
	g.bytes += len(c)
	g.cost += cost
	return ticket{g, len(g.commands) - 1}
}

// take removes the oldest group, or returns nil when there is none.
func (q *queue) take() *group {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.groups) == 0 {
		return nil
	}
	g := q.groups[0]
	g.taken = true
	q.groups[0] = nil
	q.groups = q.groups[1:]
	if len(q.groups) > 0 {
		select {
		case q.ready <- struct{}{}:
		default:
		}
	}
	return g
}

// withdraw takes a command back unless its group has been taken: then its outcome is unknown until the
// group is done.
func (q *queue) withdraw(t ticket) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.group.taken {
		return false
	}
	t.group.commands[t.at] = nil
	return true
}

// close fails what is queued and refuses more.
func (q *queue) close() {
	q.mu.Lock()
	groups := q.groups
	q.groups, q.closed = nil, true
	for _, g := range groups {
		g.taken = true
	}
	q.mu.Unlock()
	for _, g := range groups {
		g.fail(errNotAppended)
	}
}
