package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// TestChangesAreAStream: what happens to runs can be read by a Durable Streams client, from the start
// and on, and written by nobody.
func TestChangesAreAStream(t *testing.T) {
	t.Parallel()
	h, _ := startMachine(t)
	h.must(http.StatusCreated, "POST", "/v1/runs", `{"runId":"r1","threadId":"t1"}`)
	h.must(http.StatusOK, "POST", "/v1/runs/r1/events", `{"type":"RUN_FINISHED"}`)
	for _, path := range []string{"/v1/stream/_runs", "/streams/_runs"} {
		r := h.must(http.StatusOK, "GET", path+"?offset=-1", "")
		if b := string(r.body); !strings.HasPrefix(b, `[{"change":"created","runId":"r1","threadId":"t1","status":"running"`) || !strings.Contains(b, `{"change":"ended"`) {
			t.Fatalf("%s: %s", path, b)
		}
		if next := r.header.Get("Stream-Next-Offset"); next != "00000000000000000002" || r.header.Get("Stream-Up-To-Date") != "true" {
			t.Fatalf("next %q, %v", next, r.header)
		}
		r = h.must(http.StatusOK, "GET", path+"?offset=00000000000000000001", "")
		if b := string(r.body); !strings.HasPrefix(b, `[{"change":"ended"`) {
			t.Fatalf("%s from 1: %s", path, b)
		}
		h.must(http.StatusMethodNotAllowed, "POST", path, `{}`, "Content-Type", "application/json")
		h.must(http.StatusMethodNotAllowed, "PUT", path, `[]`, "Content-Type", "application/json")
		h.must(http.StatusMethodNotAllowed, "DELETE", path, ``)
		h.must(http.StatusRequestedRangeNotSatisfiable, "GET", path+"?offset=00000000000000000009", "")
	}
}
