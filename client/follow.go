package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// follower follows one stream of server-sent events over as many connections as it takes.
type follower struct {
	c *Client
	// request asks for what has not been read yet.
	request func(ctx context.Context, at uint32) (*http.Request, error)
	// read reads a connection to its end.
	read func(*frames) (end, error)
	// place says how far reading has come; it changes with whatever is read.
	place func() string
}

// end says why a connection is over.
type end int

const (
	endLost    end = iota // reconnect
	endRun                // the last event was yielded, or there is nothing to come
	endStopped            // the loop was left
)

// follow connects until what is followed ends. A nil error means that it did, or that the loop was left.
//
// It stays with a server whose connections bring something and moves on from one whose do not,
// waiting longer and longer while none does.
func (f *follower) follow(ctx context.Context) error {
	at := f.c.current.Load()
	answered := time.Now()
	for failures := 0; ; {
		began, from := time.Now(), f.place()
		how, alive, err := f.connect(ctx, at)
		switch {
		case how != endLost:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, new(finalError)):
			return err
		case alive:
			answered = time.Now()
		case time.Since(answered) > f.c.retry:
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		f.c.log.DebugContext(ctx, "stream reconnects", "at", f.place(), "server", f.c.servers[at].Host, "error", err)
		if f.place() != from || alive && time.Since(began) > time.Second {
			failures = 0
			continue
		}
		if !f.c.pause(ctx, failures, 0) {
			return context.Cause(ctx)
		}
		failures++
		at = f.c.server(at, 1)
	}
}

// finalError is an answer that no other server would give otherwise.
type finalError struct{ error }

// Unwrap returns the answer.
func (e finalError) Unwrap() error { return e.error }

// connect reads one connection to its end. alive says that it brought an answer to the request.
func (f *follower) connect(ctx context.Context, at uint32) (how end, alive bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(f.c.attempt, func() { cancel(errors.New("the server fell silent")) })
	defer watchdog.Stop()

	req, err := f.request(ctx, at)
	if err != nil {
		return endLost, false, finalError{err}
	}
	resp, err := f.c.http.Do(req)
	if err != nil {
		return endLost, false, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNoContent:
		return endRun, true, nil
	case resp.StatusCode != http.StatusOK:
		failed := judge(resp)
		if failed.final {
			return endLost, false, finalError{failed.err}
		}
		return endLost, false, failed.err
	}
	f.c.current.Store(at)
	body := &watched{r: resp.Body, timer: watchdog, d: f.c.idle}
	watchdog.Reset(f.c.idle)
	how, err = f.read(newFrames(body))
	return how, true, err
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
