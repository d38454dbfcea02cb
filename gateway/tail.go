package gateway

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/runlog/runlog/event"
)

// tail streams a run to one reader: every event from its cursor on, once, in order, those that are
// there and then those that come. It is woken, not fed: it reads from its own offset, so nothing
// is queued for it and it holds at most one piece of a run in memory while it writes.
//
// It ends after the terminal event; at the tail when it is not live; when the gateway drains,
// between two events; when the reader takes longer than FlushTimeout to accept a write; or with the
// reader. It never skips an event: whoever is cut off resumes with its cursor.
type tail struct {
	feed
	sel   selection
	live  bool
	frame framer
	join  *event.Scope // begin with a snapshot of this scope; nil: with the events
	held  []string     // ids of the messages that a joining client has already
	late  bool         // a joining client must be told of the thread before a run's first event

	sent  int  // events
	whole bool // everything that was asked for has been sent
}

// serve answers the request. An error is returned only before the answer has begun.
func (t *tail) serve() error {
	g := t.g
	select {
	case g.tails <- struct{}{}:
		defer func() { <-g.tails }()
	default:
		return errOverloaded
	}
	g.metrics.openTails.Inc()
	defer g.metrics.openTails.Dec()
	// Flushing goes past Gin, whose Flush hides the error that says that the reader is gone.
	t.rc = http.NewResponseController(unwrap(t.c.Writer))
	if err := liftDeadlines(t.c); err != nil {
		return err
	}
	defer restoreDeadline(t.c)
	t.watch = g.reader.Watch(t.sel.run)
	defer t.watch.Close()
	err := t.run(t.c.Request.Context())
	if !t.opened {
		return err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		g.metrics.slowTails.Inc()
	}
	if p := problemOf(err); err != nil && p.code == codeInternal && t.c.Request.Context().Err() == nil && !errors.Is(err, errReader) {
		g.log.Error("tail ended", "run", t.sel.run, "offset", t.sel.from, "error", err)
	}
	if !t.sse && !t.whole && (err != nil || !t.live) {
		// Lines carry no offset: a clean end would look as if this were all. A live tail has no
		// end before the run's, so draining may end it between two events.
		panic(http.ErrAbortHandler)
	}
	return nil
}

// errReader marks errors of writing to the reader.
var errReader = errors.New("the reader is gone or too slow")

// run goes from the first read to the end.
func (t *tail) run(ctx context.Context) error {
	var page event.Page
	found, err := t.begin(ctx, func() (err error) {
		page, err = t.locate(ctx)
		return err
	})
	if !found || err != nil {
		return err
	}
	if t.sse && page.Ended && t.sel.from >= page.Tail {
		if !t.opened {
			t.opened = true
			t.c.Writer.WriteHeader(http.StatusNoContent) // tells an EventSource to stop
		}
		return nil
	}
	if err := t.start(ctx); err != nil {
		return err
	}
	if t.c.Request.Method == http.MethodHead {
		t.whole = true // a body that nobody gets need not be waited for
		return nil
	}
	for {
		changed := t.watch.C()
		page, err := t.pump(ctx)
		t.whole = err == nil && t.over(&page)
		if err != nil || t.whole || t.g.isDraining() {
			return err
		}
		if t.sel.from < page.Tail {
			continue
		}
		if err := t.wait(ctx, changed); err != nil {
			return err
		}
	}
}

// start begins the answer, with a snapshot where that is asked for.
func (t *tail) start(ctx context.Context) error {
	if t.join == nil {
		return t.open()
	}
	if err := t.awaitFirst(ctx); err != nil {
		return err
	}
	prelude, free, err := t.prelude(ctx)
	if err != nil {
		return err
	}
	defer free()
	if err := t.open(); err != nil || len(prelude) == 0 {
		return err
	}
	return t.write(prelude)
}

// over reports whether everything that was asked for has been sent.
func (t *tail) over(p *event.Page) bool {
	if t.sel.limit > 0 && t.sent >= t.sel.limit {
		return true
	}
	return t.sel.from >= p.Tail && (p.Ended || !t.live)
}

// pump reads one piece of the run and writes it. The piece is small when other tails, stuck in
// their writes, hold much already.
func (t *tail) pump(ctx context.Context) (event.Page, error) {
	most := chunkRecords
	if t.sel.limit > 0 {
		most = min(most, t.sel.limit-t.sent)
	}
	bytes := chunkBytes
	if free, ok := t.g.pieces.take(chunkBytes); ok {
		defer free()
	} else {
		bytes = smallChunkBytes
	}
	page, err := t.g.reader.Records(ctx, t.sel.run, t.sel.from, most, bytes)
	if errors.Is(err, event.ErrOffsetOutOfRange) {
		return event.Page{}, nil // the state was replaced by one that has yet to catch up
	}
	if err != nil || len(page.Records) == 0 {
		return page, err
	}
	buf := chunks.Get().(*[]byte)
	defer freeChunk(buf)
	for i := range page.Records {
		*buf = t.frame(*buf, &page.Records[i])
	}
	n := len(page.Records)
	page.Records = nil // a write may take long, and needs the framed bytes alone
	if err := t.write(*buf); err != nil {
		return page, err
	}
	t.sel.from += event.Offset(n)
	t.sent += n
	t.g.metrics.eventsTailed.Add(float64(n))
	return page, nil
}

// beginAgain paces the attempts to find a cursor while no leader answers.
const beginAgain = time.Second

var errDrained = errors.New("draining")

func (t *tail) locate(ctx context.Context) (page event.Page, err error) {
	if err := t.g.settle(ctx, t.sel.run, t.sel.fresh); err != nil {
		return page, err
	}
	err = t.g.prove(ctx, func() error {
		// Where an event stands is asked for with the event: an ended run's last one may be all there is.
		page, err = t.g.reader.Records(ctx, t.sel.run, t.sel.from, 1, 1)
		return t.pastEnd(ctx, &page, err)
	})
	return page, err
}

// pastEnd turns a cursor beyond the end of an ended run into an empty page: there is nothing to
// wait for, which server-sent events say with 204.
func (t *tail) pastEnd(ctx context.Context, page *event.Page, err error) error {
	if !t.sse || !errors.Is(err, event.ErrOffsetOutOfRange) {
		return err
	}
	run, runErr := t.g.reader.Run(ctx, t.sel.run)
	if runErr != nil || !run.Ended {
		return err
	}
	*page = event.Page{Tail: run.Tail, Ended: true}
	return nil
}
