package raftlog

import (
	"bufio"
	"fmt"
	"hash"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// sink writes one snapshot into a temporary directory; Close makes it durable and renames it into
// place, so that a snapshot is there whole or not at all.
type sink struct {
	store *snapshots
	meta  snapshotMeta
	dir   string
	file  *os.File
	buf   *bufio.Writer
	crc   hash.Hash32
	done  bool
}

// Create implements raft.SnapshotStore. The snapshot counts as received unless markLocal is called.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	if version != raft.SnapshotVersionMax {
		return nil, fmt.Errorf("snapshot version %d is not supported", version)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	k := &sink{store: s, crc: crc32.New(castagnoli), meta: snapshotMeta{
		Index: index, Term: term, Seq: s.seq, Kind: kindReceived,
		Configuration: raft.EncodeConfiguration(configuration), ConfigurationIndex: configurationIndex,
	}}
	k.dir = filepath.Join(s.dir, "tmp-"+k.meta.ID())
	err := os.Mkdir(k.dir, 0o750)
	if err == nil {
		k.file, err = os.OpenFile(filepath.Join(k.dir, "state"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	}
	if err != nil {
		return nil, fmt.Errorf("create snapshot: %w", err)
	}
	k.buf = bufio.NewWriterSize(k.file, 1<<18)
	return k, nil
}

// markLocal says that what is written is this node's own marker, not a state.
func (k *sink) markLocal() { k.meta.Kind = kindMarker }

// ID implements raft.SnapshotSink.
func (k *sink) ID() string { return k.meta.ID() }

// Write implements raft.SnapshotSink.
func (k *sink) Write(p []byte) (int, error) {
	n, err := k.buf.Write(p)
	k.crc.Write(p[:n])
	k.meta.Size += int64(n)
	return n, err
}

// Close implements raft.SnapshotSink: after nil the snapshot survives a crash.
func (k *sink) Close() error {
	if k.done {
		return nil
	}
	k.done = true
	k.meta.CRC = k.crc.Sum32()
	err := k.buf.Flush()
	if err == nil {
		err = k.file.Sync()
	}
	if cerr := k.file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = writeFileDurably(filepath.Join(k.dir, "meta"), k.meta.encode())
	}
	if err != nil {
		os.RemoveAll(k.dir)
		return fmt.Errorf("write snapshot %s: %w", k.ID(), err)
	}
	s := k.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.Rename(k.dir, filepath.Join(s.dir, k.ID())); err != nil {
		os.RemoveAll(k.dir)
		return fmt.Errorf("write snapshot %s: %w", k.ID(), err)
	}
	if err := syncDir(s.dir); err != nil {
		return fmt.Errorf("write snapshot %s: %w", k.ID(), err)
	}
	return s.reap()
}

// Cancel implements raft.SnapshotSink.
func (k *sink) Cancel() error {
	if k.done {
		return nil
	}
	k.done = true
	k.file.Close()
	return os.RemoveAll(k.dir)
}
