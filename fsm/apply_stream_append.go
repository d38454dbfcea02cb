package fsm

import "github.com/runlog/runlog/event"

// appendStream decides about one append or close, in this order: unknown, gone, outdated producer,
// duplicate, closed, content type, producer's sequence, Stream-Seq. It changes nothing before all
// of them passed.
func (a *applier) appendStream(c *event.AppendStream) (event.Result, error) {
	s, err := a.liveStream(c.Name)
	if err != nil {
		return refuseStream(err)
	}
	p, answer, err := a.checkLogProducer(&s.logHead, c.Producer)
	if answer != nil && answer.Stream != nil {
		answer.Stream.Stream = s.view(a.clocks())
	}
	if answer != nil || err != nil {
		return deref(answer), err
	}
	if s.closed {
		if c.Close && len(c.Messages) == 0 && c.Producer == nil {
			return a.streamResult(s), nil
		}
		return refuse(&event.StreamClosed{Tail: s.tail}), nil
	}
	if len(c.Messages) > 0 && c.ContentType != s.contentType {
		return refuse(&event.ContentTypeConflict{ContentType: s.contentType}), nil
	}
	if refusal := p.outOfTurn(); refusal != nil {
		return event.Result{Refusal: refusal}, nil
	}
	if c.Seq != "" && s.lastSeq != "" && c.Seq <= s.lastSeq {
		return refuse(&event.StreamSeqConflict{LastSeq: s.lastSeq}), nil
	}
	return a.writeStream(a.writableStream(s), c, p)
}

// outOfTurn refuses a sequence number that is not the producer's next one.
func (p *producing) outOfTurn() event.Refusal {
	if p != nil && p.known != nil && p.ref.Epoch > p.known.epoch && p.ref.Seq != 0 {
		return &event.ProducerReset{ProducerEpoch: p.known.epoch}
	}
	return p.gap()
}

// writeStream makes an accepted append or close. s is the active overlay's own.
func (a *applier) writeStream(s *stream, c *event.AppendStream, p *producing) (event.Result, error) {
	first := s.tail
	for _, m := range c.Messages {
		a.m.active.addRecord(&s.logHead, 0, a.now, m)
	}
	s.closed = c.Close
	if c.Seq != "" {
		s.lastSeq = c.Seq
	}
	s.touched = a.clocks().uptime
	if p != nil {
		if err := a.remember(&s.logHead, p, remembered{first: first, tail: s.tail}); err != nil {
			return event.Result{}, err
		}
	}
	a.changedStream(s)
	if s.tail > first {
		if err := a.notice(s, first); err != nil {
			return event.Result{}, err
		}
	}
	r := a.streamResult(s)
	if p != nil {
		r.Stream.ProducerEpoch, r.Stream.ProducerSeq = p.ref.Epoch, p.ref.Seq
	}
	return r, nil
}
