package gateway

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestService(t *testing.T) {
	t.Parallel()
	h := start(t)
	if r := h.must(200, "GET", "/", ""); r.json(t, "links") == nil {
		t.Errorf("links: %s", r)
	}
	h.must(200, "GET", "/healthz", "")
	if r := h.must(200, "GET", "/readyz", ""); r.json(t, "ready") != true {
		t.Errorf("ready: %s", r)
	}
	h.node.readyFails = true
	r := h.must(503, "GET", "/readyz", "")
	if r.json(t, "ready") != false || r.header.Get("Retry-After") == "" {
		t.Errorf("not ready: %s", r)
	}
	h.run("r")
	m := string(h.must(200, "GET", "/metrics", "").body)
	for _, want := range []string{
		`runlog_gateway_request_seconds_count{route="POST /v1/runs/:runId/events",status="2xx"} 1`,
		"runlog_gateway_append_events_sum 1", "runlog_gateway_open_tails 0",
	} {
		if !strings.Contains(m, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	h := start(t)
	r := h.must(200, "GET", "/v1/cluster", "")
	if r.json(t, "clusterId") != "c1" || r.json(t, "leader") != "n1" {
		t.Errorf("cluster: %s", r)
	}
	h.must(204, "POST", "/v1/cluster/transfer-leadership", "{}")
	h.must(204, "POST", "/v1/cluster/transfer-leadership", "")
	h.node.loseLeader()
	h.problem(503, "unavailable", "POST", "/v1/cluster/transfer-leadership", "")
	if h.node.transfers != 3 {
		t.Errorf("%d transfers", h.node.transfers)
	}
}

func TestProjections(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.must(201, "POST", "/v1/runs", `{"runId":"r","threadId":"t"}`)
	h.append("r", `{"type":"STATE_SNAPSHOT","snapshot":{"n":12345678901234567890}}`,
		`{"type":"TEXT_MESSAGE_START","messageId":"m"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\ud83d"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\ude00"}`, `{"type":"TEXT_MESSAGE_END","messageId":"m"}`,
		`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"bash"}`)
	r := h.must(200, "GET", "/v1/runs/r/transcript", "")
	if r.json(t, "runId") != "r" || r.json(t, "threadId") != "t" || r.json(t, "offset") != 7.0 {
		t.Errorf("transcript: %s", r)
	}
	messages, _ := r.json(t, "messages").([]any)
	if len(messages) != 2 || messages[0].(map[string]any)["content"] != "😀" {
		t.Errorf("messages of %s", r)
	}
	r = h.must(200, "GET", "/v1/runs/r/transcript?at=4", "")
	if messages, _ = r.json(t, "messages").([]any); r.json(t, "offset") != 4.0 || len(messages) != 1 {
		t.Errorf("at 4: %s", r)
	}
	r = h.must(200, "GET", "/v1/runs/r/tools", "")
	if calls, _ := r.json(t, "toolCalls").([]any); len(calls) != 1 || r.json(t, "runId") != "r" {
		t.Errorf("tools: %s", r)
	}
	r = h.must(200, "GET", "/v1/runs/r/state", "")
	if got := string(r.body); got != `{"offset":7,"state":{"n":12345678901234567890}}` {
		t.Errorf("state: %s", got)
	}
	for _, path := range []string{"transcript", "tools", "state"} {
		path = "/v1/runs/r/" + path
		etag := h.get(path).header.Get("ETag")
		if r := h.must(304, "GET", path, "", "If-None-Match", etag); len(r.body) > 0 || r.header.Get("ETag") != etag {
			t.Errorf("304 with %v %s", r.header, r)
		}
		h.must(304, "GET", path+"?at=7", "", "If-None-Match", `"other", W/`+etag)
		h.must(200, "GET", path+"?at=6", "", "If-None-Match", etag)
		h.problem(416, "offset_out_of_range", "GET", path+"?at=8", "")
		h.problem(400, "bad_request", "GET", path+"?at=x", "")
		h.problem(404, "run_not_found", "GET", strings.Replace(path, "/r/", "/none/", 1), "")
	}
	h.append("r", custom(1))
	if etag := h.get("/v1/runs/r/state").header.Get("ETag"); etag != `"1-state-8"` {
		t.Errorf("ETag after an append: %s", etag)
	}
}

// JSON is compressed where the client asks, also conditionally; streams never are.
func TestCompression(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.large("r", 1)
	h.append("r", finished())
	plain := h.get("/v1/runs/r/events")
	gz := h.get("/v1/runs/r/events", "Accept-Encoding", "gzip")
	if gz.header.Get("Content-Encoding") != "gzip" || len(gz.body) > len(plain.body)/10 {
		t.Fatalf("gzip: %v, %d bytes of %d", gz.header, len(gz.body), len(plain.body))
	}
	zr, err := gzip.NewReader(strings.NewReader(string(gz.body)))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(zr); err != nil || string(b) != string(plain.body) {
		t.Errorf("gzip gave %d bytes, %v", len(b), err)
	}
	zs := h.get("/v1/runs/r/events", "Accept-Encoding", "zstd")
	zd, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer zd.Close()
	if b, err := zd.DecodeAll(zs.body, nil); err != nil || string(b) != string(plain.body) {
		t.Errorf("zstd (%q) gave %d bytes, %v", zs.header.Get("Content-Encoding"), len(b), err)
	}
	for _, accept := range []string{"text/event-stream", "application/x-ndjson"} {
		if r := h.get("/v1/runs/r/events", "Accept", accept, "Accept-Encoding", "gzip, zstd"); r.header.Get("Content-Encoding") != "" {
			t.Errorf("%s came compressed", accept)
		}
	}
	long := h.get("/v1/runs/r/transcript", "Accept-Encoding", "gzip")
	h.must(304, "GET", "/v1/runs/r/transcript", "", "Accept-Encoding", "gzip", "If-None-Match", long.header.Get("ETag"))
	h.problem(404, "run_not_found", "GET", "/v1/runs/none", "", "Accept-Encoding", "identity")
}

func TestConfig(t *testing.T) {
	t.Parallel()
	n := newFake()
	for _, c := range []Config{{}, {Log: n}, {Log: n, Reader: n}, {Log: n, Reader: n, Cluster: n, Heartbeat: -1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}

func TestMarshalKeepsRawJSON(t *testing.T) {
	t.Parallel()
	b, err := marshal(map[string]json.RawMessage{"x": json.RawMessage(`{"a":"<b>\ud83d","n":12345678901234567890}`)})
	if want := `{"x":{"a":"<b>\ud83d","n":12345678901234567890}}`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
}
