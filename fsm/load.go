package fsm

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// The lookups below go active → frozen → cache → Badger. They need mu, shared or exclusive, for
// as long as they run: what they put into the cache must not be older than what a flush puts there.

// find returns the run of that name: event.ErrRunNotFound once that is proved, event.ErrRunDeleted,
// or an error that is damage.
func (m *Machine) find(id event.RunID) (*run, error) {
	n, err := m.findName(id)
	if err != nil {
		return nil, err
	}
	if n.deleted {
		return nil, event.ErrRunDeleted
	}
	r, err := m.findRun(n.sid)
	if err != nil {
		return nil, err
	}
	if r.id != id {
		return nil, fmt.Errorf("%w: head %s belongs to another run", ErrDamaged, n.sid)
	}
	return r, nil
}

func (m *Machine) findName(id event.RunID) (nameEntry, error) {
	for _, o := range m.overlays() {
		if n, ok := o.names[id]; ok {
			return n, nil
		}
	}
	if n, ok := m.cache.names.Get(id); ok {
		return n, nil
	}
	if !m.names.has(fingerprintOf(id)) {
		return nameEntry{}, event.ErrRunNotFound
	}
	var n nameEntry
	err := m.store.db.View(func(txn *badger.Txn) (err error) {
		n, err = getName(txn, id)
		return err
	})
	if err != nil {
		return nameEntry{}, err
	}
	m.cache.names.Add(id, n)
	return n, nil
}

// overlays returns the overlays, newest first.
func (m *Machine) overlays() []*overlay {
	if m.frozen == nil {
		return []*overlay{m.active}
	}
	return []*overlay{m.active, m.frozen}
}

// findRun returns the run of a stream id that must exist.
func (m *Machine) findRun(s streamID) (*run, error) {
	for _, o := range m.overlays() {
		if r, ok := o.runs[s]; ok {
			if r == nil {
				return nil, event.ErrRunDeleted
			}
			return r, nil
		}
	}
	if r, ok := m.cache.runs.Get(s); ok {
		return r, nil
	}
	var r *run
	err := m.store.db.View(func(txn *badger.Txn) (err error) {
		r, err = getRun(txn, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	m.cache.runs.Add(s, r)
	return r, nil
}

// usedIDs returns every id that the run has used. FSM goroutine only.
func (m *Machine) usedIDs(r *run) (map[event.IDHash]struct{}, error) {
	if ids, ok := m.cache.used.Get(r.sid); ok {
		return ids, nil
	}
	ids := make(map[event.IDHash]struct{}, r.used)
	if m.flushedLog(r.sid) {
		err := m.store.db.View(func(txn *badger.Txn) error { return scanUsed(txn, r.sid, ids) })
		if err != nil {
			return nil, err
		}
	}
	for _, o := range m.overlays() {
		for _, h := range o.used[r.sid] {
			ids[h] = struct{}{}
		}
	}
	var sum fingerprint
	for h := range ids {
		sum.xor(fingerprint(h))
	}
	if uint64(len(ids)) != r.used || sum != r.usedXor {
		return nil, fmt.Errorf("%w: run %s used %d ids, %d are stored", ErrDamaged, r.sid, r.used, len(ids))
	}
	m.cache.keepUsed(r.sid, ids)
	return ids, nil
}

// flushedLog reports whether Badger may hold anything of the log: a scan saved for new ones.
func (m *Machine) flushedLog(s streamID) bool {
	for _, o := range m.overlays() {
		if o.changed[s]&changeCreated != 0 {
			return false
		}
	}
	return true
}

// producersOf returns every producer that the log remembers. FSM goroutine only.
func (m *Machine) producersOf(r *logHead) (map[event.ProducerID]*producer, error) {
	if all, ok := m.cache.producers.Get(r.sid); ok {
		return all, nil
	}
	all := make(map[event.ProducerID]*producer)
	if m.flushedLog(r.sid) {
		err := m.store.db.View(func(txn *badger.Txn) error { return scanProducers(txn, r.sid, all) })
		if err != nil {
			return nil, err
		}
	}
	overlays := m.overlays()
	for i := len(overlays) - 1; i >= 0; i-- {
		for id, p := range overlays[i].producers[r.sid] {
			if p.forgotten {
				delete(all, id)
			} else {
				all[id] = p
			}
		}
	}
	if uint64(len(all)) != r.producers {
		return nil, fmt.Errorf("%w: log %s remembers %d producers, %d are stored", ErrDamaged, r.sid, r.producers, len(all))
	}
	m.cache.producers.Add(r.sid, all)
	return all, nil
}
