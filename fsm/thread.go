package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// threadHead is what is kept of a thread beside its runs. It is written when a run is created, ends or
// is deleted, and with interrupts, so that appending costs nothing more.
type threadHead struct {
	id       event.ThreadID // empty while no run is left
	next     event.Ordinal  // that the next run gets
	live     uint64         // how many runs there are
	activity event.Time     // of the last creation or end

	interrupts   uint64 // how many are remembered
	interruptXor fingerprint
}

const threadVersion = 1

func (t *threadHead) encode() []byte {
	e := enc{make([]byte, 0, 64+len(t.id))}
	e.u8(threadVersion)
	e.str(string(t.id))
	e.uv(uint64(t.next))
	e.uv(t.live)
	e.iv(int64(t.activity))
	e.uv(t.interrupts)
	e.raw(t.interruptXor[:])
	return e.b
}

func decodeThread(b []byte) (threadHead, error) {
	d := dec{b: b}
	if v := d.u8(); v != threadVersion {
		return threadHead{}, fmt.Errorf("%w: thread version %d", ErrDamaged, v)
	}
	t := threadHead{id: event.ThreadID(d.str()), next: event.Ordinal(d.uv()), live: d.uv(), activity: event.Time(d.iv()), interrupts: d.uv()}
	copy(t.interruptXor[:], d.take(16))
	return t, d.done("thread")
}

// threadChange is a thread that changed within an overlay.
type threadChange struct {
	threadHead
	// was is the activity before, under which Badger lists the thread; 0: it does not.
	was event.Time
}

// place is a run's number in its thread.
type place struct {
	thread  fingerprint
	ordinal event.Ordinal
}

func threadHeadKey(thread fingerprint) []byte {
	return append(append(make([]byte, 0, 25), keyThreadHead), thread[:]...)
}

func placeKey(p place) []byte {
	return binary.BigEndian.AppendUint64(threadHeadKey(p.thread), uint64(p.ordinal))
}

// activityKey sorts threads by their last activity, the latest first.
func activityKey(t event.Time, thread fingerprint) []byte {
	key := binary.BigEndian.AppendUint64([]byte{keyActivity}, ^uint64(t))
	return append(key, thread[:]...)
}

// findThread returns a thread's head; the zero head for one that never had a run. It needs mu.
func (m *Machine) findThread(id event.ThreadID) (threadHead, error) {
	for _, o := range m.overlays() {
		if t := o.threads[id]; t != nil {
			return t.threadHead, nil
		}
	}
	fp := fingerprintOf(id)
	if !m.threads.has(fp) {
		return threadHead{}, nil
	}
	if t, ok := m.cache.threads.Get(id); ok {
		return t, nil
	}
	var t threadHead
	err := m.store.db.View(func(txn *badger.Txn) (err error) {
		t, err = getThread(txn, fp)
		return err
	})
	if err == nil {
		m.cache.threads.Add(id, t)
	}
	return t, err
}

func getThread(txn *badger.Txn, thread fingerprint) (threadHead, error) {
	value, err := get(txn, threadHeadKey(thread))
	if err != nil {
		return threadHead{}, err
	}
	return decodeThread(value)
}

// findPlace returns the run at a place that the thread has given out; the zero id if that run was
// deleted. It needs mu.
func (m *Machine) findPlace(p place) (s streamID, err error) {
	for _, o := range m.overlays() {
		if s, ok := o.places[p]; ok {
			return s, nil
		}
	}
	err = m.store.db.View(func(txn *badger.Txn) error {
		s, err = getPlace(txn, p)
		return err
	})
	return s, err
}

func getPlace(txn *badger.Txn, p place) (s streamID, err error) {
	value, err := get(txn, placeKey(p))
	if err == nil && len(value) > 0 {
		copy(s[:], value)
	}
	return s, err
}

// thread returns a thread's head for changing: the active overlay's own.
func (a *applier) thread(id event.ThreadID) (*threadChange, error) {
	o := a.m.active
	if t := o.threads[id]; t != nil {
		return t, nil
	}
	head, err := a.m.findThread(id)
	if err != nil {
		return nil, err
	}
	t := &threadChange{threadHead: head}
	if head.live > 0 {
		t.was = head.activity
	}
	o.grow(3*len(id) + 192)
	o.keys += 2
	o.threads[id] = t
	if fp := fingerprintOf(id); !a.m.threads.has(fp) {
		a.m.threads.add(fp)
	}
	return t, nil
}

// joinThread gives a new run its place in its thread.
func (a *applier) joinThread(r *run) error {
	t, err := a.thread(r.thread)
	if err != nil {
		return err
	}
	r.ordinal = t.next
	t.id = r.thread
	t.next++
	t.live++
	t.activity = a.now
	a.m.active.setPlace(r, r.sid)
	return nil
}

// leaveThread takes a deleted run out; its place stays taken.
func (a *applier) leaveThread(r *run) error {
	t, err := a.thread(r.thread)
	if err != nil {
		return err
	}
	if t.live--; t.live == 0 {
		t.id = ""
	}
	a.m.active.setPlace(r, streamID{})
	return a.forgetInterrupts(t, r)
}

// deleteThread deletes all runs of a thread, as DeleteRun does one.
func (a *applier) deleteThread(c *event.DeleteThread) (event.Result, error) {
	if _, busy := a.m.openRuns.newest(c.Thread); busy {
		return refuse(&event.RunActive{}), nil
	}
	t, err := a.m.findThread(c.Thread)
	if err != nil {
		return event.Result{}, err
	}
	fp := fingerprintOf(c.Thread)
	for n := event.Ordinal(0); n < t.next; n++ {
		s, err := a.m.findPlace(place{fp, n})
		if err != nil {
			return event.Result{}, err
		}
		if s == (streamID{}) {
			continue
		}
		r, err := a.m.findRun(s)
		if err == nil {
			err = a.drop(r)
		}
		if err != nil && !errors.Is(err, event.ErrRunDeleted) {
			return event.Result{}, err
		}
	}
	return event.Result{}, nil
}
