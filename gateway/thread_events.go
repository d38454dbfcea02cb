package gateway

import (
	"cmp"
	"context"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// beyondThread says that a cursor lies beyond what a thread has.
type beyondThread struct {
	After  event.ThreadCursor
	Cursor event.ThreadCursor // the thread's end
}

// Error says where the thread ends.
func (e *beyondThread) Error() string {
	return "cursor " + e.After.String() + " is beyond the end of the thread, " + e.Cursor.String()
}

// Is makes it a cursor that a lagging node may not have reached yet.
func (e *beyondThread) Is(target error) bool { return target == event.ErrOffsetOutOfRange }

func (e *beyondThread) fields() any {
	return struct {
		After  string `json:"after"`
		Cursor string `json:"cursor"`
	}{e.After.String(), e.Cursor.String()}
}

func compareCursors(a, b event.ThreadCursor) int {
	return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(a.Offset, b.Offset))
}

// threadFeed streams a thread to one reader: all its runs in order, each event once, then those that
// come, across runs. It has no end of its own.
type threadFeed struct {
	*feed
	thread event.ThreadID
	after  event.ThreadCursor
	fresh  freshness
	live   bool
}

// getThreadEvents is GET /v1/threads/{threadId}/events.
func (g *Gateway) getThreadEvents(c *gin.Context) error {
	r, err := threadOf(c)
	if err != nil {
		return err
	}
	t := &threadFeed{thread: r.id, live: r.q.flag("live", true), fresh: r.q.freshness()}
	if r.q.has("after") {
		if t.after, err = event.ParseThreadCursor(r.q.text("after")); err != nil {
			r.q.fail("after", "is "+err.Error())
		}
	}
	if t.fresh.offset != nil {
		r.q.fail("minOffset", "needs a run; minToken works for threads")
	}
	if r.q.err != nil {
		return r.q.err
	}
	// A browser reconnects to the address it first connected to, so the header wins.
	if s, present, err := header(c.Request.Header, "Last-Event-Id"); err != nil {
		return err
	} else if present && s != "" {
		if t.after, err = event.ParseThreadCursor(s); err != nil {
			return &inputError{"header", "Last-Event-ID", "is " + err.Error()}
		}
	}
	return g.serveFeed(c, true, g.threads.WatchThread(r.id), "thread", func(ctx context.Context, f *feed) error {
		t.feed = f
		return t.run(ctx)
	})
}

func (t *threadFeed) run(ctx context.Context) error {
	found, err := t.begin(ctx, func() error { return t.locate(ctx) })
	if !found || err != nil {
		return err
	}
	if err := t.open(); err != nil {
		return err
	}
	return t.pump(ctx, t.live, func() (bool, error) { return t.send(ctx) })
}

// locate finds the cursor in the thread, or proves that it is not there.
func (t *threadFeed) locate(ctx context.Context) error {
	if err := t.g.settle(ctx, "", t.fresh); err != nil {
		return err
	}
	return t.g.prove(ctx, func() error {
		view, err := t.g.threads.Thread(ctx, t.thread, event.ThreadQuery{Limit: 1})
		if err == nil && compareCursors(t.after, view.Cursor) > 0 {
			err = &beyondThread{t.after, view.Cursor}
		}
		return err
	})
}

// send writes one piece.
func (t *threadFeed) send(ctx context.Context) (more bool, err error) {
	page, err := t.g.threads.ThreadRecords(ctx, t.thread, t.after, chunkRecords, chunkBytes)
	if movedOn(err) {
		return false, nil // the state was replaced by one that has yet to catch up
	}
	if err != nil {
		return false, err
	}
	if n := len(page.Records); n > 0 {
		buf := chunks.Get().(*[]byte)
		defer freeChunk(buf)
		for i := range page.Records {
			r := &page.Records[i]
			*buf = append(append(*buf, "id: "...), r.Cursor.String()...)
			*buf = appendData(append(*buf, '\n'), r.Raw)
		}
		page.Records = nil // a write may take long, and needs the framed bytes alone
		if err := t.write(*buf); err != nil {
			return false, err
		}
		t.g.metrics.eventsTailed.Add(float64(n))
	}
	more = page.Next != t.after
	t.after = page.Next
	return more, nil
}
