package fsm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// Run returns the run of that name as it stands.
func (m *Machine) Run(ctx context.Context, id event.RunID) (event.Run, error) {
	s, err := m.read(id)
	if err != nil {
		return event.Run{}, err
	}
	defer s.release()
	v := s.run.view()
	return *v, m.noteDamage(s.orDeleted(m, s.addTerminal(ctx, v)))
}

// addTerminal fills in what the terminal event says.
func (s *snapshotRead) addTerminal(ctx context.Context, v *event.Run) error {
	if !v.Ended {
		return nil
	}
	rec, err := s.record(ctx, s.run.terminal)
	if err != nil {
		return err
	}
	fillTerminal(v, rec.Raw)
	return nil
}

func fillTerminal(v *event.Run, raw []byte) {
	v.Error, v.Outcome, v.Usage, v.Result = projection.Terminal(raw)
}

// Runs lists runs in order of creation, newest first unless asked otherwise. A page reflects one
// moment; a run created between two pages may be missed or not, none is listed twice.
//
// next is the cursor of the following page, empty on the last; a cursor that no listing made is
// [event.ErrBadCursor].
func (m *Machine) Runs(ctx context.Context, q event.RunQuery) (runs []event.Run, next string, err error) {
	limit := q.Limit
	if limit <= 0 {
		limit = event.DefaultRunLimit
	}
	limit = min(limit, event.MaxRunLimit)
	var after streamID
	if q.Cursor != "" {
		if after, err = parseStreamID(q.Cursor); err != nil {
			return nil, "", event.ErrBadCursor
		}
	}
	var last streamID
	err = m.eachRun(ctx, q, after, func(r *run) bool {
		if !matches(r, &q) {
			return true
		}
		if len(runs) == limit {
			next = last.String()
			return false
		}
		v := r.view()
		v.Open = nil
		runs = append(runs, *v)
		last = r.sid
		return true
	})
	return runs, next, m.noteDamage(err)
}

func matches(r *run, q *event.RunQuery) bool {
	switch {
	case q.Status != "" && r.status != q.Status,
		q.Holder != "" && r.holder != q.Holder,
		q.ThreadID != "" && r.thread != q.ThreadID,
		q.ParentRunID != "" && r.parent != q.ParentRunID,
		!strings.HasPrefix(string(r.id), q.Prefix),
		q.Lease == event.LeaseStateNone && r.lease != "",
		q.Lease != "" && q.Lease != event.LeaseStateNone && r.lease != q.Lease,
		q.ExpiresWithinMs != nil: // leases do not expire yet
		return false
	}
	return true
}

// eachRun calls f with the runs after the cursor, in the query's order. The query's thread
// narrows what is looked at; everything else is left to f.
func (m *Machine) eachRun(ctx context.Context, q event.RunQuery, after streamID, f func(*run) bool) error {
	// Runs in the overlays replace or follow what Badger has: a new run's stream id is larger than
	// any flushed one's.
	m.mu.RLock()
	if m.store == nil {
		m.mu.RUnlock()
		return errClosed
	}
	over := make(map[streamID]*run)
	var fresh []streamID
	overlays := m.overlays()
	for i := len(overlays) - 1; i >= 0; i-- {
		o := overlays[i]
		for s, r := range o.runs {
			if r != nil {
				own := *r
				r = &own
			}
			over[s] = r
			if o.changed[s]&changeCreated != 0 {
				fresh = append(fresh, s)
			}
		}
	}
	st := m.store
	st.readers.Add(1)
	m.mu.RUnlock()
	defer st.readers.Done()
	slices.SortFunc(fresh, func(a, b streamID) int { return strings.Compare(string(a[:]), string(b[:])) })
	if q.Ascending {
		return st.eachHead(ctx, q, after, over, f, fresh)
	}
	slices.Reverse(fresh)
	more := true
	for _, s := range fresh {
		if r := over[s]; more && r != nil && past(s, after, false) {
			more = f(r)
		}
		over[s] = nil // a flush may put it into the store before that is read
	}
	if !more {
		return nil
	}
	return st.eachHead(ctx, q, after, over, f, nil)
}

// past reports whether s comes after the cursor; the zero cursor is before everything.
func past(s, after streamID, ascending bool) bool {
	if after == (streamID{}) {
		return true
	}
	c := strings.Compare(string(s[:]), string(after[:]))
	return ascending == (c > 0) && c != 0
}

// eachHead walks the stored heads (the thread's alone when the query names one), overlaid by
// over, then fresh.
func (st *store) eachHead(ctx context.Context, q event.RunQuery, after streamID, over map[streamID]*run, f func(*run) bool, fresh []streamID) error {
	more := true
	err := st.db.View(func(txn *badger.Txn) error {
		prefix := []byte{keyHead}
		if q.ThreadID != "" {
			fp := fingerprintOf(q.ThreadID)
			prefix = append([]byte{keyThread}, fp[:]...)
		}
		opt := badger.DefaultIteratorOptions
		opt.Prefix, opt.Reverse, opt.PrefetchValues = prefix, !q.Ascending, q.ThreadID == ""
		it := txn.NewIterator(opt)
		defer it.Close()
		for it.Seek(seekKey(prefix, after, q.Ascending)); it.Valid() && more; it.Next() {
			if err := ctx.Err(); err != nil {
				return err
			}
			key := it.Item().Key()
			s := streamID(key[len(key)-16:])
			if !past(s, after, q.Ascending) {
				continue
			}
			r, overlaid := over[s]
			if overlaid {
				delete(over, s)
			} else {
				var err error
				if r, err = headRun(txn, s); err != nil {
					return err
				}
			}
			if r != nil {
				more = f(r)
			}
		}
		return nil
	})
	for _, s := range fresh {
		if r := over[s]; err == nil && more && r != nil && past(s, after, true) {
			more = f(r)
		}
	}
	return err
}

// seekKey is where an iteration over prefix+sid begins.
func seekKey(prefix []byte, after streamID, ascending bool) []byte {
	key := slices.Clone(prefix)
	if after != (streamID{}) {
		return append(key, after[:]...)
	}
	if ascending {
		return key
	}
	for range len(after) {
		key = append(key, 0xff)
	}
	return key
}

// headRun reads a run's head and metadata for a listing; nil when the run was deleted.
func headRun(txn *badger.Txn, s streamID) (*run, error) {
	value, err := get(txn, sidKey(keyHead, s))
	if err != nil {
		return nil, err
	}
	if isDeleted(value) {
		return nil, nil
	}
	r := &run{}
	if r.head, err = decodeHead(value); err != nil {
		return nil, fmt.Errorf("run %s: %w", s, err)
	}
	if r.metadataBytes > 0 {
		r.metadata, err = get(txn, sidKey(keyMetadata, s))
	}
	return r, err
}

// ThreadRuns returns the thread's runs in order of creation.
func (m *Machine) ThreadRuns(ctx context.Context, thread event.ThreadID) ([]event.RunID, error) {
	var ids []event.RunID
	err := m.eachRun(ctx, event.RunQuery{ThreadID: thread, Ascending: true}, streamID{}, func(r *run) bool {
		if r.thread == thread {
			ids = append(ids, r.id)
		}
		return true
	})
	return ids, m.noteDamage(err)
}
