package fsm

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// upgrade brings a store of before threads were kept up to date: it numbers every thread's runs in order
// of creation and writes what is listed by. Deleted runs left no place behind then, so they get none.
// What it writes depends on the store alone: doing it again after a crash, or on another node, makes
// the same. The meta that says it is done goes last.
//
// Interrupts of runs that ended before are not taken up: their events were not looked at for them.
func (s *store) upgrade() error {
	mt, err := s.upgradeThreads()
	if err != nil {
		return fmt.Errorf("upgrade the state: %w", err)
	}
	if mt.version != metaVersion1 {
		return nil
	}
	mt.version = metaVersion
	return s.put(metaKey, mt.encode())
}

func (s *store) upgradeThreads() (mt meta, err error) {
	threads := make(map[event.ThreadID]*threadHead)
	names := newNameSet()
	batch := s.db.NewWriteBatch()
	defer batch.Cancel()
	var failed error
	put := func(key, value []byte) {
		if err := batch.Set(key, seal(key, value)); err != nil && failed == nil {
			failed = err
		}
	}
	err = s.db.View(func(txn *badger.Txn) error {
		if mt, err = readMeta(txn); err != nil || mt.version != metaVersion1 {
			return err
		}
		return scan(txn, []byte{keyHead}, func(key, value []byte) error {
			if isDeleted(value) {
				return nil
			}
			h, err := decodeHead(value)
			if err != nil {
				return err
			}
			t := threads[h.thread]
			if t == nil {
				t = &threadHead{id: h.thread}
				threads[h.thread] = t
				names.add(fingerprintOf(h.thread))
			}
			h.ordinal = t.next
			t.next++
			t.live++
			t.activity = max(t.activity, h.startedAt, h.endedAt)
			put(append([]byte(nil), key...), h.encode())
			put(placeKey(place{fingerprintOf(h.thread), h.ordinal}), append([]byte(nil), h.sid[:]...))
			if h.parent != "" {
				put(parentKey(h.parent, h.sid), nil)
			}
			if h.status != event.StatusRunning {
				put(statusKey(h.status, h.sid), nil)
			}
			return nil
		})
	})
	if err != nil || mt.version != metaVersion1 {
		return mt, err
	}
	for id, t := range threads {
		put(threadHeadKey(fingerprintOf(id)), t.encode())
		put(activityKey(t.activity, fingerprintOf(id)), []byte(id))
	}
	mt.threads, mt.threadSum = uint64(len(names.set)), names.sum
	if failed != nil {
		return mt, failed
	}
	return mt, batch.Flush()
}
