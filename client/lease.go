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

// Acquisition is how a lease or a lock is acquired.
type Acquisition struct {
	Holder event.HolderID // required
	// LeaseMs is the lease's term; 0: the server's default.
	LeaseMs int64
	// Wait is how long to wait for another's live lease to end. 0: not at all.
	Wait time.Duration
	// IfEpoch, of a run's lease, refuses with [event.ErrFenced] unless the run is at that epoch.
	IfEpoch *event.Epoch
	// Steal takes a live lease, too; it needs IfEpoch.
	Steal bool
}

// Lease is what an acquisition or a renewal got.
type Lease struct {
	Epoch event.Epoch `json:"epoch"`
	// ExpiresInMs counts from a moment between question and answer.
	ExpiresInMs int64 `json:"expiresInMs"`
	// Tail and Open are the run's, when its lease was acquired.
	Tail event.Offset `json:"tail"`
	Open *event.Open  `json:"open"`
	// CancelRequested, of a renewal, says that somebody asked for the run's end.
	CancelRequested bool `json:"cancelRequested"`
}

// Acquire takes a run's lease at a new epoch and leaves renewing it to the caller; [Client.Takeover]
// is the same with everything a host needs. Refusals: [event.ErrLeaseHeld], [event.ErrRunEnded],
// [event.ErrFenced], [event.ErrRunNotFound], [event.ErrRunDeleted].
func (c *Client) Acquire(ctx context.Context, run event.RunID, a Acquisition) (Lease, error) {
	got, err := c.acquire(ctx, runPath(run, "/lease"), a)
	if err != nil {
		return Lease{}, fmt.Errorf("acquire run %s: %w", run, err)
	}
	return got, nil
}

// acquire asks, with one key for all attempts, until the lease is granted or the wait is over. Each
// attempt waits on the server for less than it may take.
func (c *Client) acquire(ctx context.Context, path string, a Acquisition) (Lease, error) {
	header := http.Header{"Idempotency-Key": {rand.Text()}}
	deadline := time.Now().Add(a.Wait)
	for {
		wait := max(0, min(time.Until(deadline), c.attempt/2))
		body, err := marshal(struct {
			Holder  event.HolderID `json:"holder"`
			LeaseMs int64          `json:"leaseMs,omitempty"`
			WaitMs  int64          `json:"waitMs,omitempty"`
			IfEpoch *event.Epoch   `json:"ifEpoch,omitempty"`
			Steal   bool           `json:"steal,omitempty"`
		}{a.Holder, a.LeaseMs, wait.Milliseconds(), a.IfEpoch, a.Steal})
		if err != nil {
			return Lease{}, err
		}
		answer, err := c.do(ctx, &call{method: http.MethodPost, path: path, header: header, body: body, repeatable: true})
		if errors.Is(err, event.ErrLeaseHeld) && time.Now().Before(deadline) && sleep(ctx, 50*time.Millisecond) {
			continue
		}
		if err != nil {
			return Lease{}, err
		}
		var got Lease
		return got, decode(answer, &got)
	}
}

// Renew makes a run's lease last leaseMs from now; 0: the term it was acquired for. Refusals:
// [event.ErrFenced], [event.ErrRunEnded], [event.ErrRunNotFound], [event.ErrRunDeleted].
func (c *Client) Renew(ctx context.Context, run event.RunID, epoch event.Epoch, leaseMs int64) (Lease, error) {
	got, err := c.renew(ctx, runPath(run, "/lease"), epoch, leaseMs, 0)
	if err != nil {
		return Lease{}, fmt.Errorf("renew run %s: %w", run, err)
	}
	return got, nil
}

// renew renews a lease or a lock. patience bounds one attempt; 0: Config.AttemptTimeout.
func (c *Client) renew(ctx context.Context, path string, epoch event.Epoch, leaseMs int64, patience time.Duration) (Lease, error) {
	body, err := marshal(struct {
		LeaseMs int64 `json:"leaseMs,omitempty"`
	}{leaseMs})
	if err != nil {
		return Lease{}, err
	}
	answer, err := c.do(ctx, &call{method: http.MethodPut, path: path, header: epochHeader(epoch), body: body, repeatable: true, patience: patience})
	if err != nil {
		return Lease{}, err
	}
	var got Lease
	return got, decode(answer, &got)
}

func epochHeader(epoch event.Epoch) http.Header {
	return http.Header{"Run-Epoch": {strconv.FormatUint(uint64(epoch), 10)}}
}

// Release gives a run's lease up. The run stays open for takeoverMs, or, when that is nil, for the
// larger of its own window and a minute. Refusal: [event.ErrFenced], when somebody else has it.
func (c *Client) Release(ctx context.Context, run event.RunID, epoch event.Epoch, takeoverMs *int64) error {
	q := url.Values{}
	if takeoverMs != nil {
		q.Set("takeoverMs", strconv.FormatInt(*takeoverMs, 10))
	}
	_, err := c.do(ctx, &call{method: http.MethodDelete, path: runPath(run, "/lease"), query: q, header: epochHeader(epoch), repeatable: true})
	if err != nil {
		return fmt.Errorf("release run %s: %w", run, err)
	}
	return nil
}

// Cancel asks for a run's end. Its holder sees that in its next answers; when nobody ends the run
// within the given time (0: at once), or nobody's lease is live, the cluster does. Refusals: [event.ErrRunEnded],
// [event.ErrRunNotFound], [event.ErrRunDeleted].
func (c *Client) Cancel(ctx context.Context, id event.RunID, reason string, within time.Duration) (event.Run, error) {
	body, err := marshal(struct {
		Reason   string `json:"reason,omitempty"`
		WithinMs int64  `json:"withinMs"`
	}{reason, within.Milliseconds()})
	if err != nil {
		return event.Run{}, fmt.Errorf("cancel run %s: %w", id, err)
	}
	answer, err := c.do(ctx, &call{method: http.MethodPost, path: runPath(id, "/cancel"), body: body, repeatable: true})
	if err != nil {
		return event.Run{}, fmt.Errorf("cancel run %s: %w", id, err)
	}
	var run event.Run
	if err := decode(answer, &run); err != nil {
		return event.Run{}, fmt.Errorf("cancel run %s: %w", id, err)
	}
	return run, nil
}
