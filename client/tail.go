package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

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
		if err := t.follow(ctx, yield); err != nil {
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

// end says why a connection is over.
type end int

const (
	endLost    end = iota // reconnect
	endRun                // the terminal event was yielded, or there is nothing to come
	endStopped            // the loop was left
)

// follow connects until the run ends. A nil error means that it did, or that the loop was left.
//
// It stays with a server whose connections bring something and moves on from one whose do not,
// waiting longer and longer while none does.
func (t *tail) follow(ctx context.Context, yield func(event.Record, error) bool) error {
	at := t.c.current.Load()
	answered := time.Now()
	for failures := 0; ; {
		began, next := time.Now(), t.next
		how, alive, err := t.connect(ctx, at, yield)
		switch {
		case how != endLost:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, new(finalError)):
			return err
		case alive:
			answered = time.Now()
		case time.Since(answered) > t.c.retry:
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		t.c.log.DebugContext(ctx, "tail reconnects", "run", t.run, "offset", t.next, "server", t.c.servers[at].Host, "error", err)
		if t.next > next || alive && time.Since(began) > time.Second {
			failures = 0
			continue
		}
		if !t.c.pause(ctx, failures, 0) {
			return context.Cause(ctx)
		}
		failures++
		at = t.c.server(at, 1)
	}
}

// finalError is an answer that no other server would give otherwise.
type finalError struct{ error }

// Unwrap returns the answer.
func (e finalError) Unwrap() error { return e.error }

// connect reads one connection to its end. alive says that it brought an answer to the request.
func (t *tail) connect(ctx context.Context, at uint32, yield func(event.Record, error) bool) (how end, alive bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(t.c.attempt, func() { cancel(errors.New("the server fell silent")) })
	defer watchdog.Stop()

	req, err := t.request(ctx, at)
	if err != nil {
		return endLost, false, finalError{err}
	}
	resp, err := t.c.http.Do(req)
	if err != nil {
		return endLost, false, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return endRun, true, nil
	case resp.StatusCode != http.StatusOK:
		f := judge(resp)
		if f.final {
			return endLost, false, finalError{f.err}
		}
		return endLost, false, f.err
	}
	t.c.current.Store(at)
	body := &watched{r: resp.Body, timer: watchdog, d: t.c.idle}
	watchdog.Reset(t.c.idle)
	how, err = t.read(newFrames(body), yield)
	return how, true, err
}

func (t *tail) request(ctx context.Context, at uint32) (*http.Request, error) {
	r := &call{method: http.MethodGet, path: runPath(t.run, "/events"), query: url.Values{}, header: http.Header{
		"Accept":          {"text/event-stream"},
		"Accept-Encoding": {"identity"},
		"Cache-Control":   {"no-cache"},
	}}
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

// watched restarts a timer whenever something is read.
type watched struct {
	r     io.Reader
	timer *time.Timer
	d     time.Duration
}

// Read reads and restarts the timer.
func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.timer.Reset(w.d)
	}
	return n, err
}
