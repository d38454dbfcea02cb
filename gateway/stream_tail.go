package gateway

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// streamTail sends a stream to one reader as server-sent events in the protocol's form: each "data"
// event is followed by one "control" event that says where the reader is. Like [tail] it is woken,
// not fed, and holds one piece of the stream at most.
//
// It ends after the stream's close; when the window is over, between two events; when the gateway
// drains; when the stream is deleted; and with a reader that is gone or too slow. Each "control"
// event has what the reader resumes with.
type streamTail struct {
	g      *Gateway
	c      *gin.Context
	s      streamLog
	state  *event.Stream
	from   event.Offset
	cursor cursor

	rc    *http.ResponseController
	watch Watch
	told  bool // a control event was sent
}

// tailStream answers a read with live=sse.
func (g *Gateway) tailStream(c *gin.Context, s streamLog, v *event.Stream, q streamQuery) error {
	select {
	case g.tails <- struct{}{}:
		defer func() { <-g.tails }()
	default:
		return errOverloaded
	}
	g.metrics.openTails.Inc()
	defer g.metrics.openTails.Dec()
	t := &streamTail{
		g: g, c: c, s: s, state: v, from: q.from, cursor: newCursor(q.cursor, time.Now()),
		rc: http.NewResponseController(unwrap(c.Writer)),
	}
	if err := liftDeadlines(c); err != nil {
		return err
	}
	defer restoreDeadline(c)
	t.watch = s.watch()
	defer t.watch.Close()
	err := t.run(c.Request.Context())
	if errors.Is(err, os.ErrDeadlineExceeded) {
		g.metrics.slowTails.Inc()
	}
	if err != nil && problemOf(err).code == codeInternal && c.Request.Context().Err() == nil && !errors.Is(err, errReader) {
		g.log.Error("tail ended", "stream", v.Generation, "offset", t.from, "error", err)
	}
	return nil
}

func (t *streamTail) run(ctx context.Context) error {
	h := t.c.Writer.Header()
	h["Content-Type"] = contentTypeSSE
	h["Cache-Control"] = []string{"no-cache"}
	h.Set("X-Accel-Buffering", "no") // proxies of nginx's family hold back nothing
	if t.encodes() {
		h["Stream-Sse-Data-Encoding"] = []string{"base64"}
	}
	t.c.Writer.WriteHeader(http.StatusOK)
	if err := t.write(nil); err != nil {
		return err
	}
	window := time.NewTimer(t.g.cfg.StreamWindow)
	defer window.Stop()
	for {
		changed := t.watch.C()
		page, err := t.pump(ctx)
		switch {
		case err != nil:
			return err
		case page.Closed && t.from == page.Tail, t.g.isDraining():
			return nil
		case t.from < page.Tail:
			select {
			case <-window.C:
				return nil
			default:
			}
			continue
		}
		if again, err := t.wait(ctx, changed, window.C); !again || err != nil {
			return err
		}
	}
}

// pump sends one piece of the stream, or what the reader has to know of its end.
func (t *streamTail) pump(ctx context.Context) (event.StreamPage, error) {
	page, free, err := t.g.readPiece(ctx, t.s, t.from, chunkBytes)
	if errors.Is(err, event.ErrOffsetOutOfRange) {
		return event.StreamPage{Tail: t.from}, nil // the state was replaced by one that has yet to catch up
	}
	if err != nil {
		return page, err
	}
	defer free()
	if page.Generation != t.state.Generation {
		return page, event.ErrStreamNotFound // another one has its name now
	}
	n := len(page.Messages)
	closed := page.Closed && t.from+event.Offset(n) == page.Tail
	if n == 0 && t.told && !closed {
		return page, nil
	}
	buf := chunks.Get().(*[]byte)
	defer freeChunk(buf)
	if n > 0 {
		*buf = t.appendData(*buf, page.Messages)
	}
	page.Messages = nil // a write may take long, and needs the framed bytes alone
	t.from += event.Offset(n)
	*buf = t.appendControl(*buf, &page)
	if err := t.write(*buf); err != nil {
		return page, err
	}
	t.told = true
	t.g.metrics.eventsTailed.Add(float64(n))
	return page, nil
}

// wait returns when there may be something to read; again is false when the window is over. It
// writes heartbeats meanwhile.
func (t *streamTail) wait(ctx context.Context, changed <-chan struct{}, over <-chan time.Time) (again bool, err error) {
	beat := time.NewTimer(t.g.cfg.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-changed:
			return true, nil
		case <-over:
			return false, nil
		case <-t.g.draining:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-beat.C:
			if err := t.write([]byte(":\n\n")); err != nil {
				return false, err
			}
			beat.Reset(t.g.cfg.Heartbeat)
		}
	}
}

// encodes reports whether the stream's bytes have to be made text for server-sent events.
func (t *streamTail) encodes() bool {
	return t.state.ContentType != event.JSONContentType && !strings.HasPrefix(t.state.ContentType, "text/")
}

// appendData appends the "data" event of some messages: one JSON array, their text, or their bytes
// in base64.
func (t *streamTail) appendData(dst []byte, messages []event.Record) []byte {
	dst = append(dst, "event: data\n"...)
	body := chunks.Get().(*[]byte)
	defer freeChunk(body)
	*body = appendMessages(*body, t.state.ContentType, messages)
	if t.encodes() {
		dst = append(dst, "data:"...)
		dst = base64.StdEncoding.AppendEncode(dst, *body)
		return append(dst, "\n\n"...)
	}
	return append(appendDataLines(dst, *body), '\n')
}

// appendDataLines appends text as the data lines of a server-sent event. Whatever ends a line there
// begins another data line, so that no text can look like an event of its own. Nothing follows
// the colon but the text: a reader strips one space.
func appendDataLines(dst, text []byte) []byte {
	dst = append(dst, "data:"...)
	for i, c := range text {
		switch {
		case c == '\n' && i > 0 && text[i-1] == '\r': // the second half of one line end
		case c == '\n' || c == '\r':
			dst = append(dst, "\ndata:"...)
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '\n')
}

// appendControl appends the "control" event that says where the reader is now.
func (t *streamTail) appendControl(dst []byte, page *event.StreamPage) []byte {
	dst = append(dst, `event: control`+"\n"+`data:{"streamNextOffset":"`...)
	dst = append(appendStreamOffset(dst, t.from), '"')
	atTail := t.from == page.Tail
	if atTail && page.Closed {
		return append(dst, `,"upToDate":true,"streamClosed":true}`+"\n\n"...)
	}
	dst = append(dst, `,"streamCursor":"`...)
	dst = append(append(dst, t.cursor.next(time.Now())...), '"')
	if atTail {
		dst = append(dst, `,"upToDate":true`...)
	}
	return append(dst, "}\n\n"...)
}

// write hands bytes to the reader at once.
func (t *streamTail) write(b []byte) error { return t.g.writeLive(t.c, t.rc, b) }
