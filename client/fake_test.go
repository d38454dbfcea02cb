package client_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// serve starts a server that the test's handler answers for, and returns its URL.
func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// deadServer returns the URL of a server that refuses connections.
func deadServer(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return s.URL
}

// hangUp ends the connection without an answer, after the request was read.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// counted counts the requests that h gets.
func counted(n *atomic.Int64, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n.Add(1)
		h(w, r)
	}
}

// reply answers with JSON.
func reply(status int, v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(v)
	}
}

// refuse answers with a problem of that code.
func refuse(status int, code string, fields map[string]any) http.HandlerFunc {
	body := map[string]any{"type": "urn:runlog:problem:" + code, "title": code, "status": status, "code": code}
	for k, v := range fields {
		body[k] = v
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(body)
	}
}

// appended answers an append as a cluster does.
func appended(first, tail int, duplicate bool) http.HandlerFunc {
	return reply(http.StatusOK, map[string]any{"firstOffset": first, "tail": tail, "duplicate": duplicate})
}

// newClient returns a client that gives up soon enough for a test.
func newClient(t *testing.T, servers ...string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Servers: servers, RetryFor: 2 * time.Second, AttemptTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// batch is an append of n events to run r.
func batch(n int) event.Batch {
	b := event.Batch{Run: "r"}
	for i := range n {
		b.Events = append(b.Events, event.Event{Raw: fmt.Appendf(nil, `{"type":"CUSTOM","name":"n","value":%d}`, i)})
	}
	return b
}

func withProducer(b event.Batch) event.Batch {
	b.Producer = &event.Producer{ID: "p", Epoch: 1, Seq: 7}
	return b
}

func withExpect(b event.Batch, at event.Offset) event.Batch {
	b.Expect = &at
	return b
}
