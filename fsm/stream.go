package fsm

import (
	"fmt"

	"github.com/runlog/runlog/event"
)

// stream is what Apply keeps of a plain stream. One that was flushed is never changed in place.
type stream struct {
	logHead
	name        event.StreamName
	contentType string
	closed      bool
	gone        bool   // deleted, while forks read its messages
	lastSeq     string // the largest Stream-Seq accepted

	ttlSeconds *int64
	expiresAt  *event.Time
	touched    int64 // meta.uptime when it was last read or written

	createKey event.IdempotencyKey

	fork *branch // nil: no fork
}

// branch is where a fork left its source: the records below at are the source's.
type branch struct {
	source event.StreamName
	ofRun  bool
	sid    streamID // the source's log
	at     event.Offset
	// What the request named, which a repeated request must name again.
	requested *event.Offset
	sub       uint64
}

const streamVersion = 1

func (s *stream) encode() []byte {
	e := enc{make([]byte, 0, 160+len(s.name))}
	e.u8(streamVersion)
	e.str(string(s.name))
	e.raw(s.sid[:])
	e.str(s.contentType)
	e.flag(s.closed)
	e.flag(s.gone)
	e.str(s.lastSeq)
	e.uv(uint64(s.tail))
	e.u64(s.chain)
	e.uv(s.bytes)
	e.uv(s.producers)
	e.optIv(s.ttlSeconds)
	e.optIv((*int64)(s.expiresAt))
	e.iv(s.touched)
	e.raw(s.createKey[:])
	e.flag(s.fork != nil)
	if b := s.fork; b != nil {
		e.str(string(b.source))
		e.flag(b.ofRun)
		e.raw(b.sid[:])
		e.uv(uint64(b.at))
		e.optIv(optOffset(b.requested))
		e.uv(b.sub)
	}
	return e.b
}

// optOffset lends an offset to the codec of optional signed numbers: offsets stay below 2^53.
func optOffset(o *event.Offset) *int64 {
	if o == nil {
		return nil
	}
	v := int64(*o)
	return &v
}

func decodeStream(b []byte) (*stream, error) {
	d := dec{b: b}
	if v := d.u8(); v != streamVersion {
		return nil, fmt.Errorf("%w: stream version %d", ErrDamaged, v)
	}
	s := &stream{name: event.StreamName(d.str())}
	copy(s.sid[:], d.take(16))
	s.contentType = d.str()
	s.closed = d.flag()
	s.gone = d.flag()
	s.lastSeq = d.str()
	s.tail = event.Offset(d.uv())
	s.chain = d.u64()
	s.bytes = d.uv()
	s.producers = d.uv()
	s.ttlSeconds = d.optIv()
	s.expiresAt = (*event.Time)(d.optIv())
	s.touched = d.iv()
	copy(s.createKey[:], d.take(16))
	if d.flag() {
		f := &branch{source: event.StreamName(d.str()), ofRun: d.flag()}
		copy(f.sid[:], d.take(16))
		f.at = event.Offset(d.uv())
		if v := d.optIv(); v != nil {
			o := event.Offset(*v)
			f.requested = &o
		}
		f.sub = d.uv()
		s.fork = f
	}
	return s, d.done("stream")
}

// generation names the stream among those that its name had.
func (s *stream) generation() event.Generation { return event.Generation(s.sid.String()) }

// clocks are the two that a stream may end by: see meta.
type clocks struct {
	now    event.Time
	uptime int64
}

func (m *meta) clocks() clocks { return clocks{m.now, m.uptime} }

// expires reports whether the stream ends by itself.
func (s *stream) expires() bool { return s.ttlSeconds != nil || s.expiresAt != nil }

// overdue reports whether the stream has outlived its TTL or its time. One that is gone already
// lives as long as its forks.
func (s *stream) overdue(c clocks) bool { return !s.gone && s.expires() && s.due(c) <= 0 }

// ttlMs is the TTL in milliseconds, cut off at 30,000 years.
func (s *stream) ttlMs() int64 { return min(*s.ttlSeconds, 1<<40) * 1000 }

// due returns in how many milliseconds the stream ends, for one that does.
func (s *stream) due(c clocks) int64 {
	left := int64(1) << 62
	if s.ttlSeconds != nil {
		left = s.touched + s.ttlMs() - c.uptime
	}
	if s.expiresAt != nil {
		left = min(left, int64(*s.expiresAt-c.now))
	}
	return left
}

func (s *stream) view(c clocks) event.Stream {
	v := event.Stream{
		Name: s.name, Generation: s.generation(), ContentType: s.contentType, Tail: s.tail, Closed: s.closed,
		TTLSeconds: s.ttlSeconds, ExpiresAt: s.expiresAt, Gone: s.gone, LastSeq: s.lastSeq,
	}
	if s.ttlSeconds != nil {
		v.IdleMs = max(0, c.uptime-s.touched)
	}
	if b := s.fork; b != nil {
		at := b.at
		v.Fork = &event.Fork{
			Source: b.source, OfRun: b.ofRun, Generation: event.Generation(b.sid.String()), At: &at, Requested: b.requested, Sub: b.sub,
		}
	}
	return v
}
