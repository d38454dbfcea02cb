package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/fsm"
)

// startStreams serves the protocol over a real state machine.
func startStreams(t testing.TB, change ...func(*Config)) *harness {
	t.Helper()
	m, err := fsm.Open(fsm.Config{InMemory: true, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	n := &machineNode{m: m}
	cfg := Config{Log: n, Reader: machineReader{m}, Cluster: newFake(), Streams: machineStreams{m}}
	for _, f := range change {
		f(&cfg)
	}
	gw, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(gw)
	srv.Config = NewServer(gw, nil)
	srv.Start()
	h := &harness{t, nil, gw, srv, &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 8}}}
	t.Cleanup(func() {
		gw.Drain()
		h.http.CloseIdleConnections()
		srv.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

const (
	chat = "/v1/stream/chat"
	text = "text/plain"
)

var asText = []string{"Content-Type", text}

// want requires headers, which alternate name and value; "" says that there must be none.
func (r reply) want(t testing.TB, headers ...string) {
	t.Helper()
	for i := 0; i+1 < len(headers); i += 2 {
		if got := r.header.Get(headers[i]); got != headers[i+1] {
			t.Errorf("%s is %q, not %q", headers[i], got, headers[i+1])
		}
	}
}

func at(n int) string { return fmt.Sprintf("%020d", n) }

func TestStreamLife(t *testing.T) {
	t.Parallel()
	h := startStreams(t)
	made := h.must(201, "PUT", chat+"/a", "one", "Content-Type", "Text/Plain; charset=utf-8", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "example.org")
	made.want(t, "Location", "https://example.org/v1/stream/chat/a", "Content-Type", text, "Stream-Next-Offset", at(1), "Stream-Closed", "")
	again := h.must(200, "PUT", "/streams/chat%2Fa", "", asText...)
	again.want(t, "Location", "", "Stream-Next-Offset", at(1))
	h.problem(409, "stream_exists", "PUT", chat+"/a", "")
	h.must(204, "POST", "/streams/chat/a", "two", asText...).want(t, "Stream-Next-Offset", at(2))
	r := h.get(chat + "%2Fa?offset=" + at(1))
	r.want(t, "Content-Type", text, "Stream-Next-Offset", at(2), "Stream-Up-To-Date", "true", "Stream-Closed", "")
	if string(r.body) != "two" {
		t.Errorf("read %s", r)
	}
	for _, w := range [][4]string{{"DELETE", "/v1/stream/none"}, {"POST", "/streams/none", "x"}, {"GET", "/v1/stream/none?offset=now"}, {"GET", "/streams/none?offset=-1&live=sse"}} {
		r := h.problem(404, "stream_not_found", w[0], w[1], w[2], asText...)
		r.want(t, "Access-Control-Allow-Origin", "*", "X-Content-Type-Options", "nosniff", "Cross-Origin-Resource-Policy", "cross-origin")
	}
	h.must(204, "POST", chat+"/a", "", "Stream-Closed", "TRUE").want(t, "Stream-Closed", "true", "Stream-Next-Offset", at(2))
	h.must(204, "POST", chat+"/a", "", "Stream-Closed", "true")
	h.problem(409, "stream_closed", "POST", chat+"/a", "x", asText...).want(t, "Stream-Closed", "true", "Stream-Next-Offset", at(2))
	h.must(204, "DELETE", chat+"/a", "")
	h.problem(404, "stream_not_found", "GET", chat+"/a", "")
	h.must(201, "PUT", chat+"/a", "", asJSON...).want(t, "Stream-Next-Offset", at(0))
	h.must(204, "OPTIONS", chat, "").want(t, "Access-Control-Allow-Methods", streamMethods[0])
	h.problem(405, "method_not_allowed", "PATCH", chat, "").want(t, "Access-Control-Allow-Origin", "*")
}

func TestStreamHead(t *testing.T) {
	t.Parallel()
	h := startStreams(t)
	h.must(201, "PUT", chat, "x", "Stream-TTL", "60")
	r := h.must(200, "HEAD", chat, "")
	r.want(t, "Content-Type", "application/octet-stream", "Stream-TTL", "60", "Stream-Next-Offset", at(1), "Cache-Control", "no-store")
	h.must(201, "PUT", chat+"2", "", "Stream-Expires-At", "2999-01-02T03:04:05+01:00")
	h.must(200, "HEAD", chat+"2", "").want(t, "Stream-Expires-At", "2999-01-02T02:04:05.000Z", "Stream-TTL", "")
}

func TestStreamRequestsThatCannotBeUnderstood(t *testing.T) {
	t.Parallel()
	h := startStreams(t)
	h.must(201, "PUT", chat, "", asJSON...)
	type bad struct {
		method, path, body string
		headers            []string
	}
	for _, b := range []bad{
		{"PUT", "/v1/stream/", "", nil},
		{"PUT", "/v1/stream/%ff", "", nil},
		{"PUT", "/v1/stream/x", "", []string{"Stream-TTL", "+5"}},
		{"PUT", "/v1/stream/x", "", []string{"Stream-TTL", "05"}},
		{"PUT", "/v1/stream/x", "", []string{"Stream-TTL", "5", "Stream-Expires-At", "2999-01-02T03:04:05Z"}},
		{"PUT", "/v1/stream/x", "", []string{"Stream-Expires-At", "tomorrow"}},
		{"PUT", "/v1/stream/x", "", []string{"Stream-Fork-Sub-Offset", "1"}},
		{"PUT", "/v1/stream/x", "", []string{"Stream-Forked-From", chat, "Stream-Fork-Sub-Offset", "1"}},
		{"PUT", "/v1/stream/x", "", []string{"Stream-Forked-From", chat, "Stream-Fork-Offset", "x"}},
		{"PUT", "/v1/stream/x", "", []string{"Stream-Forked-From", "/elsewhere"}},
		{"PUT", "/v1/stream/x", "{", asJSON},
		{"POST", chat, "", asJSON},
		{"POST", chat, "[]", asJSON},
		{"POST", chat, "{", asJSON},
		{"POST", chat, "{}", nil},
		{"POST", chat, "{}", append([]string{"Producer-Id", "p"}, asJSON...)},
		{"POST", chat, "{}", append([]string{"Producer-Id", "", "Producer-Epoch", "0", "Producer-Seq", "0"}, asJSON...)},
		{"POST", chat, "{}", append([]string{"Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "1e3"}, asJSON...)},
		{"POST", chat, "{}", append([]string{"Stream-Seq", strings.Repeat("9", 257)}, asJSON...)},
		{"GET", chat + "?offset=", "", nil},
		{"GET", chat + "?offset=0,1", "", nil},
		{"GET", chat + "?offset=-1&offset=-1", "", nil},
		{"GET", chat + "?live=sse", "", nil},
		{"GET", chat + "?live=long-poll", "", nil},
		{"GET", chat + "?live=carrier-pigeon&offset=-1", "", nil},
	} {
		h.problem(400, "bad_request", b.method, b.path, b.body, b.headers...)
	}
	h.problem(413, "too_large", "POST", chat, `"`+strings.Repeat("x", maxStreamBody)+`"`, asJSON...)
	h.problem(416, "offset_out_of_range", "GET", chat+"?offset=7", "").want(t, "Stream-Next-Offset", at(0))
	if got := string(h.get(chat).body); got != "[]" {
		t.Errorf("something was written: %s", got)
	}
}

// JSON is kept as it came, one level of an array apart, and read back whole, or live in bounded pages.
func TestStreamJSON(t *testing.T) {
	t.Parallel()
	h := startStreams(t)
	h.must(201, "PUT", chat, "[]", asJSON...).want(t, "Stream-Next-Offset", at(0))
	h.must(204, "POST", chat, ` [ {"n" : 12345678901234567890} , [1,[2]], "é\u00e9" ] `, asJSON...).want(t, "Stream-Next-Offset", at(3))
	h.must(204, "POST", chat, `1.50`, asJSON...)
	if got := string(h.get(chat).body); got != `[{"n" : 12345678901234567890},[1,[2]],"é\u00e9",1.50]` {
		t.Errorf("read %s", got)
	}
	h.problem(409, "content_type_conflict", "POST", chat, "x", asText...)
	large := `"` + strings.Repeat("x", 900<<10) + `"`
	for range 3 {
		h.must(204, "POST", chat, large, asJSON...)
	}
	whole := h.must(200, "GET", chat, "")
	whole.want(t, "Stream-Next-Offset", at(7), "Stream-Up-To-Date", "true", "Cache-Control", revalidate[0])
	want := `[{"n" : 12345678901234567890},[1,[2]],"é\u00e9",1.50` + strings.Repeat(","+large, 3) + "]"
	if string(whole.body) != want {
		t.Errorf("the whole has %d bytes, want %d", len(whole.body), len(want))
	}
	h.must(304, "GET", chat, "", "If-None-Match", whole.header.Get("ETag"))
	from, messages, pages := "-1", 0, 0
	for pages < 9 {
		r := h.must(200, "GET", chat+"?live=long-poll&offset="+from, "")
		if len(r.body) > 2*streamPageBytes+64 {
			t.Errorf("a page has %d bytes", len(r.body))
		}
		pages++
		messages += strings.Count(string(r.body), large)
		from = r.header.Get("Stream-Next-Offset")
		if r.header.Get("Stream-Up-To-Date") == "true" {
			break
		}
		r.want(t, "Cache-Control", cacheable[0])
	}
	if messages != 3 || pages < 2 || from != at(7) {
		t.Errorf("%d of 3 large messages in %d pages, to %s", messages, pages, from)
	}
}

// An answer's ETag changes with what it says: more messages, a close without any, another stream of that name.
func TestStreamETags(t *testing.T) {
	t.Parallel()
	h := startStreams(t)
	seen := map[string]string{}
	check := func(step string) {
		t.Helper()
		r := h.must(200, "GET", chat+"?offset=-1", "")
		tag := r.header.Get("ETag")
		if was, ok := seen[tag]; ok || tag == "" {
			t.Errorf("%s: ETag %q was that of %q", step, tag, was)
		}
		seen[tag] = step
		r = h.must(304, "GET", chat+"?offset=-1", "", "If-None-Match", `"other", W/`+tag)
		r.want(t, "ETag", tag)
		if len(r.body) > 0 {
			t.Errorf("%s: 304 has a body", step)
		}
	}
	h.must(201, "PUT", chat, "", asText...)
	check("empty")
	h.must(204, "POST", chat, "a", asText...)
	check("one message")
	h.must(204, "POST", chat, "", "Stream-Closed", "true")
	check("closed")
	h.must(204, "DELETE", chat, "")
	h.must(201, "PUT", chat, "a", asText...)
	check("another of that name")
	h.must(200, "GET", chat+"?offset=now", "").want(t, "ETag", "", "Cache-Control", "no-store")
}

// The protocol's table of producers, and what keeps the published one from repeating for ever.
func TestStreamProducers(t *testing.T) {
	t.Parallel()
	h := startStreams(t)
	h.must(201, "PUT", chat, "", asText...)
	by := func(epoch, seq string, more ...string) []string {
		return append(append([]string{"Producer-Id", "p", "Producer-Epoch", epoch, "Producer-Seq", seq}, asText...), more...)
	}
	h.problem(409, "producer_gap", "POST", chat, "x", by("3", "1")...).want(t, "Producer-Expected-Seq", "0", "Producer-Received-Seq", "1")
	h.must(200, "POST", chat, "a", by("3", "0")...).want(t, "Producer-Epoch", "3", "Producer-Seq", "0", "Stream-Next-Offset", at(1))
	h.must(200, "POST", chat, "b", by("3", "1", "Stream-Seq", "b")...)
	h.must(204, "POST", chat, "another body", by("3", "0", "Stream-Seq", "a")...).want(t, "Producer-Seq", "1", "Stream-Next-Offset", at(2))
	h.problem(409, "stream_seq_conflict", "POST", chat, "x", by("3", "2", "Stream-Seq", "b")...)
	h.problem(403, "producer_fenced", "POST", chat, "x", by("2", "0")...).want(t, "Producer-Epoch", "3")
	h.problem(400, "producer_reset", "POST", chat, "x", by("4", "1")...)
	h.must(200, "POST", chat, "c", by("4", "0", "Stream-Closed", "true")...).want(t, "Stream-Closed", "true")
	h.must(204, "POST", chat, "", by("4", "0", "Stream-Closed", "true")...).want(t, "Stream-Closed", "true", "Producer-Seq", "0")
	h.problem(403, "producer_fenced", "POST", chat, "x", by("3", "2")...)
	h.problem(409, "stream_closed", "POST", chat, "x", by("4", "1")...).want(t,
		"Stream-Closed", "true", "Stream-Next-Offset", at(3), "Producer-Expected-Seq", "1", "Producer-Received-Seq", "1")
	if got := string(h.get(chat).body); got != "abc" {
		t.Errorf("the stream holds %q", got)
	}
}

func TestStreamForks(t *testing.T) {
	t.Parallel()
	h := startStreams(t)
	fork := func(status int, name, body string, headers ...string) reply {
		t.Helper()
		return h.must(status, "PUT", "/v1/stream/"+name, body, append([]string{"Stream-Forked-From", chat}, headers...)...)
	}
	h.must(201, "PUT", chat, "one", asText...)
	h.must(204, "POST", chat, "two", asText...)
	fork(201, "whole", "").want(t, "Content-Type", text, "Stream-Next-Offset", at(2))
	fork(201, "divided", "!", "Stream-Fork-Offset", at(0), "Stream-Fork-Sub-Offset", "4").want(t, "Stream-Next-Offset", at(3))
	fork(200, "divided", "", "Stream-Fork-Offset", at(0), "Stream-Fork-Sub-Offset", "4")
	fork(409, "divided", "", "Stream-Fork-Offset", at(0), "Stream-Fork-Sub-Offset", "5")
	fork(201, "between", "", "Stream-Fork-Offset", at(0), "Stream-Fork-Sub-Offset", "3")
	fork(201, "beginning", "x", "Stream-Fork-Offset", "0000000000000000_0000000000000000")
	for name, want := range map[string]string{"whole": "onetwo", "divided": "onet!", "between": "one", "beginning": "x"} {
		if got := string(h.get("/v1/stream/" + name).body); got != want {
			t.Errorf("%s holds %q, not %q", name, got, want)
		}
	}
	for _, sub := range []string{"7", "9007199254740991"} {
		h.problem(400, "fork_offset", "PUT", "/v1/stream/far", "", "Stream-Forked-From", chat, "Stream-Fork-Offset", at(0), "Stream-Fork-Sub-Offset", sub)
	}
	h.problem(400, "fork_offset", "PUT", "/v1/stream/far", "", "Stream-Forked-From", chat, "Stream-Fork-Offset", at(3))
	h.problem(409, "content_type_conflict", "PUT", "/v1/stream/other", "", "Stream-Forked-From", chat, "Content-Type", "image/png")
	h.problem(404, "fork_source", "PUT", "/v1/stream/other", "", "Stream-Forked-From", "/streams/none")

	h.must(204, "DELETE", chat, "")
	h.problem(410, "stream_gone", "GET", chat, "")
	h.problem(409, "stream_name_taken", "PUT", chat, "", asText...)
	h.problem(409, "fork_source_gone", "PUT", "/v1/stream/other", "", "Stream-Forked-From", chat)
	fork(200, "divided", "", "Stream-Fork-Offset", at(0), "Stream-Fork-Sub-Offset", "4") // it is there
	for _, name := range []string{"whole", "divided", "between", "beginning"} {
		h.must(204, "DELETE", "/v1/stream/"+name, "")
	}
	h.must(201, "PUT", chat, "", asJSON...)
	h.must(204, "POST", chat, `[1,2,3]`, asJSON...)
	fork(201, "json", "[9]", "Stream-Fork-Offset", at(1), "Stream-Fork-Sub-Offset", "1")
	if got := string(h.get("/streams/json").body); got != `[1,2,9]` {
		t.Errorf("the fork holds %s", got)
	}
}

// A read slides a TTL, and only once a noticeable part of it is over.
func TestStreamTouch(t *testing.T) {
	t.Parallel()
	h := startStreams(t)
	s, err := h.gw.streamLog("s")
	if err != nil {
		t.Fatal(err)
	}
	n := h.gw.node.(*machineNode)
	h.must(201, "PUT", "/streams/s", "", "Stream-TTL", "4")
	v, err := s.head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for idle, touches := range map[int64]bool{0: false, 499: false, 500: true, 3999: true} {
		before := n.m.Applied()
		v.IdleMs = idle
		if err := s.touch(t.Context(), &v); err != nil {
			t.Fatal(err)
		}
		if (n.m.Applied() > before) != touches {
			t.Errorf("idle for %d ms: touched %v", idle, !touches)
		}
	}
}

func TestStreamOffsets(t *testing.T) {
	t.Parallel()
	last := ""
	for _, o := range []event.Offset{0, 1, 9, 10, 1 << 40, event.MaxOffset} {
		s := formatStreamOffset(o)
		if back, ok := parseStreamOffset(s); !ok || back != o || s <= last {
			t.Errorf("%d is written %s after %s and read %d, %v", o, s, last, back, ok)
		}
		last = s
	}
	if o, ok := parseStreamOffset("0000000000000000_0000000000000001"); !ok || o != beyondAll {
		t.Errorf("another server's offset is read as %d, %v", o, ok)
	}
	for _, s := range []string{"_", "1_", "_1", "1_x", "+1", "99999999999999999999"} {
		if o, ok := parseStreamOffset(s); ok {
			t.Errorf("%q is read as %d", s, o)
		}
	}
}

func TestStreamCursors(t *testing.T) {
	t.Parallel()
	now := cursorEpoch.Add(1000*cursorInterval + time.Second)
	for sent, fixed := range map[string]string{"": "1000", "999": "1000", "none": "1000", "1000": "", "5000": ""} {
		c := newCursor(sent, now)
		got := c.next(now)
		if fixed != "" && got != fixed || fixed == "" && got <= sent {
			t.Errorf("after %q comes %s", sent, got)
		}
		if again := c.next(now.Add(-time.Hour)); again != got {
			t.Errorf("after %s comes %s an hour before", got, again)
		}
		if later := c.next(now.Add(1e6 * cursorInterval)); later != "1001000" {
			t.Errorf("much later it is %s", later)
		}
	}
}

// streams covers the operations on streams for [TestOpenAPIConformance].
func (c *conformance) streams() {
	h := startStreams(c.h.t)
	defer func(was *harness) { c.h = was }(c.h)
	c.h = h
	for i, prefix := range streamPrefixes {
		path := prefix + "s" + itoa(i)
		c.check(201, "PUT", path, `[1]`, "Content-Type", "application/json", "Stream-TTL", "60")
		c.check(200, "PUT", path, "", "Content-Type", "application/json", "Stream-TTL", "60")
		c.check(409, "PUT", path, "")
		c.check(201, "PUT", path+"fork", "", "Stream-Forked-From", path, "Stream-Fork-Offset", at(0), "Stream-Fork-Sub-Offset", "1")
		c.check(200, "POST", path, `{"a":2}`, "Content-Type", "application/json", "Producer-Id", "p", "Producer-Epoch", "0", "Producer-Seq", "0", "Stream-Seq", "1")
		c.check(409, "POST", path, `3`, "Content-Type", "text/plain")
		c.check(204, "POST", path, `[3]`, "Content-Type", "application/json", "Stream-Closed", "true")
		r := h.get(path + "?offset=-1")
		c.check(200, "GET", path+"?offset=-1", "")
		c.check(304, "GET", path+"?offset=-1", "", "If-None-Match", r.header.Get("ETag"))
		c.check(200, "GET", path+"?offset=now&live=sse&cursor=1", "")
		c.check(204, "GET", path+"?offset=now&live=long-poll", "")
		c.check(416, "GET", path+"?offset=9", "")
		c.check(204, "OPTIONS", path, "")
		c.check(204, "DELETE", path, "")
		c.check(410, "GET", path, "")
	}
}
