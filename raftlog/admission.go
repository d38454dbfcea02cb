package raftlog

import "sync/atomic"

// admission bounds the proposals that are held, queued or in flight on this node.
type admission struct {
	maxCommands, maxBytes int64
	commands, bytes       atomic.Int64
}

// enter admits commands of that many bytes, or answers ErrOverloaded at once: waiting here would
// only move the queue to where nobody bounds it.
func (a *admission) enter(commands, bytes int) error {
	c := a.commands.Add(int64(commands))
	b := a.bytes.Add(int64(bytes))
	if c > a.maxCommands || b > a.maxBytes {
		a.leave(commands, bytes)
		return ErrOverloaded
	}
	return nil
}

func (a *admission) leave(commands, bytes int) {
	a.commands.Add(-int64(commands))
	a.bytes.Add(-int64(bytes))
}
