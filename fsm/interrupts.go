package fsm

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
)

// interrupt is a question that a run's end left open. What was asked and answered stays in the
// events; this says where, and how the question stands.
type interrupt struct {
	id      string
	asked   event.RunID
	askedBy streamID
	askedAt event.Offset
	index   uint64 // in the list that asked it

	status   event.InterruptStatus
	answerer event.RunID // while it is not pending
	answered streamID
	answerAt event.Offset
}

const interruptVersion = 1

var interruptStatuses = []event.InterruptStatus{event.InterruptPending, event.InterruptResolved, event.InterruptCancelled}

func (i *interrupt) encode() []byte {
	e := enc{make([]byte, 0, 64+len(i.id)+len(i.asked)+len(i.answerer))}
	e.u8(interruptVersion)
	e.str(i.id)
	e.str(string(i.asked))
	e.raw(i.askedBy[:])
	e.uv(uint64(i.askedAt))
	e.uv(i.index)
	e.u8(indexOf(interruptStatuses, i.status))
	e.str(string(i.answerer))
	e.raw(i.answered[:])
	e.uv(uint64(i.answerAt))
	return e.b
}

func decodeInterrupt(b []byte) (*interrupt, error) {
	d := dec{b: b}
	if v := d.u8(); v != interruptVersion {
		return nil, fmt.Errorf("%w: interrupt version %d", ErrDamaged, v)
	}
	i := &interrupt{id: d.str(), asked: event.RunID(d.str())}
	copy(i.askedBy[:], d.take(16))
	i.askedAt, i.index = event.Offset(d.uv()), d.uv()
	i.status = at(&d, interruptStatuses)
	i.answerer = event.RunID(d.str())
	copy(i.answered[:], d.take(16))
	i.answerAt = event.Offset(d.uv())
	return i, d.done("interrupt")
}

// interruptKey names an interrupt: its id counts within its thread.
type interruptKey struct{ thread, id fingerprint }

func (k interruptKey) bytes() []byte {
	return append(append(append(make([]byte, 0, 33), keyInterrupt), k.thread[:]...), k.id[:]...)
}

// interruptsOf returns every interrupt that a thread remembers, by the hash of its id, proved against
// the thread's count. FSM goroutine only; callers change it together with the overlay.
func (m *Machine) interruptsOf(t *threadHead, id event.ThreadID) (map[fingerprint]*interrupt, error) {
	if all, ok := m.cache.interrupts.Get(id); ok {
		return all, nil
	}
	all := make(map[fingerprint]*interrupt)
	if t.interrupts > 0 {
		thread := fingerprintOf(id)
		err := m.store.db.View(func(txn *badger.Txn) error { return scanInterrupts(txn, thread, all) })
		if err != nil {
			return nil, err
		}
		overlays := m.overlays()
		for n := len(overlays) - 1; n >= 0; n-- {
			overlays[n].interruptsOf(thread, all)
		}
	}
	if err := proveInterrupts(t, all); err != nil {
		return nil, err
	}
	m.cache.interrupts.Add(id, all)
	return all, nil
}

func proveInterrupts(t *threadHead, all map[fingerprint]*interrupt) error {
	var sum fingerprint
	for id := range all {
		sum.xor(id)
	}
	if uint64(len(all)) != t.interrupts || sum != t.interruptXor {
		return fmt.Errorf("%w: a thread remembers %d interrupts, %d are stored", ErrDamaged, t.interrupts, len(all))
	}
	return nil
}

// scanInterrupts reads a thread's interrupts; where one was forgotten, nothing is left under its key.
func scanInterrupts(txn *badger.Txn, thread fingerprint, all map[fingerprint]*interrupt) error {
	prefix := append([]byte{keyInterrupt}, thread[:]...)
	return scan(txn, prefix, func(key, value []byte) error {
		if len(value) == 0 {
			return nil
		}
		i, err := decodeInterrupt(value)
		if err == nil {
			all[fingerprint(key[17:])] = i
		}
		return err
	})
}

// interruptsOf lays the overlay's changes of one thread over all.
func (o *overlay) interruptsOf(thread fingerprint, all map[fingerprint]*interrupt) {
	for id, i := range o.interrupts[thread] {
		if i == nil {
			delete(all, id)
		} else {
			all[id] = i
		}
	}
}

// checkAnswers refuses events that answer an interrupt which is not pending: asked by no run of the
// thread, answered before, or answered twice.
func (a *applier) checkAnswers(thread event.ThreadID, events []event.Event) (event.Refusal, error) {
	var all map[fingerprint]*interrupt
	seen := make(map[string]bool)
	for n := range events {
		d := events[n].Header.Dialogue
		if d == nil || len(d.Answers) == 0 {
			continue
		}
		if all == nil {
			t, err := a.m.findThread(thread)
			if err != nil {
				return nil, err
			}
			if all, err = a.m.interruptsOf(&t, thread); err != nil {
				return nil, err
			}
		}
		for _, answer := range d.Answers {
			i := all[fingerprintOf(answer.InterruptID)]
			switch {
			case i == nil:
				return &event.InterruptNotPending{InterruptID: answer.InterruptID}, nil
			case i.status != event.InterruptPending:
				return &event.InterruptNotPending{InterruptID: i.id, Status: i.status, ByRunID: i.answerer}, nil
			case seen[i.id]:
				return &event.InvalidEvent{Index: n, Reason: "input.resume answers one interrupt twice"}, nil
			}
			seen[i.id] = true
		}
	}
	return nil, nil
}

// dialogue takes note of what events ask and answer. They begin at offset first of the run, and
// checkAnswers let them pass.
func (a *applier) dialogue(r *run, first event.Offset, events []event.Event) error {
	for n := range events {
		d := events[n].Header.Dialogue
		if d == nil {
			continue
		}
		t, err := a.thread(r.thread)
		if err != nil {
			return err
		}
		all, err := a.m.interruptsOf(&t.threadHead, r.thread)
		if err != nil {
			return err
		}
		at := first + event.Offset(n)
		for _, answer := range d.Answers {
			i := *all[fingerprintOf(answer.InterruptID)]
			i.status, i.answerer, i.answered, i.answerAt = event.InterruptResolved, r.id, r.sid, at
			if answer.Cancelled {
				i.status = event.InterruptCancelled
			}
			r.answers++
			a.setInterrupt(t, r.thread, all, i)
		}
		for index, id := range d.Asked {
			i := interrupt{id: id, asked: r.id, askedBy: r.sid, askedAt: at, index: uint64(index), status: event.InterruptPending}
			a.setInterrupt(t, r.thread, all, i)
		}
	}
	return nil
}

// giveBack makes what a run answered pending again, since it came to nothing.
func (a *applier) giveBack(r *run) error {
	if r.answers == 0 || r.status != event.StatusFailed && r.status != event.StatusCancelled && r.status != event.StatusLost {
		return nil
	}
	t, err := a.thread(r.thread)
	if err != nil {
		return err
	}
	all, err := a.m.interruptsOf(&t.threadHead, r.thread)
	if err != nil {
		return err
	}
	for _, id := range sortedKeys(all) {
		if i := *all[id]; i.answered == r.sid {
			i.status, i.answerer, i.answered, i.answerAt = event.InterruptPending, "", streamID{}, 0
			a.setInterrupt(t, r.thread, all, i)
		}
	}
	return nil
}

// forgetInterrupts forgets what a deleted run asked. What it answered stays answered.
func (a *applier) forgetInterrupts(t *threadChange, r *run) error {
	if t.interrupts == 0 {
		return nil
	}
	all, err := a.m.interruptsOf(&t.threadHead, r.thread)
	if err != nil {
		return err
	}
	for _, id := range sortedKeys(all) {
		if all[id].askedBy != r.sid {
			continue
		}
		delete(all, id)
		t.interrupts--
		t.interruptXor.xor(id)
		a.m.active.setInterrupt(interruptKey{fingerprintOf(r.thread), id}, nil)
	}
	return nil
}

func (a *applier) setInterrupt(t *threadChange, thread event.ThreadID, all map[fingerprint]*interrupt, i interrupt) {
	id := fingerprintOf(i.id)
	if all[id] == nil {
		t.interrupts++
		t.interruptXor.xor(id)
	}
	all[id] = &i
	a.m.active.setInterrupt(interruptKey{fingerprintOf(thread), id}, &i)
	a.effects.Write(i.encode())
}
