package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// TestCreateRun: what the caller leaves out is not sent, and a retry is recognisable.
func TestCreateRun(t *testing.T) {
	t.Parallel()
	var keys []string
	answer := func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if len(keys) == 1 {
			hangUp(w, r)
		}
		body, _ := io.ReadAll(r.Body)
		if want := `{"runId":"r","holder":"h","leaseMs":5000,"input":{"n":12345678901234567890,"s":"<&>"}}`; string(body) != want {
			t.Errorf("body %s", body)
		}
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"runId":"r","threadId":"r","status":"running","ended":false,"epoch":1,"tail":1,"lease":{"holder":"h","leaseMs":5000,"state":"held"},
			"takeoverMs":0,"startedAt":1,"updatedAt":1,"grammar":"strict","open":{"messages":[],"toolCalls":[]},"created":true}`)
	}
	c := newClient(t, serve(t, answer))
	got, err := c.CreateRun(context.Background(), client.NewRun{RunID: "r", Holder: "h", LeaseMs: 5000, Input: []byte(`{"n":12345678901234567890,"s":"<&>"}`)})
	if err != nil || !got.Created || got.Epoch != 1 || got.Lease.Holder != "h" || got.ThreadID != "r" {
		t.Fatalf("%+v, %v", got, err)
	}
	if len(keys) < 2 || keys[0] == "" || keys[0] != keys[len(keys)-1] {
		t.Errorf("keys %q", keys)
	}
}

// TestEvents: a page holds the events' own bytes; the query says what was asked.
func TestEvents(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query().Encode(); q != "consistency=linearizable&from=3&limit=2&minOffset=5&minToken=t" {
			t.Errorf("query %s", q)
		}
		io.WriteString(w, `{"events":[{"offset":3,"epoch":2,"time":99,"event":{"type":"RAW", "event": 12345678901234567890}}],"tail":4,"ended":true}`)
	}))
	page, err := c.Events(context.Background(), "r", client.EventsQuery{From: 3, Limit: 2, Read: client.Read{MinToken: "t", MinOffset: 5, Linearizable: true}})
	if err != nil || page.Tail != 4 || !page.Ended || len(page.Records) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	rec := page.Records[0]
	if rec.Offset != 3 || rec.Epoch != 2 || rec.Time != 99 || string(rec.Raw) != `{"type":"RAW", "event": 12345678901234567890}` {
		t.Fatalf("%+v %s", rec, rec.Raw)
	}
}

// TestRuns: pages follow one another as the loop asks for them, and no further.
func TestRuns(t *testing.T) {
	t.Parallel()
	var pages atomic.Int64
	c := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		pages.Add(1)
		switch cursor := r.URL.Query().Get("cursor"); cursor {
		case "":
			if q := r.URL.Query().Encode(); q != "limit=2&order=asc&prefix=a&status=running" {
				t.Errorf("query %s", q)
			}
			io.WriteString(w, `{"runs":[{"runId":"a1"},{"runId":"a2"}],"nextCursor":"next"}`)
		case "next":
			io.WriteString(w, `{"runs":[{"runId":"a3"}]}`)
		default:
			t.Errorf("cursor %q", cursor)
		}
	}))
	q := event.RunQuery{Prefix: "a", Status: event.StatusRunning, Ascending: true, Limit: 2}
	var ids []string
	for run, err := range c.Runs(context.Background(), q) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, string(run.RunID))
	}
	if got := strings.Join(ids, " "); got != "a1 a2 a3" {
		t.Fatal(got)
	}
	pages.Store(0)
	for range c.Runs(context.Background(), q) {
		break
	}
	if pages.Load() != 1 {
		t.Errorf("%d pages for one run", pages.Load())
	}
}

// TestRunsFails: an error ends the listing and is its last word.
func TestRunsFails(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, refuse(http.StatusBadRequest, "invalid_parameter", nil)))
	n := 0
	for _, err := range c.Runs(context.Background(), event.RunQuery{}) {
		var p *client.Problem
		if n++; !errors.As(err, &p) {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("%d steps", n)
	}
}

// TestDelete: a repetition that finds the run deleted has done what it should; a first try has not.
func TestDelete(t *testing.T) {
	t.Parallel()
	gone := refuse(http.StatusGone, event.CodeRunDeleted, nil)
	if err := newClient(t, serve(t, hangUp), serve(t, gone)).DeleteRun(context.Background(), "r"); err != nil {
		t.Error(err)
	}
	if err := newClient(t, serve(t, gone)).DeleteRun(context.Background(), "r"); !errors.Is(err, event.ErrRunDeleted) {
		t.Error(err)
	}
}

// TestPatch: a patch is sent once.
func TestPatch(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	c := newClient(t, serve(t, counted(&n, hangUp)))
	if _, err := c.PatchRun(context.Background(), "r", []byte(`{"a":null}`)); !errors.Is(err, client.ErrOutcomeUnknown) || n.Load() != 1 {
		t.Errorf("%v after %d requests", err, n.Load())
	}
	c = newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPatch || string(body) != `{"metadata":{"a":null}}` {
			t.Errorf("%s %s", r.Method, body)
		}
		io.WriteString(w, `{"runId":"r"}`)
	}))
	if run, err := c.PatchRun(context.Background(), "r", []byte(`{"a":null}`)); err != nil || run.RunID != "r" {
		t.Errorf("%+v, %v", run, err)
	}
}

// TestMessage: a message keeps its bytes, and its text is found in either form of content.
func TestMessage(t *testing.T) {
	t.Parallel()
	const messages = `{"runId":"r","threadId":"t","offset":7,"messages":[
		{"id":"1","role":"user","content":[{"type":"text","text":"a"},{"type":"image","source":{}},{"type":"text","text":"b"}]},
		{"id":"2","role":"assistant","content":"ü","toolCalls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}],"x":12345678901234567890},
		{"id":"3","role":"activity","content":{"k":1}}]}`
	c := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "at=7" {
			t.Errorf("query %s", r.URL.RawQuery)
		}
		io.WriteString(w, messages)
	}))
	at := event.Offset(7)
	tr, err := c.Transcript(context.Background(), "r", client.View{At: &at})
	if err != nil || tr.Offset != 7 || len(tr.Messages) != 3 {
		t.Fatalf("%+v, %v", tr, err)
	}
	m := tr.Messages
	if m[0].Text() != "ab" || m[1].Text() != "ü" || m[2].Text() != "" || m[1].ToolCalls[0].Function.Name != "f" {
		t.Errorf("%+v", m)
	}
	if !strings.Contains(string(m[1].Raw), "12345678901234567890") {
		t.Errorf("raw %s", m[1].Raw)
	}
}

// TestNew: what cannot be a server is refused before it is used.
func TestNew(t *testing.T) {
	t.Parallel()
	for _, servers := range [][]string{nil, {""}, {"127.0.0.1:4437"}, {"ftp://x"}, {"http://ok", "http://"}} {
		if _, err := client.New(client.Config{Servers: servers}); err == nil {
			t.Errorf("%q is taken", servers)
		}
	}
}
