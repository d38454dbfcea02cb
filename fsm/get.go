package fsm

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// get returns a checked copy of the value under key; one that is not there is damage, because
// callers ask only for what must exist.
func get(txn *badger.Txn, key []byte) ([]byte, error) {
	item, err := txn.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, fmt.Errorf("%w: %q is missing", ErrDamaged, key)
	}
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", key, err)
	}
	sealed, err := item.ValueCopy(nil)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", key, err)
	}
	return unseal(key, sealed)
}

// scan calls f with every key under prefix and its checked value, in order. Both are valid only
// during the call.
func scan(txn *badger.Txn, prefix []byte, f func(key, value []byte) error) error {
	opt := badger.DefaultIteratorOptions
	opt.Prefix = prefix
	it := txn.NewIterator(opt)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().Key()
		err := it.Item().Value(func(sealed []byte) error {
			value, err := unseal(key, sealed)
			if err != nil {
				return err
			}
			return f(key, value)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func encodeName(n nameEntry) []byte {
	var e enc
	e.raw(n.sid[:])
	e.flag(n.deleted)
	return e.b
}

func decodeName(value []byte) (n nameEntry, err error) {
	d := dec{b: value}
	copy(n.sid[:], d.take(16))
	n.deleted = d.flag()
	return n, d.done("name")
}

func getName(txn *badger.Txn, id event.RunID) (nameEntry, error) {
	value, err := get(txn, nameKey(id))
	if err != nil {
		return nameEntry{}, err
	}
	return decodeName(value)
}

// getRun reads a head and what belongs to it.
func getRun(txn *badger.Txn, s streamID) (*run, error) {
	value, err := get(txn, sidKey(keyHead, s))
	if err != nil {
		return nil, err
	}
	r := &run{}
	if r.head, err = decodeHead(value); err != nil {
		return nil, err
	}
	if err := getSpans(txn, r); err != nil {
		return nil, err
	}
	if r.metadataBytes > 0 {
		if r.metadata, err = get(txn, sidKey(keyMetadata, s)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func getSpans(txn *badger.Txn, r *run) error {
	for _, seq := range r.openSeqs {
		value, err := get(txn, spanKey(r.sid, seq))
		if err != nil {
			return err
		}
		span, err := decodeSpan(value)
		if err != nil {
			return err
		}
		r.open = append(r.open, span)
	}
	r.openSeqs = nil
	return nil
}

func scanUsed(txn *badger.Txn, s streamID, ids map[event.IDHash]struct{}) error {
	opt := badger.DefaultIteratorOptions
	opt.Prefix, opt.PrefetchValues = sidKey(keyUsed, s), false
	it := txn.NewIterator(opt)
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		ids[event.IDHash(it.Item().Key()[17:])] = struct{}{}
	}
	return nil
}

func scanProducers(txn *badger.Txn, s streamID, all map[event.ProducerID]*producer) error {
	return scan(txn, sidKey(keyProducer, s), func(_, value []byte) error {
		p, err := decodeProducer(bytes.Clone(value))
		if err == nil && !p.forgotten {
			all[p.id] = p
		}
		return err
	})
}
