package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/runlog/runlog/event"
)

// NewRun describes a run to create. The zero value creates one that never ends by itself, in a
// thread of its own, with an id that the cluster chooses and RUN_STARTED at offset 0.
type NewRun struct {
	RunID       event.RunID    `json:"runId,omitempty"`
	ThreadID    event.ThreadID `json:"threadId,omitempty"`
	ParentRunID event.RunID    `json:"parentRunId,omitempty"`
	// Holder acquires the run's lease for LeaseMs; each acquisition is a new epoch.
	Holder  event.HolderID `json:"holder,omitempty"`
	LeaseMs int64          `json:"leaseMs,omitempty"`
	// TakeoverMs is how long the run may be without a live lease before the cluster ends it.
	TakeoverMs *int64 `json:"takeoverMs,omitempty"`
	// Input is the RunAgentInput that RUN_STARTED carries.
	Input    json.RawMessage `json:"input,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"` // a JSON object
	// Started false writes no RUN_STARTED: the host's own becomes offset 0. nil: true.
	Started *bool `json:"started,omitempty"`
	// OnBusy "reject" refuses while the thread has an open run. Empty: "allow".
	OnBusy  string        `json:"onBusy,omitempty"`
	Grammar event.Grammar `json:"grammar,omitempty"` // empty: strict
	// IdempotencyKey makes a later CreateRun with the same key a repetition of this one. Empty: a
	// random one, so that retries within one call are safe.
	IdempotencyKey string `json:"-"`
}

// CreatedRun answers CreateRun.
type CreatedRun struct {
	event.Run
	// Created is false when the run was there already.
	Created bool  `json:"created"`
	Token   Token `json:"-"`
}

// CreateRun creates a run, or, when it exists in the same thread, returns it and, with a Holder,
// acquires it. Refusals: [event.ErrRunExists], [event.ErrThreadBusy], [event.ErrLeaseHeld],
// [event.ErrRunEnded], [event.ErrRunDeleted].
func (c *Client) CreateRun(ctx context.Context, n NewRun) (CreatedRun, error) {
	key := n.IdempotencyKey
	if key == "" {
		key = rand.Text()
	}
	body, err := marshal(n)
	if err != nil {
		return CreatedRun{}, fmt.Errorf("create run: %w", err)
	}
	a, err := c.do(ctx, &call{
		method:     http.MethodPost,
		path:       "/v1/runs",
		header:     http.Header{"Idempotency-Key": {key}},
		body:       body,
		repeatable: true,
	})
	if err != nil {
		return CreatedRun{}, fmt.Errorf("create run %s: %w", n.RunID, err)
	}
	var run CreatedRun
	if err := decode(a, &run); err != nil {
		return CreatedRun{}, fmt.Errorf("create run %s: %w", n.RunID, err)
	}
	run.Token = Token(a.header.Get(tokenHeader))
	return run, nil
}

// PatchRun merges a JSON merge patch (RFC 7396) into the run's metadata and returns the run. It is
// not repeated when its outcome is unknown, since it could undo somebody else's patch.
func (c *Client) PatchRun(ctx context.Context, id event.RunID, metadata json.RawMessage) (event.Run, error) {
	body, err := marshal(struct {
		Metadata json.RawMessage `json:"metadata"`
	}{metadata})
	if err != nil {
		return event.Run{}, fmt.Errorf("patch run %s: %w", id, err)
	}
	a, err := c.do(ctx, &call{method: http.MethodPatch, path: runPath(id, ""), body: body})
	if err != nil {
		return event.Run{}, fmt.Errorf("patch run %s: %w", id, err)
	}
	var run event.Run
	if err := decode(a, &run); err != nil {
		return event.Run{}, fmt.Errorf("patch run %s: %w", id, err)
	}
	return run, nil
}

// DeleteRun deletes an ended run; its id is never usable again. Refusals: [event.ErrRunActive],
// [event.ErrRunNotFound], [event.ErrRunDeleted].
func (c *Client) DeleteRun(ctx context.Context, id event.RunID) error {
	_, err := c.do(ctx, &call{method: http.MethodDelete, path: runPath(id, ""), repeatable: true})
	if errors.Is(err, event.ErrRunDeleted) && errors.Is(err, ErrOutcomeUnknown) {
		return nil // an earlier attempt deleted it, or somebody did meanwhile
	}
	if err != nil {
		return fmt.Errorf("delete run %s: %w", id, err)
	}
	return nil
}
