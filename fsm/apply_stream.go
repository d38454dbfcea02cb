package fsm

import (
	"errors"

	"github.com/runlog/runlog/event"
)

const defaultContentType = "application/octet-stream"

// streamCommand applies a command about plain streams; ok is false for any other.
func (a *applier) streamCommand(position int, c event.Command) (r event.Result, err error, ok bool) {
	switch c := c.(type) {
	case *event.CreateStream:
		r, err = a.createStream(position, c)
	case *event.AppendStream:
		r, err = a.appendStream(c)
	case event.DeleteStream:
		r, err = a.deleteStream(&c)
	case event.TouchStream:
		r, err = a.touchStream(&c)
	case event.ExpireStream:
		r, err = a.expireStream(&c)
	default:
		return r, nil, false
	}
	return r, err, true
}

// clocks are the log's at this entry.
func (a *applier) clocks() clocks { return a.m.active.meta.clocks() }

// liveStream returns the stream of that name as a command sees it: one that is overdue counts as
// gone whether its end was applied yet or not.
func (a *applier) liveStream(name event.StreamName) (*stream, error) {
	s, err := a.m.findStream(name)
	switch {
	case err != nil:
		return nil, err
	case s.gone:
		return nil, event.ErrStreamGone
	case s.overdue(a.clocks()):
		return nil, event.ErrStreamNotFound
	}
	return s, nil
}

// refuseStream turns what liveStream refuses into a result; any other error is damage.
func refuseStream(err error) (event.Result, error) {
	if errors.Is(err, event.ErrStreamNotFound) || errors.Is(err, event.ErrStreamGone) {
		return refuse(err), nil
	}
	return event.Result{}, err
}

func (a *applier) streamResult(s *stream) event.Result {
	return event.Result{Stream: &event.StreamResult{Stream: s.view(a.clocks())}}
}

// createStream makes a stream, or answers for the one of that name.
func (a *applier) createStream(position int, c *event.CreateStream) (event.Result, error) {
	s, err := a.m.findStream(c.Name)
	if err == nil && s.overdue(a.clocks()) {
		if err = a.endStream(s); err == nil {
			s, err = a.m.findStream(c.Name)
		}
	}
	switch {
	case errors.Is(err, event.ErrStreamNotFound):
		return a.createNewStream(position, c)
	case err != nil:
		return event.Result{}, err
	case s.gone:
		return refuse(event.ErrStreamGone), nil
	}
	r := a.streamResult(s)
	if c.Key != (event.IdempotencyKey{}) && c.Key == s.createKey {
		r.Created = true
		return r, nil
	}
	if what := differs(s, c); what != "" {
		return refuse(&event.StreamExists{What: what}), nil
	}
	return r, nil
}

// differs names what of a creation does not fit the stream that there is; empty: all of it does.
func differs(s *stream, c *event.CreateStream) string {
	want := c.ContentType
	if want == "" {
		want = defaultContentType
		if s.fork != nil && c.Fork != nil {
			want = s.contentType
		}
	}
	switch {
	case want != s.contentType:
		return "content type"
	case c.Closed != s.closed:
		return "closed state"
	case !sameFork(s.fork, c.Fork):
		return "fork"
	}
	inherits := c.Fork != nil && c.TTLSeconds == nil && c.ExpiresAt == nil
	switch {
	case inherits:
		return ""
	case !equal(c.TTLSeconds, s.ttlSeconds):
		return "TTL"
	case !equal(c.ExpiresAt, s.expiresAt):
		return "expiry"
	}
	return ""
}

func sameFork(b *branch, f *event.Fork) bool {
	if b == nil || f == nil {
		return b == nil && f == nil
	}
	// A request that names no offset means whatever the first one got.
	return b.source == f.Source && b.ofRun == f.OfRun && b.sub == f.Sub && (f.Requested == nil || equal(f.Requested, b.requested))
}

func equal[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func (a *applier) createNewStream(position int, c *event.CreateStream) (event.Result, error) {
	s := &stream{
		logHead: logHead{sid: newStreamID(a.index, position)}, name: c.Name, contentType: c.ContentType, closed: c.Closed,
		ttlSeconds: c.TTLSeconds, expiresAt: c.ExpiresAt, touched: a.clocks().uptime, createKey: c.Key,
	}
	if c.Fork != nil {
		if refusal, err := a.branchOff(s, c.Fork); refusal != nil || err != nil {
			return event.Result{Refusal: refusal}, err
		}
	}
	if s.contentType == "" {
		s.contentType = defaultContentType
	}
	o := a.m.active
	o.setStreamName(s.name, nameEntry{sid: s.sid})
	o.setStream(s)
	o.mark(s.sid, changeCreated, 40)
	a.m.streamNames.add(fingerprintOf(s.name))
	if s.expires() {
		a.m.expiries.add(s)
	}
	if s.fork != nil {
		a.setForks(s.fork.sid, a.m.sources[s.fork.sid]+1)
	}
	for _, m := range c.Messages {
		o.addRecord(&s.logHead, 0, a.now, m)
	}
	a.changedStream(s)
	if err := a.notice(s, 0); err != nil {
		return event.Result{}, err
	}
	r := a.streamResult(s)
	r.Created = true
	return r, nil
}

// writableStream returns the stream for changing: the active overlay's own copy.
func (a *applier) writableStream(s *stream) *stream {
	if a.m.active.streams[s.sid] == s {
		return s
	}
	own := *s
	a.m.active.setStream(&own)
	return &own
}

// changedStream mixes the stream into the state hash and wakes its readers.
func (a *applier) changedStream(s *stream) {
	a.effects.Write(s.encode())
	a.touched = append(a.touched, watchedStream(s.name))
}

func (a *applier) deleteStream(c *event.DeleteStream) (event.Result, error) {
	s, err := a.liveStream(c.Name)
	if err != nil {
		return refuseStream(err)
	}
	return event.Result{}, a.endStream(s)
}

func (a *applier) touchStream(c *event.TouchStream) (event.Result, error) {
	s, err := a.liveStream(c.Name)
	if err != nil {
		return refuseStream(err)
	}
	if s.generation() == c.Generation && s.ttlSeconds != nil {
		s = a.writableStream(s)
		s.touched = a.clocks().uptime
		a.effect(uint64(s.touched))
	}
	return a.streamResult(s), nil
}

// expireStream ends an overdue stream. The leader's verdict only says which one to look at.
func (a *applier) expireStream(c *event.ExpireStream) (event.Result, error) {
	s, err := a.m.findStream(c.Name)
	switch {
	case errors.Is(err, event.ErrStreamNotFound):
		return refuse(event.ErrStaleVerdict), nil
	case err != nil:
		return event.Result{}, err
	case s.generation() != c.Generation || !s.overdue(a.clocks()):
		return refuse(event.ErrStaleVerdict), nil
	}
	return event.Result{}, a.endStream(s)
}
