package gateway

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/raftlog"
)

func (g *Gateway) replayRoutes() []route {
	return []route{{http.MethodPost, "/v1/runs/:runId/replay", g.postReplay}}
}

// Bounds of a replay.
const (
	// maxReplays bounds the replays open at once; each holds up to a few MiB.
	maxReplays = 1000
	// replayPatience is how long a replay goes on trying while no leader takes its appends.
	replayPatience = 30 * time.Second
	// replayBatchBytes is how much is appended at once; what arrives meanwhile is the next batch.
	replayBatchBytes = 256 << 10
	// maxMisses bounds how often in a row the tail may turn out to be elsewhere.
	maxMisses = 100
)

// replay is POST /v1/runs/{runId}/replay: a host's whole stream, sent again to a run that holds a
// part of it. Events are aligned with the log as they arrive and appended where the log lacks
// them, with the tail that the alignment has reached as the expected offset, so that Apply refuses
// whatever the alignment does not know of. After a conflict or an unknown outcome the alignment
// goes on over what the log holds by then; the body is never needed twice.
type replay struct {
	g      *Gateway
	run    event.RunID
	epoch  *event.Epoch
	align  *event.Aligner
	answer *replayAnswer

	misses    int  // conflicts in a row
	unknown   bool // an append of this replay may still come to be in the log
	cancelled bool // somebody asked for the run's end
	index     uint64
	down      time.Time // since when nothing could be appended; zero while it can
}

// postReplay answers the request.
func (g *Gateway) postReplay(c *gin.Context) error {
	id, err := runID(c)
	if err != nil {
		return err
	}
	epoch, err := numberHeader(c.Request.Header, "Run-Epoch")
	if err != nil {
		return err
	}
	if e := c.Request.Header["Content-Encoding"]; len(e) > 0 && e[0] != "identity" {
		return errEncoding
	}
	select {
	case g.replays <- struct{}{}:
		defer func() { <-g.replays }()
	default:
		return errOverloaded
	}
	if err := liftDeadlines(c); err != nil {
		return err
	}
	r := &replay{g: g, run: id, epoch: (*event.Epoch)(epoch)}
	ctx := c.Request.Context()
	thread, err := r.admit(ctx)
	if err != nil {
		return err
	}
	r.align = event.NewAligner(&storedLog{reader: g.reader, run: id}, id, thread)
	body, err := openReplayBody(c)
	if err != nil {
		return err
	}
	defer body.close()
	r.answer = newReplayAnswer(g, c)
	defer r.answer.end()
	if err := r.follow(ctx, body); err != nil {
		body.cut()
		return r.answer.fail(r.ending(ctx, err))
	}
	return r.answer.finish(r.result(ctx), r.index)
}

// admit checks what can be refused before the first event: an append would refuse it too, but a
// replay that finds everything in the log makes none. A run that does not exist is the first
// append's to create or refuse.
func (r *replay) admit(ctx context.Context) (event.ThreadID, error) {
	if err := r.g.settle(ctx, r.run, freshness{linearizable: true}); err != nil {
		return "", err
	}
	run, err := r.g.reader.Run(ctx, r.run)
	switch {
	case errors.Is(err, event.ErrRunNotFound):
		return "", nil
	case err != nil:
		return "", err
	case r.epoch == nil && run.Epoch > 0:
		return "", &event.EpochRequired{CurrentEpoch: run.Epoch}
	case r.epoch != nil && *r.epoch != run.Epoch:
		return "", &event.Fenced{Epoch: *r.epoch, CurrentEpoch: run.Epoch}
	}
	return run.ThreadID, nil
}

// follow takes the body to its end.
func (r *replay) follow(ctx context.Context, body *replayBody) error {
	if err := r.answer.progress(r); err != nil {
		return err
	}
	for {
		select {
		case piece := <-body.pieces:
			if over, err := r.take(ctx, piece); over || err != nil {
				body.ended = over
				return err
			}
		case <-r.g.draining:
			return errUnavailable // sent again to another node it goes on
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take aligns one piece of the body and appends what is ready.
func (r *replay) take(ctx context.Context, p replayPiece) (over bool, err error) {
	for _, e := range p.events {
		if _, err := r.align.Take(ctx, e); err != nil {
			return false, err
		}
	}
	if p.end {
		r.align.End()
	}
	if err := r.flush(ctx); err != nil {
		return false, err
	}
	if p.end {
		return true, r.held(ctx)
	}
	if p.err != nil {
		return false, p.err
	}
	return false, r.answer.progress(r)
}

// held refuses a replay that ends after somebody else acquired the run. One that found in the log what
// the successor wrote meanwhile was refused by no append. This node's own state will do: it holds all
// that the replay found in it.
func (r *replay) held(ctx context.Context) error {
	run, err := r.g.reader.Run(ctx, r.run)
	switch {
	case err != nil && !errors.Is(err, event.ErrRunNotFound):
		return err
	case err == nil && r.epoch != nil && *r.epoch < run.Epoch:
		return &event.Fenced{Epoch: *r.epoch, CurrentEpoch: run.Epoch}
	}
	return nil
}

// flush appends all that is ready.
func (r *replay) flush(ctx context.Context) error {
	most := event.MaxBatchEvents
	for {
		events := r.align.Ready(most, replayBatchBytes)
		if len(events) == 0 {
			return nil
		}
		tail := r.align.Tail()
		cmd := &event.Append{Batch: event.Batch{Run: r.run, Epoch: r.epoch, Expect: &tail, Events: events}}
		res, err := r.g.node.Propose(ctx, cmd)
		var invalid *event.InvalidEvent
		switch {
		case err != nil:
			err = r.retry(ctx, err)
		case res.Refusal == nil:
			r.confirm(&res, len(events))
			most = event.MaxBatchEvents
			err = r.answer.progress(r)
		case errors.Is(res.Refusal, event.ErrOffsetConflict):
			err = r.realign(ctx, res.Refusal)
		case errors.As(res.Refusal, &invalid) && invalid.Index > 0:
			most = invalid.Index // what comes before the event that cannot follow
		case errors.As(res.Refusal, &invalid):
			err = &event.InvalidEvent{Index: r.align.Through(), Reason: invalid.Reason}
		default:
			err = res.Refusal
		}
		if err != nil {
			return err
		}
	}
}

func (r *replay) confirm(res *event.Result, n int) {
	r.align.Confirm(n)
	r.g.metrics.appendEvents.Observe(float64(n))
	r.index, r.misses, r.down = res.Index, 0, time.Time{}
	r.cancelled = r.cancelled || res.Appended.CancelRequested
}

// realign takes up the alignment where the log now ends.
func (r *replay) realign(ctx context.Context, why error) error {
	if r.misses++; r.misses > maxMisses {
		return why
	}
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	return r.align.Again(ctx, r.unknown)
}

// retry decides what becomes of an append that has no answer.
func (r *replay) retry(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, raftlog.ErrOutcomeUnknown):
		r.unknown = true
		return r.realign(ctx, err)
	case errors.Is(err, raftlog.ErrUnavailable), errors.Is(err, raftlog.ErrOverloaded):
		return r.pause(ctx, err)
	}
	return err
}

// catchUp waits until this node holds everything that was committed before.
func (r *replay) catchUp(ctx context.Context) error {
	for {
		err := r.g.settle(ctx, r.run, freshness{linearizable: true})
		if err == nil {
			return nil
		}
		if err = r.pause(ctx, err); err != nil {
			return err
		}
	}
}

// pause waits before the next attempt, or returns why, once nothing has worked for too long.
func (r *replay) pause(ctx context.Context, why error) error {
	if r.down.IsZero() {
		r.down = time.Now()
	}
	if time.Since(r.down) > r.g.replayPatience || ctx.Err() != nil {
		return why
	}
	wait := time.NewTimer(50 * time.Millisecond)
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-r.g.draining:
		return why
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// replayResult is the answer to a replay that came to its end.
type replayResult struct {
	Matched         int          `json:"matched"`
	Skipped         int          `json:"skipped"`
	Lacking         int          `json:"lacking"`
	Appended        int          `json:"appended"`
	Tail            event.Offset `json:"tail"`
	CancelRequested bool         `json:"cancelRequested,omitempty"`
	// Token is the header's, which comes too early in an answer that was begun before.
	Token string `json:"token,omitempty"`
}

func (r *replay) result(ctx context.Context) replayResult {
	res := replayResult{
		Matched: r.align.Matched(), Skipped: r.align.Skipped(), Lacking: r.align.Lacking(),
		Appended: r.align.Appended(), Tail: r.align.Tail(), CancelRequested: r.cancelled,
	}
	if run, err := r.g.reader.Run(ctx, r.run); err == nil { // the replay may have stopped before the tail
		res.Tail = max(res.Tail, run.Tail)
		res.CancelRequested = res.CancelRequested || run.CancelRequested
	}
	return res
}
