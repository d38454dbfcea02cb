package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
)

// threadsCmd lists threads.
type threadsCmd struct {
	connection
	Prefix string `help:"Only threads whose id begins so." placeholder:"TEXT"`
	Max    int    `help:"At most so many; 0: all." default:"100"`
	Output string `short:"o" enum:"text,json" default:"text" help:"text, or json: one thread a line."`
}

// Run prints the listing.
func (c *threadsCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	tw := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	enc := json.NewEncoder(t.out)
	enc.SetEscapeHTML(false)
	if c.Output == "text" {
		fmt.Fprintln(tw, "THREAD\tRUNS\tOPEN\tLAST ACTIVITY")
	}
	n := 0
	for thread, err := range cl.Threads(ctx, c.Prefix) {
		if err != nil {
			return err
		}
		if c.Output == "json" {
			err = enc.Encode(thread)
		} else {
			_, err = fmt.Fprintf(tw, "%s\t%d\t%d\t%s\n", oneLine(string(thread.ThreadID)), thread.Runs, len(thread.ActiveRuns), clock(thread.LastActivity))
		}
		if err != nil {
			return err
		}
		if n++; n == c.Max {
			break
		}
	}
	return tw.Flush()
}
