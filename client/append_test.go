package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// TestAppendRequest: what travels is the events' own bytes and the headers of the batch.
func TestAppendRequest(t *testing.T) {
	t.Parallel()
	epoch := event.Epoch(3)
	b := withExpect(withProducer(batch(0)), 5)
	b.Epoch = &epoch
	b.Run = "a b/ü"
	b.Events = []event.Event{{Raw: []byte(`{"type":"RAW","event":12345678901234567890}`)}, {Raw: []byte(`{"type":"CUSTOM","name":"\ud83d"}`)}}
	c := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if want := `[{"type":"RAW","event":12345678901234567890},{"type":"CUSTOM","name":"\ud83d"}]`; string(body) != want {
			t.Errorf("body %s", body)
		}
		if r.Method != "POST" || r.URL.EscapedPath() != "/v1/runs/a%20b%2F%C3%BC/events" {
			t.Errorf("%s %s", r.Method, r.URL.EscapedPath())
		}
		for name, want := range map[string]string{
			"Run-Epoch": "3", "Expected-Offset": "5", "Producer-Id": "p", "Producer-Epoch": "1", "Producer-Seq": "7", "Content-Type": "application/json",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
		w.Header().Set("Runlog-Token", "42")
		appended(5, 7, false)(w, r)
	}))
	got, err := c.Append(context.Background(), b)
	if want := (client.Appended{FirstOffset: 5, Tail: 7, Token: "42"}); err != nil || got != want {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestAppendMovesOn: after a failure that wrote nothing, any append goes to the next server.
func TestAppendMovesOn(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]http.HandlerFunc{
		"unavailable": refuse(http.StatusServiceUnavailable, "unavailable", nil),
		"overloaded":  refuse(http.StatusTooManyRequests, "overloaded", nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, deadServer(t), serve(t, first), serve(t, appended(0, 1, false)))
			if got, err := c.Append(context.Background(), batch(1)); err != nil || got.Tail != 1 {
				t.Fatalf("%+v, %v", got, err)
			}
		})
	}
}

// TestAppendStays: the client keeps to the server that answered.
func TestAppendStays(t *testing.T) {
	t.Parallel()
	var first, second atomic.Int64
	c := newClient(t,
		serve(t, counted(&first, refuse(http.StatusServiceUnavailable, "unavailable", nil))),
		serve(t, counted(&second, appended(0, 1, false))))
	for range 3 {
		if _, err := c.Append(context.Background(), batch(1)); err != nil {
			t.Fatal(err)
		}
	}
	if first.Load() != 1 || second.Load() != 3 {
		t.Fatalf("%d requests to the first, %d to the second", first.Load(), second.Load())
	}
}

// TestAppendUnknown: an append that may have been written and has nothing to tell a repetition by is
// not repeated.
func TestAppendUnknown(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]http.HandlerFunc{
		"hang up": hangUp,
		"504":     refuse(http.StatusGatewayTimeout, "outcome_unknown", nil),
		"500":     refuse(http.StatusInternalServerError, "internal", nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var second atomic.Int64
			c := newClient(t, serve(t, first), serve(t, counted(&second, appended(0, 1, false))))
			_, err := c.Append(context.Background(), batch(1))
			if !errors.Is(err, client.ErrOutcomeUnknown) || second.Load() != 0 {
				t.Fatalf("%v after %d requests to the second server", err, second.Load())
			}
		})
	}
}

// TestAppendRepeats: with producer headers it is repeated, and the answer is that of the first write.
func TestAppendRepeats(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, hangUp), serve(t, appended(4, 5, true)))
	got, err := c.Append(context.Background(), withProducer(batch(1)))
	if err != nil || !got.Duplicate || got.FirstOffset != 4 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestAppendResolves: an expected offset that is taken after an unknown outcome may be taken by the
// very same append; what stands there tells.
func TestAppendResolves(t *testing.T) {
	t.Parallel()
	written := func(raw string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				refuse(http.StatusConflict, event.CodeOffsetConflict, map[string]any{"expected": 2, "tail": 3})(w, r)
				return
			}
			if r.URL.Query().Get("from") != "2" || r.URL.Query().Get("consistency") != "linearizable" {
				t.Errorf("query %s", r.URL.RawQuery)
			}
			io.WriteString(w, `{"events":[{"offset":2,"epoch":0,"time":1,"event":`+raw+`}],"tail":3,"ended":false}`)
		}
	}
	b := withExpect(batch(1), 2)

	c := newClient(t, serve(t, hangUp), serve(t, written(string(b.Events[0].Raw))))
	got, err := c.Append(context.Background(), b)
	if err != nil || !got.Duplicate || got.FirstOffset != 2 || got.Tail != 3 {
		t.Fatalf("ours: %+v, %v", got, err)
	}

	c = newClient(t, serve(t, hangUp), serve(t, written(`{"type":"CUSTOM","name":"another"}`)))
	if _, err = c.Append(context.Background(), b); !errors.Is(err, event.ErrOffsetConflict) {
		t.Fatalf("another's: %v", err)
	}

	c = newClient(t, serve(t, written(string(b.Events[0].Raw))))
	if _, err = c.Append(context.Background(), b); !errors.Is(err, event.ErrOffsetConflict) || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Fatalf("without an unknown outcome before: %v", err)
	}
}

// TestAppendFencedAfterUnknown: the epoch is checked before the producer, so a fenced repetition
// does not tell what became of the first attempt.
func TestAppendFencedAfterUnknown(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, hangUp), serve(t, refuse(http.StatusConflict, event.CodeFenced, map[string]any{"epoch": 1, "currentEpoch": 2})))
	_, err := c.Append(context.Background(), withProducer(batch(1)))
	if !errors.Is(err, event.ErrFenced) || !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
}

// TestAppendGivesUp: with nobody there it says so, also that nothing was written.
func TestAppendGivesUp(t *testing.T) {
	t.Parallel()
	c := newClient(t, deadServer(t), deadServer(t))
	_, err := c.Append(context.Background(), batch(1))
	if !errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.Append(ctx, batch(1)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestAppendHungServer: a server that hangs costs one attempt, when the append can be repeated.
func TestAppendHungServer(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // the server notices a closed connection only once it reads nothing
		<-r.Context().Done()
	}
	c := newClient(t, serve(t, hang), serve(t, appended(0, 1, true)))
	if got, err := c.Append(context.Background(), withProducer(batch(1))); err != nil || got.Tail != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := newClient(t, serve(t, hang)).Append(context.Background(), withProducer(batch(1))); !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
}
