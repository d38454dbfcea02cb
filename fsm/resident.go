package fsm

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// resident is the part of the state that lives in memory whole.
type resident struct {
	meta     meta
	names    nameSet
	threads  nameSet
	openRuns openRuns
	locks    map[event.LockName]*lock

	streamNames nameSet
	sources     map[streamID]uint64
	expiries    expiries
	subs        subscriptions
	roster      *event.Roster
}

// loadResident reads the resident part and proves it against the counts stored with it.
func (s *store) loadResident() (resident, error) {
	if err := s.upgrade(); err != nil {
		return resident{}, err
	}
	res := resident{names: newNameSet(), threads: newNameSet(), openRuns: newOpenRuns(), locks: make(map[event.LockName]*lock),
		streamNames: newNameSet(), sources: make(map[streamID]uint64), roster: new(event.Roster)}
	err := s.db.View(func(txn *badger.Txn) error {
		item, err := txn.Get(metaKey)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return requireEmpty(txn)
		}
		if err != nil {
			return fmt.Errorf("read meta: %w", err)
		}
		if err := item.Value(func(sealed []byte) (err error) { res.meta, err = decodeMeta(sealed); return err }); err != nil {
			return err
		}
		if err := res.loadNames(txn); err != nil {
			return err
		}
		if err := res.loadThreads(txn); err != nil {
			return err
		}
		if err := res.loadLocks(txn); err != nil {
			return err
		}
		if err := res.loadStreams(txn); err != nil {
			return err
		}
		if err := res.loadSubscriptions(txn); err != nil {
			return err
		}
		if err := res.loadRoster(txn); err != nil {
			return err
		}
		return res.loadOpenRuns(txn)
	})
	return res, err
}

// requireEmpty refuses a store that has keys but no meta: every flush writes meta.
func requireEmpty(txn *badger.Txn) error {
	opt := badger.DefaultIteratorOptions
	opt.PrefetchValues = false
	it := txn.NewIterator(opt)
	defer it.Close()
	if it.Rewind(); it.Valid() {
		return fmt.Errorf("%w: the applied index is missing", ErrDamaged)
	}
	return nil
}

func (res *resident) loadNames(txn *badger.Txn) error {
	opt := badger.DefaultIteratorOptions
	opt.Prefix, opt.PrefetchValues = []byte{keyName}, false
	it := txn.NewIterator(opt)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		res.names.add(fingerprintOf(event.RunID(it.Item().Key()[1:])))
	}
	if n := uint64(len(res.names.set)); n != res.meta.names || res.names.sum != res.meta.nameSum {
		return fmt.Errorf("%w: %d run ids are stored, there must be %d", ErrDamaged, n, res.meta.names)
	}
	return nil
}

func (res *resident) loadThreads(txn *badger.Txn) error {
	opt := badger.DefaultIteratorOptions
	opt.Prefix, opt.PrefetchValues = []byte{keyThreadHead}, false
	it := txn.NewIterator(opt)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if key := it.Item().Key(); len(key) == 17 {
			res.threads.add(fingerprint(key[1:]))
		}
	}
	if n := uint64(len(res.threads.set)); n != res.meta.threads || res.threads.sum != res.meta.threadSum {
		return fmt.Errorf("%w: %d threads are stored, there must be %d", ErrDamaged, n, res.meta.threads)
	}
	return nil
}

func (res *resident) loadOpenRuns(txn *badger.Txn) error {
	opt := badger.DefaultIteratorOptions
	opt.Prefix, opt.PrefetchValues = []byte{keyOpenRun}, false
	it := txn.NewIterator(opt)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		value, err := get(txn, sidKey(keyHead, sidOf(it.Item().Key())))
		if err != nil {
			return err
		}
		if isDeleted(value) {
			continue // the key came back, which nothing may rely on not to happen
		}
		h, err := decodeHead(value)
		if err != nil {
			return err
		}
		if r := (&run{head: h}); !r.ended() {
			res.openRuns.add(r)
		}
	}
	return nil
}

func (res *resident) loadLocks(txn *badger.Txn) error {
	return scan(txn, []byte{keyLock}, func(key, value []byte) error {
		l, err := decodeLock(value)
		if err == nil && !l.free() {
			res.locks[event.LockName(key[1:])] = l
		}
		return err
	})
}
