package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// stableTerm is the key under which raft keeps its current term.
var stableTerm = []byte("CurrentTerm")

// Recover makes a stopped node the only member of a cluster of its own, which goes on from what the
// node's log holds: for when a majority of the old one's disks is lost. Entries that were never
// acknowledged may thereby become part of the log, as after any election. The cluster gets a new id, so
// that nodes of the old one which come back after all are refused. raftAddr is what it will listen on.
func Recover(dir, nodeID, raftAddr, clusterID string) (lastIndex uint64, err error) {
	id, err := readIdentity(dir)
	if err != nil {
		return 0, err
	}
	if id.NodeID != nodeID {
		return 0, fmt.Errorf("data directory %s belongs to node %s, not to %s", dir, id.NodeID, nodeID)
	}
	snaps, err := openSnapshots(filepath.Join(dir, "raft", "snapshots"), discard())
	if err != nil {
		return 0, err
	}
	s, err := openStores(filepath.Join(dir, "raft"), id.LogStore, newHCLog(discard()))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	last, term, err := logEnd(s, snaps)
	if err != nil {
		return 0, err
	}
	if last == 0 {
		return 0, fmt.Errorf("data directory %s holds no log to recover", dir)
	}
	conf := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(nodeID), Address: raft.ServerAddress(raftAddr)}}}
	return last, appendOffline(s, last, term+1,
		&raft.Log{Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(conf)}, refoundEntry(clusterID))
}

// SeedConfig describes a node that begins with a state instead of an empty log.
type SeedConfig struct {
	Dir, NodeID string
	LogStore    string   // LogStoreWAL (default) or LogStoreBolt
	Members     []Member // of the new cluster, the same on each of them
	ClusterID   string   // of the new cluster, likewise
	Index, Term uint64   // of the last entry that the state includes
}

// Seed prepares Dir so that [Open] goes on from a state that is already restored beside it.
func Seed(cfg SeedConfig) (err error) {
	orDefault(&cfg.LogStore, LogStoreWAL)
	if _, err := os.Stat(filepath.Join(cfg.Dir, "raft")); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("data directory %s has a log already", cfg.Dir)
	}
	if _, err := claimDir(cfg.Dir, cfg.NodeID, cfg.LogStore); err != nil {
		return err
	}
	var conf raft.Configuration
	for _, m := range cfg.Members {
		conf.Servers = append(conf.Servers, raft.Server{ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Raft)})
	}
	dir := filepath.Join(cfg.Dir, "raft")
	meta := &snapshotMeta{
		Index: cfg.Index, Term: cfg.Term, Seq: 1, Kind: kindMarker, Restored: cfg.Index,
		Configuration: raft.EncodeConfiguration(conf), ConfigurationIndex: cfg.Index,
	}
	snapshot := filepath.Join(dir, "snapshots", meta.ID())
	if err := os.MkdirAll(snapshot, 0o750); err != nil {
		return err
	}
	if err := writeFileDurably(filepath.Join(snapshot, "meta"), meta.encode()); err != nil {
		return err
	}
	s, err := openStores(dir, cfg.LogStore, newHCLog(discard()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return appendOffline(s, cfg.Index, cfg.Term+1, refoundEntry(cfg.ClusterID))
}

// refoundEntry begins a cluster on a state of another one. It carries no time: it is the same on each node.
func refoundEntry(clusterID string) *raft.Log {
	return &raft.Log{Type: raft.LogCommand, Data: event.AppendEntry(nil, event.Entry{Commands: []event.Command{event.Refound{ClusterID: clusterID}}})}
}

// logEnd returns the last index and the highest term that the directory knows.
func logEnd(s *stores, snaps *snapshots) (index, term uint64, err error) {
	newest, err := snaps.newest()
	if err != nil {
		return 0, 0, err
	}
	if newest != nil {
		index, term = newest.Index, newest.Term
	}
	last, err := s.log.LastIndex()
	if err != nil {
		return 0, 0, err
	}
	if last > index {
		var l raft.Log
		if err := s.log.GetLog(last, &l); err != nil {
			return 0, 0, err
		}
		index, term = last, l.Term
	}
	current, err := s.stable.GetUint64(stableTerm)
	if err != nil && err.Error() != "not found" { // raft itself compares so
		return 0, 0, err
	}
	return index, max(term, current), nil
}

// appendOffline appends entries of one term after last, and makes the term current.
func appendOffline(s *stores, last, term uint64, entries ...*raft.Log) error {
	if err := s.stable.SetUint64(stableTerm, term); err != nil {
		return err
	}
	for i, l := range entries {
		l.Index, l.Term = last+1+uint64(i), term
	}
	return s.log.StoreLogs(entries)
}

// LogReport is what a check of a node's log found.
type LogReport struct {
	NodeID      string
	First, Last uint64 // bounds of the log; 0: it is empty
	Term        uint64
	Snapshot    uint64 // index of the newest snapshot; 0: none
}

// VerifyLog reads a stopped node's log and snapshots whole and compares them with a state that
// includes the entries up to applied.
func VerifyLog(dir string, applied uint64) (r LogReport, err error) {
	id, err := readIdentity(dir)
	if err != nil {
		return r, err
	}
	r.NodeID = id.NodeID
	snaps, err := openSnapshots(filepath.Join(dir, "raft", "snapshots"), discard())
	if err != nil {
		return r, err
	}
	d := onDisk{applied: applied}
	newest, err := snaps.newest()
	if err != nil {
		return r, err
	}
	if newest != nil {
		r.Snapshot, d.snapshot, d.restored, d.whole = newest.Index, newest.Index, newest.Restored, newest.Kind == kindReceived
	}
	s, err := openStores(filepath.Join(dir, "raft"), id.LogStore, newHCLog(discard()))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if r.First, err = s.log.FirstIndex(); err != nil {
		return r, err
	}
	if r.Last, err = s.log.LastIndex(); err != nil {
		return r, err
	}
	for i := r.First; i > 0 && i <= r.Last; i++ {
		var l raft.Log
		if err := s.log.GetLog(i, &l); err != nil {
			return r, fmt.Errorf("log entry %d: %w", i, err)
		}
		if err := checkLog(&l); err != nil {
			return r, fmt.Errorf("log entry %d: %w", i, err)
		}
		if l.Index != i || l.Term < r.Term {
			return r, fmt.Errorf("log entry %d says that it is entry %d of term %d, after term %d", i, l.Index, l.Term, r.Term)
		}
		r.Term = l.Term
	}
	d.first, d.last = r.First, r.Last
	_, err = decideStart(d)
	return r, err
}
