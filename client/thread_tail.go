package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"

	"github.com/runlog/runlog/event"
)

// ThreadTail follows a thread from a cursor on, across its runs: every event once, in order of runs,
// those that are there and those that come, on whichever server answers. Like [Client.Tail] it
// reconnects by itself.
//
// A thread has no end: the sequence ends when ctx is done, with its error, and with an error when
// the cursor lies beyond the thread's end ([event.ErrOffsetOutOfRange]) or when no server has
// answered for Config.RetryFor ([ErrUnavailable]). A record's Cursor is where to go on after it;
// its Offset is set; Run, Epoch and Time are not, since a stream does not carry them.
func (c *Client) ThreadTail(ctx context.Context, id event.ThreadID, after event.ThreadCursor) iter.Seq2[event.ThreadRecord, error] {
	return func(yield func(event.ThreadRecord, error) bool) {
		t := &threadTail{c: c, thread: id, from: after, next: after}
		f := &follower{c: c, request: t.request, read: func(f *frames) (end, error) { return t.read(f, yield) }, place: func() string { return t.next.String() }}
		if err := f.follow(ctx); err != nil {
			yield(event.ThreadRecord{}, fmt.Errorf("tail thread %s at %s: %w", id, t.next, err))
		}
	}
}

// threadTail is one ThreadTail under way.
type threadTail struct {
	c      *Client
	thread event.ThreadID
	from   event.ThreadCursor
	next   event.ThreadCursor // right after the last record yielded
}

func (t *threadTail) request(ctx context.Context, at uint32) (*http.Request, error) {
	r := streamCall(threadPath(t.thread, "/events"))
	if t.next != t.from {
		r.header.Set("Last-Event-ID", t.next.String())
	} else {
		r.query.Set("after", t.from.String())
	}
	return t.c.request(ctx, at, r)
}

// streamCall asks for server-sent events.
func streamCall(path string) *call {
	return &call{method: http.MethodGet, path: path, query: url.Values{}, header: http.Header{
		"Accept":          {"text/event-stream"},
		"Accept-Encoding": {"identity"},
		"Cache-Control":   {"no-cache"},
	}}
}

// read yields what the connection brings, each place once. Within a run offsets are dense; a run may
// be missing, since runs can be deleted.
func (t *threadTail) read(f *frames, yield func(event.ThreadRecord, error) bool) (end, error) {
	for {
		id, raw, err := f.frame()
		switch {
		case errors.Is(err, io.EOF):
			return endLost, errors.New("the server ended the stream")
		case err != nil:
			return endLost, err
		}
		at, err := event.ParseThreadCursor(id)
		if err != nil || at.Offset == 0 {
			return endLost, errFrame
		}
		switch {
		case cmp.Or(cmp.Compare(at.Ordinal, t.next.Ordinal), cmp.Compare(at.Offset, t.next.Offset)) <= 0:
			continue
		case at.Ordinal == t.next.Ordinal && at.Offset != t.next.Offset+1, at.Ordinal > t.next.Ordinal && at.Offset != 1:
			return endLost, fmt.Errorf("the server sent %s after %s", at, t.next)
		}
		t.next = at
		if !yield(event.ThreadRecord{Cursor: at, Record: event.Record{Offset: at.Offset - 1, Raw: raw}}, nil) {
			return endStopped, nil
		}
	}
}
