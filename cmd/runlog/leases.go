package main

import (
	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/fsm"
	"github.com/runlog/runlog/gateway"
	"github.com/runlog/runlog/raftlog"
)

// leases is a node and its state machine as the gateway asks them about leases.
type leases struct {
	*raftlog.Node
	state *fsm.Machine
}

// HolderRuns returns the open runs that holder has leased.
func (l leases) HolderRuns(holder event.HolderID) ([]event.LeaseView, error) {
	return l.state.HolderRuns(holder)
}

// Lock returns who holds a lock.
func (l leases) Lock(name event.LockName) (event.LeaseView, bool) { return l.state.Lock(name) }

// WatchLock subscribes to a lock.
func (l leases) WatchLock(name event.LockName) gateway.Watch { return l.state.WatchLock(name) }
