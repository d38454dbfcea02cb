package client

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"strconv"

	"github.com/runlog/runlog/event"
)

// Runs lists the runs that q selects, page after page as the loop asks for them; q.Limit is the
// size of a page. The sequence ends with the last run or with an error.
func (c *Client) Runs(ctx context.Context, q event.RunQuery) iter.Seq2[event.Run, error] {
	return func(yield func(event.Run, error) bool) {
		for {
			var page event.RunPage
			if err := c.get(ctx, "/v1/runs", runQuery(q), &page); err != nil {
				yield(event.Run{}, fmt.Errorf("list runs: %w", err))
				return
			}
			for _, run := range page.Runs {
				if !yield(run, nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			q.Cursor = page.NextCursor
		}
	}
}

func runQuery(q event.RunQuery) url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if value != "" {
			v.Set(name, value)
		}
	}
	set("status", string(q.Status))
	set("lease", string(q.Lease))
	set("holder", string(q.Holder))
	set("threadId", string(q.ThreadID))
	set("parentRunId", string(q.ParentRunID))
	set("prefix", q.Prefix)
	set("cursor", q.Cursor)
	if q.ExpiresWithinMs != nil {
		v.Set("expiresWithinMs", strconv.FormatInt(*q.ExpiresWithinMs, 10))
	}
	if q.Ascending {
		v.Set("order", "asc")
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v
}
