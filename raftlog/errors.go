package raftlog

import "errors"

// Conditions of the cluster, as opposed to refusals of the state machine.
var (
	// ErrUnavailable: no leader could be asked in time. Nothing was written.
	ErrUnavailable = errors.New("no leader is available")
	// ErrOverloaded: too much is waiting already. Nothing was written.
	ErrOverloaded = errors.New("too many proposals are waiting")
	// ErrOutcomeUnknown: the command may have been written, now or later, or not at all.
	ErrOutcomeUnknown = errors.New("the outcome is unknown")
	// ErrUpgrading: some member runs a build that does not know the command. Nothing was written.
	ErrUpgrading = errors.New("not every member of the cluster knows this kind of command yet")
	// ErrClosed: this node is closing. Nothing was written.
	ErrClosed = errors.New("the node is closing")
)

// errNotAppended marks a group that certainly is not and will not be in the log.
var errNotAppended = errors.New("not appended")
