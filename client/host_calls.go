package client

import (
	"context"

	"github.com/runlog/runlog/event"
)

// defaultLeaseMs is the term that the server grants when none is asked for.
const defaultLeaseMs = 15_000

// takeLease acquires a run that was read before, and returns it as it stands then.
func (c *Client) takeLease(ctx context.Context, run event.Run, t Takeover) (event.Run, error) {
	got, err := c.acquire(ctx, runPath(run.RunID, "/lease"), Acquisition{
		Holder: t.Holder, LeaseMs: t.LeaseMs, Wait: t.Wait, IfEpoch: t.Steal, Steal: t.Steal != nil,
	})
	if err != nil {
		return run, err
	}
	lease := t.LeaseMs
	if lease == 0 {
		lease = defaultLeaseMs
	}
	run.Epoch, run.Tail, run.Open = got.Epoch, got.Tail, got.Open
	run.Lease = &event.Lease{Holder: t.Holder, LeaseMs: lease, State: event.LeaseStateHeld}
	return run, nil
}
