package fsm

import (
	"errors"

	"github.com/runlog/runlog/event"
)

// append decides about one batch, in the contract's order: unknown run, epoch, duplicate,
// ended, expected offset, producer gap, grammar. It changes nothing before all of them passed.
func (a *applier) append(position int, b *event.Batch) (event.Result, error) {
	r, err := a.m.find(b.Run)
	switch {
	case errors.Is(err, event.ErrRunNotFound):
		return a.appendFirst(position, b)
	case errors.Is(err, event.ErrRunDeleted):
		return refuse(event.ErrRunDeleted), nil
	case err != nil:
		return event.Result{}, err
	}
	if refusal := checkEpoch(r, b.Epoch); refusal != nil {
		return event.Result{Refusal: refusal}, nil
	}
	prod, answer, err := a.checkProducer(r, b)
	if answer != nil || err != nil {
		return deref(answer), err
	}
	if r.ended() {
		return refuse(&event.RunEnded{TerminalOffset: r.terminal}), nil
	}
	if b.Expect != nil && *b.Expect != r.tail {
		return refuse(&event.OffsetConflict{Expected: *b.Expect, Tail: r.tail}), nil
	}
	if refusal := prod.gap(); refusal != nil {
		return event.Result{Refusal: refusal}, nil
	}
	walk, refusal, err := a.walk(r, b.Events)
	if refusal != nil || err != nil {
		return event.Result{Refusal: refusal}, err
	}
	if refusal, err = a.checkAnswers(r.thread, b.Events); refusal != nil || err != nil {
		return event.Result{Refusal: refusal}, err
	}
	return a.write(a.writable(r), b, prod, walk)
}

func refuse(err error) event.Result {
	return event.Result{Refusal: err.(event.Refusal)}
}

func checkEpoch(r *run, epoch *event.Epoch) event.Refusal {
	switch {
	case epoch == nil && r.epoch > 0:
		return &event.EpochRequired{CurrentEpoch: r.epoch}
	case epoch != nil && *epoch != r.epoch:
		return &event.Fenced{Epoch: *epoch, CurrentEpoch: r.epoch}
	}
	return nil
}

// producing is what a batch's producer headers mean for a run; nil without them.
type producing struct {
	ref    *event.Producer
	known  *producer // nil: the run does not remember it
	forget event.ProducerID
	full   bool
}

// checkProducer answers a duplicate or an outdated producer, and otherwise returns what the
// later checks need.
func (a *applier) checkProducer(r *run, b *event.Batch) (*producing, *event.Result, error) {
	if b.Producer == nil {
		return nil, nil, nil
	}
	all, err := a.m.producersOf(&r.logHead)
	if err != nil {
		return nil, nil, err
	}
	p := &producing{ref: b.Producer, known: all[b.Producer.ID]}
	if p.known == nil {
		forget, ok := admit(all, a.now)
		p.forget, p.full = forget, !ok
		return p, nil, nil
	}
	switch {
	case b.Producer.Epoch < p.known.epoch:
		answer := refuse(&event.ProducerFenced{ProducerEpoch: b.Producer.Epoch, CurrentProducerEpoch: p.known.epoch})
		return nil, &answer, nil
	case b.Producer.Epoch > p.known.epoch || b.Producer.Seq > p.known.lastSeq:
		return p, nil, nil
	}
	answer := p.duplicate(r, b)
	return nil, &answer, nil
}

func (p *producing) duplicate(r *run, b *event.Batch) event.Result {
	was, ok := p.known.lookup(p.ref.Seq)
	switch {
	case !ok:
		return event.Result{Appended: event.Appended{Tail: r.tail, Duplicate: true, Forgotten: true, CancelRequested: r.cancelRequested}}
	case was.body != b.BodyHash:
		return refuse(&event.ProducerConflict{Seq: p.ref.Seq})
	}
	return event.Result{Appended: event.Appended{FirstOffset: was.first, Tail: was.tail, Duplicate: true, CancelRequested: r.cancelRequested}}
}

// gap refuses a sequence number that is not the producer's next one.
func (p *producing) gap() event.Refusal {
	if p == nil {
		return nil
	}
	want := uint64(0)
	if p.known != nil && p.known.epoch == p.ref.Epoch {
		want = p.known.lastSeq + 1
	}
	switch {
	case p.ref.Seq != want:
		return &event.ProducerGap{ExpectedSeq: want, ReceivedSeq: p.ref.Seq}
	case p.full:
		return &event.TooManyProducers{Limit: maxProducers}
	}
	return nil
}

// walk checks the events against the run's grammar.
func (a *applier) walk(r *run, events []event.Event) (*event.Walk, event.Refusal, error) {
	var damage error
	w := event.NewWalk(r.progress(), event.Rules{
		Strict: r.strict, Run: r.id, Thread: r.thread,
		Used: func(h event.IDHash) bool {
			ids, err := a.m.usedIDs(r)
			if err != nil {
				damage = err
			}
			_, used := ids[h]
			return used
		},
	})
	if len(events) == 0 {
		return nil, &event.InvalidEvent{Reason: "the batch holds no event"}, nil
	}
	for i := range events {
		reason := w.Take(&events[i].Header)
		if damage != nil {
			return nil, nil, damage
		}
		if reason != "" {
			return nil, &event.InvalidEvent{Index: i, Reason: reason}, nil
		}
	}
	return w, nil, nil
}

// write stores a batch that passed every check. r is the active overlay's own.
func (a *applier) write(r *run, b *event.Batch, p *producing, w *event.Walk) (event.Result, error) {
	first := r.tail
	for i := range b.Events {
		a.addBare(r, b.Events[i].Raw)
	}
	r.updatedAt = a.now
	if err := a.dialogue(r, first, b.Events); err != nil {
		return event.Result{}, err
	}
	if err := a.progress(r, w); err != nil {
		return event.Result{}, err
	}
	if p != nil {
		if err := a.remember(&r.logHead, p, remembered{first: first, tail: r.tail, body: b.BodyHash}); err != nil {
			return event.Result{}, err
		}
	}
	if r.lease == event.LeaseStateLapsed {
		r.lease = event.LeaseStateHeld // nobody acquired since: its holder goes on
		a.m.openRuns.change(r)
	}
	a.touch(r)
	a.noteLease(r, true)
	a.effects.Write(r.sid[:])
	a.effect(uint64(first), uint64(r.tail), r.chain, uint64(r.epoch), r.used, uint64(len(r.open)), r.producers)
	return event.Result{Appended: event.Appended{FirstOffset: first, Tail: r.tail, CancelRequested: r.cancelRequested}}, nil
}

// remember takes note of a producer's accepted append.
func (a *applier) remember(l *logHead, p *producing, done remembered) error {
	all, err := a.m.producersOf(l)
	if err != nil {
		return err
	}
	next := p.known.next(p.ref, a.now, done)
	if p.known == nil {
		l.producers++
		if p.forget != "" {
			l.producers--
			delete(all, p.forget)
			a.m.active.dropProducer(l.sid, p.forget)
		}
	}
	all[next.id] = next
	a.m.active.setProducer(l.sid, next)
	return nil
}

// appendFirst is an append to a run that does not exist: RUN_STARTED creates it, without a lease.
func (a *applier) appendFirst(position int, b *event.Batch) (event.Result, error) {
	if len(b.Events) == 0 || b.Events[0].Header.Type != event.TypeRunStarted {
		return refuse(event.ErrRunNotFound), nil
	}
	started := &b.Events[0].Header
	thread := started.ThreadID
	if thread == "" {
		thread = event.ThreadID(b.Run)
	}
	parent := event.CheckID("parentRunId", string(started.ParentRunID))
	if started.ParentRunID == "" {
		parent = nil
	}
	for _, err := range []error{event.CheckID("runId", string(b.Run)), event.CheckID("threadId", string(thread)), parent} {
		if err != nil {
			return refuse(&event.InvalidEvent{Reason: err.Error()}), nil
		}
	}
	if b.Epoch != nil && *b.Epoch > 0 {
		return refuse(&event.Fenced{Epoch: *b.Epoch}), nil
	}
	if b.Expect != nil && *b.Expect > 0 {
		return refuse(&event.OffsetConflict{Expected: *b.Expect}), nil
	}
	var p *producing
	if b.Producer != nil {
		p = &producing{ref: b.Producer}
		if refusal := p.gap(); refusal != nil {
			return event.Result{Refusal: refusal}, nil
		}
	}
	r := a.newRun(position, b.Run, thread, started.ParentRunID, true)
	walk, refusal, err := a.walk(r, b.Events)
	if refusal != nil || err != nil {
		return event.Result{Refusal: refusal}, err
	}
	if refusal, err = a.checkAnswers(r.thread, b.Events); refusal != nil || err != nil {
		return event.Result{Refusal: refusal}, err
	}
	if err := a.addRun(r); err != nil {
		return event.Result{}, err
	}
	return a.write(r, b, p, walk)
}
