package gateway

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"
)

// feed is an answer of server-sent events, or of lines, that goes on while its reader stays: the
// part of it that is the same whatever is sent. Like a tail it is woken, not fed: nothing is queued
// for a reader.
type feed struct {
	g   *Gateway
	c   *gin.Context
	sse bool

	watch  Watch
	rc     *http.ResponseController
	opened bool // the answer has begun: errors can only end it now
}

// serveFeed runs a feed to its end. An error is returned only before the answer has begun. what
// names the feed in the log.
func (g *Gateway) serveFeed(c *gin.Context, sse bool, watch Watch, what string, run func(context.Context, *feed) error) error {
	defer watch.Close()
	select {
	case g.tails <- struct{}{}:
		defer func() { <-g.tails }()
	default:
		return errOverloaded
	}
	g.metrics.openTails.Inc()
	defer g.metrics.openTails.Dec()
	f := &feed{g: g, c: c, sse: sse, watch: watch, rc: http.NewResponseController(unwrap(c.Writer))}
	if err := liftDeadlines(c); err != nil {
		return err
	}
	defer restoreDeadline(c)
	ctx := c.Request.Context()
	err := run(ctx, f)
	if !f.opened || err == nil {
		return err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		g.metrics.slowTails.Inc()
	}
	if problemOf(err).code == codeInternal && ctx.Err() == nil && !errors.Is(err, errReader) {
		g.log.Error(what+" ended", "error", err)
	}
	if !sse {
		panic(http.ErrAbortHandler) // a clean end would look as if this were all
	}
	return nil
}

// begin repeats what finds the first cursor while nothing can be proved for want of a leader.
// Server-sent events keep the reader waiting, with an answer that has begun; lines have no way to
// say nothing, so they fail. It reports whether the reader should be served.
func (f *feed) begin(ctx context.Context, find func() error) (bool, error) {
	for {
		changed := f.watch.C()
		err := find()
		if err == nil || !f.sse || problemOf(err).code != codeUnavailable {
			return err == nil, err
		}
		if err := f.open(); err != nil {
			return false, err
		}
		if err := f.comment(); err != nil {
			return false, err
		}
		retry := time.NewTimer(beginAgain)
		select {
		case <-changed:
		case <-retry.C:
		case <-f.g.draining:
		case <-ctx.Done():
		}
		retry.Stop()
		if f.g.isDraining() || ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
	}
}

// pump sends piece after piece: send writes what there is and reports whether there may be more at
// once. It ends at the tail when the feed is not live, when the gateway drains, or with an error.
func (f *feed) pump(ctx context.Context, live bool, send func() (more bool, err error)) error {
	if f.c.Request.Method == http.MethodHead {
		return nil // a body that nobody gets need not be waited for
	}
	for {
		changed := f.watch.C()
		more, err := send()
		switch {
		case err != nil || f.g.isDraining():
			return err
		case more:
			continue
		case !live:
			return nil
		}
		if err := f.wait(ctx, changed); err != nil {
			return err
		}
	}
}

// wait returns when there may be something to read; it writes heartbeats meanwhile.
func (f *feed) wait(ctx context.Context, changed <-chan struct{}) error {
	beat := time.NewTicker(f.g.cfg.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-changed:
			return nil
		case <-f.g.draining:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-beat.C:
			if err := f.comment(); err != nil {
				return err
			}
		}
	}
}

// open begins the answer.
func (f *feed) open() error {
	if f.opened {
		return nil
	}
	f.opened = true
	h := f.c.Writer.Header()
	h.Set("Cache-Control", "no-cache")
	if !f.sse {
		h["Content-Type"] = contentTypeNDJSON
		f.c.Writer.WriteHeader(http.StatusOK)
		return f.write(nil)
	}
	h["Content-Type"] = contentTypeSSE
	h.Set("X-Accel-Buffering", "no") // proxies of nginx's family hold back nothing
	f.c.Writer.WriteHeader(http.StatusOK)
	return f.write([]byte("retry: 1000\n\n"))
}

// comment writes a line that no reader sees, which keeps proxies from cutting an idle connection.
func (f *feed) comment() error {
	if !f.sse {
		return nil
	}
	return f.write([]byte(":\n\n"))
}

// write hands bytes to the reader at once.
func (f *feed) write(b []byte) error { return f.g.writeLive(f.c, f.rc, b) }

// writeLive hands bytes to a reader at once, within what a slow one is allowed; without bytes the
// headers alone.
func (g *Gateway) writeLive(c *gin.Context, rc *http.ResponseController, b []byte) error {
	_ = rc.SetWriteDeadline(time.Now().Add(g.cfg.FlushTimeout))
	if len(b) > 0 {
		if _, err := c.Writer.Write(b); err != nil {
			return errors.Join(errReader, err)
		}
	} else {
		c.Writer.WriteHeaderNow()
	}
	if err := ignoreUnsupported(rc.Flush()); err != nil {
		return errors.Join(errReader, err)
	}
	return nil
}
