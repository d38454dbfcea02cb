package load_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/runlog/runlog/cmd/runlog/internal/load"
)

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// TestConn: one connection carries good answers and bad ones, and comes back after the server
// dropped it.
func TestConn(t *testing.T) {
	t.Parallel()
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/bad":
			http.Error(w, "no such thing", http.StatusConflict)
		case "/drop":
			panic(http.ErrAbortHandler)
		default:
			w.Header().Set("X-Saw", r.Header.Get("X-Sent"))
			w.WriteHeader(http.StatusOK)
		}
	})
	c, err := load.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	get := func(path string) error { return c.Do(load.Request("GET", addr, path, "X-Sent: 1\r\n", nil)) }
	if err := get("/"); err != nil {
		t.Fatal(err)
	}
	var status *load.StatusError
	if err := get("/bad"); !errors.As(err, &status) || status.Status != 409 || !strings.Contains(status.Body, "no such thing") {
		t.Fatalf("bad: %v", err)
	}
	if err := get("/drop"); err == nil || errors.As(err, &status) {
		t.Fatalf("drop: %v", err)
	}
	if err := get("/"); err != nil {
		t.Fatalf("after drop: %v", err)
	}
}

// TestRun: every acknowledged request is counted once, failures are counted and do not stop a loop.
func TestRun(t *testing.T) {
	t.Parallel()
	var good, bad atomic.Int64
	ops := []load.Op{
		func() error { good.Add(1); return nil },
		func() error { bad.Add(1); return errors.New("refused") },
	}
	r := load.Run(context.Background(), ops, 20*time.Millisecond)
	if r.Requests == 0 || r.Requests > good.Load() {
		t.Errorf("%d requests of %d counted", r.Requests, good.Load())
	}
	if r.Errors != bad.Load() || r.FirstErr != "refused" || r.Writers != 2 {
		t.Errorf("result %+v, %d failed", r, bad.Load())
	}
}

// TestQuantiles: the definition, on numbers whose answer is known.
func TestQuantiles(t *testing.T) {
	t.Parallel()
	var d []time.Duration
	for i := 99; i >= 0; i-- {
		d = append(d, time.Duration(i))
	}
	if p50, p99 := load.Quantiles(d); p50 != 50 || p99 != 99 {
		t.Errorf("p50 %d, p99 %d", p50, p99)
	}
	if p50, p99 := load.Quantiles(nil); p50 != 0 || p99 != 0 {
		t.Error("of nothing")
	}
}

// Other servers answer 204, which has no length; anything else without one cannot be read.
func TestConnNoContent(t *testing.T) {
	t.Parallel()
	status := http.StatusNoContent
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		http.NewResponseController(w).Flush() // chunked, where there may be a body
	})
	c, err := load.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		if err := c.Do(load.Request("POST", addr, "/", "", nil)); err != nil {
			t.Fatal(err)
		}
	}
	status = http.StatusOK
	if err := c.Do(load.Request("POST", addr, "/", "", nil)); err == nil {
		t.Error("an answer of unknown length was taken")
	}
}
