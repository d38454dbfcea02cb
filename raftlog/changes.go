package raftlog

import (
	"sync"

	"github.com/runlog/runlog/event"
)

type leaseView = event.LeaseView

// changes gathers, while this node leads, what the state machine says of leases. The FSM goroutine
// must not wait for the lessor, nor pay for it: of several views of one run only the last is kept,
// which bounds what is gathered by the number of runs.
type changes struct {
	mu    sync.Mutex
	on    bool
	views []leaseView
	at    map[lockOrRun]int // positions in views
}

type lockOrRun struct {
	name event.RunID
	lock bool
}

func (c *changes) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on, c.views, c.at = true, nil, make(map[lockOrRun]int)
}

func (c *changes) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on, c.views, c.at = false, nil, nil
}

// add reports whether anybody is interested. A renewal is not forgotten for a later change that is none.
func (c *changes) add(views []leaseView) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.on {
		return false
	}
	for i := range views {
		name := lockOrRun{views[i].Run, views[i].Lock}
		at, ok := c.at[name]
		if !ok {
			c.at[name] = len(c.views)
			c.views = append(c.views, views[i])
			continue
		}
		renewed := c.views[at].Renewed && c.views[at].Epoch == views[i].Epoch
		c.views[at] = views[i]
		c.views[at].Renewed = renewed || views[i].Renewed
	}
	return true
}

// take returns what was gathered, in the order of first change.
func (c *changes) take() []leaseView {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.views) == 0 {
		return nil
	}
	views := c.views
	c.views = nil
	clear(c.at)
	return views
}
