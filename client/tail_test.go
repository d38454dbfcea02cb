package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// stream answers like a node that holds n events of which the last is terminal, and cuts each
// connection after cut of them, in the middle of a frame. It notes how each connection began.
type stream struct {
	n, cut int

	mu     sync.Mutex
	starts []string
}

func rawEvent(i, n int) string {
	if i == n-1 {
		return `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`
	}
	return fmt.Sprintf(`{"type":"CUSTOM","name":"n","value":%d}`, i)
}

func (s *stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, _ := strconv.Atoi(r.URL.Query().Get("from"))
	start := "from " + r.URL.Query().Get("from")
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		from, _ = strconv.Atoi(id)
		from++
		start = "after " + id
	}
	s.mu.Lock()
	s.starts = append(s.starts, start)
	s.mu.Unlock()
	if from >= s.n {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "retry: 1000\n\n: hello\n\n")
	for i := from; i < s.n; i++ {
		if i == from+s.cut {
			fmt.Fprintf(w, "id: %d\ndata: {\"type\":\"CUS", i)
			return
		}
		fmt.Fprintf(w, "id: %d\ndata: %s\n\n", i, rawEvent(i, s.n))
	}
}

func offsets(t *testing.T, c *client.Client, from event.Offset) (got []event.Offset, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for rec, e := range c.Tail(ctx, "r", from) {
		if e != nil {
			return got, e
		}
		got = append(got, rec.Offset)
	}
	return got, nil
}

func wantDense(t *testing.T, got []event.Offset, from, n int) {
	t.Helper()
	if len(got) != n-from {
		t.Fatalf("%d records, want %d", len(got), n-from)
	}
	for i, o := range got {
		if int(o) != from+i {
			t.Fatalf("offset %d at place %d", o, i)
		}
	}
}

// TestTailExactlyOnce: connections that break anywhere, on servers of which some are dead, still give
// each event once and in order, up to the terminal one.
func TestTailExactlyOnce(t *testing.T) {
	t.Parallel()
	s := &stream{n: 20, cut: 3}
	c := newClient(t, deadServer(t), serve(t, s.ServeHTTP), serve(t, s.ServeHTTP))
	got, err := offsets(t, c, 2)
	if err != nil {
		t.Fatal(err)
	}
	wantDense(t, got, 2, 20)
	if s.starts[0] != "from 2" || s.starts[1] != "after 4" || s.starts[2] != "after 7" {
		t.Errorf("connections began %v", s.starts)
	}
}

// TestTailBytes: an event arrives as the bytes that it was.
func TestTailBytes(t *testing.T) {
	t.Parallel()
	const raw = `{"type":"RUN_ERROR", "message":"12345678901234567890 \ud83d ü", "x": 12345678901234567890}`
	c := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "id: 0\ndata: %s\n\n", raw)
	}))
	n := 0
	for rec, err := range c.Tail(context.Background(), "r", 0) {
		if err != nil || string(rec.Raw) != raw {
			t.Fatalf("%s, %v", rec.Raw, err)
		}
		n++
	}
	if n != 1 {
		t.Fatalf("%d records", n)
	}
}

// TestTailAtEnd: a cursor at the end of an ended run ends at once.
func TestTailAtEnd(t *testing.T) {
	t.Parallel()
	s := &stream{n: 5, cut: 100}
	got, err := offsets(t, newClient(t, serve(t, s.ServeHTTP)), 5)
	if err != nil || len(got) != 0 {
		t.Fatalf("%v, %v", got, err)
	}
}

// TestTailWrapped: a terminal event that the client does not see as one (a run of wrapped records)
// ends the tail too, by the 204 that answers the next connection.
func TestTailWrapped(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Last-Event-ID") == "0" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		fmt.Fprint(w, "id: 0\ndata: {\"v\":1,\"seq\":0,\"chunk\":{\"type\":\"RUN_ERROR\",\"message\":\"x\"}}\n\n")
	}))
	got, err := offsets(t, c, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantDense(t, got, 0, 1)
}

// TestTailRepeats: a server that sends again what the client has is read past.
func TestTailRepeats(t *testing.T) {
	t.Parallel()
	c := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "id: %d\ndata: %s\n\n", i, rawEvent(i, 5))
		}
		for i := 1; i < 5; i++ {
			fmt.Fprintf(w, "id: %d\ndata: %s\n\n", i, rawEvent(i, 5))
		}
	}))
	got, err := offsets(t, c, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantDense(t, got, 0, 5)
}

// TestTailSkips: a server that skips an event is left for one that does not.
func TestTailSkips(t *testing.T) {
	t.Parallel()
	s := &stream{n: 4, cut: 100}
	c := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "id: 2\ndata: %s\n\n", rawEvent(2, 4))
	}), serve(t, s.ServeHTTP))
	got, err := offsets(t, c, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantDense(t, got, 0, 4)
}

// TestTailRefused: a refusal ends the tail; no other server is asked.
func TestTailRefused(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{event.CodeRunNotFound: 404, event.CodeOffsetOutOfRange: 416, event.CodeRunDeleted: 410} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			var second atomic.Int64
			c := newClient(t, serve(t, refuse(status, code, map[string]any{"tail": 3})), serve(t, counted(&second, hangUp)))
			_, err := offsets(t, c, 9)
			if !errors.Is(err, fields[code].is) || second.Load() != 0 {
				t.Fatalf("%v after %d requests to the second server", err, second.Load())
			}
		})
	}
}

// TestTailGivesUp: with nobody there it says so, and when its context ends it returns its error.
func TestTailGivesUp(t *testing.T) {
	t.Parallel()
	if _, err := offsets(t, newClient(t, deadServer(t)), 0); !errors.Is(err, client.ErrUnavailable) {
		t.Fatal(err)
	}
	c := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	for _, err := range c.Tail(ctx, "r", 0) {
		if !errors.Is(err, why) {
			t.Fatal(err)
		}
	}
}

// TestTailSilent: a connection on which nothing comes, not even a heartbeat, is given up.
func TestTailSilent(t *testing.T) {
	t.Parallel()
	s := &stream{n: 3, cut: 100}
	silent := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	c, err := client.New(client.Config{Servers: []string{silent, serve(t, s.ServeHTTP)}, IdleTimeout: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	got, err := offsets(t, c, 0)
	if err != nil {
		t.Fatal(err)
	}
	wantDense(t, got, 0, 3)
}

// TestTailLeft: leaving the loop closes the connection.
func TestTailLeft(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	c := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "id: 0\ndata: %s\n\n", rawEvent(0, 9))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(closed)
	}))
	for range c.Tail(context.Background(), "r", 0) {
		break
	}
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("the connection stays open")
	}
}
