package fsm

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// findStream returns the stream of that name: event.ErrStreamNotFound once that is proved, or an
// error that is damage. Like the lookups of runs it needs mu for as long as it runs. It does
// not look at the clocks.
func (m *Machine) findStream(name event.StreamName) (*stream, error) {
	n, err := m.findStreamName(name)
	if err != nil {
		return nil, err
	}
	s, err := m.streamOf(n.sid)
	if err != nil {
		return nil, err
	}
	if s.name != name {
		return nil, fmt.Errorf("%w: head %s belongs to another stream", ErrDamaged, n.sid)
	}
	return s, nil
}

func (m *Machine) findStreamName(name event.StreamName) (nameEntry, error) {
	n, ok := m.memoryStreamName(name)
	if !ok {
		if !m.streamNames.has(fingerprintOf(name)) {
			return nameEntry{}, event.ErrStreamNotFound
		}
		err := m.store.db.View(func(txn *badger.Txn) error {
			value, err := get(txn, streamNameKey(name))
			if err == nil {
				n, err = decodeName(value)
			}
			return err
		})
		if err != nil {
			return nameEntry{}, err
		}
		m.cache.streamNames.Add(name, n)
	}
	if n.deleted {
		return nameEntry{}, event.ErrStreamNotFound
	}
	return n, nil
}

func (m *Machine) memoryStreamName(name event.StreamName) (nameEntry, bool) {
	for _, o := range m.overlays() {
		if n, ok := o.streamNames[name]; ok {
			return n, true
		}
	}
	return m.cache.streamNames.Get(name)
}

// streamOf returns the stream of a stream id that must exist.
func (m *Machine) streamOf(sid streamID) (*stream, error) {
	for _, o := range m.overlays() {
		if s, ok := o.streams[sid]; ok {
			if s == nil {
				return nil, fmt.Errorf("%w: stream %s was deleted", ErrDamaged, sid)
			}
			return s, nil
		}
	}
	if s, ok := m.cache.streams.Get(sid); ok {
		return s, nil
	}
	var s *stream
	err := m.store.db.View(func(txn *badger.Txn) error {
		value, err := get(txn, sidKey(keyStream, sid))
		if err == nil {
			s, err = decodeStream(value)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	m.cache.streams.Add(sid, s)
	return s, nil
}

// loadStreams reads what is resident of plain streams: their names' fingerprints, how many forks
// read a log, and which streams end by themselves.
func (res *resident) loadStreams(txn *badger.Txn) error {
	err := scan(txn, []byte{keyStreamName}, func(key, value []byte) error {
		n, err := decodeName(value)
		if err == nil && !n.deleted {
			res.streamNames.add(fingerprintOf(event.StreamName(key[1:])))
		}
		return err
	})
	if err != nil {
		return err
	}
	if p := res.streamNames.proof(); p != res.meta.streams {
		return fmt.Errorf("%w: %d stream names are stored, there must be %d", ErrDamaged, p.count, res.meta.streams.count)
	}
	err = scan(txn, []byte{keySource}, func(key, value []byte) error {
		d := dec{b: value}
		if n := d.uv(); n > 0 {
			res.sources[sidOf(key)] = n
		}
		return d.done("count of forks")
	})
	if err != nil {
		return err
	}
	return scan(txn, []byte{keyExpiring}, func(key, _ []byte) error {
		value, err := get(txn, sidKey(keyStream, sidOf(key)))
		if err != nil || isDeleted(value) {
			return err
		}
		s, err := decodeStream(value)
		if err == nil {
			res.expiries.add(s)
		}
		return err
	})
}
