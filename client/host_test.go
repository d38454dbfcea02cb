package client_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// briefly is a context under which a call does not try for long.
func briefly(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

const a1, a2, a3 = `[{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"1"}]`,
	`[{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"2"}]`,
	`[{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"3"}]`

// TestHandleAppend: each write carries the epoch and the next sequence number, and goes past a
// server that is gone.
func TestHandleAppend(t *testing.T) {
	t.Parallel()
	f := newFakeRun()
	h := start(t, deadServer(t), serve(t, f.ServeHTTP))
	for i, e := range []event.Event{text("1"), text("2")} {
		done, err := h.Append(t.Context(), e)
		if err != nil || done.FirstOffset != event.Offset(1+i) {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	want(t, f.writes(), "1/0 "+a1, "1/1 "+a2)
	if h.Epoch() != 1 || h.Run().ThreadID != "t" || h.Run().Open.ToolCalls[0] != "c1" {
		t.Errorf("%+v", h.Run())
	}
}

// TestHandleSettles: events whose outcome is unknown are sent again, as they were, before anything
// else; events that were definitely not written are not, among them those that had to wait for others
// to be settled.
func TestHandleSettles(t *testing.T) {
	t.Parallel()
	f := newFakeRun()
	h := start(t, serve(t, f.ServeHTTP))
	f.fault("POST events", refuse(http.StatusGatewayTimeout, "outcome_unknown", nil))
	if _, err := h.Append(briefly(t), text("1")); !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	f.fault("POST events", refuse(http.StatusServiceUnavailable, "unavailable", nil))
	if _, err := h.Append(briefly(t), text("2")); !errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "earlier write") {
		t.Fatal(err)
	}
	for _, w := range f.writes() {
		if w != "1/0 "+a1 {
			t.Fatalf("wrote %s before the first was settled", w)
		}
	}
	n := len(f.writes())
	f.fault("POST events", nil)
	if _, err := h.Append(t.Context(), text("3")); err != nil {
		t.Fatal(err)
	}
	want(t, f.writes()[n:], "1/0 "+a1, "1/1 "+a3)

	f.fault("POST events", refuse(http.StatusServiceUnavailable, "unavailable", nil))
	if _, err := h.Append(briefly(t), text("1")); !errors.Is(err, client.ErrUnavailable) || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	f.fault("POST events", nil)
	if _, err := h.Append(t.Context(), text("2")); err != nil {
		t.Fatal(err)
	}
	if w := f.writes(); w[len(w)-1] != "1/2 "+a2 {
		t.Errorf("wrote %s", w[len(w)-1])
	}
}

// TestHandleRefusedAfterUnknown: the same refusal is definite when it proves that nothing was
// written, and is not when the epoch was looked at first.
func TestHandleRefusedAfterUnknown(t *testing.T) {
	t.Parallel()
	for code, unknown := range map[string]bool{"run_ended": false, "invalid_event": false, "fenced": true} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			f := newFakeRun()
			h := start(t, serve(t, f.ServeHTTP))
			first := true
			f.fault("POST events", func(w http.ResponseWriter, r *http.Request) {
				if first {
					first = false
					refuse(http.StatusGatewayTimeout, "outcome_unknown", nil)(w, r)
					return
				}
				refuse(http.StatusConflict, code, nil)(w, r)
			})
			_, err := h.Append(t.Context(), text("1"))
			var refusal event.Refusal
			if !errors.As(err, &refusal) || refusal.Code() != code || errors.Is(err, client.ErrOutcomeUnknown) != unknown {
				t.Fatal(err)
			}
			f.fault("POST events", nil)
			if _, err := h.Append(t.Context(), text("2")); err != nil {
				t.Fatal(err)
			}
			if w := f.writes(); w[len(w)-1] != "1/0 "+a2 {
				t.Errorf("wrote %s", w[len(w)-1])
			}
		})
	}
}

// TestHandleContext: the work ends with the reason that the handle learns, whichever answer
// brings it.
func TestHandleContext(t *testing.T) {
	t.Parallel()
	fenced := refuse(http.StatusConflict, "fenced", map[string]any{"epoch": 1, "currentEpoch": 2})
	ended := refuse(http.StatusConflict, "run_ended", map[string]any{"terminalOffset": 9})
	for name, c := range map[string]struct {
		kind  string
		fault http.HandlerFunc
		why   error
	}{
		"fenced renewal": {"PUT lease", fenced, event.ErrFenced},
		"fenced append":  {"POST events", fenced, event.ErrFenced},
		"ended renewal":  {"PUT lease", ended, event.ErrRunEnded},
		"ended append":   {"POST events", ended, event.ErrRunEnded},
		"fenced release": {"DELETE lease", fenced, event.ErrFenced},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeRun()
			h := start(t, serve(t, f.ServeHTTP))
			f.fault(c.kind, c.fault)
			switch c.kind {
			case "POST events":
				if _, err := h.Append(t.Context(), text("1")); !errors.Is(err, c.why) {
					t.Error(err)
				}
			case "DELETE lease":
				if err := h.Release(t.Context(), nil); !errors.Is(err, c.why) {
					t.Error(err)
				}
			}
			<-h.Context().Done()
			if why := context.Cause(h.Context()); !errors.Is(why, c.why) {
				t.Errorf("the work ended because: %v", why)
			}
			h.Close()
		})
	}
}

// TestHandleCancelled: after a cancel request the host still writes, and its lease is still
// renewed, until it has finished.
func TestHandleCancelled(t *testing.T) {
	t.Parallel()
	f := newFakeRun()
	h := start(t, serve(t, f.ServeHTTP))
	f.mu.Lock()
	f.cancel = true
	f.mu.Unlock()
	<-h.Context().Done()
	if why := context.Cause(h.Context()); !errors.Is(why, client.ErrCancelRequested) {
		t.Fatal(why)
	}
	f.await(t, "PUT lease")
	f.await(t, "PUT lease")
	for range 2 {
		done, err := h.Finish(t.Context(), client.Cancelled)
		if err != nil || done.FirstOffset != 1 {
			t.Fatalf("%+v, %v", done, err)
		}
	}
	want(t, f.writes(), `1/0 [{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"cancelled"}}]`)
	h.Close() // returns: nothing is renewed any more
}

// TestHandleFinishUnknown: a Finish of unknown outcome that is called again is written once.
func TestHandleFinishUnknown(t *testing.T) {
	t.Parallel()
	f := newFakeRun()
	h := start(t, serve(t, f.ServeHTTP))
	f.fault("POST events", hangUp)
	if _, err := h.Fail(briefly(t), event.RunError{Message: "no", Code: "x"}); !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Fatal(err)
	}
	f.fault("POST events", nil)
	if _, err := h.Fail(t.Context(), event.RunError{Message: "no", Code: "x"}); err != nil {
		t.Fatal(err)
	}
	if f.appends != 1 {
		t.Errorf("written %d times", f.appends)
	}
	for _, w := range f.writes() {
		if w != `1/0 [{"type":"RUN_ERROR","message":"no","code":"x"}]` {
			t.Error(w)
		}
	}
}

// TestHandleRelease: the window goes with the request; afterwards nothing is renewed.
func TestHandleRelease(t *testing.T) {
	t.Parallel()
	f := newFakeRun()
	h := start(t, serve(t, f.ServeHTTP))
	window := int64(5000)
	if err := h.Release(t.Context(), &window); err != nil {
		t.Fatal(err)
	}
	h.Close()
	if why := context.Cause(h.Context()); !errors.Is(why, client.ErrReleased) {
		t.Error(why)
	}
}

// TestHandleSurvivesOutage: renewals go on through a time without any server.
func TestHandleSurvivesOutage(t *testing.T) {
	t.Parallel()
	f := newFakeRun()
	h := start(t, serve(t, f.ServeHTTP))
	f.fault("PUT lease", hangUp)
	f.await(t, "PUT lease")
	f.await(t, "PUT lease")
	f.fault("PUT lease", nil)
	f.await(t, "PUT lease")
	if h.Context().Err() != nil {
		t.Error(context.Cause(h.Context()))
	}
}

// TestTakeover: it waits for the lapse under one Idempotency-Key, and the handle writes at the new
// epoch.
func TestTakeover(t *testing.T) {
	t.Parallel()
	f := newFakeRun()
	held := 3
	keys := map[string]bool{}
	f.fault("POST lease", func(w http.ResponseWriter, r *http.Request) {
		keys[r.Header.Get("Idempotency-Key")] = true
		if held--; held == 0 {
			delete(f.faults, "POST lease")
		}
		refuse(http.StatusConflict, "lease_held", map[string]any{"holder": "h1"})(w, r)
	})
	h, err := newClient(t, serve(t, f.ServeHTTP)).Takeover(t.Context(), "r", client.Takeover{Holder: "h2", LeaseMs: 300, Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if h.Epoch() != 2 || h.Run().Tail != 1 || len(keys) != 1 {
		t.Errorf("%+v, %d keys", h.Run(), len(keys))
	}
	if _, err := h.Finish(t.Context(), client.Finished{Result: []byte(`{"n":1}`)}); err != nil {
		t.Fatal(err)
	}
	want(t, f.writes(), `2/0 [{"type":"RUN_FINISHED","threadId":"t","runId":"r","result":{"n":1}}]`)
}

// TestTakeoverRefused: without a wait a live lease is an answer.
func TestTakeoverRefused(t *testing.T) {
	t.Parallel()
	f := newFakeRun()
	f.fault("POST lease", refuse(http.StatusConflict, "lease_held", map[string]any{"holder": "h1"}))
	_, err := newClient(t, serve(t, f.ServeHTTP)).Takeover(t.Context(), "r", client.Takeover{Holder: "h2"})
	var held *event.LeaseHeld
	if !errors.As(err, &held) || held.Holder != "h1" {
		t.Fatal(err)
	}
}
