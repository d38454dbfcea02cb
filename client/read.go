package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/runlog/runlog/event"
)

// Token stands for everything up to a write that returned it; a read that names it sees that
// write, on any node.
type Token string

// tokenHeader carries the token of a write.
const tokenHeader = "Runlog-Token"

// Read says how fresh a read must be. The zero value reads what the asked node has.
type Read struct {
	// MinToken waits until the node has what the write that returned the token wrote.
	MinToken Token
	// MinOffset waits until the node has the run's events up to this tail.
	MinOffset event.Offset
	// Linearizable waits until the node has everything that was acknowledged before the read.
	Linearizable bool
}

func (r Read) query() url.Values {
	q := url.Values{}
	if r.MinToken != "" {
		q.Set("minToken", string(r.MinToken))
	}
	if r.MinOffset > 0 {
		q.Set("minOffset", r.MinOffset.String())
	}
	if r.Linearizable {
		q.Set("consistency", "linearizable")
	}
	return q
}

// View is a read of a run as it was.
type View struct {
	// At folds only the events before this offset; nil: all of them.
	At *event.Offset
	Read
}

func (v View) query() url.Values {
	q := v.Read.query()
	if v.At != nil {
		q.Set("at", v.At.String())
	}
	return q
}

// runPath is the path of a run, or of something below it.
func runPath(id event.RunID, below string) string {
	return "/v1/runs/" + url.PathEscape(string(id)) + below
}

// get reads JSON into v.
func (c *Client) get(ctx context.Context, path string, q url.Values, v any) error {
	a, err := c.do(ctx, &call{method: http.MethodGet, path: path, query: q, repeatable: true})
	if err != nil {
		return err
	}
	return decode(a, v)
}

// marshal encodes a request. Text inside raw JSON stays as it was written: json.Marshal would
// escape HTML in it.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func decode(a *answer, v any) error {
	if err := json.Unmarshal(a.body, v); err != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	return nil
}

// Run reads a run. It returns [event.ErrRunNotFound] or [event.ErrRunDeleted] where there is none.
func (c *Client) Run(ctx context.Context, id event.RunID, v View) (event.Run, error) {
	var run event.Run
	if err := c.get(ctx, runPath(id, ""), v.query(), &run); err != nil {
		return event.Run{}, fmt.Errorf("run %s: %w", id, err)
	}
	return run, nil
}

// EventsQuery selects a page of a run's events.
type EventsQuery struct {
	From  event.Offset // the first offset wanted
	Limit int          // 0: the server's default; at most 10,000
	Read
}

// Events reads one page of a run's events, from local state; it does not wait for more. A page is
// empty when From is the tail. It returns [event.ErrOffsetOutOfRange] when From lies beyond it.
func (c *Client) Events(ctx context.Context, id event.RunID, q EventsQuery) (event.Page, error) {
	query := q.Read.query()
	query.Set("from", q.From.String())
	if q.Limit > 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	var page struct {
		Events []struct {
			Offset event.Offset    `json:"offset"`
			Epoch  event.Epoch     `json:"epoch"`
			Time   event.Time      `json:"time"`
			Event  json.RawMessage `json:"event"`
		} `json:"events"`
		Tail  event.Offset `json:"tail"`
		Ended bool         `json:"ended"`
	}
	if err := c.get(ctx, runPath(id, "/events"), query, &page); err != nil {
		return event.Page{}, fmt.Errorf("events of run %s: %w", id, err)
	}
	p := event.Page{Tail: page.Tail, Ended: page.Ended, Records: make([]event.Record, len(page.Events))}
	for i, e := range page.Events {
		p.Records[i] = event.Record{Offset: e.Offset, Epoch: e.Epoch, Time: e.Time, Raw: e.Event}
	}
	return p, nil
}
