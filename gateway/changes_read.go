package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

func (g *Gateway) changeRoutes() []route {
	if g.threads == nil {
		return nil
	}
	return []route{{http.MethodGet, "/v1/changes", g.getChanges}}
}

// maxPageChanges bounds a page of changes.
const maxPageChanges = 1000

// changeFeed streams changes to one reader.
type changeFeed struct {
	*feed
	from  *event.Offset // nil: the oldest kept, or the tail
	tail  bool          // begin at the tail
	limit int           // 0: none
	fresh freshness
	live  bool
	next  event.Offset
	sent  int
}

// getChanges is GET /v1/changes: what happened to runs, the stream _runs.
func (g *Gateway) getChanges(c *gin.Context) error {
	q := newQuery(c.Request)
	f := &changeFeed{limit: q.count("limit", 0, 1, maxPageChanges), live: q.flag("live", true), fresh: q.freshness()}
	wait := time.Duration(q.count("waitMs", 0, 0, int(maxWait.Milliseconds()))) * time.Millisecond
	if f.tail = q.text("from") == "tail"; f.tail && q.has("after") {
		q.fail("after", "cannot be given together with from")
	}
	if !f.tail && (q.has("from") || q.has("after")) {
		from := q.cursor()
		f.from = &from
	}
	if f.fresh.offset != nil {
		q.fail("minOffset", "needs a run")
	}
	as := acceptedForm(c.Request.Header)
	if as == formSSE && q.err == nil {
		var from event.Offset
		var resumed bool
		if resumed, q.err = lastEventID(c.Request.Header, &from); resumed {
			f.from, f.tail = &from, false
		}
	}
	if q.err != nil {
		return q.err
	}
	watch := g.threads.WatchChanges()
	if as == formJSON {
		defer watch.Close()
		f.feed = &feed{g: g, c: c, watch: watch}
		return f.page(wait)
	}
	return g.serveFeed(c, as == formSSE, watch, "changes", func(ctx context.Context, feed *feed) error {
		f.feed = feed
		return f.run(ctx)
	})
}

// locate finds where to begin, or proves that it is not there.
func (f *changeFeed) locate(ctx context.Context) (page event.ChangePage, err error) {
	if err := f.g.settle(ctx, "", f.fresh); err != nil {
		return page, err
	}
	if f.from == nil {
		first, tail, err := f.g.changesBounds(ctx)
		if err != nil {
			return page, err
		}
		if f.next = first; f.tail {
			f.next = tail
		}
	} else {
		f.next = *f.from
	}
	err = f.g.prove(ctx, func() error {
		page, err = f.g.readChanges(ctx, f.next, f.most())
		return err
	})
	return page, err
}

func (f *changeFeed) most() int {
	if f.limit == 0 {
		return maxPageChanges
	}
	return min(maxPageChanges, f.limit-f.sent)
}

func (f *changeFeed) run(ctx context.Context) error {
	found, err := f.begin(ctx, func() error { _, err := f.locate(ctx); return err })
	if !found || err != nil {
		return err
	}
	if err := f.open(); err != nil {
		return err
	}
	err = f.pump(ctx, f.live, func() (bool, error) { return f.send(ctx) })
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// errEnough ends a feed that has sent as much as was asked for.
var errEnough = errors.New("enough was sent")

// send writes one piece.
func (f *changeFeed) send(ctx context.Context) (more bool, err error) {
	page, err := f.g.readChanges(ctx, f.next, f.most())
	if errors.Is(err, event.ErrOffsetOutOfRange) {
		return false, nil // the state was replaced by one that has yet to catch up
	}
	if err != nil || len(page.Changes) == 0 {
		return false, err
	}
	buf := chunks.Get().(*[]byte)
	defer freeChunk(buf)
	for i := range page.Changes {
		b, err := marshal(&page.Changes[i])
		if err != nil {
			return false, err
		}
		if f.sse {
			*buf = append(appendOffset(append(*buf, "id: "...), f.next+event.Offset(i)), '\n')
			*buf = appendData(*buf, b)
		} else {
			*buf = append(append(*buf, b...), '\n')
		}
	}
	if err := f.write(*buf); err != nil {
		return false, err
	}
	f.next += event.Offset(len(page.Changes))
	f.sent += len(page.Changes)
	if f.limit > 0 && f.sent >= f.limit {
		return false, errEnough
	}
	return f.next < page.Tail, nil
}

// page answers with one JSON page, after waiting up to wait for a first change.
func (f *changeFeed) page(wait time.Duration) error {
	ctx := f.c.Request.Context()
	page, err := f.locate(ctx)
	if err != nil {
		return err
	}
	if wait > 0 && len(page.Changes) == 0 {
		if err := f.poll(ctx, wait, &page); err != nil {
			return err
		}
	}
	type placed struct {
		Offset event.Offset `json:"offset"`
		event.Change
	}
	answer := struct {
		Changes []placed     `json:"changes"`
		First   event.Offset `json:"first"`
		Tail    event.Offset `json:"tail"`
	}{make([]placed, len(page.Changes)), page.First, page.Tail}
	for i, change := range page.Changes {
		answer.Changes[i] = placed{f.next + event.Offset(i), change}
	}
	f.c.Writer.Header().Set("Cache-Control", "no-cache")
	return writeValue(f.c, http.StatusOK, &answer)
}

// poll waits for a first change.
func (f *changeFeed) poll(ctx context.Context, wait time.Duration, page *event.ChangePage) error {
	if err := liftDeadlines(f.c); err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		changed := f.watch.C()
		next, err := f.g.readChanges(ctx, f.next, f.most())
		if err != nil && !errors.Is(err, event.ErrOffsetOutOfRange) {
			return err
		}
		if err == nil {
			*page = next
		}
		if len(page.Changes) > 0 {
			return nil
		}
		select {
		case <-changed:
		case <-limit.Done():
			return ctx.Err()
		case <-f.g.draining:
			return nil
		}
	}
}
