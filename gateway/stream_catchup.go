package gateway

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// maxCatchUp bounds the messages of one answer to a read that is not live.
const maxCatchUp = 64 << 10

// writeOn answers with a page of messages and with what follows it, up to where the tail was then. The
// published client reads one answer only when it is told live: false, and takes it for all there is.
//
// What cannot be finished is cut off: it must not look complete.
func (g *Gateway) writeOn(c *gin.Context, s streamLog, v *event.Stream, from event.Offset, page *event.StreamPage) error {
	end := min(page.Tail, from+maxCatchUp)
	if !showMessages(c, v, from, end, page) {
		return nil
	}
	c.Writer.WriteHeader(http.StatusOK)
	defer restoreDeadline(c)
	messages, generation := page.Messages, page.Generation
	free := func() {} // the first page's share is the caller's
	for at := from; ; {
		messages = messages[:min(len(messages), int(end-at))]
		at += event.Offset(len(messages))
		err := g.writePart(c, v, messages, at-event.Offset(len(messages)) == from, at == end)
		free()
		if err != nil || at == end {
			return nil // a reader that is gone needs no answer
		}
		next, release, err := g.readPiece(c.Request.Context(), s, at, chunkBytes)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if next.Generation != generation || len(next.Messages) == 0 {
			release()
			panic(http.ErrAbortHandler)
		}
		messages, free = next.Messages, release
	}
}

// writePart writes some of an answer's messages: the first, the last, or those in between.
func (g *Gateway) writePart(c *gin.Context, v *event.Stream, messages []event.Record, first, last bool) error {
	buf := chunks.Get().(*[]byte)
	defer freeChunk(buf)
	*buf = appendMessages(*buf, v.ContentType, messages)
	part := *buf
	if v.ContentType == event.JSONContentType { // the brackets of a part become those of the whole
		if !first {
			part[0] = ','
		}
		if !last {
			part = part[:len(part)-1]
		}
	}
	g.metrics.eventsRead.Add(float64(len(messages)))
	_ = http.NewResponseController(unwrap(c.Writer)).SetWriteDeadline(time.Now().Add(g.cfg.FlushTimeout))
	_, err := c.Writer.Write(part)
	return err
}
