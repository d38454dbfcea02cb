package raftlog

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// snapshots is raft's snapshot store. A directory holds one snapshot, named so that names sort as
// snapshots do:
//
//	<index>-<term>-<seq>/meta     header line with CRC-32C, then JSON (snapshot_meta.go)
//	<index>-<term>-<seq>/state    what was written: a marker, or a received export of the state
//	tmp-…                         unfinished; removed at open
//
// A snapshot that this node takes is a *marker*: the state up to its index is on this node's disk already,
// and copying it on each log compaction would double all writes. Opening a marker exports the
// state, which may be newer than the marker; that is sound because the state carries its own index
// and skips entries that it includes. A *received* snapshot is kept whole until it is restored, then becomes a marker, too.
type snapshots struct {
	dir    string
	logger *slog.Logger
	// export writes the state; nil while raft starts, when a marker must not be opened: the state
	// that it stands for is what the start-up found missing.
	export atomic.Pointer[func(context.Context, io.Writer) (uint64, error)]

	mu  sync.Mutex // guards the directory's listing against reaping
	seq uint64     // of the newest snapshot
}

const keepSnapshots = 2

// openSnapshots opens the store in dir, creating it, and removes what a crash left unfinished.
func openSnapshots(dir string, logger *slog.Logger) (*snapshots, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create snapshot directory: %w", err)
	}
	s := &snapshots{dir: dir, logger: logger}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open snapshots: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "tmp-") {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return nil, fmt.Errorf("remove unfinished snapshot: %w", err)
			}
		}
	}
	metas, err := s.list()
	if err != nil {
		return nil, err
	}
	for _, m := range metas {
		s.seq = max(s.seq, m.Seq)
		// A crash between becoming a marker and dropping the data.
		if m.Kind == kindMarker && m.Restored != 0 {
			if err := removeIfThere(filepath.Join(dir, m.ID(), "state")); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// list returns the snapshots, newest first. A directory whose meta is damaged is an error: guessing
// which snapshot is the newest could lose entries.
func (s *snapshots) list() ([]*snapshotMeta, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var metas []*snapshotMeta
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "tmp-") {
			continue
		}
		m, err := readSnapshotMeta(filepath.Join(s.dir, e.Name(), "meta"))
		if err != nil {
			return nil, fmt.Errorf("snapshot %s: %w", e.Name(), err)
		}
		metas = append(metas, m)
	}
	sort.Slice(metas, func(i, j int) bool { return metas[i].ID() > metas[j].ID() })
	return metas, nil
}

// newest returns the newest snapshot, or nil.
func (s *snapshots) newest() (*snapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	metas, err := s.list()
	if err != nil || len(metas) == 0 {
		return nil, err
	}
	return metas[0], nil
}

// List implements raft.SnapshotStore. Only the newest snapshot is offered: raft falls back to an
// older one when that cannot be opened, and entries after the older one may be compacted.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	m, err := s.newest()
	if err != nil || m == nil {
		return nil, err
	}
	return []*raft.SnapshotMeta{m.raftMeta()}, nil
}

// Open implements raft.SnapshotStore. What it returns is checked, complete and of the exact size
// that the meta says, which raft announces to the follower before it sends.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	m, err := readSnapshotMeta(filepath.Join(s.dir, id, "meta"))
	var f *os.File
	if err == nil && m.Kind == kindReceived {
		f, err = os.Open(filepath.Join(s.dir, id, "state"))
	}
	s.mu.Unlock()
	if err == nil && m.Kind == kindMarker {
		return s.openExport(m)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open snapshot %s: %w", id, err)
	}
	if err := m.verify(f); err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("open snapshot %s: %w", id, err)
	}
	return m.raftMeta(), &receivedSnapshot{File: f, id: id}, nil
}

// receivedSnapshot lets [machine.Restore] know which snapshot it restored.
type receivedSnapshot struct {
	*os.File
	id string
}

var errNoExport = errors.New("a marker stands for state that this node does not have yet")

// openExport exports the state to a file without a name, so that a crash leaves nothing behind.
func (s *snapshots) openExport(m *snapshotMeta) (*raft.SnapshotMeta, io.ReadCloser, error) {
	export := s.export.Load()
	if export == nil {
		return nil, nil, errNoExport
	}
	f, err := os.CreateTemp(s.dir, "tmp-export-*")
	if err != nil {
		return nil, nil, fmt.Errorf("export state: %w", err)
	}
	if err = os.Remove(f.Name()); err == nil {
		var index uint64
		index, err = (*export)(context.Background(), f)
		if err == nil && index < m.Index {
			err = fmt.Errorf("the state ends at entry %d, before its snapshot at %d", index, m.Index)
		}
	}
	meta := m.raftMeta()
	if err == nil {
		meta.Size, err = f.Seek(0, io.SeekEnd)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("export state: %w", err)
	}
	return meta, f, nil
}

// restored turns a received snapshot into a marker once the state restored from it is durable and
// includes index, and frees its data.
func (s *snapshots) restored(id string, index uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := filepath.Join(s.dir, id)
	m, err := readSnapshotMeta(filepath.Join(path, "meta"))
	if err != nil {
		return fmt.Errorf("snapshot %s: %w", id, err)
	}
	m.Kind, m.Restored, m.Size, m.CRC = kindMarker, index, 0, 0
	if err := writeFileDurably(filepath.Join(path, "meta"), m.encode()); err != nil {
		return fmt.Errorf("snapshot %s: %w", id, err)
	}
	return removeIfThere(filepath.Join(path, "state"))
}

// reap removes all but the newest snapshots; s.mu is held.
func (s *snapshots) reap() error {
	metas, err := s.list()
	if err != nil {
		return err
	}
	for _, m := range metas[min(len(metas), keepSnapshots):] {
		// Renamed first: a half-removed directory must not look like a damaged snapshot.
		tmp := filepath.Join(s.dir, "tmp-reap-"+m.ID())
		if err := os.Rename(filepath.Join(s.dir, m.ID()), tmp); err != nil {
			return fmt.Errorf("remove old snapshot: %w", err)
		}
		if err := os.RemoveAll(tmp); err != nil {
			return fmt.Errorf("remove old snapshot: %w", err)
		}
	}
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
