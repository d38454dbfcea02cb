package fsm

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// Runs lists runs in order of creation, newest first unless asked otherwise. A page reflects one
// moment; a run created between two pages may be missed or not, none is listed twice.
//
// A holder or a lease is looked for among open runs, unless q.Status names an end: what an ended run's
// lease was means nothing any more. q.ExpiresWithinMs is for the leader to answer: see [Machine.RunsAmong].
//
// next is the cursor of the following page, empty on the last; a cursor that no listing made is
// [event.ErrBadCursor].
func (m *Machine) Runs(ctx context.Context, q event.RunQuery) (runs []event.Run, next string, err error) {
	return m.list(ctx, q, nil)
}

// RunsAmong is [Machine.Runs] for the runs named alone, at the epochs given: what the leader said
// about leases is true of those.
func (m *Machine) RunsAmong(ctx context.Context, q event.RunQuery, among map[event.RunID]event.Epoch) (runs []event.Run, next string, err error) {
	if among == nil {
		among = map[event.RunID]event.Epoch{}
	}
	q.ExpiresWithinMs = nil
	return m.list(ctx, q, among)
}

func (m *Machine) list(ctx context.Context, q event.RunQuery, among map[event.RunID]event.Epoch) (runs []event.Run, next string, err error) {
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
	l, err := m.newLister(&q, after, among)
	if err != nil {
		return nil, "", m.noteDamage(err)
	}
	defer l.close()
	var last streamID
	err = l.each(ctx, func(r *run) bool {
		if !matches(r, &q) || among != nil && among[r.id] != r.epoch {
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
		openOnly(q) && r.ended(),
		q.Holder != "" && r.holder != q.Holder,
		q.ThreadID != "" && r.thread != q.ThreadID,
		q.ParentRunID != "" && r.parent != q.ParentRunID,
		!strings.HasPrefix(string(r.id), q.Prefix),
		!matchesLease(r.lease, q.Lease),
		q.ExpiresWithinMs != nil:
		return false
	}
	return true
}

func matchesLease(state, want event.LeaseState) bool {
	return want == "" || state == want || want == event.LeaseStateNone && state == ""
}

// openOnly reports whether a query is about open runs.
func openOnly(q *event.RunQuery) bool {
	return q.Status == event.StatusRunning || q.Status == "" && (q.Holder != "" || q.Lease != "")
}

// lister walks the runs that may match a query, in its order: of one moment, from what the overlays hold
// and a view of Badger opened under the same lock.
type lister struct {
	after     streamID
	ascending bool
	over      map[streamID]*run // copies; nil: deleted
	fresh     []streamID        // keys of over, in the walk's order
	index     []byte            // the prefix under which Badger lists them, each key ending in the stream id
	sids      []streamID        // or all of them, in order of creation
	listed    bool              // sids counts
	store     *store
	txn       *badger.Txn
}

// maxPrefixed is how many ids with a prefix are gathered and sorted. More of them are so many that
// walking all runs fills a page soon.
const maxPrefixed = 2000

func (m *Machine) newLister(q *event.RunQuery, after streamID, among map[event.RunID]event.Epoch) (*lister, error) {
	l, err := m.pickList(q, after, among)
	if err != nil {
		return nil, err
	}
	if q.Prefix != "" && l.index[0] == keyHead && !l.listed {
		if err := l.byPrefix(q.Prefix); err != nil {
			l.close()
			return nil, err
		}
	}
	l.order()
	return l, nil
}

// pickList takes up one moment and the list to walk.
func (m *Machine) pickList(q *event.RunQuery, after streamID, among map[event.RunID]event.Epoch) (*lister, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.store == nil {
		return nil, errClosed
	}
	l := &lister{after: after, ascending: q.Ascending, over: make(map[streamID]*run), index: []byte{keyHead}}
	overlays := m.overlays()
	for i := len(overlays) - 1; i >= 0; i-- {
		for s, r := range overlays[i].runs {
			if l.over[s] = nil; r != nil {
				own := *r
				l.over[s] = &own
			}
		}
	}
	l.choose(m, q, among)
	l.store = m.store
	l.store.readers.Add(1)
	l.txn = m.store.db.NewTransaction(false)
	return l, nil
}

// choose picks the narrowest list that holds every run the query can match.
func (l *lister) choose(m *Machine, q *event.RunQuery, among map[event.RunID]event.Epoch) {
	switch {
	case among != nil:
		l.listed = true
		for id := range among {
			if n, err := m.findName(id); err == nil && !n.deleted {
				l.sids = append(l.sids, n.sid)
			}
		}
		sortSIDs(l.sids)
	case q.ThreadID != "":
		fp := fingerprintOf(q.ThreadID)
		l.index = append([]byte{keyThread}, fp[:]...)
	case q.ParentRunID != "":
		fp := fingerprintOf(q.ParentRunID)
		l.index = append([]byte{keyParent}, fp[:]...)
	case openOnly(q):
		l.listed, l.sids = true, m.openRuns.matching(q)
	case q.Status != "":
		l.index = []byte{keyStatus, indexOf(statuses, q.Status)}
	}
}

// byPrefix lists the stored runs whose ids begin with prefix, if they are few.
func (l *lister) byPrefix(prefix string) error {
	opt := badger.DefaultIteratorOptions
	opt.Prefix = append([]byte{keyName}, prefix...)
	it := l.txn.NewIterator(opt)
	defer it.Close()
	var sids []streamID
	for it.Rewind(); it.Valid(); it.Next() {
		if len(sids) == maxPrefixed {
			return nil
		}
		key := it.Item().KeyCopy(nil)
		sealed, err := it.Item().ValueCopy(nil)
		if err != nil {
			return err
		}
		value, err := unseal(key, sealed)
		if err != nil {
			return err
		}
		n, err := decodeName(value)
		if err != nil {
			return err
		}
		if !n.deleted {
			sids = append(sids, n.sid)
		}
	}
	sortSIDs(sids)
	l.listed, l.sids = true, sids
	return nil
}

func sortSIDs(sids []streamID) {
	slices.SortFunc(sids, func(a, b streamID) int { return bytes.Compare(a[:], b[:]) })
}

// order brings what is in memory into the walk's order, without what the cursor is past.
func (l *lister) order() {
	for s := range l.over {
		l.fresh = append(l.fresh, s)
	}
	sortSIDs(l.fresh)
	if !l.ascending {
		slices.Reverse(l.fresh)
		slices.Reverse(l.sids)
	}
}

func (l *lister) close() {
	l.txn.Discard()
	l.store.readers.Done()
}

// before reports whether a comes before b in the walk.
func (l *lister) before(a, b streamID) bool {
	c := bytes.Compare(a[:], b[:])
	return c < 0 && l.ascending || c > 0 && !l.ascending
}

// each calls f with the runs after the cursor until it returns false. Runs in memory that the index
// would not have listed come too: f looks at what it gets.
func (l *lister) each(ctx context.Context, f func(*run) bool) error {
	memory := func(until *streamID) bool {
		for len(l.fresh) > 0 && (until == nil || !l.before(*until, l.fresh[0])) {
			s := l.fresh[0]
			l.fresh = l.fresh[1:]
			if r := l.over[s]; r != nil && past(s, l.after, l.ascending) && !f(r) {
				return false
			}
		}
		return true
	}
	more, err := true, error(nil)
	visit := func(s streamID) bool {
		if !past(s, l.after, l.ascending) {
			return true
		}
		if more = memory(&s); !more {
			return false
		}
		if _, known := l.over[s]; known {
			return true
		}
		var r *run
		if r, err = headRun(l.txn, s); err == nil {
			err = ctx.Err()
		}
		if err == nil && r != nil {
			more = f(r)
		}
		return err == nil && more
	}
	if l.listed {
		for _, s := range l.sids {
			if !visit(s) {
				break
			}
		}
	} else {
		l.walk(visit)
	}
	if err == nil && more {
		memory(nil)
	}
	return err
}

func (l *lister) walk(visit func(streamID) bool) {
	opt := badger.DefaultIteratorOptions
	opt.Prefix, opt.Reverse, opt.PrefetchValues = l.index, !l.ascending, false
	it := l.txn.NewIterator(opt)
	defer it.Close()
	for it.Seek(seekKey(l.index, l.after, l.ascending)); it.Valid(); it.Next() {
		key := it.Item().Key()
		if !visit(streamID(key[len(key)-16:])) {
			return
		}
	}
}

// past reports whether s comes after the cursor; the zero cursor is before everything.
func past(s, after streamID, ascending bool) bool {
	if after == (streamID{}) {
		return true
	}
	c := bytes.Compare(s[:], after[:])
	return ascending == (c > 0) && c != 0
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
