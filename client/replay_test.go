package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// lines is a source of those lines; opened counts how often it was opened.
func lines(opened *atomic.Int64, list ...string) client.Source {
	return func() (io.ReadCloser, error) {
		opened.Add(1)
		return io.NopCloser(strings.NewReader(strings.Join(list, "\n") + "\n")), nil
	}
}

// TestReplay: the stream goes out once, at the epoch, and progress and result come back.
func TestReplay(t *testing.T) {
	t.Parallel()
	f := newFakeRun()
	var opened atomic.Int64
	var progress []client.ReplayProgress
	result, err := newClient(t, deadServer(t), serve(t, f.ServeHTTP)).Replay(t.Context(), "r", 7, lines(&opened, `{"n":1}`, `{"n":2}`, `{"n":3}`),
		func(p client.ReplayProgress) { progress = append(progress, p) })
	if err != nil {
		t.Fatal(err)
	}
	if result != (client.ReplayResult{Matched: 1, Skipped: 1, Appended: 2, Tail: 3}) {
		t.Errorf("%+v", result)
	}
	if len(progress) != 3 || progress[2].Through != 3 {
		t.Errorf("%+v", progress)
	}
	if s := f.await(t, "replay"); s != `replay 7 {"n":1}` {
		t.Error(s)
	}
}

// TestReplayAgain: whatever a connection dies of, the stream is sent again from its first event.
func TestReplayAgain(t *testing.T) {
	t.Parallel()
	f := newFakeRun()
	good := serve(t, f.ServeHTTP)
	release := map[string]chan struct{}{"silence": make(chan struct{}), "no answer": make(chan struct{})}
	for name, bad := range map[string]http.HandlerFunc{
		"hang up":      hangUp,
		"unavailable":  refuse(http.StatusServiceUnavailable, "unavailable", nil),
		"cut answer":   func(w http.ResponseWriter, r *http.Request) { f.confirm(w, r, 2); panic(http.ErrAbortHandler) },
		"early end":    func(w http.ResponseWriter, r *http.Request) { f.confirm(w, r, 2) },
		"silence":      func(w http.ResponseWriter, r *http.Request) { f.confirm(w, r, 2); <-release["silence"] },
		"no answer":    func(w http.ResponseWriter, r *http.Request) { <-release["no answer"] },
		"late problem": late(f, `{"problem":{"status":503,"code":"unavailable"}}`),
		"unknown":      late(f, `{"problem":{"status":504,"code":"outcome_unknown"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opened atomic.Int64
			servers := []string{serve(t, bad), good}
			if c := release[name]; c != nil {
				t.Cleanup(func() { close(c) }) // before the server waits for its handlers
			}
			result, err := newClient(t, servers...).Replay(t.Context(), "r", 1, lines(&opened, `{}`, `{}`, `{}`), nil)
			if err != nil || result.Tail != 3 || opened.Load() != 2 {
				t.Errorf("%+v, %v, opened %d times", result, err, opened.Load())
			}
		})
	}
}

func late(f *fakeRun, line string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f.confirm(w, r, 2)
		fmt.Fprintln(w, line)
	}
}

// TestReplayRefused: a refusal is final, whether it is the answer's status or its last line.
func TestReplayRefused(t *testing.T) {
	t.Parallel()
	f := newFakeRun()
	for name, h := range map[string]http.HandlerFunc{
		"status": refuse(http.StatusConflict, "fenced", map[string]any{"epoch": 1, "currentEpoch": 2}),
		"line":   late(f, `{"problem":{"status":409,"code":"fenced","epoch":1,"currentEpoch":2}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var opened atomic.Int64
			_, err := newClient(t, serve(t, h)).Replay(t.Context(), "r", 1, lines(&opened, `{}`, `{}`, `{}`), nil)
			var fenced *event.Fenced
			if !errors.As(err, &fenced) || fenced.CurrentEpoch != 2 || opened.Load() != 1 {
				t.Errorf("%v, opened %d times", err, opened.Load())
			}
		})
	}
}

// TestReplayRefusedWhileOpen, R1_5: a refusal ends a replay whose agent is silent, and lets go of its source.
func TestReplayRefusedWhileOpen(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		body := `{"status":409,"code":"fenced","epoch":1,"currentEpoch":2}`
		fmt.Fprintf(conn, "HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		io.Copy(io.Discard, conn) // until the client hangs up
	})
	r, w := io.Pipe()
	done := make(chan error)
	go func() {
		_, err := newClient(t, url).Replay(t.Context(), "r", 1, func() (io.ReadCloser, error) { return r, nil }, nil)
		done <- err
	}()
	if err := <-done; !errors.Is(err, event.ErrFenced) {
		t.Error(err)
	}
	if _, err := io.WriteString(w, "{}\n"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the source is still read: %v", err)
	}
}

// TestReplayGivesUp: without a server that takes it further, it ends, and says what is known.
func TestReplayGivesUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		h   http.HandlerFunc
		err error
	}{
		"unavailable": {refuse(http.StatusServiceUnavailable, "unavailable", nil), client.ErrUnavailable},
		"unknown":     {refuse(http.StatusGatewayTimeout, "outcome_unknown", nil), client.ErrOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c2, err := client.New(client.Config{Servers: []string{serve(t, c.h)}, RetryFor: 2 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			var opened atomic.Int64
			_, err = c2.Replay(t.Context(), "r", 1, lines(&opened, `{}`), nil)
			if !errors.Is(err, c.err) || c.err != client.ErrOutcomeUnknown && errors.Is(err, client.ErrOutcomeUnknown) {
				t.Error(err)
			}
		})
	}
}

// TestReplaySourceFails: an error of the source is the replay's.
func TestReplaySourceFails(t *testing.T) {
	t.Parallel()
	f := newFakeRun()
	broken := errors.New("the disk is gone")
	c := newClient(t, serve(t, f.ServeHTTP))
	for name, source := range map[string]client.Source{
		"open": func() (io.ReadCloser, error) { return nil, broken },
		"read": func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader("{}\n"), failing{broken})), nil
		},
	} {
		if _, err := c.Replay(t.Context(), "r", 1, source, nil); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestHandleReplayLive: a replay stays open while the agent goes on, other writes wait for its end,
// and they go on with the handle's sequence.
func TestHandleReplayLive(t *testing.T) {
	t.Parallel()
	f := newFakeRun()
	h := start(t, serve(t, f.ServeHTTP))
	r, w := io.Pipe()
	through := make(chan uint64, 10)
	done := make(chan error)
	go func() {
		_, err := h.Replay(t.Context(), func() (io.ReadCloser, error) { return r, nil }, func(p client.ReplayProgress) { through <- p.Through })
		done <- err
	}()
	for i := range uint64(3) {
		if _, err := io.WriteString(w, "{}\n"); err != nil {
			t.Fatal(err)
		}
		if n := <-through; n != i+1 {
			t.Fatalf("through %d after %d", n, i+1)
		}
	}
	if _, err := h.Append(briefly(t), text("1")); !errors.Is(err, client.ErrUnavailable) {
		t.Error(err)
	}
	w.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := h.Append(t.Context(), text("2")); err != nil {
		t.Fatal(err)
	}
	want(t, f.writes(), "1/0 "+a2)
}
