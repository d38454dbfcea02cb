package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// streamRoutes are the Durable Streams protocol's: every stream has two paths, that of the
// protocol's own servers and the one that TanStack AI's adapter asks for.
func (g *Gateway) streamRoutes() []route {
	if g.streams == nil {
		return nil
	}
	var all []route
	for _, prefix := range streamPrefixes {
		path := prefix + "*name"
		all = append(all,
			route{http.MethodPut, path, g.onStream(g.createStream)},
			route{http.MethodPost, path, g.onStream(g.appendStream)},
			route{http.MethodGet, path, g.onStream(g.getStream)},
			route{http.MethodDelete, path, g.onStream(g.deleteStream)},
			route{http.MethodOptions, path, optionsStream},
		)
	}
	return all
}

// maxStreamBody bounds the body of one write. The published producer fills a batch of 1 MiB and then
// adds one more message.
const maxStreamBody = 2 << 20

// onStream returns the handler of an operation on the stream that the path names.
func (g *Gateway) onStream(h func(*gin.Context, streamLog) error) handler {
	return func(c *gin.Context) error {
		browserHeaders(c.Writer.Header())
		name, err := streamName(c)
		if err != nil {
			return err
		}
		if isControl(name) {
			return g.control(c)
		}
		s, err := g.streamLog(name)
		if err != nil {
			return err
		}
		if run, ok := s.(runStream); ok {
			return run.onRun(c, h)
		}
		return h(c, s)
	}
}

// browserHeaders let pages of other origins use streams, and keep browsers from taking a stream for
// anything else. Every answer has them.
func browserHeaders(h http.Header) {
	h["Access-Control-Allow-Origin"] = anyOrigin
	h["Access-Control-Allow-Methods"] = streamMethods
	h["Access-Control-Allow-Headers"] = streamRequestHeaders
	h["Access-Control-Expose-Headers"] = streamAnswerHeaders
	h["X-Content-Type-Options"] = noSniff
	h["Cross-Origin-Resource-Policy"] = crossOrigin
}

var (
	anyOrigin            = []string{"*"}
	noSniff              = []string{"nosniff"}
	crossOrigin          = []string{"cross-origin"}
	streamMethods        = []string{"GET, POST, PUT, DELETE, HEAD, OPTIONS"}
	streamRequestHeaders = []string{"Authorization, Content-Type, If-None-Match, Stream-Closed, Stream-Expires-At, Stream-Fork-Offset, " +
		"Stream-Fork-Sub-Offset, Stream-Forked-From, Stream-Seq, Stream-TTL, Producer-Epoch, Producer-Id, Producer-Seq, Run-Epoch, Run-Holder, Run-Lease-Ms, Run-Takeover-Ms, Run-Thread"}
	streamAnswerHeaders = []string{"Content-Encoding, Content-Type, ETag, Location, Retry-After, Stream-Closed, Stream-Cursor, Stream-Expires-At, " +
		"Stream-Next-Offset, Stream-SSE-Data-Encoding, Stream-TTL, Stream-Up-To-Date, Producer-Epoch, Producer-Expected-Seq, " +
		"Producer-Received-Seq, Producer-Seq, Run-Epoch, Runlog-Token, Vary"}
)

func optionsStream(c *gin.Context) error {
	h := c.Writer.Header()
	browserHeaders(h)
	h.Set("Allow", streamMethods[0])
	h.Set("Access-Control-Max-Age", "86400")
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

func isStreamPath(path string) bool {
	for _, p := range streamPrefixes {
		if strings.HasPrefix(path, p) {
			return true
		}
	}
	return false
}

// freshen makes this node's state include everything acknowledged before, so that whoever wrote
// through another node reads its own writes here, and what is not here is nowhere.
func (g *Gateway) freshen(ctx context.Context) error {
	return g.settle(ctx, "", freshness{linearizable: true})
}

// createStream is PUT.
func (g *Gateway) createStream(c *gin.Context, s streamLog) error {
	h := streamHeader{c.Request.Header}
	r := &streamCreate{contentType: h.mediaType(), closed: h.closes(), header: h.Header}
	var err error
	if r.ttlSeconds, r.expiresAt, err = h.lifetime(); err != nil {
		return err
	}
	if r.fork, err = forkHeaders(h); err != nil {
		return err
	}
	b, err := readBodyUpTo(c, maxStreamBody)
	if err != nil {
		return err
	}
	r.body = b.in
	v, created, index, err := s.create(c.Request.Context(), r)
	if err != nil {
		return createRefused(err) // b may still be read: not freed
	}
	b.free()
	g.setToken(c, index)
	showStream(c, &v)
	if !created {
		c.Writer.WriteHeader(http.StatusOK)
		return nil
	}
	c.Writer.Header().Set("Location", location(c.Request))
	c.Writer.WriteHeader(http.StatusCreated)
	return nil
}

// createRefused tells a deleted stream that is in a creation's way from one that was asked for.
func createRefused(err error) error {
	var source *event.ForkSource
	switch {
	case errors.Is(err, event.ErrStreamGone):
		return errNameTaken
	case errors.As(err, &source) && source.Gone:
		return errForkSourceGone
	}
	return streamInput(err)
}

// streamInput says of a body that cannot be read where that is.
func streamInput(err error) error {
	var syntax *event.SyntaxError
	if errors.As(err, &syntax) {
		reason, _ := strings.CutPrefix(syntax.Reason, "the body ")
		return &inputError{"body", "", reason}
	}
	return err
}

// showStream sets the headers that tell what a stream is and where it stands.
func showStream(c *gin.Context, s *event.Stream) {
	h := c.Writer.Header()
	h["Content-Type"] = []string{s.ContentType}
	h["Stream-Next-Offset"] = []string{formatStreamOffset(s.Tail)}
	if s.Closed {
		h["Stream-Closed"] = isTrue
	}
}

var isTrue = []string{"true"}

// appendStream is POST.
func (g *Gateway) appendStream(c *gin.Context, s streamLog) error {
	h := streamHeader{c.Request.Header}
	r := &streamAppend{close: h.closes(), header: h.Header}
	var err error
	if r.seq, err = h.seq(); err != nil {
		return err
	}
	if r.producer, err = producerHeaders(h.Header); err != nil {
		return err
	}
	b, err := readBodyUpTo(c, maxStreamBody)
	if err != nil {
		return err
	}
	if r.body = b.in; len(r.body) > 0 {
		if r.contentType = h.mediaType(); r.contentType == "" {
			return &inputError{"header", "Content-Type", "is missing; it must be the stream's"}
		}
	} else if !r.close {
		return &inputError{"body", "", "is empty; an append holds at least one message"}
	}
	res, index, err := s.append(c.Request.Context(), r)
	if err != nil {
		refusalHeaders(c.Writer.Header(), r, err)
		return streamInput(err) // b may still be read: not freed
	}
	b.free()
	g.setToken(c, index)
	out := c.Writer.Header()
	out["Stream-Next-Offset"] = []string{formatStreamOffset(res.Stream.Tail)}
	if res.Stream.Closed {
		out["Stream-Closed"] = isTrue
	}
	if r.producer != nil {
		out["Producer-Epoch"] = []string{strconv.FormatUint(res.ProducerEpoch, 10)}
		out["Producer-Seq"] = []string{strconv.FormatUint(res.ProducerSeq, 10)}
	}
	if r.producer != nil && !res.Duplicate && len(r.body) > 0 {
		c.Writer.WriteHeader(http.StatusOK)
		return nil
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// refusalHeaders adds to a refused append what the protocol tells in headers.
func refusalHeaders(h http.Header, r *streamAppend, err error) {
	number := func(name string, n uint64) { h[name] = []string{strconv.FormatUint(n, 10)} }
	var closed *event.StreamClosed
	var gap *event.ProducerGap
	var fenced *event.ProducerFenced
	switch {
	case errors.As(err, &closed):
		h["Stream-Closed"] = isTrue
		h["Stream-Next-Offset"] = []string{formatStreamOffset(closed.Tail)}
		if r.producer != nil {
			// The published producer takes a conflict without these for one that goes away, and
			// repeats its request for ever; told that what it sent was expected, it gives up.
			number("Producer-Expected-Seq", r.producer.Seq)
			number("Producer-Received-Seq", r.producer.Seq)
		}
	case errors.As(err, &gap):
		number("Producer-Expected-Seq", gap.ExpectedSeq)
		number("Producer-Received-Seq", gap.ReceivedSeq)
	case errors.As(err, &fenced):
		number("Producer-Epoch", fenced.CurrentProducerEpoch)
	}
}

// deleteStream is DELETE.
func (g *Gateway) deleteStream(c *gin.Context, s streamLog) error {
	index, err := s.delete(c.Request.Context(), c.Request.Header)
	if err != nil {
		return err
	}
	g.setToken(c, index)
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// headStream is HEAD.
func (g *Gateway) headStream(c *gin.Context, s streamLog) error {
	ctx := c.Request.Context()
	if err := g.freshen(ctx); err != nil {
		return err
	}
	v, err := s.head(ctx)
	if err != nil {
		return err
	}
	showStream(c, &v)
	h := c.Writer.Header()
	h["Cache-Control"] = noStore
	h["Etag"] = []string{streamETag(&v, 0, v.Tail, v.Closed)}
	if v.TTLSeconds != nil {
		h["Stream-Ttl"] = []string{strconv.FormatInt(*v.TTLSeconds, 10)}
	}
	if v.ExpiresAt != nil {
		h["Stream-Expires-At"] = []string{time.UnixMilli(int64(*v.ExpiresAt)).UTC().Format("2006-01-02T15:04:05.000Z07:00")}
	}
	c.Writer.WriteHeader(http.StatusOK)
	return nil
}

var noStore = []string{"no-store"}

// streamETag names what a read from start returned: the generation keeps apart what a name held one
// after the other, and a close without a message changes the answer at the same end.
func streamETag(s *event.Stream, start, end event.Offset, closed bool) string {
	tag := `"` + string(s.Generation) + ":" + start.String() + ":" + end.String()
	if closed {
		tag += ":c"
	}
	return tag + `"`
}
