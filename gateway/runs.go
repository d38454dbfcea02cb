package gateway

import (
	"encoding/json"
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/tidwall/gjson"

	"github.com/runlog/runlog/event"
)

func (g *Gateway) runRoutes() []route {
	return []route{
		{http.MethodPost, "/v1/runs", g.createRun},
		{http.MethodGet, "/v1/runs", g.listRuns},
		{http.MethodGet, "/v1/runs/:runId", g.getRun},
		{http.MethodPatch, "/v1/runs/:runId", g.patchRun},
		{http.MethodDelete, "/v1/runs/:runId", g.deleteRun},
	}
}

// getRun is GET /v1/runs/{runId}.
func (g *Gateway) getRun(c *gin.Context) error {
	id, at, err := g.readOf(c)
	if err != nil {
		return err
	}
	ctx := c.Request.Context()
	var run event.Run
	err = g.prove(ctx, func() (err error) {
		if at != nil {
			run, err = g.reader.RunAt(ctx, id, *at)
		} else {
			run, err = g.reader.Run(ctx, id)
		}
		return err
	})
	if err != nil {
		return err
	}
	if at == nil {
		g.addRemaining(&run)
	}
	return writeValue(c, http.StatusOK, &run)
}

// readOf reads which run, at which offset, a read is about, and waits until this node's state is as
// fresh as it asks for.
func (g *Gateway) readOf(c *gin.Context) (id event.RunID, at *event.Offset, err error) {
	if id, err = runID(c); err != nil {
		return id, nil, err
	}
	q := newQuery(c.Request)
	at, fresh := q.offset("at"), q.freshness()
	if q.err != nil {
		return id, nil, q.err
	}
	return id, at, g.settle(c.Request.Context(), id, fresh)
}

// listRuns is GET /v1/runs.
func (g *Gateway) listRuns(c *gin.Context) error {
	q := newQuery(c.Request)
	sel := event.RunQuery{
		Status: event.Status(q.oneOf("status", "", "running", "completed", "waiting", "cancelled", "failed", "lost")),
		Lease:  event.LeaseState(q.oneOf("lease", "", "held", "lapsed", "released", "none")),
		Holder: event.HolderID(q.id("holder")), ThreadID: event.ThreadID(q.id("threadId")),
		ParentRunID: event.RunID(q.id("parentRunId")), Prefix: q.text("prefix"),
		Ascending: q.oneOf("order", "desc", "asc", "desc") == "asc",
		Limit:     q.count("limit", event.DefaultRunLimit, 1, event.MaxRunLimit),
		Cursor:    q.text("cursor"),
	}
	if ms := q.number("expiresWithinMs"); ms != nil {
		within := int64(*ms)
		sel.ExpiresWithinMs = &within
	}
	fresh := q.freshness()
	if fresh.offset != nil {
		q.fail("minOffset", "needs a run")
	}
	if len(sel.Prefix) > event.MaxIDBytes {
		q.fail("prefix", "is longer than any id")
	}
	if q.err != nil {
		return q.err
	}
	ctx := c.Request.Context()
	if err := g.settle(ctx, "", fresh); err != nil {
		return err
	}
	var page event.RunPage
	var err error
	if page.Runs, page.NextCursor, err = g.reader.Runs(ctx, sel); err != nil {
		return err
	}
	if page.Runs == nil {
		page.Runs = []event.Run{}
	}
	for i := range page.Runs {
		page.Runs[i].Open = nil
	}
	return writeValue(c, http.StatusOK, &page)
}

// patchRun is PATCH /v1/runs/{runId}.
func (g *Gateway) patchRun(c *gin.Context) error {
	id, err := runID(c)
	if err != nil {
		return err
	}
	epoch, err := numberHeader(c.Request.Header, "Run-Epoch")
	if err != nil {
		return err
	}
	obj, err := bodyObject(c)
	if err != nil {
		return err
	}
	patch := obj.raw("metadata", gjson.Result.IsObject, "an object")
	if _, sent := obj.members["metadata"]; patch == nil && sent {
		obj.fail("metadata", "must be an object") // null is a value here: RFC 7396 gives it a meaning of its own
	} else if patch == nil {
		obj.fail("metadata", "is missing")
	}
	if obj.err != nil {
		return obj.err
	}
	res, err := g.propose(c, event.PatchRun{Run: id, Epoch: (*event.Epoch)(epoch), Patch: patch})
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, g.whole(c, res))
}

// deleteRun is DELETE /v1/runs/{runId}.
func (g *Gateway) deleteRun(c *gin.Context) error {
	id, err := runID(c)
	if err != nil {
		return err
	}
	if _, err := g.propose(c, event.DeleteRun{Run: id}); err != nil {
		return err
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// propose proposes a command and hands a refusal back as an error.
func (g *Gateway) propose(c *gin.Context, cmd event.Command) (event.Result, error) {
	res, err := g.node.Propose(c.Request.Context(), cmd)
	if err != nil {
		return res, err
	}
	g.setToken(c, res.Index)
	if res.Refusal != nil {
		return res, res.Refusal
	}
	return res, nil
}

// whole returns the run of a result with what only its terminal event tells. A result carries none of
// that, and only an ended run has any.
func (g *Gateway) whole(c *gin.Context, res event.Result) *event.Run {
	run := res.Run
	if run == nil || !run.Ended {
		return run
	}
	ctx := c.Request.Context()
	if g.settle(ctx, "", freshness{index: res.Index}) != nil {
		return run
	}
	if full, err := g.reader.Run(ctx, run.RunID); err == nil {
		return &full
	}
	return run
}

// writeValue answers with v as JSON.
func writeValue(c *gin.Context, status int, v any) error {
	b, err := marshal(v)
	if err != nil {
		return err
	}
	return writeJSON(c, status, b)
}

// marshal encodes v, leaving the raw JSON that it holds (outcome, metadata, …) as it is: unlike
// json.Marshal it does not escape <, > and &.
func marshal(v any) ([]byte, error) {
	var w sliceWriter
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return w[:len(w)-1], nil
}

type sliceWriter []byte

func (w *sliceWriter) Write(p []byte) (int, error) {
	*w = append(*w, p...)
	return len(p), nil
}
