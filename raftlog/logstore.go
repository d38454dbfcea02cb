package raftlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"go.etcd.io/bbolt"
)

// stores are the files that raft itself writes.
type stores struct {
	stable raft.StableStore
	log    raft.LogStore
	close  []io.Closer
}

// openStores opens term and vote in bbolt, and the log in the store that kind names, below dir.
func openStores(dir, kind string, logger hclog.Logger) (*stores, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create raft directory: %w", err)
	}
	s := &stores{}
	stable, err := openBolt(filepath.Join(dir, "stable.db"))
	if err != nil {
		return nil, err
	}
	s.stable, s.close = stable, append(s.close, stable)
	log, err := openLog(dir, kind, logger)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.log, s.close = log, append(s.close, log)
	if err := syncDir(dir); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

type closableLog interface {
	raft.LogStore
	io.Closer
}

func openLog(dir, kind string, logger hclog.Logger) (closableLog, error) {
	if kind == LogStoreBolt {
		return openBolt(filepath.Join(dir, "log.db"))
	}
	path := filepath.Join(dir, "wal")
	if err := os.MkdirAll(path, 0o750); err != nil {
		return nil, fmt.Errorf("create log directory: %w", err)
	}
	// The WAL does not close its meta store, which would keep the directory locked.
	meta := &metadb.BoltMetaDB{}
	w, err := wal.Open(path, wal.WithLogger(logger.Named("wal")), wal.WithMetaStore(meta),
		wal.WithSegmentFiler(segment.NewFiler(path, segmentFS{walfs.New()})))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open log %s: %w", path, err), meta.Close())
	}
	return &walLog{w, meta}, nil
}

type walLog struct {
	*wal.WAL
	meta *metadb.BoltMetaDB
}

// Close closes the segments, then the meta store.
func (w *walLog) Close() error { return errors.Join(w.WAL.Close(), w.meta.Close()) }

// openBolt opens a bbolt store whose free list is kept in memory only: written on each commit, it
// grows with the file and dominates the commit.
func openBolt(path string) (*raftboltdb.BoltStore, error) {
	s, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{
		Timeout: time.Second, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
	}})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return s, nil
}

// Close closes what was opened, the log first.
func (s *stores) Close() error {
	var first error
	for i := len(s.close) - 1; i >= 0; i-- {
		if err := s.close[i].Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
