package fsm

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/dgraph-io/badger/v4"
	"github.com/tidwall/gjson"

	"github.com/runlog/runlog/event"
)

// threadRead is one moment of a thread: what the overlays hold of it, and a view of Badger that
// was opened under the same lock. The caller closes it.
type threadRead struct {
	m          *Machine
	id         event.ThreadID
	fp         fingerprint
	head       threadHead
	runs       map[streamID]*run // copies; nil: deleted
	places     map[event.Ordinal]streamID
	interrupts map[fingerprint]*interrupt
	open       []*openRun // in order of creation
	store      *store
	txn        *badger.Txn
}

func (m *Machine) readThreadAt(id event.ThreadID) (*threadRead, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.store == nil {
		return nil, errClosed
	}
	head, err := m.findThread(id)
	if err != nil {
		return nil, err
	}
	t := &threadRead{m: m, id: id, fp: fingerprintOf(id), head: head, runs: make(map[streamID]*run),
		places: make(map[event.Ordinal]streamID), interrupts: make(map[fingerprint]*interrupt)}
	overlays := m.overlays()
	for i := len(overlays) - 1; i >= 0; i-- {
		t.lay(overlays[i])
	}
	t.open = slices.Clone(m.openRuns.byThread[id])
	t.store = m.store
	t.store.readers.Add(1)
	t.txn = m.store.db.NewTransaction(false)
	return t, nil
}

func (t *threadRead) lay(o *overlay) {
	for s, r := range o.runs {
		switch {
		case r == nil:
			t.runs[s] = nil
		case r.thread == t.id:
			own := *r
			t.runs[s] = &own
		}
	}
	for p, s := range o.places {
		if p.thread == t.fp {
			t.places[p.ordinal] = s
		}
	}
	for id, i := range o.interrupts[t.fp] {
		t.interrupts[id] = i
	}
}

func (t *threadRead) close() {
	t.txn.Discard()
	t.store.readers.Done()
}

// at returns the run at a place, nil if it was deleted.
func (t *threadRead) at(n event.Ordinal) (*run, error) {
	s, ok := t.places[n]
	if !ok {
		var err error
		if s, err = getPlace(t.txn, place{t.fp, n}); err != nil {
			return nil, err
		}
	}
	if s == (streamID{}) {
		return nil, nil
	}
	return t.run(s)
}

func (t *threadRead) run(s streamID) (*run, error) {
	if r, ok := t.runs[s]; ok {
		return r, nil
	}
	return headRun(t.txn, s)
}

// cursor is where the thread stands: at the tail of the first open run, since what comes after it
// waits for its end, or else at the end of the last run.
func (t *threadRead) cursor() (event.ThreadCursor, error) {
	if len(t.open) > 0 {
		r, err := t.run(t.open[0].sid)
		if err != nil || r == nil {
			return event.ThreadCursor{}, err
		}
		return event.ThreadCursor{Ordinal: r.ordinal, Offset: r.tail}, nil
	}
	if t.head.next == 0 {
		return event.ThreadCursor{}, nil
	}
	last := t.head.next - 1
	r, err := t.at(last)
	if err != nil || r == nil {
		return event.ThreadCursor{Ordinal: t.head.next}, err
	}
	return event.ThreadCursor{Ordinal: last, Offset: r.tail}, nil
}

// each calls f with the thread's runs, newest first, or with the chain of parents that ends at head,
// until f returns false. A head that is not of the thread is RunNotFound or RunDeleted.
func (t *threadRead) each(ctx context.Context, head event.RunID, f func(*run) bool) error {
	if head != "" {
		return t.chain(ctx, head, f)
	}
	for n := t.head.next; n > 0; n-- {
		r, err := t.at(n - 1)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if r != nil && !f(r) {
			return nil
		}
	}
	return nil
}

func (t *threadRead) chain(ctx context.Context, head event.RunID, f func(*run) bool) error {
	seen := make(map[event.RunID]bool)
	for id := head; id != "" && !seen[id]; {
		seen[id] = true
		r, err := t.named(id)
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case id != head && (errors.Is(err, event.ErrRunNotFound) || errors.Is(err, event.ErrRunDeleted)):
			return nil // the chain stops here
		case err != nil:
			return err
		case !f(r):
			return nil
		}
		id = r.parent
	}
	return nil
}

// named returns the thread's run of that name.
func (t *threadRead) named(id event.RunID) (*run, error) {
	t.m.mu.RLock()
	n, err := t.m.findName(id)
	t.m.mu.RUnlock()
	switch {
	case err != nil:
		return nil, err
	case n.deleted:
		return nil, event.ErrRunDeleted
	}
	if r, ok := t.runs[n.sid]; ok && r == nil {
		return nil, event.ErrRunDeleted
	} else if ok {
		return r, nil
	}
	// The name is of now, the rest of a moment ago: a run created since is not there yet.
	_, err = t.txn.Get(sidKey(keyHead, n.sid))
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, event.ErrRunNotFound
	}
	r, err := headRun(t.txn, n.sid)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, event.ErrRunDeleted
	case r.thread != t.id:
		return nil, event.ErrRunNotFound
	}
	return r, nil
}

// Thread returns one moment of a thread; see [event.ThreadView]. A thread without runs is no error; a
// q.Head that is not a run of the thread is [event.ErrRunNotFound] or [event.ErrRunDeleted], and a
// q.Before that no view gave [event.ErrBadCursor].
func (m *Machine) Thread(ctx context.Context, id event.ThreadID, q event.ThreadQuery) (event.ThreadView, error) {
	for tries := 0; ; tries++ {
		v, err := m.threadOnce(ctx, id, q)
		if err == nil || !errors.Is(err, errThreadChanged) || tries == maxThreadTries {
			return v, m.noteDamage(err)
		}
	}
}

func (m *Machine) threadOnce(ctx context.Context, id event.ThreadID, q event.ThreadQuery) (v event.ThreadView, err error) {
	v.ThreadID = id
	before := uint64(1<<64 - 1)
	if q.Before != "" {
		if before, err = strconv.ParseUint(q.Before, 10, 64); err != nil {
			return v, event.ErrBadCursor
		}
	}
	t, err := m.readThreadAt(id)
	if err != nil {
		return v, err
	}
	defer t.close()
	if v.Cursor, err = t.cursor(); err != nil {
		return v, err
	}
	if n := len(t.open); n > 0 {
		if v.ActiveRun, err = t.active(t.open[n-1].sid); err != nil {
			return v, err
		}
	}
	limit := min(q.Limit, event.MaxRunLimit)
	if limit <= 0 {
		limit = event.DefaultRunLimit
	}
	var page []*run
	var chain map[streamID]bool // the runs whose interrupts count; nil: all
	if q.Head != "" {
		chain = make(map[streamID]bool)
	}
	passed := q.Before == ""
	err = t.each(ctx, q.Head, func(r *run) bool {
		if chain != nil {
			chain[r.sid] = true
		}
		if chain == nil && uint64(r.ordinal) >= before {
			return true
		}
		if chain != nil && !passed {
			passed = uint64(r.ordinal) == before
			return true
		}
		if len(page) == limit {
			v.NextCursor = strconv.FormatUint(uint64(page[limit-1].ordinal), 10)
			return chain != nil
		}
		page = append(page, r)
		return true
	})
	if err != nil {
		return v, err
	}
	for _, r := range page {
		run := r.view()
		run.Open = nil
		if err := m.addTerminalOf(ctx, r.id, run); err != nil {
			return v, err
		}
		v.Runs = append(v.Runs, *run)
	}
	v.Interrupts, err = t.viewInterrupts(ctx, chain)
	return v, err
}

// active returns an open run with what is open in it.
func (t *threadRead) active(s streamID) (*event.Run, error) {
	r, err := t.run(s)
	if err != nil || r == nil {
		return nil, err
	}
	if len(r.openSeqs) > 0 {
		own := *r
		r = &own
		if err := getSpans(t.txn, r); err != nil {
			return nil, err
		}
	}
	return r.view(), nil
}

// addTerminalOf fills in what the terminal event of an ended run says. A run that is gone by now makes
// the caller begin anew.
func (m *Machine) addTerminalOf(ctx context.Context, id event.RunID, v *event.Run) error {
	if !v.Ended {
		return nil
	}
	raw, err := m.rawAt(ctx, id, *v.TerminalOffset)
	if err != nil {
		return err
	}
	fillTerminal(v, raw)
	return nil
}

// rawAt returns one event of a run; errThreadChanged when the run is deleted.
func (m *Machine) rawAt(ctx context.Context, id event.RunID, offset event.Offset) ([]byte, error) {
	s, err := m.read(id)
	if errors.Is(err, event.ErrRunDeleted) || errors.Is(err, event.ErrRunNotFound) {
		return nil, errThreadChanged
	}
	if err != nil {
		return nil, err
	}
	defer s.release()
	rec, err := s.record(ctx, offset)
	return rec.Raw, m.deletedMeanwhile(s, err)
}

// viewInterrupts returns the interrupts that runs of the chain asked (nil: all), in order of asking.
func (t *threadRead) viewInterrupts(ctx context.Context, chain map[streamID]bool) ([]event.Interrupt, error) {
	all := make(map[fingerprint]*interrupt)
	if t.head.interrupts > 0 {
		if err := scanInterrupts(t.txn, t.fp, all); err != nil {
			return nil, err
		}
	}
	for id, i := range t.interrupts {
		if all[id] = i; i == nil {
			delete(all, id)
		}
	}
	if err := proveInterrupts(&t.head, all); err != nil {
		return nil, err
	}
	list := make([]*interrupt, 0, len(all))
	for _, i := range all {
		if chain == nil || chain[i.askedBy] {
			list = append(list, i)
		}
	}
	slices.SortFunc(list, func(a, b *interrupt) int {
		if c := slices.Compare(a.askedBy[:], b.askedBy[:]); c != 0 {
			return c
		}
		return int(a.index) - int(b.index)
	})
	views := make([]event.Interrupt, 0, len(list))
	for _, i := range list {
		v, err := t.m.viewInterrupt(ctx, i)
		if err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

// viewInterrupt reads what was asked and answered from the events that did.
func (m *Machine) viewInterrupt(ctx context.Context, i *interrupt) (event.Interrupt, error) {
	v := event.Interrupt{InterruptID: i.id, RunID: i.asked, Status: i.status}
	raw, err := m.rawAt(ctx, i.asked, i.askedAt)
	if err != nil {
		return v, err
	}
	v.Interrupt = element(raw, "outcome.interrupts", "id", i.id)
	if i.status == event.InterruptPending {
		return v, nil
	}
	v.ByRunID = i.answerer
	raw, err = m.rawAt(ctx, i.answerer, i.answerAt)
	if errors.Is(err, errThreadChanged) {
		return v, nil // the answer was deleted with its run
	}
	if answer := element(raw, "input.resume", "interruptId", i.id); len(answer) > 0 {
		if payload := gjson.GetBytes(answer, "payload"); payload.Exists() {
			v.Response = []byte(payload.Raw)
		}
	}
	return v, err
}

// element returns the member of a list whose field holds id.
func element(raw []byte, list, field, id string) []byte {
	for _, e := range gjson.GetBytes(raw, list).Array() {
		if e.Get(field).Str == id {
			return []byte(e.Raw)
		}
	}
	return nil
}
