package fsm

import (
	"errors"

	"github.com/runlog/runlog/event"
)

// A fork reads the records below where it branched off from its source's log: nothing is copied. A
// log that forks read is counted (keySource) and outlives its own deletion until the last of
// them is gone.

// branchOff makes s a fork: it begins at the offset where it leaves its source.
func (a *applier) branchOff(s *stream, f *event.Fork) (event.Refusal, error) {
	b := &branch{source: f.Source, ofRun: f.OfRun, requested: f.Requested, sub: f.Sub}
	var tail event.Offset
	if f.OfRun {
		r, err := a.m.find(event.RunID(f.Source))
		switch {
		case errors.Is(err, event.ErrRunNotFound):
			return &event.ForkSource{}, nil
		case errors.Is(err, event.ErrRunDeleted):
			return &event.ForkSource{Gone: true}, nil
		case err != nil:
			return nil, err
		}
		b.sid, tail = r.sid, r.tail
		inherit(s, &stream{contentType: event.JSONContentType})
		if s.contentType != event.JSONContentType {
			return &event.ContentTypeConflict{ContentType: event.JSONContentType}, nil
		}
	} else {
		from, err := a.liveStream(f.Source)
		switch {
		case errors.Is(err, event.ErrStreamNotFound):
			return &event.ForkSource{}, nil
		case errors.Is(err, event.ErrStreamGone):
			return &event.ForkSource{Gone: true}, nil
		case err != nil:
			return nil, err
		}
		b.sid, tail = from.sid, from.tail
		inherit(s, from)
		if s.contentType != from.contentType {
			return &event.ContentTypeConflict{ContentType: from.contentType}, nil
		}
	}
	if f.Generation != "" && f.Generation != event.Generation(b.sid.String()) {
		return &event.StaleVerdict{}, nil
	}
	b.at = tail
	if f.At != nil {
		b.at = *f.At
	}
	if b.at > tail {
		return &event.ForkOffset{Tail: tail}, nil
	}
	if b.requested == nil {
		at := b.at
		b.requested = &at
	}
	s.fork, s.tail = b, b.at
	return nil, nil
}

// inherit gives a fork what its creation left open.
func inherit(s, from *stream) {
	if s.contentType == "" {
		s.contentType = from.contentType
	}
	if s.ttlSeconds == nil && s.expiresAt == nil {
		s.ttlSeconds, s.expiresAt = from.ttlSeconds, from.expiresAt
	}
}

// setForks notes how many forks read a log.
func (a *applier) setForks(sid streamID, n uint64) {
	if n == 0 {
		delete(a.m.sources, sid)
	} else {
		a.m.sources[sid] = n
	}
	a.m.active.setSource(sid, n)
	a.effects.Write(sid[:])
	a.effect(n)
}

// endStream deletes a stream. While forks read its messages it is only gone: nobody may write or
// read it, and its name stays taken. Otherwise its own source may have lost its last fork, and so on.
func (a *applier) endStream(s *stream) error {
	for {
		a.touched = append(a.touched, watchedStream(s.name))
		a.noticeEnd(s.name)
		if a.m.sources[s.sid] > 0 {
			s = a.writableStream(s)
			s.gone = true
			a.effects.Write(s.encode())
			return nil
		}
		a.dropStream(s)
		if s.fork == nil {
			return nil
		}
		next, err := a.leave(s.fork)
		if next == nil || err != nil {
			return err
		}
		s = next
	}
}

// dropStream takes a stream out of the state; its keys are removed later, by the flusher.
func (a *applier) dropStream(s *stream) {
	o := a.m.active
	o.setStreamName(s.name, nameEntry{sid: s.sid, deleted: true})
	o.dropStream(s)
	a.m.streamNames.remove(fingerprintOf(s.name))
	a.m.cache.forgetStream(s)
	a.effects.WriteString("dropped")
	a.effects.Write(s.sid[:])
}

// leave takes a fork off its source's count and returns the source when that has to go now.
func (a *applier) leave(b *branch) (*stream, error) {
	n := a.m.sources[b.sid] - 1
	a.setForks(b.sid, n)
	if n > 0 {
		return nil, nil
	}
	if b.ofRun {
		name, err := a.m.findName(event.RunID(b.source))
		if err == nil && name.deleted {
			a.m.active.sweep(b.sid)
		}
		return nil, err
	}
	from, err := a.m.streamOf(b.sid)
	if err != nil || !from.gone {
		return nil, err
	}
	return from, nil
}
