package fsm

import (
	"errors"
	"fmt"

	"github.com/runlog/runlog/event"
)

// runStreamCommand applies a Durable Streams operation on a run; ok is false for any other command.
func (a *applier) runStreamCommand(position int, c event.Command) (r event.Result, err error, ok bool) {
	switch c := c.(type) {
	case *event.OpenRunStream:
		r, err = a.openRunStream(position, c)
	case *event.AppendRunStream:
		r, err = a.appendRunStream(c)
	default:
		return r, nil, false
	}
	return r, err, true
}

// openRunStream creates a run, or answers for the one of that name, and acquires its lease when the
// request names a holder.
func (a *applier) openRunStream(position int, c *event.OpenRunStream) (event.Result, error) {
	r, err := a.m.find(c.Run)
	switch {
	case errors.Is(err, event.ErrRunNotFound):
		return a.openNewRun(position, c)
	case errors.Is(err, event.ErrRunDeleted):
		return refuse(event.ErrRunDeleted), nil
	case err != nil:
		return event.Result{}, err
	case c.Key != event.IdempotencyKey{} && c.Key == r.createKey:
		result := repeated(r, r.createEpoch)
		result.Created = result.Refusal == nil
		return result, nil
	}
	_, again := r.acquiredBy(c.Key)
	switch {
	case c.Epoch != nil && *c.Epoch != r.epoch && !again:
		return refuse(&event.Fenced{Epoch: *c.Epoch, CurrentEpoch: r.epoch}), nil
	case c.Thread != "" && c.Thread != r.thread:
		return refuse(&event.StreamExists{What: "thread"}), nil
	case c.Closed != r.ended():
		return refuse(&event.StreamExists{What: "closed state"}), nil
	case c.Holder == "" || r.ended():
		return event.Result{Run: r.view()}, nil
	}
	result, err := a.acquire(r, c.Holder, c.LeaseMs, c.Key)
	own := a.m.active.runs[r.sid]
	if again || result.Refusal != nil || err != nil || own == nil {
		return result, err
	}
	own.opened(c)
	a.effectRun(own)
	a.noteLease(own, true)
	result.Run = own.view()
	return result, nil
}

// opened takes over what its opener, or its next holder, says about a run.
func (r *run) opened(c *event.OpenRunStream) {
	if c.TakeoverMs != nil {
		r.takeoverMs = c.TakeoverMs
	}
	if r.tail == 0 {
		r.framing.records = c.Records
	}
}

func (a *applier) openNewRun(position int, c *event.OpenRunStream) (event.Result, error) {
	if c.Epoch != nil && *c.Epoch > 0 {
		return refuse(&event.Fenced{Epoch: *c.Epoch}), nil
	}
	thread, parent := event.ThreadID(c.Run), event.RunID("")
	if events := c.Messages.Events; len(events) > 0 && events[0].Header.Type == event.TypeRunStarted {
		h := &events[0].Header
		if event.CheckID("threadId", string(h.ThreadID)) == nil {
			thread = h.ThreadID
		}
		if event.CheckID("parentRunId", string(h.ParentRunID)) == nil {
			parent = h.ParentRunID
		}
	}
	if c.Thread != "" {
		thread = c.Thread
	}
	r := a.newRun(position, c.Run, thread, parent, false)
	walk, refusal, err := a.walkMessages(r, &c.Messages)
	switch {
	case refusal != nil || err != nil:
		return event.Result{Refusal: refusal}, err
	case c.Closed && (walk == nil || !walk.Ended()):
		return refuse(&event.InvalidEvent{Reason: "a run is closed by its terminal event, which is not there"}), nil
	}
	if refusal, err := a.checkAnswers(r.thread, c.Messages.Events); refusal != nil || err != nil {
		return event.Result{Refusal: refusal}, err
	}
	if err := a.addRun(r); err != nil {
		return event.Result{}, err
	}
	r.createKey = c.Key
	r.opened(c)
	if c.Holder != "" {
		r.createEpoch = r.epoch + 1
		a.hold(r, c.Holder, c.LeaseMs, c.Key)
	}
	if walk != nil {
		a.addMessages(r, &c.Messages)
		if err := a.dialogue(r, 0, c.Messages.Events); err != nil {
			return event.Result{}, err
		}
		if err := a.progress(r, walk); err != nil {
			return event.Result{}, err
		}
	}
	a.changedLease(r, true)
	return event.Result{Created: true, Run: r.view()}, nil
}

// appendRunStream decides about one append or close, in this order: unknown, epoch, holder, outdated
// producer, duplicate, ended, producer's sequence, Stream-Seq, framing, grammar. It changes nothing
// before all of them passed.
func (a *applier) appendRunStream(c *event.AppendRunStream) (event.Result, error) {
	r, refusal, err := a.existing(c.Run)
	if refusal == nil && err == nil {
		refusal = mayWrite(r, c)
	}
	if refusal != nil || err != nil {
		return event.Result{Refusal: refusal}, err
	}
	p, answer, err := a.checkLogProducer(&r.logHead, c.Producer)
	if err != nil {
		return event.Result{}, err
	}
	if answer != nil {
		if answer.Refusal == nil {
			answer.Run = r.view()
		}
		return *answer, nil
	}
	if r.ended() {
		if c.Close && len(c.Messages.Events) == 0 {
			return event.Result{Run: r.view(), Stream: streamAnswer(p)}, nil
		}
		return refuse(&event.StreamClosed{Tail: r.tail}), nil
	}
	if refusal := p.outOfTurn(); refusal != nil {
		return event.Result{Refusal: refusal}, nil
	}
	if last := r.framing.streamSeq; c.Seq != "" && last != "" && c.Seq <= last {
		return refuse(&event.StreamSeqConflict{LastSeq: last}), nil
	}
	walk, refusal, err := a.walkMessages(r, &c.Messages)
	if refusal == nil && err == nil {
		refusal, err = a.checkAnswers(r.thread, c.Messages.Events)
	}
	if refusal != nil || err != nil {
		return event.Result{Refusal: refusal}, err
	}
	return a.writeRunStream(a.writable(r), c, p, walk)
}

// mayWrite refuses whoever is not the run's writer. An epoch proves it; without one the holder's name
// does, for as long as nobody acquired or released; a run that was never leased is anybody's.
func mayWrite(r *run, c *event.AppendRunStream) event.Refusal {
	switch {
	case c.Epoch != nil && *c.Epoch != r.epoch:
		return &event.Fenced{Epoch: *c.Epoch, CurrentEpoch: r.epoch}
	case c.Epoch != nil || r.lease == "" || r.ended():
		return nil
	case r.lease == event.LeaseStateReleased:
		return &event.EpochRequired{CurrentEpoch: r.epoch}
	case c.Holder != r.holder:
		return &event.LeaseHeld{Holder: r.holder}
	}
	return nil
}

// checkLogProducer answers a duplicate or an outdated producer, and otherwise returns what the later
// checks need. A repeated request is one with an accepted sequence number, whatever its body.
func (a *applier) checkLogProducer(l *logHead, ref *event.Producer) (*producing, *event.Result, error) {
	if ref == nil {
		return nil, nil, nil
	}
	all, err := a.m.producersOf(l)
	if err != nil {
		return nil, nil, err
	}
	p := &producing{ref: ref, known: all[ref.ID]}
	switch {
	case p.known == nil:
		forget, ok := admit(all, a.now)
		p.forget, p.full = forget, !ok
	case ref.Epoch < p.known.epoch:
		answer := refuse(&event.ProducerFenced{ProducerEpoch: ref.Epoch, CurrentProducerEpoch: p.known.epoch})
		return nil, &answer, nil
	case ref.Epoch == p.known.epoch && ref.Seq <= p.known.lastSeq:
		return nil, &event.Result{Stream: &event.StreamResult{
			Duplicate: true, ProducerEpoch: p.known.epoch, ProducerSeq: p.known.lastSeq,
		}}, nil
	}
	return p, nil, nil
}

func streamAnswer(p *producing) *event.StreamResult {
	if p == nil {
		return &event.StreamResult{}
	}
	return &event.StreamResult{ProducerEpoch: p.ref.Epoch, ProducerSeq: p.ref.Seq}
}

// walkMessages checks messages against the run's framing and its grammar; nil without messages.
func (a *applier) walkMessages(r *run, m *event.RunMessages) (*event.Walk, event.Refusal, error) {
	if len(m.Events) == 0 {
		return nil, nil, nil
	}
	if m.Framed() {
		if r.tail > 0 && !r.framing.records {
			return nil, &event.InvalidEvent{Reason: "this run holds bare events, not records"}, nil
		}
		last := r.framing.seq
		for i, seq := range m.Seqs {
			if seq <= last && (r.tail > 0 || i > 0) {
				return nil, &event.InvalidEvent{Index: i, Reason: fmt.Sprintf("record %d does not follow record %d", seq, last)}, nil
			}
			last = seq
		}
	}
	return a.walk(r, m.Events)
}

// addMessages writes messages that passed every check.
func (a *applier) addMessages(r *run, m *event.RunMessages) {
	for i := range m.Events {
		if !m.Framed() {
			a.addBare(r, m.Events[i].Raw)
			continue
		}
		r.framing.records, r.framing.seq = true, m.Seqs[i]
		a.m.active.addRecord(&r.logHead, r.epoch, a.now, m.Events[i].Raw)
	}
}

// writeRunStream makes an accepted append or close. r is the active overlay's own.
func (a *applier) writeRunStream(r *run, c *event.AppendRunStream, p *producing, walk *event.Walk) (event.Result, error) {
	first := r.tail
	a.addMessages(r, &c.Messages)
	r.updatedAt = a.now
	if walk != nil {
		if err := a.dialogue(r, first, c.Messages.Events); err != nil {
			return event.Result{}, err
		}
		if err := a.progress(r, walk); err != nil {
			return event.Result{}, err
		}
	}
	if p != nil {
		if err := a.remember(&r.logHead, p, remembered{first: first, tail: r.tail}); err != nil {
			return event.Result{}, err
		}
	}
	if c.Seq != "" {
		r.framing.streamSeq = c.Seq
	}
	switch {
	case c.Close && !r.ended() && (r.lease == event.LeaseStateHeld || r.lease == event.LeaseStateLapsed):
		r.lease = event.LeaseStateReleased
		window := max(deref(r.takeoverMs), event.DefaultReleaseWindowMs)
		r.windowMs = &window
		a.tell(event.ChangeReleased, r)
	case r.lease == event.LeaseStateLapsed:
		r.lease = event.LeaseStateHeld
	}
	a.m.openRuns.change(r)
	if c.LeaseMs > 0 && r.lease == event.LeaseStateHeld {
		r.leaseMs = c.LeaseMs
	}
	a.changedLease(r, r.lease == event.LeaseStateHeld)
	return event.Result{
		Appended: event.Appended{FirstOffset: first, Tail: r.tail, CancelRequested: r.cancelRequested},
		Run:      r.view(), Stream: streamAnswer(p),
	}, nil
}
