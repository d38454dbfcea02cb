package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runlog/runlog/event"
)

// Every reader, whatever its form and wherever it starts, sees every event once, in order, while
// writers append, and reconnects where it stopped.
func TestTailsDuringAppends(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.run("r")
	const events = 400
	var readers sync.WaitGroup
	check := func(name string, from int, got []string) {
		for i, g := range got {
			if want := from + i; want > 0 && want <= events && g != custom(want) {
				t.Errorf("%s: at %d got %s", name, want, g)
				return
			}
		}
		if want := events + 2 - from; len(got) != want {
			t.Errorf("%s: %d events, want %d", name, len(got), want)
		}
	}
	for from := 0; from < 10; from++ {
		readers.Go(func() { check("sse", from, h.readSSE("r", from, events)) })
		readers.Go(func() { check("sse in pieces", from, h.readSSE("r", from, 7)) })
		readers.Go(func() { check("ndjson", from, h.readLines("r", from)) })
		readers.Go(func() { check("pages", from, h.readPages("r", from)) })
		if from == 0 {
			h.append("r", custom(1), custom(2), custom(3), custom(4), custom(5), custom(6), custom(7), custom(8), custom(9))
		}
	}
	for i := 10; i <= events; i++ {
		h.append("r", custom(i))
	}
	h.append("r", finished())
	readers.Wait()
}

// readSSE reads to the end, reconnecting after every so many events.
func (h *harness) readSSE(id string, from, piece int) []string {
	var got []string
	s := h.sse("/v1/runs/" + id + "/events?from=" + strconv.Itoa(from))
	for n := 1; ; n++ {
		f, err := s.next()
		if err == io.EOF {
			return got
		}
		if err != nil {
			h.t.Errorf("reader from %d: %v", from, err)
			return got
		}
		if f.data == "" {
			continue
		}
		if f.id != strconv.Itoa(from+len(got)) {
			h.t.Errorf("id %s, want %d", f.id, from+len(got))
		}
		got = append(got, f.data)
		if len(got)%piece == 0 {
			s.close()
			s = h.sse("/v1/runs/"+id+"/events?from="+strconv.Itoa(from), "Last-Event-ID", f.id)
			if s.resp.StatusCode == http.StatusNoContent {
				return got
			}
		}
	}
}

func (h *harness) readLines(id string, from int) []string {
	s := h.open("/v1/runs/"+id+"/events?from="+strconv.Itoa(from), "Accept", "application/x-ndjson")
	var got []string
	for lines := bufio.NewScanner(s.r); lines.Scan(); {
		got = append(got, lines.Text())
	}
	return got
}

type pageJSON struct {
	Events []struct {
		Offset, Epoch, Time uint64
		Event               json.RawMessage
	}
	Tail  uint64
	Ended bool
}

func (h *harness) readPage(path string) pageJSON {
	var p pageJSON
	if err := json.Unmarshal(h.get(path).body, &p); err != nil {
		h.t.Errorf("page: %v", err)
	}
	return p
}

func (h *harness) readPages(id string, from int) []string {
	var got []string
	for {
		p := h.readPage(fmt.Sprintf("/v1/runs/%s/events?limit=13&waitMs=10000&from=%d", id, from+len(got)))
		for _, e := range p.Events {
			got = append(got, string(e.Event))
		}
		if p.Ended && p.Tail == uint64(from+len(got)) || h.t.Failed() {
			return got
		}
	}
}

func TestTailAnswers(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.run("open", custom(1), custom(2))
	h.run("ended", custom(1), finished())
	const sse, lines, page = "text/event-stream", "application/x-ndjson", "application/json"
	for _, c := range []struct {
		run, query, accept, last string
		status                   int
		code                     string
		events                   int // in the answer
	}{
		{"open", "live=false", sse, "", 200, "", 3},
		{"open", "live=false&from=1", sse, "", 200, "", 2},
		{"open", "live=false&after=1", sse, "", 200, "", 1},
		{"open", "live=false&from=3", sse, "", 200, "", 0},
		{"open", "live=false", sse, "0", 200, "", 2},
		{"open", "live=false&from=2", sse, "0", 200, "", 2},
		{"open", "live=false&after=2", sse, "", 200, "", 0},
		{"open", "live=false&after=0", sse, "1", 200, "", 1},
		{"open", "live=false&from=2", sse, "", 200, "", 1},
		{"open", "limit=2", sse, "", 200, "", 2},
		{"open", "limit=2", lines, "", 200, "", 2},
		{"open", "limit=2", page, "", 200, "", 2},
		{"open", "live=false", lines, "", 200, "", 3},
		{"open", "", page, "0", 200, "", 3},
		{"open", "", "*/*", "", 200, "", 3},
		{"open", "", "", "", 200, "", 3},
		{"open", "", "text/html, application/json;q=0.9, */*;q=0.8", "", 200, "", 3},
		{"ended", "", sse, "", 200, "", 3},
		{"ended", "from=2", sse, "", 200, "", 1},
		{"ended", "", sse, "1", 200, "", 1},
		{"ended", "", sse, "2", 204, "", 0},
		{"ended", "from=3", sse, "", 204, "", 0},
		{"ended", "from=0", sse, "2", 204, "", 0},
		{"ended", "from=99", sse, "", 204, "", 0},
		{"ended", "live=false", sse, "2", 204, "", 0},
		{"ended", "from=3", page, "", 200, "", 0},
		{"ended", "from=3&waitMs=60000", page, "", 200, "", 0},
		{"ended", "from=3", lines, "", 200, "", 0},
		{"ended", "from=4", page, "", 416, "offset_out_of_range", 0},
		{"ended", "from=4", lines, "", 416, "offset_out_of_range", 0},
		{"open", "from=4", sse, "", 416, "offset_out_of_range", 0},
		{"open", "", sse, "9007199254740991", 416, "offset_out_of_range", 0},
		{"open", "from=9007199254740991", page, "", 416, "offset_out_of_range", 0},
		{"none", "", sse, "", 404, "run_not_found", 0},
		{"none", "", lines, "", 404, "run_not_found", 0},
		{"none", "", page, "", 404, "run_not_found", 0},
		{"none", "waitMs=1000", page, "", 404, "run_not_found", 0},
		{"open", "from=0&after=0", page, "", 400, "bad_request", 0},
		{"open", "from=-1", page, "", 400, "bad_request", 0},
		{"open", "from=9007199254740992", page, "", 400, "bad_request", 0},
		{"open", "from=", page, "", 400, "bad_request", 0},
		{"open", "from=1&from=2", page, "", 400, "bad_request", 0},
		{"open", "limit=0", page, "", 400, "bad_request", 0},
		{"open", "limit=10001", page, "", 400, "bad_request", 0},
		{"open", "live=yes", sse, "", 400, "bad_request", 0},
		{"open", "waitMs=60001", page, "", 400, "bad_request", 0},
		{"open", "from=%zz", page, "", 400, "bad_request", 0},
		{"open", "", sse, "x", 400, "bad_request", 0},
		{"open", "", sse, "-1", 400, "bad_request", 0},
		{"open", "", sse, "9007199254740992", 400, "bad_request", 0},
		{"open", "join=snapshot", page, "", 400, "bad_request", 0},
		{"open", "join=other", sse, "", 400, "bad_request", 0},
		{"open", "join=snapshot&from=1", sse, "", 400, "bad_request", 0},
		{"open", "minOffset=3&live=false", sse, "", 200, "", 3},
		{"open", "minOffset=4&live=false", sse, "", 416, "offset_out_of_range", 0},
		{"open", "consistency=linearizable", page, "", 200, "", 3},
		{"open", "consistency=strong", page, "", 400, "bad_request", 0},
		{"open", "minToken=17", page, "", 400, "bad_request", 0},
		{"open", "minToken=t%2B1", page, "", 400, "bad_request", 0},
	} {
		t.Run(c.run+"?"+c.query+" "+c.accept+" "+c.last, func(t *testing.T) {
			var headers []string
			for name, v := range map[string]string{"Accept": c.accept, "Last-Event-ID": c.last} {
				if v != "" {
					headers = append(headers, name, v)
				}
			}
			h := &harness{t, h.node, h.gw, h.srv, h.http}
			path := "/v1/runs/" + c.run + "/events?" + c.query
			if c.code != "" {
				h.problem(c.status, c.code, "GET", path, "", headers...)
				return
			}
			r := h.must(c.status, "GET", path, "", headers...)
			if n := bytes.Count(r.body, []byte(`"type":`)); n != c.events {
				t.Errorf("%d events in %s", n, r)
			}
			if c.status == 204 && len(r.body) > 0 {
				t.Errorf("a body: %s", r)
			}
		})
	}
	r := h.problem(416, "offset_out_of_range", "GET", "/v1/runs/open/events?from=9", "")
	if r.json(t, "offset") != 9.0 || r.json(t, "tail") != 3.0 {
		t.Errorf("fields of %s", r)
	}
}

func TestSSEHeaders(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.Heartbeat = time.Millisecond })
	h.run("r")
	s := h.sse("/v1/runs/r/events")
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no", "Content-Encoding": "",
	} {
		if got := s.resp.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if f, err := s.next(); err != nil || f.retry != "1000" {
		t.Errorf("first frame %+v, %v", f, err)
	}
	if f := s.event(); f.id != "0" || f.data != started() {
		t.Errorf("event %+v", f)
	}
	for range 3 {
		if f, err := s.next(); err != nil || !f.comment {
			t.Fatalf("want a heartbeat, got %+v, %v", f, err)
		}
	}
	h.append("r", custom(1))
	if f := s.event(); f.id != "1" {
		t.Errorf("event after heartbeats %+v", f)
	}
}

func TestLongPoll(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.run("r")
	if p := h.readPage("/v1/runs/r/events?from=1&waitMs=1"); p.Tail != 1 || len(p.Events) != 0 || p.Ended {
		t.Errorf("after the wait: %+v", p)
	}
	got := make(chan pageJSON, 1)
	poll := func() {
		go func() { got <- h.readPage("/v1/runs/r/events?from=1&waitMs=60000") }()
		h.awaitWatchers("r", 1)
	}
	poll()
	h.append("r", custom(1))
	if p := <-got; len(p.Events) != 1 || p.Events[0].Offset != 1 {
		t.Errorf("woken: %+v", p)
	}
	go func() { got <- h.readPage("/v1/runs/r/events?from=2&waitMs=60000") }()
	h.awaitWatchers("r", 1)
	h.gw.Drain()
	if p := <-got; len(p.Events) != 0 || p.Tail != 2 {
		t.Errorf("drained: %+v", p)
	}
}

// awaitWatchers returns once so many readers have subscribed to a run.
func (h *harness) awaitWatchers(id event.RunID, n int) {
	h.t.Helper()
	h.await("readers of the run", func() bool { return h.node.watchers(id) == n })
}

// Draining ends tails between two events; they resume elsewhere, without a gap.
func TestDrain(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.run("r", custom(1))
	idle, lines := h.sse("/v1/runs/r/events"), h.open("/v1/runs/r/events", "Accept", "application/x-ndjson")
	idle.event()
	idle.event()
	h.must(200, "GET", "/readyz", "")
	h.gw.Drain()
	h.gw.Drain()
	idle.end()
	if b, err := io.ReadAll(lines.r); err != nil || strings.Count(string(b), "\n") != 2 {
		t.Errorf("NDJSON ended with %v after %q", err, b)
	}
	r := h.must(503, "GET", "/readyz", "")
	if r.json(t, "ready") != false || !strings.Contains(string(r.body), "shutting down") {
		t.Errorf("readiness %s", r)
	}
	h.must(200, "GET", "/healthz", "")
	h.append("r", custom(2))
}

// A connection is fit for other requests after a tail and after a long poll: no deadline of theirs is left on it.
func TestConnectionIsReusedAfterATail(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.FlushTimeout = 20 * time.Millisecond })
	h.run("r", finished())
	conn, err := net.Dial("tcp", h.srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := bufio.NewReader(conn)
	for _, accept := range []string{"text/event-stream", "application/json"} {
		fmt.Fprintf(conn, "GET /v1/runs/r/events HTTP/1.1\r\nHost: x\r\nAccept: %s\r\n\r\n", accept)
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		<-time.After(40 * time.Millisecond) // the tail's write deadline passes, and must not matter
	}
}

func TestTailOfADeletedRun(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.run("r", finished())
	h.must(204, "DELETE", "/v1/runs/r", "")
	h.problem(410, "run_deleted", "GET", "/v1/runs/r/events", "", "Accept", "text/event-stream")
	h.problem(410, "run_deleted", "GET", "/v1/runs/r", "")
	h.problem(410, "run_deleted", "DELETE", "/v1/runs/r", "")
}

// A large run comes complete in one page after another, each of bounded size.
func TestPagesAreBounded(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.large("r", 9)
	pages, next := 0, uint64(0)
	for {
		p := h.readPage(fmt.Sprintf("/v1/runs/r/events?limit=10000&from=%d", next))
		for _, e := range p.Events {
			if e.Offset != next {
				t.Fatalf("offset %d, want %d", e.Offset, next)
			}
			next++
		}
		if pages++; next == p.Tail {
			break
		}
	}
	if pages != 3 {
		t.Errorf("9 MiB came in %d pages", pages)
	}
}
