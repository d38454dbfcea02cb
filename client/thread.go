package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/runlog/runlog/event"
)

// Thread is one moment of a thread: what was said, what is running, what waits for an answer. A
// thread that nobody has heard of is an empty one.
//
// Invariant: [Client.ThreadTail] from Cursor tells exactly what the Thread does not.
type Thread struct {
	ThreadID        event.ThreadID
	Cursor          event.ThreadCursor
	Messages        []Message
	MessagesOmitted int        // older messages that were left out
	ActiveRun       *event.Run // the newest open run; nil when none is
	Runs            []event.Run
	Interrupts      []event.Interrupt
	NextCursor      string      // of older runs; empty on the last page
	MissingRunID    event.RunID // where the chain of parents that ends at Head stopped early
}

// UnmarshalJSON reads the contract's form.
func (t *Thread) UnmarshalJSON(b []byte) error {
	type plain Thread
	v := struct {
		*plain
		Cursor string
	}{plain: (*plain)(t)}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	var err error
	t.Cursor, err = event.ParseThreadCursor(v.Cursor)
	return err
}

// ThreadQuery selects what of a thread is read.
type ThreadQuery struct {
	Head   event.RunID // only the chain of parents that ends there; empty: every run
	Limit  int         // of runs; 0: the server's default
	Before string      // NextCursor of the page before
	// Messages is how many of the newest are wanted; nil: all.
	Messages *int
	Read
}

func threadPath(id event.ThreadID, below string) string {
	return "/v1/threads/" + url.PathEscape(string(id)) + below
}

// Thread reads a thread. A Head that is no run of it is [event.ErrRunNotFound] or
// [event.ErrRunDeleted].
func (c *Client) Thread(ctx context.Context, id event.ThreadID, q ThreadQuery) (Thread, error) {
	v := q.Read.query()
	setText(v, "head", string(q.Head))
	setText(v, "before", q.Before)
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Messages != nil {
		v.Set("messages", strconv.Itoa(*q.Messages))
	}
	var t Thread
	if err := c.get(ctx, threadPath(id, ""), v, &t); err != nil {
		return Thread{}, fmt.Errorf("thread %s: %w", id, err)
	}
	return t, nil
}

func setText(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}

// Threads lists the threads whose id begins with prefix by their last activity, newest first, page
// after page as the loop asks for them. The sequence ends with the last thread or with an error.
func (c *Client) Threads(ctx context.Context, prefix string) iter.Seq2[event.ThreadSummary, error] {
	return func(yield func(event.ThreadSummary, error) bool) {
		v := url.Values{}
		setText(v, "prefix", prefix)
		for {
			var page struct {
				Threads    []event.ThreadSummary
				NextCursor string
			}
			if err := c.get(ctx, "/v1/threads", v, &page); err != nil {
				yield(event.ThreadSummary{}, fmt.Errorf("list threads: %w", err))
				return
			}
			for _, t := range page.Threads {
				if !yield(t, nil) {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			v.Set("cursor", page.NextCursor)
		}
	}
}

// DeleteThread deletes all runs of a thread; their ids are never usable again. It is refused
// ([event.ErrRunActive]) while one of them is open. An unknown thread is no error.
func (c *Client) DeleteThread(ctx context.Context, id event.ThreadID) error {
	if _, err := c.do(ctx, &call{method: http.MethodDelete, path: threadPath(id, ""), repeatable: true}); err != nil {
		return fmt.Errorf("delete thread %s: %w", id, err)
	}
	return nil
}

// EnvelopeQuery says how a conversation is to be packed up.
type EnvelopeQuery struct {
	MaxChars int         // Unicode code points; 0: the server's default
	Format   string      // "agui" or "text"; empty: agui
	Head     event.RunID // only the chain of parents that ends there
	Read
}

// Envelope is a conversation packed up for a fresh run. It is marked: sent back in a run's input, it
// is not recorded again.
type Envelope struct {
	Messages []Message // of format agui
	Text     string    // of format text
	Kept     int       // messages that are in it
	Omitted  int       // older ones that are not
}

// Envelope reads a thread's envelope.
func (c *Client) Envelope(ctx context.Context, id event.ThreadID, q EnvelopeQuery) (Envelope, error) {
	v := q.Read.query()
	setText(v, "head", string(q.Head))
	setText(v, "format", q.Format)
	if q.MaxChars > 0 {
		v.Set("maxChars", strconv.Itoa(q.MaxChars))
	}
	var e Envelope
	if err := c.get(ctx, threadPath(id, "/envelope"), v, &e); err != nil {
		return Envelope{}, fmt.Errorf("envelope of thread %s: %w", id, err)
	}
	return e, nil
}
