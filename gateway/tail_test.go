package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
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

// A node without a leader keeps live readers waiting and tells others to come again; it says
// "not found" only once that is proved.
func TestReadsWithoutALeader(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.ReadWait = 10 * time.Millisecond })
	h.run("r", custom(1))
	elect := h.node.loseLeader()
	h.must(200, "GET", "/v1/runs/r", "")
	h.must(200, "GET", "/v1/runs/r/events?from=2", "")
	for _, path := range []string{
		"/v1/runs/none", "/v1/runs/none/events", "/v1/runs/none/transcript", "/v1/runs/r/events?from=3", "/v1/runs/r?at=3",
		"/v1/runs/r?consistency=linearizable", "/v1/runs/r?minOffset=3", "/v1/runs/r/state?at=3", "/v1/runs?minToken=tzzzzz",
	} {
		if r := h.problem(503, "unavailable", "GET", path, ""); r.header.Get("Retry-After") != "1" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
	h.problem(503, "unavailable", "GET", "/v1/runs/none/events", "", "Accept", "application/x-ndjson")
	h.problem(503, "unavailable", "POST", "/v1/runs/r/events", custom(2))

	soon, never, beyond := h.sse("/v1/runs/soon/events"), h.sse("/v1/runs/never/events"), h.sse("/v1/runs/r/events?from=3")
	for _, s := range []*stream{soon, never, beyond} {
		if s.resp.StatusCode != 200 {
			t.Fatalf("status %d", s.resp.StatusCode)
		}
		for {
			if f, err := s.next(); err != nil || f.comment {
				break
			}
		}
	}
	elect()
	h.append("r", custom(2), custom(3))
	h.run("soon")
	if f := soon.event(); f.id != "0" {
		t.Errorf("soon: %+v", f)
	}
	if f := beyond.event(); f.id != "3" {
		t.Errorf("beyond: %+v", f)
	}
	never.end()
}

// A node that lags waits for what the request names, and proves what it denies.
func TestReadsOnALaggingNode(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.run("r")
	lag := func(f func()) {
		h.node.mu.Lock()
		h.node.lagging = true
		h.node.mu.Unlock()
		f()
		h.node.mu.Lock()
		h.node.lagging = false
		h.node.mu.Unlock()
	}
	next := 0
	write := func() (token string) {
		lag(func() {
			next++
			token = h.must(200, "POST", "/v1/runs/r/events", custom(next)).header.Get("Runlog-Token")
		})
		return token
	}
	token := write()
	if got := h.get("/v1/runs/r").json(t, "tail"); got != 1.0 {
		t.Fatalf("the fake does not lag: tail %v", got)
	}
	for i, query := range []string{"minToken=" + token, "minOffset=3", "consistency=linearizable"} {
		if i > 0 {
			write()
		}
		if got := h.must(200, "GET", "/v1/runs/r?"+query, "").json(t, "tail"); got != float64(i+2) {
			t.Errorf("%s: tail %v", query, got)
		}
	}
	write()
	if p := h.readPage("/v1/runs/r/events?from=5"); p.Tail != 5 || len(p.Events) != 0 {
		t.Errorf("cursor at the true tail: %+v", p)
	}
	lag(func() { h.run("late") })
	h.must(200, "GET", "/v1/runs/late", "")
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
	for h.node.watchers(id) != n {
		runtime.Gosched()
	}
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
	h.awaitWatchers("r", 1)
	h.awaitWatchers("r", 0)
	if m := h.get("/metrics"); !strings.Contains(string(m.body), "\nrunlog_gateway_slow_tails_total 1\n") {
		t.Error("the reader was not counted as slow")
	}
}

// Two hundred readers, half of them stuck, hold a bounded amount of memory, and the stuck ones do
// not hold up the others.
func TestManyReaders(t *testing.T) {
	h := start(t)
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

func TestJoin(t *testing.T) {
	t.Parallel()
	h := start(t)
	text := func(typ, rest string) string {
		return `{"type":"TEXT_MESSAGE_` + typ + `","messageId":"m"` + rest + `}`
	}
	h.run("r", `{"type":"STATE_SNAPSHOT","snapshot":{"a":1}}`, text("START", ""), text("CONTENT", `,"delta":"Hel"`))
	s := h.sse("/v1/runs/r/events?join=snapshot&scope=run")
	for _, want := range []string{"RUN_STARTED", "STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "TEXT_MESSAGE_START"} {
		f := s.event()
		if !strings.Contains(f.data, `"type":"`+want+`"`) || f.id != "" {
			t.Errorf("want %s, got %+v", want, f)
		}
		if want == "MESSAGES_SNAPSHOT" && !strings.Contains(f.data, "Hel") {
			t.Errorf("snapshot %s", f.data)
		}
	}
	h.append("r", text("CONTENT", `,"delta":"lo"`), text("END", ""), finished())
	for id := 4; id <= 6; id++ {
		if f := s.event(); f.id != strconv.Itoa(id) {
			t.Errorf("live: %+v", f)
		}
	}
	s.end()
	// An ended run is joined before its end; a client that resumes is not told again.
	s = h.sse("/v1/runs/r/events?join=snapshot")
	var ids []string
	for range 4 {
		ids = append(ids, s.event().id)
	}
	s.end()
	if strings.Join(ids, ",") != ",,,6" {
		t.Errorf("joined an ended run with ids %q", ids)
	}
	s = h.sse("/v1/runs/r/events?join=snapshot", "Last-Event-ID", "5")
	if f := s.event(); f.id != "6" {
		t.Errorf("resumed: %+v", f)
	}
	s.end()
	h.must(204, "GET", "/v1/runs/r/events?join=snapshot", "", "Accept", "text/event-stream", "Last-Event-ID", "6")
	// A run without events is joined at its start.
	h.must(201, "POST", "/v1/runs", `{"runId":"empty","started":false}`)
	s = h.sse("/v1/runs/empty/events?join=snapshot")
	h.append("empty", started())
	if f := s.event(); f.id != "0" {
		t.Errorf("joined an empty run: %+v", f)
	}
}
