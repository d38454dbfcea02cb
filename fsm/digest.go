package fsm

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// digest hashes every replicated key and value in key order; records one by one, so that where
// one segment ends and the next begins does not matter.
func (st *store) digest() (uint64, error) {
	d := xxhash.New()
	err := st.db.View(func(txn *badger.Txn) error {
		deleted, err := deletedLogs(txn)
		if err != nil {
			return err
		}
		for _, kind := range replicated {
			if kind == keySegment {
				continue
			}
			err := scan(txn, []byte{kind}, func(key, value []byte) error {
				if !leftover(key, value, deleted) {
					digestPair(d, key, value)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return st.digestRecords(txn, d)
	})
	return d.Sum64(), err
}

func digestPair(d *xxhash.Digest, key, value []byte) {
	d.Write(binary.AppendUvarint(nil, uint64(len(key))))
	d.Write(key)
	d.Write(binary.AppendUvarint(nil, uint64(len(value))))
	d.Write(value)
}

func (st *store) digestRecords(txn *badger.Txn, d *xxhash.Digest) error {
	mt, err := readMeta(txn)
	if err == nil {
		err = st.digestLog(d, changesID, mt.changes.first, mt.changes.tail)
	}
	if err != nil {
		return err
	}
	err = scan(txn, []byte{keyHead}, func(key, value []byte) error {
		if isDeleted(value) {
			return nil
		}
		h, err := decodeHead(value)
		if err != nil {
			return err
		}
		return st.digestLog(d, h.sid, 0, h.tail)
	})
	if err != nil {
		return err
	}
	return scan(txn, []byte{keyStream}, func(key, value []byte) error {
		if isDeleted(value) {
			return nil
		}
		s, err := decodeStream(value)
		if err != nil {
			return err
		}
		first := event.Offset(0)
		if s.fork != nil {
			first = s.fork.at
		}
		return st.digestLog(d, s.sid, first, s.tail)
	})
}

func (st *store) digestLog(d *xxhash.Digest, sid streamID, from, to event.Offset) error {
	return st.eachSegment(sid, from, to, func(s segment) error {
		return s.each(s.first, func(r event.Record) bool {
			if r.Offset >= from {
				digestPair(d, offsetKey(keySegment, sid, r.Offset), appendRecord(nil, r.Epoch, r.Time, r.Raw))
			}
			return true
		})
	})
}
