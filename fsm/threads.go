package fsm

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// activeAt is where a thread stands in the listing.
type activeAt struct {
	time   event.Time
	thread fingerprint
}

// compare orders threads as they are listed: the latest activity first.
func (a activeAt) compare(b activeAt) int {
	return cmp.Or(cmp.Compare(b.time, a.time), slices.Compare(a.thread[:], b.thread[:]))
}

func (a activeAt) String() string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, uint64(a.time))) + hex.EncodeToString(a.thread[:])
}

func parseActiveAt(text string) (a activeAt, err error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 24 {
		return a, event.ErrBadCursor
	}
	a.time = event.Time(binary.BigEndian.Uint64(b))
	copy(a.thread[:], b[8:])
	return a, nil
}

// listedThread is a thread in memory: changed since the last flush, or with open runs.
type listedThread struct {
	at      activeAt
	summary event.ThreadSummary
}

// Threads lists the threads that have runs and whose ids begin with prefix, the one with the latest
// activity first: the latest event of an open run, or else the latest creation or end of a run. next
// is the cursor of the following page, empty on the last; a cursor that no listing made is
// [event.ErrBadCursor]. A page is of one moment; a thread that was active since the page before may be
// missed or listed twice.
func (m *Machine) Threads(ctx context.Context, prefix string, limit int, cursor string) (list []event.ThreadSummary, next string, err error) {
	if limit <= 0 {
		limit = event.DefaultRunLimit
	}
	limit = min(limit, event.MaxRunLimit)
	var after *activeAt
	if cursor != "" {
		at, err := parseActiveAt(cursor)
		if err != nil {
			return nil, "", err
		}
		after = &at
	}
	resident, skip, st, txn, err := m.residentThreads()
	if err != nil {
		return nil, "", m.noteDamage(err)
	}
	defer st.readers.Done()
	defer txn.Discard()
	slices.SortFunc(resident, func(a, b listedThread) int { return a.at.compare(b.at) })
	l := threadLister{prefix: prefix, limit: limit, after: after}
	err = l.merge(ctx, txn, resident, skip)
	return l.list, l.next, m.noteDamage(err)
}

// residentThreads returns the threads whose place in the listing is not Badger's to say, the
// hashes of all threads that memory knows better, and a view of Badger of the same moment.
func (m *Machine) residentThreads() (list []listedThread, skip map[fingerprint]bool, st *store, txn *badger.Txn, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.store == nil {
		return nil, nil, nil, nil, errClosed
	}
	skip = make(map[fingerprint]bool)
	add := func(id event.ThreadID) error {
		fp := fingerprintOf(id)
		if skip[fp] {
			return nil
		}
		skip[fp] = true
		t, err := m.findThread(id)
		if err != nil || t.live == 0 {
			return err
		}
		s := event.ThreadSummary{ThreadID: id, Runs: t.live, LastActivity: t.activity, ActiveRuns: []event.RunID{}}
		for _, o := range m.openRuns.byThread[id] {
			r, err := m.findRun(o.sid)
			if err != nil {
				return err
			}
			s.LastActivity = max(s.LastActivity, r.updatedAt)
			s.ActiveRuns = append(s.ActiveRuns, o.id)
		}
		list = append(list, listedThread{activeAt{s.LastActivity, fp}, s})
		return nil
	}
	for id := range m.openRuns.byThread {
		if err := add(id); err != nil {
			return nil, nil, nil, nil, err
		}
	}
	for _, o := range m.overlays() {
		for id := range o.threads {
			if err := add(id); err != nil {
				return nil, nil, nil, nil, err
			}
		}
	}
	m.store.readers.Add(1)
	return list, skip, m.store, m.store.db.NewTransaction(false), nil
}

// threadLister gathers one page.
type threadLister struct {
	prefix string
	limit  int
	after  *activeAt

	list []event.ThreadSummary
	last activeAt
	next string
}

// take offers the next thread; false: the page is full.
func (l *threadLister) take(at activeAt, id event.ThreadID, summary func() (event.ThreadSummary, error)) (bool, error) {
	if l.after != nil && at.compare(*l.after) <= 0 || !strings.HasPrefix(string(id), l.prefix) {
		return true, nil
	}
	if len(l.list) == l.limit {
		l.next = l.last.String()
		return false, nil
	}
	s, err := summary()
	if err != nil {
		return false, err
	}
	l.list, l.last = append(l.list, s), at
	return true, nil
}

// merge walks what is stored and what is resident in one order.
func (l *threadLister) merge(ctx context.Context, txn *badger.Txn, resident []listedThread, skip map[fingerprint]bool) error {
	flush := func(until *activeAt) (bool, error) {
		for len(resident) > 0 && (until == nil || resident[0].at.compare(*until) < 0) {
			r := resident[0]
			resident = resident[1:]
			more, err := l.take(r.at, r.summary.ThreadID, func() (event.ThreadSummary, error) { return r.summary, nil })
			if !more {
				return false, err
			}
		}
		return true, nil
	}
	opt := badger.DefaultIteratorOptions
	opt.Prefix = []byte{keyActivity}
	it := txn.NewIterator(opt)
	defer it.Close()
	seek := opt.Prefix
	if l.after != nil {
		seek = activityKey(l.after.time, l.after.thread)
	}
	for it.Seek(seek); it.Valid(); it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := it.Item().KeyCopy(nil)
		at := activeAt{event.Time(^binary.BigEndian.Uint64(key[1:])), fingerprint(key[9:])}
		if skip[at.thread] {
			continue
		}
		if more, err := flush(&at); !more {
			return err
		}
		sealed, err := it.Item().ValueCopy(nil)
		if err != nil {
			return err
		}
		id, err := unseal(key, sealed)
		if err != nil {
			return err
		}
		more, err := l.take(at, event.ThreadID(id), func() (event.ThreadSummary, error) {
			t, err := getThread(txn, at.thread)
			return event.ThreadSummary{ThreadID: t.id, Runs: t.live, LastActivity: t.activity, ActiveRuns: []event.RunID{}}, err
		})
		if !more {
			return err
		}
	}
	_, err := flush(nil)
	return err
}
