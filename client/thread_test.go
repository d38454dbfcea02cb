package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// TestThreadTail: across connections that break, repeat and skip, every event comes once, in order.
func TestThreadTail(t *testing.T) {
	t.Parallel()
	var asked []string
	n := 0
	answers := []string{
		"retry: 1000\n\nid: 0.1\ndata: {\"n\":1}\n\nid: 0.2\ndata: {\"n\":2}\n\nid: 0.3\nda",
		"id: 0.2\ndata: {\"n\":2}\n\nid: 0.3\ndata: {\"n\":3}\n\nid: 0.5\ndata: {\"n\":5}\n\n", // skips one
		"id: 0.4\ndata: {\"n\":4}\n\nid: 2.1\ndata: {\"n\":5}\n\n",                             // 1 was deleted
		"id: 3.2\ndata: {\"n\":7}\n\n",
		"id: 2.2\ndata: {\"n\":6}\n\n",
	}
	c := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("after")+"/"+r.Header.Get("Last-Event-ID"))
		io.WriteString(w, answers[n])
		n = min(n+1, len(answers)-1)
	}))
	var got []string
	for rec, err := range c.ThreadTail(context.Background(), "t", event.ThreadCursor{}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, rec.Cursor.String()+string(rec.Raw)); len(got) == 6 {
			break
		}
	}
	if s := strings.Join(got, " "); s != `0.1{"n":1} 0.2{"n":2} 0.3{"n":3} 0.4{"n":4} 2.1{"n":5} 2.2{"n":6}` {
		t.Error(s)
	}
	if s := strings.Join(asked, " "); s != "0.0/ /0.2 /0.3 /2.1 /2.1" {
		t.Error(s)
	}
}

// TestThreadTailRefused: a cursor that is beyond the end is final.
func TestThreadTailRefused(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, refuse(416, "offset_out_of_range", nil)))
	for _, err := range c.ThreadTail(context.Background(), "t", event.ThreadCursor{Ordinal: 7}) {
		if !errors.Is(err, event.ErrOffsetOutOfRange) {
			t.Error(err)
		}
	}
}

// TestChangesTail: changes come once each; where to begin is settled before the first connection.
func TestChangesTail(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	c := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "text/event-stream" {
			fmt.Fprint(w, `{"changes":[],"first":3,"tail":7}`)
			return
		}
		from := r.URL.Query().Get("from")
		fmt.Fprintf(w, "id: %s\ndata: {\"change\":\"created\",\"runId\":\"r%d\"}\n\n", from, n.Add(1))
	}))
	var got []string
	for change, err := range c.Changes(context.Background(), client.ChangesFrom{Tail: true}) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, fmt.Sprint(change.Offset, change.Change.Change, change.RunID)); len(got) == 3 {
			break
		}
	}
	if s := strings.Join(got, " "); s != "7 created r1 8 created r2 9 created r3" && s != "7createdr1 8createdr2 9createdr3" {
		t.Error(s)
	}
	gone := newClient(t, serve(t, refuse(410, "changes_gone", map[string]any{"first": 9})))
	for _, err := range gone.Changes(context.Background(), client.ChangesFrom{Offset: 2}) {
		var p *client.Problem
		if !errors.As(err, &p) || p.Code != "changes_gone" {
			t.Error(err)
		}
	}
}
