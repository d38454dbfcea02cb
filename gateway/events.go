package gateway

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

func (g *Gateway) eventRoutes() []route {
	return []route{
		{http.MethodPost, "/v1/runs/:runId/events", g.appendEvents},
		{http.MethodGet, "/v1/runs/:runId/events", g.getEvents},
	}
}

// Bounds of a read of events.
const (
	defaultPageEvents = 1000
	maxPageEvents     = 10_000
	maxWait           = time.Minute
)

// selection is which events a request asks for.
type selection struct {
	run   event.RunID
	from  event.Offset // the first offset wanted
	limit int          // 0: no limit
	fresh freshness
}

// getEvents is GET /v1/runs/{runId}/events in all its forms.
func (g *Gateway) getEvents(c *gin.Context) error {
	id, err := runID(c)
	if err != nil {
		return err
	}
	as := acceptedForm(c.Request.Header)
	q := newQuery(c.Request)
	sel := selection{run: id, from: q.cursor(), limit: q.count("limit", 0, 1, maxPageEvents), fresh: q.freshness()}
	wait := time.Duration(q.count("waitMs", 0, 0, int(maxWait.Milliseconds()))) * time.Millisecond
	live, envelope := q.flag("live", true), q.flag("envelope", false)
	join := q.oneOf("join", "", "snapshot") != ""
	scope := event.ScopeThread
	if q.oneOf("scope", "thread", "run", "thread") == "run" {
		scope = event.ScopeRun
	}
	if join && as != formSSE {
		q.fail("join", "needs Accept: text/event-stream")
	}
	if join && (q.has("from") || q.has("after")) {
		q.fail("join", "begins at the tail; from and after cannot be given with it")
	}
	resumed := false
	if as == formSSE && q.err == nil {
		// A browser reconnects to the address it first connected to, so the header wins over from
		// and after, and over join: what the snapshot told, the client has.
		resumed, q.err = lastEventID(c.Request.Header, &sel.from)
	}
	if q.err != nil {
		return q.err
	}
	if as == formJSON {
		if sel.limit == 0 {
			sel.limit = defaultPageEvents
		}
		return g.page(c, sel, wait)
	}
	t := &tail{feed: feed{g: g, c: c, sse: as == formSSE}, sel: sel, live: live, frame: appendSSE}
	if as == formNDJSON {
		t.frame = appendNDJSON
		if envelope {
			t.frame = appendEnvelopeLine
		}
	}
	if join && !resumed {
		t.join = &scope
	}
	return t.serve()
}

// cursor reads from or after.
func (q *query) cursor() event.Offset {
	from, after := q.offset("from"), q.offset("after")
	switch {
	case from != nil && after != nil:
		q.fail("after", "cannot be given together with from")
	case from != nil:
		return *from
	case after != nil:
		return *after + 1
	}
	return 0
}

// lastEventID reads where an EventSource stopped. An empty one, which it sends when it has seen no
// id, counts as none.
func lastEventID(h http.Header, from *event.Offset) (resumed bool, err error) {
	s, present, err := header(h, "Last-Event-Id")
	if err != nil || !present || s == "" {
		return false, err
	}
	n, ok := parseNumber(s)
	if !ok {
		return false, &inputError{"header", "Last-Event-ID", numberReason}
	}
	*from = event.Offset(n) + 1
	return true, nil
}
