package fsm

import (
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

const (
	// mergedSegmentBytes is how many bytes of records a merged segment holds, uncompressed.
	mergedSegmentBytes = 256 << 10
	// doomedKeys is how many keys of a deleted run one step removes.
	doomedKeys = 1000
	// vlogGCEvery is how often Badger's value log, which only single events near 1 MiB go to, is looked at.
	vlogGCEvery = 10 * time.Minute
)

// chores is the upkeep that the flusher does while nothing waits, a small step at a time. All of
// it is local: offsets, exports and the state hash do not change.
type chores struct {
	m      *Machine
	lastGC time.Time
	idleAt uint64 // flushed index at which a search for chores found none
}

func newChores(m *Machine) *chores { return &chores{m: m, lastGC: time.Now(), idleAt: ^uint64(0)} }

// step does one step of the first chore there is.
func (c *chores) step() {
	flushed := c.m.Flushed()
	if c.idleAt == flushed {
		return
	}
	for _, chore := range []func() (bool, error){c.sweepDoomed, c.sweepStream, c.sweepFolds, c.mergeEnded, c.sweepChanges} {
		did, err := chore()
		if err != nil {
			c.m.fatal(fmt.Errorf("fsm: upkeep: %w", err))
			return
		}
		if did {
			return
		}
	}
	if time.Since(c.lastGC) > vlogGCEvery && !c.m.cfg.InMemory {
		c.lastGC = time.Now()
		if err := c.m.store.db.RunValueLogGC(0.5); err != nil && !errors.Is(err, badger.ErrNoRewrite) {
			c.m.cfg.Logger.Warn("value log is not collected", "error", err)
		}
	}
	c.idleAt = flushed
}

// first returns the first stream id under a prefix of its own.
func (st *store) first(kind byte) (s streamID, ok bool, err error) {
	err = st.db.View(func(txn *badger.Txn) error {
		opt := badger.DefaultIteratorOptions
		opt.Prefix, opt.PrefetchValues = []byte{kind}, false
		it := txn.NewIterator(opt)
		defer it.Close()
		if it.Rewind(); it.Valid() {
			s, ok = sidOf(it.Item().Key()), true
		}
		return nil
	})
	return s, ok, err
}

// sweepDoomed removes keys of a deleted run. Views that began before may still read them: they
// hold a transaction.
func (c *chores) sweepDoomed() (bool, error) {
	st := c.m.store
	s, ok, err := st.first(keyDoomed)
	if !ok || err != nil {
		return false, err
	}
	var keys [][]byte
	for _, kind := range []byte{keySegment, keyMerged, keyUsed, keyProducer, keySpan, keyMetadata, keyCheckpoint, keyUnmerged, keyOpenRun} {
		if keys, err = st.appendKeys(keys, sidKey(kind, s), doomedKeys-len(keys)); err != nil {
			return false, err
		}
	}
	// What was folded over the thread holds the run's messages.
	thread, err := st.doomedThread(s)
	if err != nil {
		return false, err
	}
	if len(thread) == len(fingerprint{}) {
		prefix := append([]byte{keyThreadFold}, thread...)
		if keys, err = st.appendKeys(keys, prefix, doomedKeys-len(keys)); err != nil {
			return false, err
		}
	}
	if len(keys) == 0 {
		keys = append(keys, sidKey(keyDoomed, s))
	}
	return true, st.remove(keys)
}

// sweepFolds removes what was folded over the thread of a deleted run that forks still read: it
// holds the run's messages.
func (c *chores) sweepFolds() (bool, error) {
	st := c.m.store
	s, ok, err := st.first(keyDoomedFolds)
	if !ok || err != nil {
		return false, err
	}
	var keys [][]byte
	err = st.db.View(func(txn *badger.Txn) error {
		thread, err := get(txn, sidKey(keyDoomedFolds, s))
		keys = append(keys, append([]byte{keyThreadFold}, thread...))
		return err
	})
	if err != nil {
		return false, err
	}
	keys, err = st.appendKeys(nil, keys[0], doomedKeys)
	if err == nil && len(keys) < doomedKeys {
		keys = append(keys, sidKey(keyDoomedFolds, s))
	}
	if err != nil {
		return false, err
	}
	return true, st.remove(keys)
}

// sweepStream removes keys of a deleted stream.
func (c *chores) sweepStream() (bool, error) {
	st := c.m.store
	s, ok, err := st.first(keyDoomedStream)
	if !ok || err != nil {
		return false, err
	}
	var keys [][]byte
	for _, kind := range []byte{keySegment, keyProducer} {
		if keys, err = st.appendKeys(keys, sidKey(kind, s), doomedKeys-len(keys)); err != nil {
			return false, err
		}
	}
	if len(keys) == 0 {
		if keys, err = st.lastKeys(s); err != nil {
			return false, err
		}
	}
	return true, st.remove(keys)
}

// lastKeys are what goes last of a deleted stream, in one step: its head and the mark on its name,
// unless another stream has that name now.
func (st *store) lastKeys(sid streamID) (keys [][]byte, err error) {
	keys = append(keys, sidKey(keyDoomedStream, sid), sidKey(keyStream, sid), sidKey(keyExpiring, sid), sidKey(keySource, sid))
	err = st.db.View(func(txn *badger.Txn) error {
		value, err := get(txn, keys[0])
		if err != nil {
			return err
		}
		key := streamNameKey(event.StreamName(value))
		item, err := txn.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		sealed, err := item.ValueCopy(nil)
		if err != nil {
			return err
		}
		if value, err = unseal(key, sealed); err != nil {
			return err
		}
		n, err := decodeName(value)
		if err == nil && n.deleted && n.sid == sid {
			keys = append(keys, key)
		}
		return err
	})
	return keys, err
}

// doomedThread returns the hash of a deleted run's thread; stores of before kept none.
func (st *store) doomedThread(s streamID) (hash []byte, err error) {
	err = st.db.View(func(txn *badger.Txn) error {
		hash, err = get(txn, sidKey(keyDoomed, s))
		return err
	})
	return hash, err
}

func (st *store) appendKeys(keys [][]byte, prefix []byte, limit int) ([][]byte, error) {
	err := st.db.View(func(txn *badger.Txn) error {
		opt := badger.DefaultIteratorOptions
		opt.Prefix, opt.PrefetchValues = prefix, false
		it := txn.NewIterator(opt)
		defer it.Close()
		for it.Rewind(); it.Valid() && limit > 0; it.Next() {
			keys = append(keys, it.Item().KeyCopy(nil))
			limit--
		}
		return nil
	})
	return keys, err
}

func (st *store) remove(keys [][]byte) error {
	return st.db.Update(func(txn *badger.Txn) error {
		for _, k := range keys {
			if err := txn.Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// mergeEnded rewrites the segments of one ended run into large compressed ones. Readers turn to
// them once the mark is there, which is written last; the old segments go afterwards.
func (c *chores) mergeEnded() (bool, error) {
	st := c.m.store
	s, ok, err := st.first(keyUnmerged)
	if !ok || err != nil {
		return false, err
	}
	var r *run
	if err := st.db.View(func(txn *badger.Txn) (err error) { r, err = headRun(txn, s); return err }); err != nil {
		return false, err
	}
	if r == nil { // deleted meanwhile
		return true, st.remove([][]byte{sidKey(keyUnmerged, s)})
	}
	var merged bool
	if err := st.db.View(func(txn *badger.Txn) error { k, err := segmentKind(txn, s); merged = k == keyMerged; return err }); err != nil {
		return false, err
	}
	if !merged {
		c.m.metrics.merged.Inc()
		return true, st.merge(r)
	}
	keys, err := st.appendKeys(nil, sidKey(keySegment, s), doomedKeys)
	if err != nil {
		return false, err
	}
	if len(keys) == 0 {
		keys = append(keys, sidKey(keyUnmerged, s))
	}
	return true, st.remove(keys)
}

// merge writes all of a run's records anew under keyMerged, then the mark that makes them count.
func (st *store) merge(r *run) error {
	m := merger{st: st, sid: r.sid}
	err := st.eachSegment(r.sid, 0, r.tail, m.add)
	if err == nil {
		err = m.flush()
	}
	if err == nil && m.chain != r.chain {
		err = fmt.Errorf("%w: run %s: the records' chain is %x, the head's %x", ErrDamaged, r.sid, m.chain, r.chain)
	}
	if err != nil {
		return err
	}
	return st.put(sidKey(keyMerged, r.sid), nil)
}

func (st *store) put(key, value []byte) error {
	return st.db.Update(func(txn *badger.Txn) error { return txn.Set(key, seal(key, value)) })
}

// merger gathers segments into one of mergedSegmentBytes.
type merger struct {
	st     *store
	sid    streamID
	first  event.Offset
	count  int
	before uint64
	chain  uint64 // after the last record gathered or written
	buf    []byte
}

func (m *merger) add(s segment) error {
	if s.before != m.chain {
		return fmt.Errorf("%w: segment at %d of run %s does not follow the one before", ErrDamaged, s.first, m.sid)
	}
	if len(m.buf) > 0 && len(m.buf)+len(s.records) > mergedSegmentBytes {
		if err := m.flush(); err != nil {
			return err
		}
	}
	if len(m.buf) == 0 {
		m.first, m.count, m.before = s.first, 0, s.before
	}
	m.buf = append(m.buf, s.records...)
	m.count += s.count
	m.chain = s.after
	return nil
}

func (m *merger) flush() error {
	if m.count == 0 {
		return nil
	}
	packed := m.st.packer.compress(m.buf)
	value := segmentHeader(segmentCompressed, m.count, m.before, m.chain, len(packed))
	value = append(value, packed...)
	err := m.st.put(offsetKey(keyMerged, m.sid, m.first), value)
	m.buf, m.count = m.buf[:0], 0
	return err
}
