package fsm

import (
	"context"

	"github.com/runlog/runlog/event"
)

// Stream returns the plain stream of that name as it stands: event.ErrStreamNotFound when there is
// none or its time is over, event.ErrStreamGone when it was deleted while forks read it.
func (m *Machine) Stream(_ context.Context, name event.StreamName) (event.Stream, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s, err := m.readableStream(name)
	if err != nil {
		return event.Stream{}, err
	}
	return s.view(m.clocksNow()), nil
}

// readableStream needs mu.
func (m *Machine) readableStream(name event.StreamName) (*stream, error) {
	if m.store == nil {
		return nil, errClosed
	}
	s, err := m.findStream(name)
	switch {
	case err != nil:
		return nil, m.noteDamage(err)
	case s.gone:
		return nil, event.ErrStreamGone
	case s.overdue(m.clocksNow()):
		return nil, event.ErrStreamNotFound
	}
	return s, nil
}

// Messages reads consecutive messages from offset from: at most maxMessages, and no further one once
// maxBytes are reached, but at least one if there is one. At the tail the page is empty; beyond
// it the error is an *event.OffsetOutOfRange, otherwise those of [Machine.Stream]. The messages are of
// one moment; their bytes must not be changed.
func (m *Machine) Messages(ctx context.Context, name event.StreamName, from event.Offset, maxMessages, maxBytes int) (event.StreamPage, error) {
	s, parts, err := m.readStream(name)
	if err != nil {
		return event.StreamPage{}, err
	}
	defer parts.release()
	if from > s.tail {
		return event.StreamPage{}, &event.OffsetOutOfRange{Offset: from, Tail: s.tail}
	}
	page := event.StreamPage{Tail: s.tail, Closed: s.closed, Generation: s.generation()}
	err = parts.each(ctx, from, func(r event.Record) bool {
		page.Messages = append(page.Messages, r)
		maxMessages--
		maxBytes -= len(r.Raw)
		return maxMessages > 0 && maxBytes > 0
	})
	return page, m.noteDamage(err)
}

// readStream picks up a stream, and where its records are, for reading without the lock.
func (m *Machine) readStream(name event.StreamName) (*stream, streamRead, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s, err := m.readableStream(name)
	if err != nil {
		return nil, streamRead{}, err
	}
	own := *s // the active overlay's copy may move on
	parts, err := m.partsOf(&own)
	if err != nil {
		return nil, streamRead{}, m.noteDamage(err)
	}
	m.store.readers.Add(1)
	return &own, parts, nil
}

// streamRead is where a stream's records are: its own last, before them what it has of its source,
// of that one's source, and so on.
type streamRead struct {
	store *store
	parts []streamPart // by offset, without gaps
}

// streamPart is a stretch of one log: the records from first to the read's tail.
type streamPart struct {
	first event.Offset
	logRead
}

func (p *streamRead) release() { p.store.readers.Done() }

// partsOf needs mu.
func (m *Machine) partsOf(s *stream) (streamRead, error) {
	r := streamRead{store: m.store}
	log, b := s.logHead, s.fork
	for {
		if b == nil {
			r.parts = append([]streamPart{{0, m.logRead(&log)}}, r.parts...)
			return r, nil
		}
		r.parts = append([]streamPart{{b.at, m.logRead(&log)}}, r.parts...)
		log = logHead{sid: b.sid, tail: b.at}
		if b.ofRun {
			b = nil
			continue
		}
		from, err := m.streamOf(b.sid)
		if err != nil {
			return r, err
		}
		// Where the source itself branched off later than here, nothing of its own is read.
		for b = from.fork; b != nil && b.at >= log.tail; {
			log.sid = b.sid
			if b.ofRun {
				b = nil
				break
			}
			if from, err = m.streamOf(b.sid); err != nil {
				return r, err
			}
			b = from.fork
		}
	}
}

// each calls f with the stream's records from offset from, until f returns false or the tail.
func (p *streamRead) each(ctx context.Context, from event.Offset, f func(event.Record) bool) error {
	more := true
	take := func(r event.Record) bool {
		more = f(r)
		return more
	}
	for i := range p.parts {
		part := &p.parts[i]
		if !more || max(from, part.first) >= part.tail {
			continue
		}
		if err := part.each(ctx, max(from, part.first), take); err != nil {
			return err
		}
	}
	return nil
}

// watchedStream is the name under which a stream is watched: no run id has a control character.
func watchedStream(name event.StreamName) event.RunID { return "\x01" + event.RunID(name) }

// WatchStream wakes whoever follows the stream of that name, which need not exist yet: after an
// append, its close, creation or deletion, and after a restore.
func (m *Machine) WatchStream(name event.StreamName) *Watch { return m.Watch(watchedStream(name)) }
