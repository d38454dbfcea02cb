package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/runlog/runlog/event"
)

// runsCmd lists runs.
type runsCmd struct {
	connection
	Status string `help:"Only runs of this status: running, completed, waiting, cancelled, failed or lost." placeholder:"STATUS"`
	Lease  string `help:"Only runs whose lease is held, lapsed, released or none." placeholder:"STATE"`
	Holder string `help:"Only runs of this holder." placeholder:"ID"`
	Thread string `help:"Only runs of this thread." placeholder:"ID"`
	Parent string `help:"Only runs with this parent." placeholder:"RUN"`
	Prefix string `help:"Only runs whose id begins so." placeholder:"TEXT"`
	Oldest bool   `help:"Oldest first."`
	Within *int64 `name:"expires-within-ms" help:"Only runs whose lease ends within so many milliseconds." placeholder:"MS"`
	Watch  bool   `help:"Print what happens to runs from now on, until Ctrl-C; --prefix, --thread and --holder choose."`
	Max    int    `help:"At most so many; 0: all." default:"100"`
	Output string `short:"o" enum:"text,json" default:"text" help:"text, or json: one run a line."`
}

// Run prints the listing.
func (c *runsCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	if c.Watch {
		return c.watch(ctx, cl, t.out)
	}
	print, flush := c.printer(t.out)
	n := 0
	for run, err := range cl.Runs(ctx, c.query()) {
		if err != nil {
			return err
		}
		if err := print(run); err != nil {
			return err
		}
		if n++; n == c.Max {
			break
		}
	}
	return flush()
}

func (c *runsCmd) query() event.RunQuery {
	q := event.RunQuery{
		Status:      event.Status(c.Status),
		Lease:       event.LeaseState(c.Lease),
		Holder:      event.HolderID(c.Holder),
		ThreadID:    event.ThreadID(c.Thread),
		ParentRunID: event.RunID(c.Parent),
		Prefix:      c.Prefix,

		ExpiresWithinMs: c.Within,
		Ascending:       c.Oldest,
		Limit:           event.MaxRunLimit,
	}
	if c.Max > 0 {
		q.Limit = min(c.Max, q.Limit)
	}
	return q
}

func (c *runsCmd) printer(w io.Writer) (print func(event.Run) error, flush func() error) {
	if c.Output == "json" {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return func(r event.Run) error { return e.Encode(r) }, func() error { return nil }
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "RUN\tSTATUS\tEVENTS\tEPOCH\tLEASE\tUPDATED\tTHREAD")
	return func(r event.Run) error {
		lease := "–"
		if r.Lease != nil {
			lease = fmt.Sprintf("%s by %s", r.Lease.State, shorten(string(r.Lease.Holder), 24))
		}
		_, err := fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", oneLine(string(r.RunID)), r.Status, r.Tail, r.Epoch, lease,
			clock(r.UpdatedAt), oneLine(string(r.ThreadID)))
		return err
	}, tw.Flush
}
