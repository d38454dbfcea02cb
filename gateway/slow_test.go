package gateway

import (
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// large fills a run with size MiB of events.
func (h *harness) large(id string, mib int) {
	h.t.Helper()
	h.run(id)
	pad := strings.Repeat("x", 1<<15)
	batch := strings.Repeat(fmt.Sprintf(`{"type":"CUSTOM","name":"n","value":%q}`+"\n", pad), 31)
	for range mib {
		h.append(id, batch)
	}
}

// stuck opens a tail that is never read, through as small a window as the system allows.
func (h *harness) stuck(path string) net.Conn {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.srv.Listener.Addr().String())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { conn.Close() })
	if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		h.t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n", path)
	return conn
}

// A reader that does not read is cut off; its cursor lets it resume.
func TestSlowReaderIsCutOff(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.FlushTimeout = 50 * time.Millisecond })
	h.large("r", 24)
	h.stuck("/v1/runs/r/events")
	// That it was there once cannot be waited for: it may be gone before anybody looks.
	h.await("the reader is counted as slow", func() bool {
		return strings.Contains(string(h.get("/metrics").body), "\nrunlog_gateway_slow_tails_total 1\n")
	})
	h.awaitWatchers("r", 0)
}

// Two hundred readers, half of them stuck, hold a bounded amount of memory, and the stuck ones do
// not hold up the others.
func TestManyReaders(t *testing.T) {
	h := start(t, func(c *Config) { c.FlushTimeout = patience }) // the stuck ones stay
	h.large("r", 12)
	h.append("r", finished())
	tail := h.get("/v1/runs/r").json(t, "tail")
	for range 100 {
		h.stuck("/v1/runs/r/events")
	}
	h.awaitWatchers("r", 100)
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var fast sync.WaitGroup
	for range 100 {
		fast.Go(func() {
			s := h.sse("/v1/runs/r/events?limit=200")
			for i := range 200 {
				if f := s.event(); f.id != strconv.Itoa(i) {
					t.Errorf("id %s, want %d", f.id, i)
					return
				}
			}
			s.end()
		})
	}
	fast.Wait()
	runtime.GC()
	runtime.ReadMemStats(&during)
	if h.node.largest > chunkBytes+1<<16 {
		t.Errorf("a tail read %d bytes at once", h.node.largest)
	}
	// A buffer of at most 2 chunks for each reader, and the test's own.
	if grown := int64(during.HeapAlloc) - int64(before.HeapAlloc); grown > 200*2*chunkBytes {
		t.Errorf("the readers hold %d MiB", grown>>20)
	}
	s := h.sse("/v1/runs/r/events?from=" + fmt.Sprint(tail.(float64)-1))
	s.event()
	s.end()
}

// What all answers together hold is bounded: beyond it a projection is answered 429, nothing of it is
// sent, and once slow readers are gone it is answered again.
func TestAnswersHaveABudget(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.FlushTimeout = patience })
	const size = 12 << 20 // more than the sockets hold
	h.gw.answers = newBudget(2*size + size/2)
	h.run("r")
	pad := strings.Repeat("x", 1<<19)
	h.append("r", `{"type":"TEXT_MESSAGE_START","messageId":"m"}`)
	for range size >> 19 {
		h.append("r", fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":%q}`, pad))
	}
	stuck := []net.Conn{h.stuck("/v1/runs/r/transcript"), h.stuck("/v1/runs/r/events?join=snapshot")}
	h.await("two answers are held", func() bool { return h.gw.answers.held.Load() >= 2*size })
	for _, path := range []string{"/v1/runs/r/transcript", "/v1/runs/r/events?join=snapshot"} {
		r := h.problem(429, "overloaded", "GET", path, "", "Accept", "text/event-stream")
		if r.header.Get("Retry-After") == "" || r.header.Get("ETag") != "" {
			t.Errorf("%s: %v", path, r.header)
		}
	}
	h.must(200, "GET", "/v1/runs/r/state", "") // a small one fits
	for _, c := range stuck {
		c.Close()
	}
	h.await("no answer is held", func() bool { return h.gw.answers.held.Load() == 0 })
	h.must(200, "GET", "/v1/runs/r/transcript", "")
	h.gw.answers = newBudget(size / 2)
	h.must(200, "GET", "/v1/runs/r/transcript", "") // larger than all there is, but alone
}

// Tails that are stuck share a budget, too: one that gets nothing of it goes on in small pieces.
func TestTailsShareABudget(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.FlushTimeout = patience })
	h.gw.pieces = newBudget(chunkBytes)
	h.large("r", 12)
	h.append("r", finished())
	free, ok := h.gw.pieces.take(chunkBytes) // as a tail that is stuck
	if !ok {
		t.Fatal("the budget is smaller than a piece")
	}
	defer free()
	s := h.sse("/v1/runs/r/events")
	for i := range 12*31 + 2 {
		if f := s.event(); f.id != strconv.Itoa(i) {
			t.Fatalf("id %s, want %d", f.id, i)
		}
	}
	s.end()
	if h.node.largest > smallChunkBytes+1<<16 {
		t.Errorf("a tail read %d bytes at once", h.node.largest)
	}
}

func TestTooManyTails(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.MaxTails = 1 })
	h.run("r")
	s := h.sse("/v1/runs/r/events")
	s.event()
	h.problem(429, "overloaded", "GET", "/v1/runs/r/events", "", "Accept", "text/event-stream")
	h.must(200, "GET", "/v1/runs/r/events", "")
	s.close()
	h.awaitWatchers("r", 0)
}
