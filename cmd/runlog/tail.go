package main

import (
	"bufio"
	"context"
	"errors"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// tailCmd follows a run.
type tailCmd struct {
	RunID event.RunID `arg:"" optional:"" name:"run" help:"The run's id."`
	connection
	Thread event.ThreadID `help:"Follow all runs of this thread, until Ctrl-C." placeholder:"ID"`
	After  string         `help:"With --thread: the cursor to go on from." default:"0.0" placeholder:"CURSOR"`
	From   uint64         `help:"The first offset wanted." default:"0" placeholder:"OFFSET"`
	Follow bool           `help:"Wait for what comes; --no-follow prints what is there." default:"true" negatable:""`
	Output string         `short:"o" enum:"text,json" default:"text" help:"text, or json: the events as they were appended, one a line."`
}

// Run prints events until the run ends. An interrupt ends it too, and is no failure.
func (c *tailCmd) Run(ctx context.Context, t *terminal) error {
	cl, err := c.client()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(t.out)
	defer out.Flush()
	print, finish := c.printer(out)
	defer finish()
	if (c.RunID == "") == (c.Thread == "") {
		return usageError("name a run or a --thread")
	}
	if c.Thread != "" {
		return c.thread(ctx, cl, out, print)
	}
	if !c.Follow {
		return c.page(ctx, cl, print)
	}
	for rec, err := range cl.Tail(ctx, c.RunID, event.Offset(c.From)) {
		if err != nil {
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				return nil
			}
			return err
		}
		print(rec)
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// thread prints a thread's events, those that come too unless --no-follow.
func (c *tailCmd) thread(ctx context.Context, cl *client.Client, out *bufio.Writer, print func(event.Record)) error {
	at, err := event.ParseThreadCursor(c.After)
	if err != nil {
		return usageError("--after is " + err.Error())
	}
	end := at
	if !c.Follow {
		thread, err := cl.Thread(ctx, c.Thread, client.ThreadQuery{Limit: 1, Messages: new(int), Read: client.Read{Linearizable: true}})
		if end = thread.Cursor; err != nil || end == (event.ThreadCursor{}) {
			return err
		}
	}
	for rec, err := range cl.ThreadTail(ctx, c.Thread, at) {
		if err != nil {
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				return nil
			}
			return err
		}
		print(rec.Record)
		if err := out.Flush(); err != nil {
			return err
		}
		if !c.Follow && (rec.Cursor.Ordinal > end.Ordinal || rec.Cursor == end) {
			return nil
		}
	}
	return nil
}

// page prints what the run holds now.
func (c *tailCmd) page(ctx context.Context, cl *client.Client, print func(event.Record)) error {
	for from := event.Offset(c.From); ; {
		page, err := cl.Events(ctx, c.RunID, client.EventsQuery{From: from})
		if err != nil {
			return err
		}
		for _, rec := range page.Records {
			print(rec)
		}
		from += event.Offset(len(page.Records))
		if len(page.Records) == 0 || from >= page.Tail {
			return nil
		}
	}
}

func (c *tailCmd) printer(out *bufio.Writer) (print func(event.Record), finish func()) {
	if c.Output == "json" {
		return func(r event.Record) {
			out.Write(r.Raw)
			out.WriteByte('\n')
		}, func() {}
	}
	s := newScreen(out)
	return s.show, s.finish
}
