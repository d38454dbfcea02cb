package client

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/runlog/runlog/event"
)

// Held names one of a host's runs and the epoch at which the host holds it.
type Held struct {
	RunID event.RunID `json:"runId"`
	Epoch event.Epoch `json:"epoch"`
}

// Renewed is one run's answer of [Client.RenewAll].
type Renewed struct {
	RunID event.RunID `json:"runId"`
	OK    bool        `json:"ok"`
	// Code says why the lease was not renewed: "fenced", "run_ended", "run_not_found" or "run_deleted".
	Code            string `json:"code"`
	ExpiresInMs     int64  `json:"expiresInMs"`
	CancelRequested bool   `json:"cancelRequested"`
}

// RenewAll renews the leases of a host's runs in one request, in the order of held; leaseMs 0
// leaves each its own term. A run that is not the host's any more keeps no other from being renewed.
func (c *Client) RenewAll(ctx context.Context, holder event.HolderID, leaseMs int64, held []Held) ([]Renewed, error) {
	if held == nil {
		held = []Held{}
	}
	got, err := c.renewAll(ctx, holder, leaseMs, held, 0)
	if err != nil {
		return nil, fmt.Errorf("renew the runs of %s: %w", holder, err)
	}
	return got, nil
}

// renewAll is RenewAll; patience bounds one attempt; 0: Config.AttemptTimeout.
func (c *Client) renewAll(ctx context.Context, holder event.HolderID, leaseMs int64, held []Held, patience time.Duration) ([]Renewed, error) {
	var got struct {
		Runs []Renewed `json:"runs"`
	}
	err := c.leases(ctx, http.MethodPut, patience, struct {
		Holder  event.HolderID `json:"holder"`
		LeaseMs int64          `json:"leaseMs,omitempty"`
		Runs    []Held         `json:"runs"`
	}{holder, leaseMs, held}, &got)
	return got.Runs, err
}

// ReleaseAll gives up every run that holder has leased, in one request: what a host calls before a
// planned stop. It returns the runs that it released; takeoverMs is as in [Client.Release].
func (c *Client) ReleaseAll(ctx context.Context, holder event.HolderID, takeoverMs *int64) ([]event.Run, error) {
	var got event.RunPage
	err := c.leases(ctx, http.MethodDelete, 0, struct {
		Holder     event.HolderID `json:"holder"`
		TakeoverMs *int64         `json:"takeoverMs,omitempty"`
	}{holder, takeoverMs}, &got)
	if err != nil {
		return nil, fmt.Errorf("release the runs of %s: %w", holder, err)
	}
	return got.Runs, nil
}

func (c *Client) leases(ctx context.Context, method string, patience time.Duration, asked, got any) error {
	body, err := marshal(asked)
	if err != nil {
		return err
	}
	answer, err := c.do(ctx, &call{method: method, path: "/v1/leases", body: body, repeatable: true, patience: patience})
	if err != nil {
		return err
	}
	return decode(answer, got)
}
