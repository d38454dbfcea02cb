package main

import (
	"context"
	"fmt"
	"time"

	"github.com/runlog/runlog/event"
)

// cancelCmd asks for a run's end.
type cancelCmd struct {
	RunID event.RunID `arg:"" name:"run" help:"The run's id."`
	connection
	Reason string        `help:"Why; it is kept in the replicated log." placeholder:"TEXT"`
	Within time.Duration `help:"How long its host has to end it by itself, if its lease is live; then the cluster does." default:"10s" placeholder:"DURATION"`
	Output string        `short:"o" enum:"text,json" default:"text" help:"text or json."`
}

// Run asks, and says whether there is a host to see it.
func (c *cancelCmd) Run(ctx context.Context, t *terminal) error {
	if c.Within < 0 {
		return usageError("--within must not be negative")
	}
	cl, err := c.client()
	if err != nil {
		return err
	}
	run, err := cl.Cancel(ctx, c.RunID, c.Reason, c.Within)
	switch {
	case err != nil:
		return err
	case c.Output == "json":
		return printJSONLine(t.out, run)
	case run.Lease != nil && run.Lease.State == event.LeaseStateHeld && c.Within > 0:
		fmt.Fprintf(t.out, "cancel requested; %s has %s to end the run\n", oneLine(string(run.Lease.Holder)), c.Within)
	default:
		fmt.Fprintln(t.out, "cancel requested; the cluster ends the run now")
	}
	return nil
}
