package gateway

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// streamQuery is what a GET asks for.
type streamQuery struct {
	from   event.Offset
	start  bool // from the first message there is
	now    bool // from the tail, wherever that is
	live   string
	cursor string
}

const (
	liveLongPoll = "long-poll"
	liveSSE      = "sse"
)

func readStreamQuery(r *http.Request) (streamQuery, error) {
	q := newQuery(r)
	s := streamQuery{live: q.oneOf("live", "", liveLongPoll, liveSSE), cursor: q.text("cursor")}
	switch at := q.text("offset"); {
	case !q.has("offset"):
		s.start = true
		if s.live != "" {
			q.fail("offset", "is missing; a live read says where it begins")
		}
	case at == "-1":
		s.start = true
	case at == "now":
		s.now = true
	default:
		var ok bool
		if s.from, ok = parseStreamOffset(at); !ok {
			q.fail("offset", "is not -1, now, or an offset that the stream returned")
		}
	}
	return s, q.err
}

// getStream is GET and HEAD.
func (g *Gateway) getStream(c *gin.Context, s streamLog) error {
	if c.Request.Method == http.MethodHead {
		return g.headStream(c, s)
	}
	q, err := readStreamQuery(c.Request)
	if err != nil {
		return err
	}
	ctx := c.Request.Context()
	if err := g.freshen(ctx); err != nil {
		return err
	}
	v, err := s.head(ctx)
	if err != nil {
		return err
	}
	if err := s.touch(ctx, &v); err != nil {
		return err
	}
	if q.now {
		q.from = v.Tail
	}
	if t, ok := s.(trimmed); ok && q.start {
		if q.from, err = t.first(ctx); err != nil {
			return err
		}
	}
	if q.from > v.Tail {
		c.Writer.Header()["Stream-Next-Offset"] = []string{formatStreamOffset(v.Tail)}
		return &event.OffsetOutOfRange{Offset: q.from, Tail: v.Tail}
	}
	switch {
	case q.live == liveSSE:
		return g.tailStream(c, s, &v, q)
	case q.live == liveLongPoll:
		return g.pollStream(c, s, &v, q)
	case q.now:
		return answerNow(c, &v)
	}
	return g.catchUp(c, s, &v, q)
}

// answerNow answers a read from the tail: nothing, and where that is.
func answerNow(c *gin.Context, v *event.Stream) error {
	showStream(c, v)
	h := c.Writer.Header()
	h["Cache-Control"] = noStore
	h["Stream-Up-To-Date"] = isTrue
	c.Writer.WriteHeader(http.StatusOK)
	if v.ContentType == event.JSONContentType {
		_, _ = c.Writer.WriteString("[]")
	}
	return nil
}

// What one answer of a stream holds at most, unless one message is larger.
const streamPageBytes = 1 << 20

// readPiece reads up to most bytes, fewer when other answers hold much already; free gives their
// share of the memory back.
func (g *Gateway) readPiece(ctx context.Context, s streamLog, from event.Offset, most int) (page event.StreamPage, free func(), err error) {
	free, ok := g.pieces.take(most)
	if !ok {
		most, free = smallChunkBytes, func() {}
	}
	page, err = s.read(ctx, from, chunkRecords, most)
	if err != nil {
		free()
		return page, nil, err
	}
	return page, free, nil
}

func (g *Gateway) catchUp(c *gin.Context, s streamLog, v *event.Stream, q streamQuery) error {
	page, free, err := g.readPiece(c.Request.Context(), s, q.from, streamPageBytes)
	if err != nil {
		return err
	}
	defer free()
	if n := len(page.Messages); n > 0 && q.from+event.Offset(n) < page.Tail {
		return g.writeOn(c, s, v, q.from, &page)
	}
	return g.writeMessages(c, v, q.from, &page)
}

// writeMessages answers with a page of messages.
func (g *Gateway) writeMessages(c *gin.Context, v *event.Stream, from event.Offset, page *event.StreamPage) error {
	if !showMessages(c, v, from, from+event.Offset(len(page.Messages)), page) {
		return nil
	}
	buf := chunks.Get().(*[]byte)
	defer freeChunk(buf)
	*buf = appendMessages(*buf, v.ContentType, page.Messages)
	g.metrics.eventsRead.Add(float64(len(page.Messages)))
	page.Messages = nil // a write may take long, and needs the answer's bytes alone
	c.Writer.Header()["Content-Length"] = []string{strconv.Itoa(len(*buf))}
	_ = http.NewResponseController(unwrap(c.Writer)).SetWriteDeadline(time.Now().Add(g.cfg.FlushTimeout))
	defer restoreDeadline(c)
	c.Writer.WriteHeader(http.StatusOK)
	_, _ = c.Writer.Write(*buf)
	return nil
}

// showMessages sets the headers of an answer that holds the messages from one offset to another; when
// the reader has that answer already it says so, and returns false.
func showMessages(c *gin.Context, v *event.Stream, from, end event.Offset, page *event.StreamPage) bool {
	atTail := end == page.Tail
	closed := atTail && page.Closed
	h := c.Writer.Header()
	h["Content-Type"] = []string{v.ContentType}
	h["Stream-Next-Offset"] = []string{formatStreamOffset(end)}
	h["Cache-Control"] = revalidate
	if atTail {
		h["Stream-Up-To-Date"] = isTrue
	} else {
		h["Cache-Control"] = cacheable
	}
	if closed {
		h["Stream-Closed"] = isTrue
	}
	named := *v
	named.Generation = page.Generation
	etag := streamETag(&named, from, end, closed)
	h["Etag"] = []string{etag}
	if matchesETag(c.Request.Header, etag) {
		c.Writer.WriteHeader(http.StatusNotModified)
		return false
	}
	return true
}

// What was read below the tail never changes while the stream lives. Streams may hold what is
// their users' own, so only the reader's own cache is to keep it.
var (
	cacheable  = []string{"private, max-age=60, stale-while-revalidate=300"}
	revalidate = []string{"private, no-cache"}
)

// appendMessages appends messages as one body: a JSON array, or the bytes one after the other.
func appendMessages(dst []byte, contentType string, messages []event.Record) []byte {
	isJSON := contentType == event.JSONContentType
	if isJSON {
		dst = append(dst, '[')
	}
	for i := range messages {
		if isJSON && i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, messages[i].Raw...)
	}
	if isJSON {
		dst = append(dst, ']')
	}
	return dst
}

// pollStream answers with what there is from the offset on, waiting for it if need be.
//
// What is appended in the same step as a close is there when the close is: the answer is then the
// message, never an end without it.
func (g *Gateway) pollStream(c *gin.Context, s streamLog, v *event.Stream, q streamQuery) error {
	select {
	case g.tails <- struct{}{}:
		defer func() { <-g.tails }()
	default:
		return errOverloaded
	}
	if err := liftDeadlines(c); err != nil {
		return err
	}
	defer restoreDeadline(c)
	cursor := newCursor(q.cursor, time.Now())
	watch := s.watch()
	defer watch.Close()
	ctx, cancel := context.WithTimeout(c.Request.Context(), g.cfg.LongPoll)
	defer cancel()
	for {
		changed := watch.C()
		page, free, err := g.readPiece(c.Request.Context(), s, q.from, streamPageBytes)
		switch {
		case err != nil:
			return err
		case page.Generation != v.Generation:
			free()
			return event.ErrStreamNotFound // another one has its name now
		case len(page.Messages) > 0:
			defer free()
			c.Writer.Header()["Stream-Cursor"] = []string{cursor.next(time.Now())}
			return g.writeMessages(c, v, q.from, &page)
		}
		free()
		if page.Closed {
			return answerNothing(c, page.Tail, true, cursor)
		}
		select {
		case <-changed:
			continue
		case <-ctx.Done():
			if err := c.Request.Context().Err(); err != nil {
				return err
			}
		case <-g.draining:
		}
		return answerNothing(c, page.Tail, false, cursor)
	}
}

// answerNothing ends a long poll that found nothing new.
func answerNothing(c *gin.Context, tail event.Offset, closed bool, cursor cursor) error {
	h := c.Writer.Header()
	h["Stream-Next-Offset"] = []string{formatStreamOffset(tail)}
	h["Stream-Up-To-Date"] = isTrue
	h["Stream-Cursor"] = []string{cursor.next(time.Now())}
	h["Cache-Control"] = noStore
	if closed {
		h["Stream-Closed"] = isTrue
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}
