package client

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/runlog/runlog/event"
)

// Source opens a host's whole stream from its first event: NDJSON, one event a line. It is called
// again for every attempt and must give the same events each time, followed by those that came
// since. A stream may stay open while the agent goes on; closing it must end a Read under way.
type Source func() (io.ReadCloser, error)

// FileSource reads a journal: what the file holds at the time.
func FileSource(path string) Source {
	return func() (io.ReadCloser, error) { return os.Open(path) }
}

// ReplayResult answers a replay that reached the end of its stream.
type ReplayResult struct {
	// Matched counts stored events that the replay reproduced, among them those that an earlier
	// attempt of the same replay appended.
	Matched uint64 `json:"matched"`
	// Skipped counts stored CUSTOM and RAW events that only the host that wrote them could have
	// emitted, and that the replay passed without.
	Skipped uint64 `json:"skipped"`
	// Lacking counts CUSTOM and RAW events of the stream that the log lacks where it could no longer
	// take them; they were left out.
	Lacking  uint64       `json:"lacking"`
	Appended uint64       `json:"appended"`
	Tail     event.Offset `json:"tail"`
	// CancelRequested: somebody asked for the run's end.
	CancelRequested bool `json:"cancelRequested"`
	// Token reads what was appended on any node; empty when nothing was.
	Token Token `json:"token"`
}

// ReplayProgress says how far an attempt has come.
type ReplayProgress struct {
	// Through is how many events of the stream, from its first, are known to be durable.
	Through         uint64       `json:"through"`
	Appended        uint64       `json:"appended"`
	Tail            event.Offset `json:"tail"`
	CancelRequested bool         `json:"cancelRequested"`
}

// Replay sends a host's whole stream again, from its first event, to a run whose lease the caller
// holds at epoch: what the log has is passed over, what it lacks is appended, and readers see
// neither a gap nor a repetition. The stream may be cut differently into deltas, may lack
// live-only CUSTOM and RAW events and may have other timestamps. It may end anywhere; what follows
// goes to [Client.Append].
//
// It is one request that lasts as long as the stream. When its connection breaks, the leader
// changes or a server falls silent, it is sent again from the first event to the next server,
// which is harmless. It fails when nothing has come of it for Config.RetryFor: [ErrUnavailable],
// or [ErrOutcomeUnknown] when events may have been appended; then, too, a new Replay is harmless.
//
// progress, unless nil, is called as things become durable, in order within an attempt.
//
// Refusals: [event.ErrDiverged] with the offset, both events and the field, nothing having been
// written past it; [event.ErrFenced]; [event.ErrRunEnded] when the run has ended and lacks
// something of the stream. An error of the source ends the replay.
func (c *Client) Replay(ctx context.Context, run event.RunID, epoch event.Epoch, source Source, progress func(ReplayProgress)) (ReplayResult, error) {
	if progress == nil {
		progress = func(ReplayProgress) {}
	}
	r := &replay{c: c, run: run, epoch: epoch, source: source, progress: progress}
	result, err := r.send(ctx)
	if err != nil {
		return ReplayResult{}, fmt.Errorf("replay run %s: %w", run, err)
	}
	return result, nil
}

// replay is one Replay under way.
type replay struct {
	c        *Client
	run      event.RunID
	epoch    event.Epoch
	source   Source
	progress func(ReplayProgress)

	best   uint64        // the furthest that any attempt came
	silent time.Duration // how long nothing was heard since then
	maybe  bool          // an attempt may have appended something
}

// send makes attempt after attempt, each on the next server. A server that brings the replay
// further is given another chance at once.
func (r *replay) send(ctx context.Context) (ReplayResult, error) {
	at := r.c.current.Load()
	for failures := 0; ; {
		best := r.best
		result, f := r.attempt(ctx, at)
		if f == nil {
			r.c.current.Store(at)
			return result, nil
		}
		r.maybe = r.maybe || f.ambiguous
		switch {
		case f.final:
			return ReplayResult{}, f.err
		case ctx.Err() != nil:
			return ReplayResult{}, fmt.Errorf("%w: %w", r.gaveUp(), context.Cause(ctx))
		case r.silent >= r.c.retry:
			return ReplayResult{}, fmt.Errorf("%w: %w", r.gaveUp(), f.err)
		}
		r.c.log.DebugContext(ctx, "replay starts again", "run", r.run, "server", r.c.servers[at].Host, "error", f.err)
		if r.best > best {
			failures = 0
		}
		began := time.Now()
		if !r.c.pause(ctx, failures, f.retryAfter) {
			return ReplayResult{}, fmt.Errorf("%w: %w", r.gaveUp(), f.err)
		}
		r.silent += time.Since(began)
		if r.c.retry-r.silent < r.c.retry/10 {
			// An attempt that is sure to be cut off would only make what is known unknown.
			return ReplayResult{}, fmt.Errorf("%w: %w", r.gaveUp(), f.err)
		}
		failures++
		at = r.c.server(at, 1)
	}
}

func (r *replay) gaveUp() error {
	if r.maybe {
		return ErrOutcomeUnknown
	}
	return ErrUnavailable
}
