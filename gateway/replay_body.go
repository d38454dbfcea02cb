package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// replayPiece is what of a body was there at once.
type replayPiece struct {
	events []event.Event
	err    error // after the events; io.EOF and end when the body ended as it should
	end    bool
}

// replayBody reads a body that may stay open for long. A goroutine reads ahead by one piece while
// the last is being appended, so that whatever arrives meanwhile becomes one batch.
type replayBody struct {
	pieces chan replayPiece
	stop   chan struct{}
	once   sync.Once
	done   sync.WaitGroup
	ended  bool // the body was read to its orderly end
	rc     *http.ResponseController
	header http.Header
}

// openReplayBody begins to read the request's body; the caller closes it.
func openReplayBody(c *gin.Context) (*replayBody, error) {
	b := &replayBody{
		pieces: make(chan replayPiece), stop: make(chan struct{}),
		rc: http.NewResponseController(unwrap(c.Writer)), header: c.Writer.Header(),
	}
	// Progress is written while the body is still being read.
	if err := ignoreUnsupported(b.rc.EnableFullDuplex()); err != nil {
		return nil, err
	}
	s := &eventStream{r: c.Request.Body}
	if c.Request.Body == nil {
		s.r = http.NoBody
	}
	b.done.Go(func() {
		for {
			p := s.piece()
			select {
			case b.pieces <- p:
			case <-b.stop:
				return
			}
			if p.err != nil {
				return
			}
		}
	})
	return b, nil
}

// cut ends reading before the body has ended: the connection is of no more use.
func (b *replayBody) cut() {
	b.once.Do(func() {
		close(b.stop)
		b.header.Set("Connection", "close")                     // without effect when the answer has begun
		_ = ignoreUnsupported(b.rc.SetReadDeadline(time.Now())) // wakes a Read that waits
	})
}

// close waits for the reading goroutine.
func (b *replayBody) close() {
	if !b.ended {
		b.cut()
	}
	b.done.Wait()
}

// eventStream splits a body into events as it arrives: a JSON array, or values one after the other
// (NDJSON). It holds the event under way, at most one of the largest size.
type eventStream struct {
	r     io.Reader
	buf   []byte
	start int // of the value under way
	at    int // how far buf was looked at
	index int // of the next event

	open    int // brackets
	quoted  bool
	escaped bool

	begun, array, after, over bool // after: a value of the array came, and no comma yet
}

// piece reads at least one event, and what else is there without waiting.
func (s *eventStream) piece() replayPiece {
	var p replayPiece
	for size := 0; len(p.events) < event.MaxBatchEvents && size < replayBatchBytes; {
		raw, err := s.scan()
		if err == nil && raw == nil {
			if len(p.events) > 0 {
				return p
			}
			err = s.read()
		}
		if err != nil {
			p.err, p.end = err, errors.Is(err, io.EOF)
			return p
		}
		if raw == nil {
			continue
		}
		e, err := event.ParseEvent(bytes.Clone(raw))
		if err != nil {
			p.err = s.invalid(err.Error())
			return p
		}
		size += len(e.Raw)
		p.events = append(p.events, e)
		s.index++
	}
	return p
}

func (s *eventStream) invalid(reason string) error {
	return &event.InvalidEvent{Index: s.index, Reason: reason}
}

// read adds to the buffer. At an orderly end of the body the error is io.EOF.
func (s *eventStream) read() error {
	if s.at-s.start > event.MaxEventBytes {
		return &event.TooLarge{What: "bytes of one event", Limit: event.MaxEventBytes}
	}
	s.buf = append(s.buf[:0], s.buf[s.start:]...)
	s.at, s.start = s.at-s.start, 0
	if len(s.buf) == cap(s.buf) {
		s.buf = append(make([]byte, 0, max(16<<10, 2*cap(s.buf))), s.buf...)
	}
	n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
	s.buf = s.buf[:len(s.buf)+n]
	switch {
	case n > 0 || err == nil:
		return nil // the error comes again
	case !errors.Is(err, io.EOF):
		return bodyError(err)
	case s.open > 0:
		return s.invalid("the event is cut short")
	case s.array && !s.over:
		return s.invalid("the array ends without ]")
	}
	return io.EOF
}

// scan returns the next complete object of the buffer, or nil when there is none yet. The object is
// a part of the buffer.
func (s *eventStream) scan() ([]byte, error) {
	for ; s.at < len(s.buf); s.at++ {
		if s.quoted && !s.escaped {
			if s.at += plain(s.buf[s.at:]); s.at == len(s.buf) {
				break
			}
		}
		c := s.buf[s.at]
		if s.open > 0 {
			if s.inside(c) {
				raw := s.buf[s.start : s.at+1]
				s.at++
				s.start, s.after = s.at, s.array
				return raw, nil
			}
			continue
		}
		if err := s.between(c); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// plain returns how many bytes of a string stand before its next quote or backslash.
func plain(b []byte) int {
	n := bytes.IndexByte(b, '"')
	if n < 0 {
		n = len(b)
	}
	if back := bytes.IndexByte(b[:n], '\\'); back >= 0 {
		return back
	}
	return n
}

// inside takes one byte of an object and reports whether it is the last.
func (s *eventStream) inside(c byte) bool {
	switch {
	case s.escaped:
		s.escaped = false
	case s.quoted && c == '\\':
		s.escaped = true
	case c == '"':
		s.quoted = !s.quoted
	case s.quoted:
	case c == '{' || c == '[':
		s.open++
	case c == '}' || c == ']':
		s.open--
		return s.open == 0
	}
	return false
}

// between takes one byte outside of any object.
func (s *eventStream) between(c byte) error {
	space := c == ' ' || c == '\t' || c == '\n' || c == '\r'
	switch {
	case space:
	case s.over:
		return s.invalid("something follows the array")
	case c == '{' && !s.after:
		s.begun, s.open, s.start = true, 1, s.at
		return nil
	case c == '[' && !s.begun:
		s.begun, s.array = true, true
	case s.array && c == ',' && s.after:
		s.after = false
	case s.array && c == ']' && (s.after || s.index == 0):
		s.over = true
	default:
		return s.invalid("the event is not a JSON object")
	}
	s.start = s.at + 1
	return nil
}
