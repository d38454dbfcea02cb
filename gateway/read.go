package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// What is read of a run at once: enough to make reading cheap, little enough that hundreds of
// readers together hold little.
const (
	chunkRecords = 4096
	chunkBytes   = 256 << 10
	// smallChunkBytes is what a tail reads at once while others hold all that tails may.
	smallChunkBytes = 16 << 10
)

// maxPageBytes ends a JSON page that has grown over it, so that a client never has to take in
// 10,000 events of the largest size at once.
const maxPageBytes = 4 << 20

var chunks = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}

// freeChunk gives a buffer back, unless one large event made it large.
func freeChunk(b *[]byte) {
	if cap(*b) <= 2*chunkBytes {
		*b = (*b)[:0]
		chunks.Put(b)
	}
}

// page answers with one JSON page, after waiting up to wait for a first event.
func (g *Gateway) page(c *gin.Context, sel selection, wait time.Duration) error {
	ctx := c.Request.Context()
	if err := g.settle(ctx, sel.run, sel.fresh); err != nil {
		return err
	}
	var first event.Page
	read := func() (err error) {
		first, err = g.reader.Records(ctx, sel.run, sel.from, min(sel.limit, chunkRecords), chunkBytes)
		return err
	}
	if err := g.prove(ctx, read); err != nil {
		return err
	}
	if wait > 0 && len(first.Records) == 0 && !first.Ended {
		if err := g.poll(c, sel.run, wait, &first, read); err != nil {
			return err
		}
	}
	g.writePage(c, sel, first)
	return nil
}

// poll repeats a read until its page is not empty, the run has ended, or the wait is over.
func (g *Gateway) poll(c *gin.Context, id event.RunID, wait time.Duration, page *event.Page, read func() error) error {
	if err := liftDeadlines(c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request.Context(), wait)
	defer cancel()
	watch := g.reader.Watch(id)
	defer watch.Close()
	for {
		changed := watch.C()
		if err := read(); err != nil && !errors.Is(err, event.ErrOffsetOutOfRange) {
			return err
		}
		if len(page.Records) > 0 || page.Ended {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return c.Request.Context().Err()
		case <-g.draining:
			return nil
		}
	}
}

// writePage writes a page piece by piece as it is read, so that its size is not held in memory.
func (g *Gateway) writePage(c *gin.Context, sel selection, p event.Page) {
	ctx, w := c.Request.Context(), c.Writer
	rc := http.NewResponseController(unwrap(w))
	defer restoreDeadline(c)
	w.Header()["Content-Type"] = contentTypeJSON
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	buf := chunks.Get().(*[]byte)
	defer freeChunk(buf)
	*buf = append(*buf, `{"events":[`...)
	next, left, size := sel.from, sel.limit, 0
	for {
		for i := range p.Records {
			if next > sel.from {
				*buf = append(*buf, ',')
			}
			*buf = appendEnvelope(*buf, &p.Records[i])
			next++
		}
		g.metrics.eventsRead.Add(float64(len(p.Records)))
		left -= len(p.Records)
		size += len(*buf)
		if len(p.Records) == 0 || next >= p.Tail || left == 0 || size >= maxPageBytes {
			break
		}
		_ = rc.SetWriteDeadline(time.Now().Add(g.cfg.FlushTimeout))
		if _, err := w.Write(*buf); err != nil {
			return
		}
		*buf = (*buf)[:0]
		var err error
		if p, err = g.reader.Records(ctx, sel.run, next, min(left, chunkRecords), chunkBytes); err != nil {
			if ctx.Err() == nil {
				g.log.Error("page cut off", "run", sel.run, "offset", next, "error", err)
			}
			panic(http.ErrAbortHandler) // what was sent must not look complete
		}
	}
	*buf = append(*buf, `],"tail":`...)
	*buf = appendOffset(*buf, p.Tail)
	*buf = append(*buf, `,"ended":`...)
	*buf = strconv.AppendBool(*buf, p.Ended)
	*buf = append(*buf, '}')
	_, _ = w.Write(*buf)
}
