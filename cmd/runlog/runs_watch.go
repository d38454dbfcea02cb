package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// watch prints changes, one a line, until ctx is done.
func (c *runsCmd) watch(ctx context.Context, cl *client.Client, w io.Writer) error {
	tail, err := cl.ChangesTail(ctx)
	if err != nil {
		return err
	}
	print := c.changePrinter(w)
	if c.Output == "text" {
		fmt.Fprintf(w, "watching from change %d on\n", tail)
	}
	for change, err := range cl.Changes(ctx, client.ChangesFrom{Offset: tail}) {
		if err != nil {
			if errors.Is(err, context.Canceled) && ctx.Err() != nil {
				return nil
			}
			return err
		}
		if !c.wants(&change.Change) {
			continue
		}
		if err := print(change); err != nil {
			return err
		}
	}
	return nil
}

func (c *runsCmd) wants(change *event.Change) bool {
	return strings.HasPrefix(string(change.RunID), c.Prefix) &&
		(c.Thread == "" || event.ThreadID(c.Thread) == change.ThreadID) &&
		(c.Holder == "" || event.HolderID(c.Holder) == change.Holder)
}

func (c *runsCmd) changePrinter(w io.Writer) func(client.PlacedChange) error {
	if c.Output == "json" {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return func(p client.PlacedChange) error { return e.Encode(p.Change) }
	}
	return func(p client.PlacedChange) error {
		holder := ""
		if p.Holder != "" {
			holder = " by " + oneLine(string(p.Holder))
		}
		_, err := fmt.Fprintf(w, "%s  %-15s %s  %s, epoch %d%s, %d events\n", clock(p.Time), p.Change.Change,
			oneLine(string(p.RunID)), p.Status, p.Epoch, holder, p.Tail)
		return err
	}
}
