package fsm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/runlog/runlog/event"
)

// memTableBytes sets Badger's transaction limits: 15 % of it in bytes, 1/96 of that in keys.
const memTableBytes = 64 << 20

// store is one Badger directory. A restore builds another one beside it.
type store struct {
	db     *badger.DB
	dir    string // empty in memory
	packer *packer

	readers sync.WaitGroup // views that outlive the machine's lock
}

// currentFile names, in Config.Dir, the directory in use; it is replaced by rename.
const currentFile = "CURRENT"

func openStore(cfg *Config) (*store, error) {
	if cfg.InMemory {
		return openBadger(badger.DefaultOptions("").WithInMemory(true), "", cfg.Logger)
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("fsm: %w", err)
	}
	name, err := os.ReadFile(filepath.Join(cfg.Dir, currentFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		name = []byte("db-1")
		if err := switchCurrent(cfg.Dir, string(name)); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("fsm: %w", err)
	}
	removeOthers(cfg.Dir, string(name), cfg.Logger)
	dir := filepath.Join(cfg.Dir, string(name))
	return openBadger(badger.DefaultOptions(dir), dir, cfg.Logger)
}

// switchCurrent makes name the directory in use, durably.
func switchCurrent(dir, name string) error {
	tmp := filepath.Join(dir, currentFile+".tmp")
	f, err := os.Create(tmp)
	if err != nil {
		return fmt.Errorf("fsm: %w", err)
	}
	_, err = f.WriteString(name)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, filepath.Join(dir, currentFile))
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("fsm: switch to %s: %w", name, err)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// removeOthers deletes what an interrupted restore left behind.
func removeOthers(dir, keep string, log *slog.Logger) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // the open that follows says why
	}
	for _, e := range entries {
		if e.Name() != keep && e.Name() != currentFile {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				log.Warn("cannot remove a leftover", "path", e.Name(), "error", err)
			}
		}
	}
}

// openBadger opens one database and asserts that an overlay always fits its transactions.
//
// Values stay in the LSM tree up to 1 MiB; a checksum failure must surface at open, because
// later Badger may answer it with "not found".
func openBadger(opt badger.Options, dir string, log *slog.Logger) (*store, error) {
	opt = opt.WithLogger(badgerLog{log}).
		WithSyncWrites(true).
		WithNumVersionsToKeep(1).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		WithMemTableSize(memTableBytes).
		WithNumMemtables(3).
		WithNumCompactors(2).
		WithBlockCacheSize(16 << 20).
		WithIndexCacheSize(8 << 20).
		WithCompression(options.Snappy).
		WithChecksumVerificationMode(options.OnTableRead).
		WithValueLogFileSize(64 << 20).
		WithCompactL0OnClose(false)
	db, err := badger.Open(opt)
	if err != nil {
		return nil, fmt.Errorf("fsm: open %s: %w", dir, err)
	}
	const worstBytes = fullBytes + event.MaxEntryCost + 1<<20
	const worstKeys = fullKeys + event.MaxEntryCost/keyOverhead/2
	if db.MaxBatchSize() < worstBytes || db.MaxBatchCount() < worstKeys {
		db.Close()
		return nil, fmt.Errorf("fsm: Badger takes %d bytes and %d keys in a transaction; a flush may need %d and %d",
			db.MaxBatchSize(), db.MaxBatchCount(), worstBytes, worstKeys)
	}
	p, err := newPacker()
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &store{db: db, dir: dir, packer: p}, nil
}

// close waits for the views that still read and closes the database.
func (s *store) close() error {
	s.readers.Wait()
	s.packer.close()
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("fsm: close: %w", err)
	}
	return nil
}

// badgerLog passes Badger's warnings and errors on; its chatter is for debugging only.
type badgerLog struct{ log *slog.Logger }

func (l badgerLog) Errorf(f string, a ...any) { l.log.Error("badger: " + fmt.Sprintf(f, a...)) }
func (l badgerLog) Warningf(f string, a ...any) {
	level := slog.LevelWarn
	if strings.Contains(f, "might be too small") || strings.HasPrefix(f, "Cache life expectancy") {
		level = slog.LevelDebug // of the block cache: recent records are in memory; the cache is meant for the odd old read
	}
	l.log.Log(context.Background(), level, "badger: "+fmt.Sprintf(f, a...))
}
func (l badgerLog) Infof(f string, a ...any)  { l.log.Debug("badger: " + fmt.Sprintf(f, a...)) }
func (l badgerLog) Debugf(f string, a ...any) { l.log.Debug("badger: " + fmt.Sprintf(f, a...)) }
