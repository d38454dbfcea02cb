package gateway

import (
	"strings"
	"testing"
)

// HEAD is answered wherever GET is, with GET's status and headers, and does not wait for what a tail
// would.
func TestHead(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.run("r")
	h.append("r", `{"type":"CUSTOM","name":"n","value":1}`)
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/cluster", "/v1/runs", "/v1/runs/r", "/v1/runs/none",
		"/v1/runs/r/events", "/v1/runs/r/events?from=99", "/v1/runs/r/transcript", "/v1/runs/r/tools", "/v1/runs/r/state?at=1"} {
		get, head := h.get(path), h.do("HEAD", path, "")
		if head.status != get.status || len(head.body) != 0 || head.header.Get("Content-Type") != get.header.Get("Content-Type") || head.header.Get("ETag") != get.header.Get("ETag") {
			t.Errorf("%s: HEAD %d %v, GET %d %v", path, head.status, head.header, get.status, get.header)
		}
	}
	for _, accept := range []string{"text/event-stream", "application/x-ndjson"} {
		if r := h.do("HEAD", "/v1/runs/r/events", "", "Accept", accept); r.status != 200 || r.header.Get("Content-Type") != accept {
			t.Errorf("%s: %d %v", accept, r.status, r.header)
		}
		if r := h.do("HEAD", "/v1/runs/r/events?from=99", "", "Accept", accept); r.status != 416 {
			t.Errorf("%s, beyond the tail: %d", accept, r.status)
		}
	}
	if r := h.do("HEAD", "/v1/leases", ""); r.status != 404 && r.status != 405 {
		t.Errorf("a path without GET: %d", r.status)
	}
	if r := h.do("DELETE", "/v1/runs", ""); !strings.Contains(r.header.Get("Allow"), "HEAD") {
		t.Errorf("Allow: %s", r.header.Get("Allow"))
	}
}
