package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/runlog/runlog/event"
)

func (c *Client) takeLease(ctx context.Context, run event.Run, t Takeover) (event.Run, error) {
	key := rand.Text()
	deadline := time.Now().Add(t.Wait)
	for {
		wait := max(0, min(time.Until(deadline), c.attempt/2))
		body, err := marshal(struct {
			Holder  event.HolderID `json:"holder"`
			LeaseMs int64          `json:"leaseMs,omitempty"`
			WaitMs  int64          `json:"waitMs,omitempty"`
			IfEpoch *event.Epoch   `json:"ifEpoch,omitempty"`
			Steal   bool           `json:"steal,omitempty"`
		}{t.Holder, t.LeaseMs, wait.Milliseconds(), t.Steal, t.Steal != nil})
		if err != nil {
			return run, err
		}
		a, err := c.do(ctx, &call{method: http.MethodPost, path: runPath(run.RunID, "/lease"), header: http.Header{"Idempotency-Key": {key}}, body: body, repeatable: true})
		if errors.Is(err, event.ErrLeaseHeld) && time.Now().Before(deadline) {
			if !sleep(ctx, 50*time.Millisecond) {
				return run, fmt.Errorf("%w: %w", context.Cause(ctx), err)
			}
			continue
		}
		if err != nil {
			return run, err
		}
		var got struct {
			Epoch event.Epoch  `json:"epoch"`
			Tail  event.Offset `json:"tail"`
			Open  *event.Open  `json:"open"`
		}
		if err := decode(a, &got); err != nil {
			return run, err
		}
		lease := t.LeaseMs
		if lease == 0 {
			lease = 15_000
		}
		run.Epoch, run.Tail, run.Open = got.Epoch, got.Tail, got.Open
		run.Lease = &event.Lease{Holder: t.Holder, LeaseMs: lease, State: event.LeaseStateHeld}
		return run, nil
	}
}

func (c *Client) extendLease(ctx context.Context, run event.RunID, epoch event.Epoch, patience time.Duration) (cancelRequested bool, err error) {
	a, err := c.do(ctx, &call{method: http.MethodPut, path: runPath(run, "/lease"), header: http.Header{"Run-Epoch": {strconv.FormatUint(uint64(epoch), 10)}}, body: []byte("{}"), repeatable: true, patience: patience})
	if err != nil {
		return false, err
	}
	var got struct {
		CancelRequested bool `json:"cancelRequested"`
	}
	return got.CancelRequested, decode(a, &got)
}

func (c *Client) giveLease(ctx context.Context, run event.RunID, epoch event.Epoch, takeoverMs *int64) error {
	q := url.Values{}
	if takeoverMs != nil {
		q.Set("takeoverMs", strconv.FormatInt(*takeoverMs, 10))
	}
	_, err := c.do(ctx, &call{method: http.MethodDelete, path: runPath(run, "/lease"), query: q, header: http.Header{"Run-Epoch": {strconv.FormatUint(uint64(epoch), 10)}}, repeatable: true})
	return err
}
