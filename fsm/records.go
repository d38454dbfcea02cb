package fsm

import (
	"context"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// logRead is where a log's records are, all of one moment: those before tail.
type logRead struct {
	logHead
	chunks []chunk
	store  *store
}

// snapshotRead is a run and where its records are, all of one moment.
type snapshotRead struct {
	logRead      // its store is held until release
	run     *run // not to be changed
}

func (s *snapshotRead) release() { s.store.readers.Done() }

// read picks up a run for reading without the lock. The caller releases it.
func (m *Machine) read(id event.RunID) (*snapshotRead, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.store == nil {
		return nil, errClosed
	}
	r, err := m.find(id)
	if err != nil {
		return nil, m.noteDamage(err)
	}
	own := *r // the active overlay's copy may move on
	m.store.readers.Add(1)
	return &snapshotRead{run: &own, logRead: m.logRead(&own.logHead)}, nil
}

func (m *Machine) logRead(l *logHead) logRead {
	return logRead{logHead: *l, chunks: m.chunksOf(l.sid), store: m.store}
}

// noteDamage stops the machine when err is damage, and returns err.
func (m *Machine) noteDamage(err error) error {
	if errors.Is(err, ErrDamaged) {
		m.fatal(err)
	}
	return err
}

// Records reads consecutive records from offset from: at most maxRecords, and no further one once
// maxBytes of raw JSON are reached, but at least one if there is one. At the tail the page is
// empty; beyond it the error is an *event.OffsetOutOfRange. The records are of one moment; their
// bytes must not be changed.
func (m *Machine) Records(ctx context.Context, id event.RunID, from event.Offset, maxRecords, maxBytes int) (event.Page, error) {
	return m.records(ctx, id, from, maxRecords, maxBytes, func(s *snapshotRead) eacher { return s.each })
}

func (m *Machine) records(ctx context.Context, id event.RunID, from event.Offset, maxRecords, maxBytes int, of func(*snapshotRead) eacher) (event.Page, error) {
	s, err := m.read(id)
	if err != nil {
		return event.Page{}, err
	}
	defer s.release()
	page, err := s.page(ctx, from, maxRecords, maxBytes, of(s))
	return page, m.noteDamage(s.orDeleted(m, err))
}

// orDeleted returns event.ErrRunDeleted in place of damage that is the run's deletion while it was read.
func (s *snapshotRead) orDeleted(m *Machine, err error) error {
	if err = m.deletedMeanwhile(s, err); errors.Is(err, errThreadChanged) {
		return event.ErrRunDeleted
	}
	return err
}

func (s *snapshotRead) page(ctx context.Context, from event.Offset, maxRecords, maxBytes int, each eacher) (event.Page, error) {
	tail := s.run.tail
	if from > tail {
		return event.Page{}, &event.OffsetOutOfRange{Offset: from, Tail: tail}
	}
	page := event.Page{Tail: tail, Ended: s.run.ended()}
	err := each(ctx, from, func(r event.Record) bool {
		page.Records = append(page.Records, r)
		maxRecords--
		maxBytes -= len(r.Raw)
		return maxRecords > 0 && maxBytes > 0
	})
	return page, err
}

// each calls f with the log's records from offset from, until f returns false or the tail.
func (s *logRead) each(ctx context.Context, from event.Offset, f func(event.Record) bool) error {
	next, more := from, true
	take := func(r event.Record) bool {
		next = r.Offset + 1
		more = f(r)
		return more
	}
	if stored := min(memoryFrom(s.chunks, s.tail), s.tail); from < stored {
		if err := s.store.eachStored(ctx, s.sid, from, stored, take); err != nil || !more {
			return err
		}
	}
	for i := range s.chunks {
		c := &s.chunks[i]
		for next >= c.first && next < min(c.end(), s.tail) && more {
			r, n := readRecord(c.record(int(next - c.first)))
			if n == 0 {
				return fmt.Errorf("%w: record %d of log %s in memory", ErrDamaged, next, s.sid)
			}
			r.Offset = next
			take(r)
		}
	}
	if more && next != s.tail {
		return fmt.Errorf("%w: log %s has %d records, %d can be read", ErrDamaged, s.sid, s.tail, next)
	}
	return nil
}

// eachStored reads records [from, to) from Badger; each must be there.
func (st *store) eachStored(ctx context.Context, s streamID, from, to event.Offset, f func(event.Record) bool) error {
	next, more := from, true
	err := st.eachSegment(s, from, to, func(seg segment) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := seg.each(next, func(r event.Record) bool {
			if r.Offset >= to {
				return false
			}
			next = r.Offset + 1
			more = f(r)
			return more
		})
		if err == nil && !more {
			err = errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// errEnough ends an iteration early.
var errEnough = errors.New("enough")

// eachSegment calls f with the segments that hold records [from, to), which must be consecutive.
func (st *store) eachSegment(s streamID, from, to event.Offset, f func(segment) error) error {
	if from >= to {
		return nil
	}
	return st.db.View(func(txn *badger.Txn) error {
		kind, err := segmentKind(txn, s)
		if err != nil {
			return err
		}
		first, err := segmentAt(txn, kind, s, from)
		if err != nil {
			return err
		}
		opt := badger.DefaultIteratorOptions
		opt.Prefix, opt.PrefetchSize = sidKey(kind, s), 8
		it := txn.NewIterator(opt)
		defer it.Close()
		next := from
		for it.Seek(first); it.Valid() && next < to; it.Next() {
			sealed, err := it.Item().ValueCopy(nil)
			if err != nil {
				return fmt.Errorf("read segment: %w", err)
			}
			seg, err := decodeSegment(it.Item().Key(), sealed, st.packer)
			if err != nil {
				return err
			}
			if seg.first > next || seg.end() <= next {
				break // a gap, reported below
			}
			next = seg.end()
			if err := f(seg); err != nil {
				return err
			}
		}
		if next < to {
			return fmt.Errorf("%w: record %d of log %s is missing", ErrDamaged, next, s)
		}
		return nil
	})
}

// segmentKind tells under which prefix a run's segments are: merged once the run has ended and
// all of it was rewritten.
func segmentKind(txn *badger.Txn, s streamID) (byte, error) {
	_, err := txn.Get(sidKey(keyMerged, s))
	switch {
	case err == nil:
		return keyMerged, nil
	case errors.Is(err, badger.ErrKeyNotFound):
		return keySegment, nil
	}
	return 0, fmt.Errorf("read: %w", err)
}

// segmentAt returns the key of the last segment that begins at or before offset.
func segmentAt(txn *badger.Txn, kind byte, s streamID, offset event.Offset) ([]byte, error) {
	opt := badger.DefaultIteratorOptions
	opt.Reverse, opt.PrefetchValues, opt.Prefix = true, false, sidKey(kind, s)
	it := txn.NewIterator(opt)
	defer it.Close()
	it.Seek(offsetKey(kind, s, offset))
	if !it.Valid() || len(it.Item().Key()) != 25 {
		return nil, fmt.Errorf("%w: no segment of log %s holds record %d", ErrDamaged, s, offset)
	}
	return it.Item().KeyCopy(nil), nil
}
