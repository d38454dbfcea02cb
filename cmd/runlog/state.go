package main

import (
	"context"

	"github.com/runlog/runlog/event"
)

// stateCmd prints a run's shared state.
type stateCmd struct {
	RunID event.RunID `arg:"" name:"run" help:"The run's id."`
	connection
	view
	Output string `short:"o" enum:"text,json" default:"text" help:"text: the state alone; json: with its offset."`
}

// Run prints the state, as JSON in both forms: that is what it is.
func (c *stateCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	s, err := cl.State(ctx, c.RunID, c.view.view())
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return printJSON(t.out, s)
	}
	return printJSON(t.out, s.State)
}
