package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/raftlog"
)

func TestAppend(t *testing.T) {
	t.Parallel()
	h := start(t)
	r := h.must(200, "POST", "/v1/runs/r1/events", started(), "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "0")
	if got := string(r.body); got != `{"firstOffset":0,"tail":1,"duplicate":false}` {
		t.Errorf("answer %s", got)
	}
	if r.header.Get("Runlog-Token") == "" || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", r.header)
	}
	r = h.must(200, "POST", "/v1/runs/r1/events", started(), "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "0")
	if got := string(r.body); got != `{"firstOffset":0,"tail":1,"duplicate":true}` {
		t.Errorf("duplicate %s", got)
	}
	r = h.must(200, "POST", "/v1/runs/r1/events", custom(1)+"\n"+custom(2)+"\n", "Expected-Offset", "1", "Content-Type", "application/x-ndjson")
	if got := string(r.body); got != `{"firstOffset":1,"tail":3,"duplicate":false}` {
		t.Errorf("batch %s", got)
	}
}

// A body is read by its first byte whatever its content type says.
func TestAppendContentTypes(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.run("r")
	for i, ct := range []string{"", "application/json", "application/json; charset=utf-8", "application/x-ndjson", "text/plain", "application/x-www-form-urlencoded", "garbage;;"} {
		var headers []string
		if ct != "" {
			headers = []string{"Content-Type", ct}
		}
		for _, body := range []string{custom(i), "[" + custom(i) + "]", custom(i) + "\n" + custom(i), " \r\n\t" + custom(i)} {
			h.must(200, "POST", "/v1/runs/r/events", body, headers...)
		}
	}
}

func TestAppendBadInput(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.run("r")
	type bad struct {
		name    string
		path    string
		body    string
		headers []string
		status  int
		code    string
		in      string // the problem's in, name and index, or parts of its detail
	}
	cases := []bad{
		{"empty", "", "", nil, 422, "invalid_event", `"index":0`},
		{"empty array", "", "[]", nil, 422, "invalid_event", `"index":0`},
		{"not JSON", "", "hello", nil, 422, "invalid_event", `"index":0`},
		{"number", "", "17", nil, 422, "invalid_event", `"index":0`},
		{"binary of an unknown type", "", "\x00\x01\x02", []string{"Content-Type", "application/x-protobuf"}, 422, "invalid_event", `"index":0`},
		{"form", "", "type=CUSTOM", []string{"Content-Type", "application/x-www-form-urlencoded"}, 422, "invalid_event", `"index":0`},
		{"cut short", "", `{"type":"CUSTOM","name":"n`, nil, 422, "invalid_event", "cut short"},
		{"bad in the middle", "", "[" + custom(1) + `,{"name":"no type"},` + custom(3) + "]", nil, 422, "invalid_event", `"index":1`},
		{"bad line in the middle", "", custom(1) + "\n" + custom(2) + "\n{]\n" + custom(3), nil, 422, "invalid_event", `"index":2`},
		{"grammar in the middle", "", "[" + custom(1) + `,{"type":"TEXT_MESSAGE_END","messageId":"never"},` + custom(3) + "]", nil, 422, "invalid_event", `"index":1`},
		{"wrong type of a field", "", `{"type":"TEXT_MESSAGE_START","messageId":7}`, nil, 422, "invalid_event", "messageId"},
		{"type is a number", "", `{"type":7}`, nil, 422, "invalid_event", "type"},
		{"not UTF-8", "", "{\"type\":\"CUSTOM\",\"name\":\"\xff\",\"value\":1}", nil, 422, "invalid_event", "UTF-8"},
		{"too many events", "", strings.Repeat(custom(1)+"\n", event.MaxBatchEvents+1), nil, 413, "too_large", `"limit":1000`},
		{"too deep", "", `{"type":"CUSTOM","name":"n","value":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "}", nil, 422, "invalid_event", "deep"},
		{"content encoding", "", custom(1), []string{"Content-Encoding", "gzip"}, 415, "unsupported_media_type", ""},
		{"control character", "/v1/runs/a%0Ab/events", custom(1), nil, 400, "bad_request", "control character"},
		{"control character DEL", "/v1/runs/a%7Fb/events", custom(1), nil, 400, "bad_request", "runId"},
		{"dot", "/v1/runs/%2E%2E/events", custom(1), nil, 400, "bad_request", "runId"},
		{"id not UTF-8", "/v1/runs/a%FFb/events", custom(1), nil, 400, "bad_request", "UTF-8"},
		{"id too long", "/v1/runs/" + strings.Repeat("x", 257) + "/events", custom(1), nil, 400, "bad_request", "256"},
		{"id empty", "/v1/runs//events", custom(1), nil, 400, "bad_request", "runId"},
		{"half a producer", "", custom(1), []string{"Producer-Id", "p"}, 400, "bad_request", "Producer-Epoch"},
		{"producer without id", "", custom(1), []string{"Producer-Epoch", "0", "Producer-Seq", "0"}, 400, "bad_request", "Producer-Id"},
		{"producer id empty", "", custom(1), []string{"Producer-Id", "", "Producer-Epoch", "0", "Producer-Seq", "0"}, 400, "bad_request", "Producer-Id"},
		{"producer id with a control character", "", custom(1), []string{"Producer-Id", "a\tb", "Producer-Epoch", "0", "Producer-Seq", "0"}, 400, "bad_request", "control"},
	}
	for _, name := range []string{"Run-Epoch", "Expected-Offset", "Producer-Epoch", "Producer-Seq"} {
		for _, v := range []string{"", "-1", "+1", "1.0", "1e3", "0x10", "abc", " 1 2", "9007199254740992", "18446744073709551616", "99999999999999999999999", "１"} {
			headers := []string{name, v}
			if strings.HasPrefix(name, "Producer") {
				headers = append(headers, "Producer-Id", "p")
			}
			cases = append(cases, bad{name + "=" + v, "", custom(1), headers, 400, "bad_request", `"name":"` + name + `"`})
		}
		cases = append(cases, bad{name + " twice", "", custom(1), []string{name, "1", name, "1"}, 400, "bad_request", "more than once"})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := c.path
			if path == "" {
				path = "/v1/runs/r/events"
			}
			h := &harness{t, h.node, h.gw, h.srv, h.http}
			r := h.problem(c.status, c.code, "POST", path, c.body, c.headers...)
			if !strings.Contains(string(r.body), c.in) {
				t.Errorf("want %q named in %s", c.in, r)
			}
		})
	}
	if r := h.get("/v1/runs/r/events"); r.json(t, "tail") != 1.0 {
		t.Errorf("a refused batch left something: %s", r)
	}
}

// A body of 100 MB is refused after its first MiB, whether its length is announced or not.
func TestAppendTooLarge(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.run("r")
	big := strings.Repeat("x", 1<<20)
	h.problem(413, "too_large", "POST", "/v1/runs/r/events", big+"x")
	for _, chunked := range []bool{false, true} {
		conn, err := net.Dial("tcp", h.srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		length := "Content-Length: 104857600"
		if chunked {
			length = "Transfer-Encoding: chunked"
		}
		fmt.Fprintf(conn, "POST /v1/runs/r/events HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", length)
		go func() {
			for range 100 {
				var err error
				if chunked {
					_, err = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(big), big)
				} else {
					_, err = io.WriteString(conn, big)
				}
				if err != nil {
					return // the server has closed, as it should
				}
			}
		}()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 413 || !strings.Contains(string(body), `"limit":1048576`) || !resp.Close {
			t.Errorf("chunked=%v: %d %s close=%v", chunked, resp.StatusCode, body, resp.Close)
		}
	}
}

// A client that sends all of a body before it looks for an answer gets that answer, and keeps its
// connection.
func TestTooLargeAnswered(t *testing.T) {
	t.Parallel()
	h := start(t)
	conn, err := net.Dial("tcp", h.srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for range 2 {
		big := strings.Repeat("x", 10<<20)
		if _, err := fmt.Fprintf(conn, "POST /v1/runs/r/events HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(big), big); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != 413 || resp.Close {
			t.Errorf("%d, close=%v", resp.StatusCode, resp.Close)
		}
	}
}

// A connection that breaks in the middle of a body leaves nothing.
func TestAppendHalfABody(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.run("r")
	conn, err := net.Dial("tcp", h.srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /v1/runs/r/events HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n%s", custom(1))
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 400 || !strings.Contains(string(body), "ended before its announced length") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if r := h.get("/v1/runs/r/events"); r.json(t, "tail") != 1.0 {
		t.Errorf("half a body left something: %s", r)
	}
}

func TestAppendRefusals(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.problem(404, "run_not_found", "POST", "/v1/runs/none/events", custom(1))
	h.must(201, "POST", "/v1/runs", `{"runId":"leased","holder":"h"}`)
	h.problem(428, "epoch_required", "POST", "/v1/runs/leased/events", custom(1))
	r := h.problem(409, "fenced", "POST", "/v1/runs/leased/events", custom(1), "Run-Epoch", "7")
	if r.json(t, "epoch") != 7.0 || r.json(t, "currentEpoch") != 1.0 {
		t.Errorf("fields of %s", r)
	}
	h.run("r", custom(1))
	r = h.problem(409, "offset_conflict", "POST", "/v1/runs/r/events", custom(1), "Expected-Offset", "9007199254740991")
	if r.json(t, "expected") != 9007199254740991.0 || r.json(t, "tail") != 2.0 {
		t.Errorf("fields of %s", r)
	}
	h.problem(409, "producer_gap", "POST", "/v1/runs/r/events", custom(1), "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "3")
	h.append("r", finished())
	r = h.problem(409, "run_ended", "POST", "/v1/runs/r/events", custom(1))
	if r.json(t, "terminalOffset") != 2.0 {
		t.Errorf("fields of %s", r)
	}
}

// What the log answers with when it cannot decide is told apart.
func TestAppendConditions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		code   string
		retry  string
	}{
		{raftlog.ErrUnavailable, 503, "unavailable", "1"},
		{raftlog.ErrClosed, 503, "unavailable", "1"},
		{raftlog.ErrOverloaded, 429, "overloaded", "1"},
		{raftlog.ErrOutcomeUnknown, 504, "outcome_unknown", ""},
		{fmt.Errorf("wrapped: %w", raftlog.ErrOutcomeUnknown), 504, "outcome_unknown", ""},
		{fmt.Errorf("badger: secret path"), 500, "internal", ""},
	} {
		h := start(t)
		h.node.proposeErr = c.err
		r := h.problem(c.status, c.code, "POST", "/v1/runs/r/events", started())
		if r.header.Get("Retry-After") != c.retry {
			t.Errorf("%v: Retry-After %q", c.err, r.header.Get("Retry-After"))
		}
		if strings.Contains(string(r.body), "badger") {
			t.Errorf("a dependency's text in %s", r)
		}
	}
}

// Events come back as they were sent, in every form.
func TestBytesAreKept(t *testing.T) {
	t.Parallel()
	h := start(t)
	events := []string{
		`{"type":"RUN_STARTED"}`,
		`{"type":"CUSTOM","name":"half","value":"\ud83d"}`,
		`{"type":"CUSTOM","name":"other half","value":"\ude00 \u00e9 é 😀 \/ / \u003c<>&"}`,
		`{"type":"CUSTOM","name":"number","value":12345678901234567890,"e":1e400,"z":-0,"f":1.10}`,
		`{ "value" : 1 , "name":"spaces",	"type" : "CUSTOM" , "value":2 }`,
		"{\"type\":\"CUSTOM\",\"name\":\"u\u2028v\",\"value\":\"\\u2028\u2028\\n\"}",
	}
	h.must(200, "POST", "/v1/runs/r/events", "[ "+strings.Join(events, " ,\n")+" ]")
	pretty := "{\n  \"type\": \"RUN_FINISHED\",\r\n\t\"result\": \"a\\nb\"\n}"
	h.must(200, "POST", "/v1/runs/r/events", pretty)
	oneLine := strings.NewReplacer("\n", " ", "\r", " ").Replace(pretty)

	lines := strings.Split(string(h.get("/v1/runs/r/events", "Accept", "application/x-ndjson").body), "\n")
	want := append(append([]string(nil), events...), oneLine, "")
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("NDJSON:\n%s", strings.Join(lines, "\n"))
	}
	s := h.sse("/v1/runs/r/events")
	for i, e := range want[:len(want)-1] {
		if f := s.event(); f.data != e || f.id != fmt.Sprint(i) {
			t.Errorf("SSE %d: id %s, data %s", i, f.id, f.data)
		}
	}
	s.end()
	page := string(h.get("/v1/runs/r/events").body)
	for _, e := range append(events, pretty) {
		if !strings.Contains(page, `"event":`+e+"}") {
			t.Errorf("%s is not in the page", e)
		}
	}
	envelopes := string(h.get("/v1/runs/r/events?envelope=true", "Accept", "application/x-ndjson").body)
	if got := strings.Split(envelopes, "\n")[6]; !strings.HasPrefix(got, `{"offset":6,"epoch":0,"time":17`) || !strings.HasSuffix(got, `"event":`+oneLine+"}") {
		t.Errorf("envelope %s", got)
	}
}

func TestIDsInPaths(t *testing.T) {
	t.Parallel()
	h := start(t)
	for path, id := range map[string]string{
		"a:b": "a:b", "a%2Fb": "a/b", "a%25b": "a%b", "a%252Fb": "a%2Fb", "a+b": "a+b", "a%20b": "a b",
		"%C3%A9%F0%9F%98%80": "é😀", "a%3Fb": "a?b", "a%23b": "a#b", "%2e%2e%2e": "...", "a%2F%2E%2E%2Fb": "a/../b", "a;b=c": "a;b=c", "events": "events",
	} {
		h.must(200, "POST", "/v1/runs/"+path+"/events", started())
		if got := h.must(200, "GET", "/v1/runs/"+path, "").json(t, "runId"); got != id {
			t.Errorf("%s: %v, want %s", path, got, id)
		}
	}
}

func TestParseNumber(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]uint64{"0": 0, "007": 7, "9007199254740991": 1<<53 - 1, "00000000000000000042": 42} {
		if n, ok := parseNumber(s); !ok || n != want {
			t.Errorf("%q: %d %v", s, n, ok)
		}
	}
	for _, s := range []string{"", "-0", "+0", " 1", "1 ", "9007199254740992", "99999999999999999999", "000000000000000000001", "1_000"} {
		if n, ok := parseNumber(s); ok {
			t.Errorf("%q: %d", s, n)
		}
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add("1", "2", "p", "3", "4", "/v1/runs/r/events", "from=1&limit=2")
	f.Add("-1", "", "\x00", "9007199254740992", "1", "/v1/runs/%2E%2E/events", "after=%zz")
	n := newFake()
	gw, err := New(Config{Log: n, Reader: n, Cluster: n})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, epoch, expect, id, pepoch, seq, path, query string) {
		for _, method := range []string{"GET", "POST"} {
			req := httptest.NewRequest(method, "/", strings.NewReader(started()))
			req.URL.Path, req.URL.RawQuery = path, query
			req.Header = http.Header{
				"Run-Epoch": {epoch}, "Expected-Offset": {expect}, "Producer-Id": {id}, "Producer-Epoch": {pepoch},
				"Producer-Seq": {seq}, "Last-Event-Id": {seq}, "Accept": {id}, "If-None-Match": {id},
			}
			if method == "GET" {
				req.URL.RawQuery += "&live=false"
			}
			w := httptest.NewRecorder()
			gw.ServeHTTP(w, req)
			if w.Code >= 500 {
				t.Fatalf("%s %q?%q: %d %s", method, path, query, w.Code, w.Body)
			}
		}
	})
}
