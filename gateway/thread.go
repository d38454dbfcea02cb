package gateway

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

func (g *Gateway) threadRoutes() []route {
	if g.threads == nil {
		return nil
	}
	return []route{
		{http.MethodGet, "/v1/threads", g.listThreads},
		{http.MethodGet, "/v1/threads/:threadId", g.getThread},
		{http.MethodDelete, "/v1/threads/:threadId", g.deleteThread},
		{http.MethodGet, "/v1/threads/:threadId/transcript", g.getThreadTranscript},
		{http.MethodGet, "/v1/threads/:threadId/envelope", g.getEnvelope},
		{http.MethodGet, "/v1/threads/:threadId/events", g.getThreadEvents},
		{http.MethodPost, "/v1/threads/:threadId/connect", g.connectThread},
	}
}

func threadID(c *gin.Context) (event.ThreadID, error) {
	s, err := pathID(c, "threadId")
	return event.ThreadID(s), err
}

// threadRequest is what the reads of a thread have in common.
type threadRequest struct {
	id event.ThreadID
	q  *query
}

// threadOf reads which thread a request is about. finish checks the query and waits until this
// node's state is as fresh as it asks for.
func threadOf(c *gin.Context) (threadRequest, error) {
	id, err := threadID(c)
	return threadRequest{id, newQuery(c.Request)}, err
}

func (r *threadRequest) finish(g *Gateway, c *gin.Context) error {
	fresh := r.q.freshness()
	if fresh.offset != nil {
		r.q.fail("minOffset", "needs a run; minToken works for threads")
	}
	if r.q.err != nil {
		return r.q.err
	}
	return g.settle(c.Request.Context(), "", fresh)
}

// head reads ?head=, the run that the chain of parents asked for ends at.
func (r *threadRequest) head() event.RunID { return event.RunID(r.q.id("head")) }

// allMessages asks for the whole transcript.
const allMessages = -1

// messages reads ?messages=: all (true, the default), none (false), or how many of the newest.
func (r *threadRequest) messages() int {
	switch s := r.q.text("messages"); {
	case !r.q.has("messages"), s == "true":
		return allMessages
	case s == "false":
		return 0
	default:
		n, ok := parseNumber(s)
		if !ok || n > 1<<31 {
			r.q.fail("messages", "must be true, false or how many of the newest")
		}
		return int(n)
	}
}

// getThread is GET /v1/threads/{threadId}: what was said, what is running, what waits for an answer
// and where to follow from, of one moment.
func (g *Gateway) getThread(c *gin.Context) error {
	r, err := threadOf(c)
	if err != nil {
		return err
	}
	sel := event.ThreadQuery{Head: r.head(), Limit: r.q.count("limit", event.DefaultRunLimit, 1, event.MaxRunLimit), Before: r.q.text("before")}
	messages := r.messages()
	if err := r.finish(g, c); err != nil {
		return err
	}
	return g.answerThread(c, r.id, sel, func(t *threadRead) ([]byte, error) {
		for i := range t.Runs {
			t.Runs[i].Open = nil
			g.addRemaining(&t.Runs[i])
		}
		if t.ActiveRun != nil {
			g.addRemaining(t.ActiveRun)
		}
		b, omitted := appendHistory(appendThreadHead(nil, t), t.transcript, messages)
		if omitted > 0 {
			b = append(append(b, `,"messagesOmitted":`...), strconv.Itoa(omitted)...)
		}
		return appendThreadRest(b, t)
	})
}

// getThreadTranscript is GET /v1/threads/{threadId}/transcript: messages and cursor alone.
func (g *Gateway) getThreadTranscript(c *gin.Context) error {
	r, err := threadOf(c)
	if err != nil {
		return err
	}
	sel := event.ThreadQuery{Head: r.head(), Limit: 1}
	if err := r.finish(g, c); err != nil {
		return err
	}
	return g.answerThread(c, r.id, sel, func(t *threadRead) ([]byte, error) {
		b, _ := appendHistory(appendThreadHead(nil, t), t.transcript, allMessages)
		return append(appendMissing(b, t), '}'), nil
	})
}

// answerThread reads a thread and answers with what build makes of it. That a head is not there is
// answered once it is proved.
func (g *Gateway) answerThread(c *gin.Context, id event.ThreadID, sel event.ThreadQuery, build func(*threadRead) ([]byte, error)) error {
	ctx := c.Request.Context()
	var b []byte
	free, err := g.folding(ctx, func() ([]byte, error) {
		var t threadRead
		err := g.prove(ctx, func() (err error) {
			t, err = g.readThread(ctx, id, sel)
			return err
		})
		if err != nil {
			return nil, err
		}
		b, err = build(&t)
		return b, err
	})
	if errors.Is(err, event.ErrBadCursor) {
		return &inputError{"query", "before", "is not one that an answer about this thread carried"}
	}
	if err != nil {
		return err
	}
	defer free()
	c.Writer.Header().Set("Cache-Control", "no-cache")
	return writeJSON(c, http.StatusOK, b)
}

// appendThreadHead appends the answer up to the messages.
func appendThreadHead(dst []byte, t *threadRead) []byte {
	dst = appendString(append(dst, `{"threadId":`...), string(t.ThreadID))
	return append(append(append(dst, `,"cursor":"`...), t.Cursor.String()...), `","messages":`...)
}

// appendHistory appends the newest n messages, or all, and says how many it left out. A cut may
// part a call from its result: it is for showing the end of a long conversation first.
func appendHistory(dst []byte, transcript projection.Fold, n int) (b []byte, omitted int) {
	if n == allMessages {
		return projection.AppendHistory(dst, transcript), 0
	}
	all := projection.History(transcript)
	omitted = max(0, len(all)-n)
	dst = append(dst, '[')
	for i, m := range all[omitted:] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, m...)
	}
	return append(dst, ']'), omitted
}

func appendMissing(dst []byte, t *threadRead) []byte {
	if t.missing == "" {
		return dst
	}
	return appendString(append(dst, `,"missingRunId":`...), string(t.missing))
}

// appendThreadRest appends what stands behind the messages.
func appendThreadRest(dst []byte, t *threadRead) ([]byte, error) {
	rest := struct {
		ActiveRun  *event.Run        `json:"activeRun"`
		Runs       []event.Run       `json:"runs"`
		Interrupts []event.Interrupt `json:"interrupts"`
		NextCursor string            `json:"nextCursor,omitempty"`
	}{t.ActiveRun, t.Runs, t.Interrupts, t.NextCursor}
	if rest.Runs == nil {
		rest.Runs = []event.Run{}
	}
	if rest.Interrupts == nil {
		rest.Interrupts = []event.Interrupt{}
	}
	b, err := marshal(rest)
	if err != nil {
		return nil, err
	}
	dst = append(appendMissing(dst, t), ',')
	return append(dst, b[1:]...), nil
}

// listThreads is GET /v1/threads, newest activity first.
func (g *Gateway) listThreads(c *gin.Context) error {
	r := threadRequest{q: newQuery(c.Request)}
	prefix, cursor := r.q.text("prefix"), r.q.text("cursor")
	limit := r.q.count("limit", event.DefaultRunLimit, 1, event.MaxRunLimit)
	if len(prefix) > event.MaxIDBytes {
		r.q.fail("prefix", "is longer than any id")
	}
	if err := r.finish(g, c); err != nil {
		return err
	}
	var page struct {
		Threads    []event.ThreadSummary `json:"threads"`
		NextCursor string                `json:"nextCursor,omitempty"`
	}
	var err error
	if page.Threads, page.NextCursor, err = g.threads.Threads(c.Request.Context(), prefix, limit, cursor); err != nil {
		return err
	}
	if page.Threads == nil {
		page.Threads = []event.ThreadSummary{}
	}
	for i := range page.Threads {
		if page.Threads[i].ActiveRuns == nil {
			page.Threads[i].ActiveRuns = []event.RunID{}
		}
	}
	return writeValue(c, http.StatusOK, &page)
}
