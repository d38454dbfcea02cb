package raftlog

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/runlog/runlog/event"
)

// Member is one node of a cluster as its peers and clients reach it.
type Member struct {
	ID   string
	Raft string // host:port of the raft and internal RPC port
	HTTP string // host:port of the HTTP API
}

// The log stores to choose from.
const (
	LogStoreWAL  = "wal"  // hashicorp/raft-wal: one fsync per append
	LogStoreBolt = "bolt" // hashicorp/raft-boltdb: two
)

// Config configures a [Node]. Fields without "required" have a useful zero value.
type Config struct {
	// NodeID names this node in the cluster; required, and the same for the life of Dir.
	NodeID string
	// Dir is the node's data directory; required. The state machine's own files are not in it
	// unless the caller puts them there.
	Dir string
	// RaftAddr is where to listen, and what peers dial, host:port. Required unless Network is set.
	RaftAddr string
	// HTTPAddr is told to peers, host:port.
	HTTPAddr string
	// Bootstrap lists every member of a new cluster, this node included, identically on each of
	// them. Ignored when Dir already holds a log.
	Bootstrap []Member
	// LogStore is LogStoreWAL (default) or LogStoreBolt; the same for the life of Dir.
	LogStore string
	// State is the opened state machine; required. A successful Open owns and closes it.
	State State

	// HeartbeatTimeout and ElectionTimeout bound how long a follower waits for its leader, and a
	// candidate for votes. Default 500 ms each.
	HeartbeatTimeout, ElectionTimeout time.Duration
	// CommitTimeout is how long an idle leader takes to tell followers what is committed; it
	// bounds how late a follower's tail shows an isolated event. Default 5 ms.
	CommitTimeout time.Duration
	// HoldFor bounds how long a proposal or a read index waits for a leader. Default 10 s.
	HoldFor time.Duration
	// MinLease is the shortest lease there may be; it sets how finely the leader judges time. Default
	// 1 s; tests set less.
	MinLease time.Duration
	// StoreTimeout stops the node when one write of the log takes longer. Default 3 s.
	StoreTimeout time.Duration
	// MaxPending and MaxPendingBytes bound the proposals not answered yet, in commands and encoded bytes.
	// Beyond them Propose answers ErrOverloaded. Defaults 16,384 and 64 MiB.
	MaxPending, MaxPendingBytes int
	// SnapshotBytes of log trigger a snapshot; TrailingBytes of log are kept behind it, so that a
	// follower that was briefly away catches up without one. Defaults 64 MiB each.
	SnapshotBytes, TrailingBytes int64
	// Level is the newest level of commands that this node applies; tests lower it to stand for an older
	// build. Default event.LevelCurrent.
	Level event.Level
	// MinFreeBytes is the free disk space below which Ready fails. Default 256 MiB.
	MinFreeBytes uint64

	// Logger receives this package's and raft's log; nil discards.
	Logger *slog.Logger
	// Registerer receives the metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer
	// Fatal is called, once, when the node must stop: its process should exit. Required.
	// It may be called from any goroutine and must not wait for Close.
	Fatal func(error)

	// Network replaces the TCP listener on RaftAddr (tests).
	Network Network
	// WrapLogStore wraps the log store under its guard (tests: fault injection).
	WrapLogStore func(raft.LogStore) raft.LogStore
}

// entriesPerSnapshot bounds the log between two snapshots by entries too, whatever their size.
const entriesPerSnapshot = 100_000

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// withDefaults returns the config with its defaults filled in, or says what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.NodeID == "":
		return c, errors.New("config: NodeID is empty")
	case c.Dir == "":
		return c, errors.New("config: Dir is empty")
	case c.RaftAddr == "" && c.Network == nil:
		return c, errors.New("config: RaftAddr is empty")
	case c.State == nil:
		return c, errors.New("config: State is nil")
	case c.Fatal == nil:
		return c, errors.New("config: Fatal is nil")
	}
	orDefault(&c.LogStore, LogStoreWAL)
	if c.LogStore != LogStoreWAL && c.LogStore != LogStoreBolt {
		return c, fmt.Errorf("config: LogStore %q is neither %q nor %q", c.LogStore, LogStoreWAL, LogStoreBolt)
	}
	orDefault(&c.HeartbeatTimeout, 500*time.Millisecond)
	orDefault(&c.ElectionTimeout, c.HeartbeatTimeout)
	orDefault(&c.CommitTimeout, 5*time.Millisecond)
	orDefault(&c.HoldFor, 10*time.Second)
	orDefault(&c.MinLease, time.Second)
	orDefault(&c.StoreTimeout, 3*time.Second)
	orDefault(&c.MaxPending, 16384)
	orDefault(&c.MaxPendingBytes, 64<<20)
	orDefault(&c.SnapshotBytes, 64<<20)
	orDefault(&c.TrailingBytes, 64<<20)
	orDefault(&c.Level, event.LevelCurrent)
	orDefault(&c.MinFreeBytes, 256<<20)
	orDefault(&c.Logger, slog.New(slog.DiscardHandler))
	c.Logger = c.Logger.With("node", c.NodeID)
	if len(c.Bootstrap) > 0 {
		self := false
		seen := map[string]bool{}
		for _, m := range c.Bootstrap {
			if m.ID == "" || m.Raft == "" {
				return c, errors.New("config: a bootstrap member has no id or no raft address")
			}
			if seen[m.ID] {
				return c, fmt.Errorf("config: bootstrap member %s is listed twice", m.ID)
			}
			seen[m.ID] = true
			self = self || m.ID == c.NodeID
		}
		if !self {
			return c, fmt.Errorf("config: node %s is not among the bootstrap members", c.NodeID)
		}
	}
	return c, nil
}

// raftConfig is hashicorp/raft's configuration. The rest of it is set by Open.
func (c Config) raftConfig() *raft.Config {
	rc := raft.DefaultConfig()
	rc.LocalID = raft.ServerID(c.NodeID)
	rc.HeartbeatTimeout = c.HeartbeatTimeout
	rc.ElectionTimeout = c.ElectionTimeout
	rc.LeaderLeaseTimeout = c.HeartbeatTimeout
	rc.CommitTimeout = c.CommitTimeout
	// Groups are formed here, so one AppendEntries rarely has many entries. While a follower catches
	// up this bounds a message, and the write of the log it causes, to 16 MiB.
	rc.MaxAppendEntries = 16
	// Snapshots are triggered by bytes (compact.go); raft's own trigger only bounds their number.
	rc.SnapshotThreshold = entriesPerSnapshot
	rc.SnapshotInterval = 30 * time.Second
	rc.TrailingLogs = 10240
	rc.NoLegacyTelemetry = true
	// A leader that is to go hands over first; a node that is removed stays up, to say so.
	rc.ShutdownOnRemove = false
	rc.Logger = newHCLog(c.Logger.With("component", "raft"))
	return rc
}
