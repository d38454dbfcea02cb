package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	"github.com/runlog/runlog/event"
)

// Tail follows a run from an offset on: every event once, in order, those that are there and those
// that come, on whichever server answers. It reconnects by itself and resumes after the last event
// (Last-Event-ID), so that neither an election nor the death of a node is seen.
//
// The sequence ends after the run's terminal event, at once when from lies at or past it; when ctx
// is done, with its error; and with an error when the run does not exist, when from lies beyond
// the tail, or when no server has answered for Config.RetryFor ([ErrUnavailable]). After an error
// a new Tail may go on from the offset after the last record. A record's Epoch and Time are zero:
// a stream does not carry them ([Client.Events] does).
func (c *Client) Tail(ctx context.Context, id event.RunID, from event.Offset) iter.Seq2[event.Record, error] {
	return func(yield func(event.Record, error) bool) {
		t := &tail{c: c, run: id, from: from, next: from}
		f := &follower{c: c, request: t.request, read: func(f *frames) (end, error) { return t.read(f, yield) }, place: func() string { return t.next.String() }}
		if err := f.follow(ctx); err != nil {
			yield(event.Record{}, fmt.Errorf("tail run %s at %d: %w", id, t.next, err))
		}
	}
}

// tail is one Tail under way.
type tail struct {
	c    *Client
	run  event.RunID
	from event.Offset
	next event.Offset // the offset of the next record to yield
}

func (t *tail) request(ctx context.Context, at uint32) (*http.Request, error) {
	r := streamCall(runPath(t.run, "/events"))
	if t.next > t.from {
		r.header.Set("Last-Event-ID", (t.next - 1).String())
	} else {
		r.query.Set("from", t.from.String())
	}
	return t.c.request(ctx, at, r)
}

// read yields what the connection brings, in order, each offset once.
func (t *tail) read(f *frames, yield func(event.Record, error) bool) (end, error) {
	for {
		rec, err := f.next()
		switch {
		case errors.Is(err, io.EOF):
			return endLost, errors.New("the server ended the stream")
		case err != nil:
			return endLost, err
		case rec.Offset < t.next:
			continue
		case rec.Offset > t.next:
			return endLost, fmt.Errorf("the server sent offset %d after %d", rec.Offset, t.next)
		}
		t.next++
		if !yield(rec, nil) {
			return endStopped, nil
		}
		if e, err := event.ParseEvent(rec.Raw); err == nil && e.Header.Type.Terminal() {
			return endRun, nil
		}
	}
}
