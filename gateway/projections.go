package gateway

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

func (g *Gateway) projectionRoutes() []route {
	return []route{
		{http.MethodGet, "/v1/runs/:runId/transcript", g.project(projection.KindTranscript, transcriptHead, "messages")},
		{http.MethodGet, "/v1/runs/:runId/tools", g.project(projection.KindTools, toolsHead, "toolCalls")},
		{http.MethodGet, "/v1/runs/:runId/state", g.project(projection.KindState, stateHead, "state")},
	}
}

// The heads are what stands before the offset in each projection's answer.
func transcriptHead(dst []byte, r *event.Run) []byte {
	dst = toolsHead(dst, r)
	dst = appendString(append(dst, `"threadId":`...), string(r.ThreadID))
	return append(dst, ',')
}

func toolsHead(dst []byte, r *event.Run) []byte {
	dst = appendString(append(dst, `"runId":`...), string(r.RunID))
	return append(dst, ',')
}

func stateHead(dst []byte, _ *event.Run) []byte { return dst }

// project returns the handler of one projection. The value at an offset never changes, so the offset
// is its ETag.
func (g *Gateway) project(kind projection.Kind, head func([]byte, *event.Run) []byte, member string) handler {
	return func(c *gin.Context) error {
		id, at, err := g.readOf(c)
		if err != nil {
			return err
		}
		ctx := c.Request.Context()
		run, offset, err := g.foldAt(c, id, at)
		if err != nil {
			return err
		}
		etag := projectionETag(kind, offset)
		if matchesETag(c.Request.Header, etag) {
			setETag(c, etag)
			c.Writer.WriteHeader(http.StatusNotModified)
			return nil
		}
		var b []byte
		free, err := g.folding(ctx, func() ([]byte, error) {
			fold, _, err := g.reader.Fold(ctx, id, kind, &offset, event.ScopeRun)
			if err != nil {
				return nil, err
			}
			b = head(append(make([]byte, 0, fold.Size()+256), '{'), &run)
			b = appendOffset(append(b, `"offset":`...), offset)
			b = appendString(append(b, ','), member)
			b = append(fold.AppendJSON(append(b, ':')), '}')
			return b, nil
		})
		if err != nil {
			return err
		}
		defer free()
		setETag(c, etag)
		return writeJSON(c, http.StatusOK, b)
	}
}

func setETag(c *gin.Context, etag string) {
	c.Writer.Header().Set("ETag", etag)
	c.Writer.Header().Set("Cache-Control", "no-cache")
}

// maxFolds bounds the folds under way at a time: each may be as large as a run, and more than the
// processors can fold together are only waited for in memory.
const maxFolds = 16

// folding builds an answer out of folds, whose memory is bounded by how many are under way, and
// takes what the answer holds from the budget; free gives it back once it is written.
func (g *Gateway) folding(ctx context.Context, build func() ([]byte, error)) (free func(), err error) {
	wait, cancel := context.WithTimeoutCause(ctx, g.cfg.ReadWait, errOverloaded)
	defer cancel()
	select {
	case g.folds <- struct{}{}:
		defer func() { <-g.folds }()
	case <-wait.Done():
		return nil, context.Cause(wait)
	}
	b, err := build()
	if err != nil {
		return nil, err
	}
	free, ok := g.answers.take(cap(b))
	if !ok {
		return nil, errOverloaded
	}
	return free, nil
}

// foldAt returns the run and how many of its events to fold: those before at, or all it has now.
func (g *Gateway) foldAt(c *gin.Context, id event.RunID, at *event.Offset) (event.Run, event.Offset, error) {
	ctx := c.Request.Context()
	var run event.Run
	err := g.prove(ctx, func() (err error) {
		run, err = g.reader.Run(ctx, id)
		if err == nil && at != nil && *at > run.Tail {
			err = &event.OffsetOutOfRange{Offset: *at, Tail: run.Tail}
		}
		return err
	})
	if err != nil || at == nil {
		return run, run.Tail, err
	}
	return run, *at, nil
}

// foldVersion is part of every projection's ETag. It changes when a fold's result does for the same
// events, so that no client keeps an old one.
const foldVersion = "1"

func projectionETag(kind projection.Kind, offset event.Offset) string {
	return `"` + foldVersion + "-" + kind.String() + "-" + offset.String() + `"`
}

// matchesETag reports whether If-None-Match names the ETag, compressed or not.
func matchesETag(h http.Header, etag string) bool {
	compressed := strings.TrimSuffix(etag, `"`) + `-c"`
	for _, line := range h["If-None-Match"] {
		for part := range strings.SplitSeq(line, ",") {
			part = strings.TrimPrefix(strings.TrimSpace(part), "W/")
			if slices.Contains([]string{"*", etag, compressed}, part) {
				return true
			}
		}
	}
	return false
}
