package fsm

import (
	"errors"

	"github.com/runlog/runlog/event"
)

// createRun creates a run, or answers for the one of that name: the same thread gets it back
// (and, naming a holder, acquires it), another thread is refused.
func (a *applier) createRun(position int, c *event.CreateRun) (event.Result, error) {
	r, err := a.m.find(c.Run)
	switch {
	case errors.Is(err, event.ErrRunNotFound):
		return a.createNew(position, c)
	case errors.Is(err, event.ErrRunDeleted):
		return refuse(event.ErrRunDeleted), nil
	case err != nil:
		return event.Result{}, err
	case r.thread != c.Thread:
		v := r.view()
		v.Open = nil
		return refuse(&event.RunExists{Run: v}), nil
	case c.Key != event.IdempotencyKey{} && c.Key == r.createKey:
		result := repeated(r, r.createEpoch)
		result.Created = result.Refusal == nil
		return result, nil
	case c.Holder == "":
		return event.Result{Run: r.view()}, nil
	}
	result, err := a.acquire(r, c.Holder, c.LeaseMs, c.Key)
	if c.TakeoverMs != nil && result.Refusal == nil && err == nil {
		r = a.m.active.runs[r.sid]
		if r == nil {
			return result, nil // a repeated request: nothing changed
		}
		r.takeoverMs = c.TakeoverMs
		a.effectRun(r)
		a.noteLease(r, true)
		result.Run = r.view()
	}
	return result, err
}

func (a *applier) createNew(position int, c *event.CreateRun) (event.Result, error) {
	if c.RejectBusy {
		if busy, ok := a.m.openRuns.newest(c.Thread); ok {
			return refuse(&event.ThreadBusy{ActiveRunID: busy}), nil
		}
	}
	if len(c.Metadata) > event.MaxMetadataBytes {
		return refuse(&event.TooLarge{What: "metadata bytes", Limit: event.MaxMetadataBytes}), nil
	}
	r := a.newRun(position, c.Run, c.Thread, c.Parent, c.Grammar != event.GrammarLenient)
	var walk *event.Walk
	if c.Started != nil {
		var refusal event.Refusal
		var err error
		if walk, refusal, err = a.walk(r, []event.Event{*c.Started}); refusal != nil || err != nil {
			return event.Result{Refusal: refusal}, err
		}
		if refusal, err = a.checkAnswers(r.thread, []event.Event{*c.Started}); refusal != nil || err != nil {
			return event.Result{Refusal: refusal}, err
		}
	}
	if err := a.addRun(r); err != nil {
		return event.Result{}, err
	}
	r.createKey = c.Key
	r.takeoverMs = c.TakeoverMs
	if c.Holder != "" {
		r.createEpoch = r.epoch + 1
		a.hold(r, c.Holder, c.LeaseMs, c.Key)
	}
	a.setMetadata(r, c.Metadata)
	if walk != nil {
		a.m.active.addRecord(&r.logHead, r.epoch, a.now, c.Started.Raw)
		if err := a.dialogue(r, 0, []event.Event{*c.Started}); err != nil {
			return event.Result{}, err
		}
		if err := a.progress(r, walk); err != nil {
			return event.Result{}, err
		}
	}
	a.effectRun(r)
	a.touch(r)
	a.noteLease(r, true)
	return event.Result{Created: true, Run: r.view()}, nil
}

// newRun returns a run that is not part of the state yet.
func (a *applier) newRun(position int, id event.RunID, thread event.ThreadID, parent event.RunID, strict bool) *run {
	return &run{head: head{
		id: id, thread: thread, parent: parent, logHead: logHead{sid: newStreamID(a.index, position)}, strict: strict,
		status: event.StatusRunning, startedAt: a.now, updatedAt: a.now,
	}}
}

// addRun makes a new run part of the state.
func (a *applier) addRun(r *run) error {
	if err := a.joinThread(r); err != nil {
		return err
	}
	o := a.m.active
	o.setName(r.id, nameEntry{sid: r.sid})
	o.setRun(r)
	o.mark(r.sid, changeCreated, 80)
	a.m.names.add(fingerprintOf(r.id))
	a.m.openRuns.add(r)
	o.meta.runs++
	a.tell(event.ChangeCreated, r)
	return nil
}

func (a *applier) setMetadata(r *run, metadata []byte) {
	if len(metadata) == 0 && len(r.metadata) == 0 {
		return
	}
	r.metadata = append([]byte(nil), metadata...)
	r.metadataBytes = uint64(len(metadata))
	a.m.active.mark(r.sid, changeMetadata, len(metadata))
}
