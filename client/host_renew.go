package client

import (
	"context"
	"time"
)

// renew keeps the lease alive until ctx is done or the run is no longer this handle's. It renews
// three times a term, and more often while it fails, so that a term's end is not slept through.
func (h *Handle) renew(ctx context.Context, asked time.Time) {
	term := time.Duration(h.run.Lease.LeaseMs) * time.Millisecond
	next := asked.Add(term / 3)
	for sleep(ctx, time.Until(next)) {
		began := time.Now()
		got, err := h.c.renew(ctx, runPath(h.run.RunID, "/lease"), h.run.Epoch, 0, min(term/3, h.c.attempt))
		switch {
		case err == nil:
			next = began.Add(term / 3)
			h.asked(got.CancelRequested)
		case ctx.Err() != nil:
			return
		default:
			h.c.log.DebugContext(ctx, "renewal failed", "run", h.run.RunID, "epoch", h.run.Epoch, "error", err)
			h.learn(err)
			next = time.Now().Add(min(term/10, time.Second))
		}
	}
}
