package raftlog

import (
	"errors"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// milder are messages that hashicorp/raft writes at ERROR about what every restart of a peer and every
// election brings with it. At ERROR stands what somebody must look at.
var milder = map[string]hclog.Level{
	// A peer cannot be reached, is slow, or is being stopped.
	"failed to appendEntries to":                hclog.Warn,
	"failed to heartbeat to":                    hclog.Warn,
	"failed to pipeline appendEntries":          hclog.Warn,
	"failed to start pipeline replication to":   hclog.Warn,
	"failed to send snapshot to":                hclog.Warn,
	"failed to make requestVote RPC":            hclog.Warn,
	"failed to decode incoming command":         hclog.Debug, // it closed its connection in between
	"failed to flush response":                  hclog.Debug,
	"peer has newer term, stopping replication": hclog.Info, // there is another leader
}

// sensible returns the level at which a message deserves to be seen.
func sensible(l hclog.Level, msg string, args []any) hclog.Level {
	if l != hclog.Error {
		return l
	}
	if m, ok := milder[msg]; ok {
		return m
	}
	if msg == "failed to get log" {
		for _, a := range args {
			// The entry was compacted away: the peer gets a snapshot.
			if err, ok := a.(error); ok && errors.Is(err, raft.ErrLogNotFound) {
				return hclog.Info
			}
		}
	}
	return l
}
