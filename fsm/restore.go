package fsm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dgraph-io/badger/v4"
)

// Restore replaces the state by an export. It builds a new database beside the present one,
// checks it, and switches between two entries; a crash before the switch leaves the old state,
// after it the new one. Raft's FSM goroutine calls it.
//
// A snapshot that this node took itself holds no state; restoring one is refused, because the
// state it stands for is the one already open.
func (m *Machine) Restore(rc io.ReadCloser) error {
	defer rc.Close()
	next, err := m.build(rc)
	if err != nil {
		return fmt.Errorf("fsm: restore: %w", err)
	}
	if err := m.switchTo(next); err != nil {
		return fmt.Errorf("fsm: restore: %w", err)
	}
	m.cfg.Logger.Info("state restored", "index", m.Applied())
	return nil
}

// build imports an export into a database of its own and proves that it is complete.
func (m *Machine) build(r io.Reader) (*store, error) {
	st, err := m.newStore()
	if err != nil {
		return nil, err
	}
	err = st.load(r)
	if err == nil {
		_, err = st.loadResident()
	}
	if err == nil {
		err = st.db.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, st.close(), st.delete())
	}
	return st, nil
}

func (m *Machine) newStore() (*store, error) {
	if m.cfg.InMemory {
		return openBadger(badger.DefaultOptions("").WithInMemory(true), "", m.cfg.Logger)
	}
	n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(m.store.dir), "db-"))
	if err != nil {
		return nil, fmt.Errorf("directory %s: %w", m.store.dir, err)
	}
	dir := filepath.Join(m.cfg.Dir, fmt.Sprintf("db-%d", n+1))
	if err := os.RemoveAll(dir); err != nil { // of a restore that failed
		return nil, err
	}
	return openBadger(badger.DefaultOptions(dir), dir, m.cfg.Logger)
}

// load writes an export's keys. Half of it may be committed when it fails: the directory is
// thrown away then, so a WriteBatch is safe here as it is nowhere else.
func (st *store) load(r io.Reader) error {
	batch := st.db.NewWriteBatch()
	defer batch.Cancel()
	err := readExport(r, func(key, value []byte) error {
		if key[0] == keyMeta || strings.IndexByte(string(replicated), key[0]) >= 0 {
			return batch.Set(key, value)
		}
		return fmt.Errorf("%w: key %q does not belong in an export", ErrDamaged, key)
	})
	if err != nil {
		return err
	}
	return batch.Flush()
}

func (st *store) delete() error {
	if st.dir == "" {
		return nil
	}
	return os.RemoveAll(st.dir)
}

// switchTo makes next the machine's store. Views of the old one finish on it.
func (m *Machine) switchTo(next *store) error {
	m.flusher.stop()
	m.mu.Lock()
	old := m.store
	if next.dir != "" {
		if err := switchCurrent(m.cfg.Dir, filepath.Base(next.dir)); err != nil {
			m.mu.Unlock()
			return err
		}
	}
	err := m.adopt(next)
	m.mu.Unlock()
	if err != nil {
		return err
	}
	m.flusher.start(m)
	m.watches.wakeAll()
	return errors.Join(old.close(), old.delete())
}

// Digest returns a hash of everything that is stored and replicated, whatever segments it was
// flushed in. It reads all of it: for tests and offline checks.
func (m *Machine) Digest(ctx context.Context) (uint64, error) {
	if err := m.Flush(ctx); err != nil {
		return 0, err
	}
	m.mu.RLock()
	st := m.store
	st.readers.Add(1)
	m.mu.RUnlock()
	defer st.readers.Done()
	return st.digest()
}
