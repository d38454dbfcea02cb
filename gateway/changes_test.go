package gateway

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	h := start(t)
	if r := h.must(200, "GET", "/v1/changes", ""); string(r.body) != `{"changes":[],"first":0,"tail":0}` {
		t.Error(r)
	}
	live := h.sse("/v1/changes?from=tail")
	h.append("a", startIn("t"), finished())
	for id, want := range []string{`"change":"created","runId":"a","threadId":"t"`, `"change":"ended","runId":"a"`} {
		if f := live.event(); f.id != itoa(id) || !strings.Contains(f.data, want) {
			t.Error(f)
		}
	}
	if f := h.sse("/v1/changes?from=0", "Last-Event-ID", "0").event(); f.id != "1" {
		t.Error(f)
	}
	r := h.must(200, "GET", "/v1/changes?after=0&limit=5", "")
	var page struct {
		Changes []struct {
			Offset event.Offset
			event.Change
		}
		First, Tail event.Offset
	}
	if err := json.Unmarshal(r.body, &page); err != nil || len(page.Changes) != 1 || page.Changes[0].Offset != 1 || page.Changes[0].Change.Change != event.ChangeEnded || page.Tail != 2 {
		t.Error(err, r)
	}
	lines := h.open("/v1/changes?live=false", "Accept", "application/x-ndjson")
	if b, err := io.ReadAll(lines.r); err != nil || strings.Count(string(b), "\n") != 2 {
		t.Errorf("%v %q", err, b)
	}
	lines = h.open("/v1/changes?limit=1", "Accept", "application/x-ndjson")
	if b, err := io.ReadAll(lines.r); err != nil || strings.Count(string(b), "\n") != 1 {
		t.Errorf("%v %q", err, b)
	}
	h.problem(416, "offset_out_of_range", "GET", "/v1/changes?from=3", "")
	h.node.mu.Lock()
	h.node.firstChange = 1
	h.node.mu.Unlock()
	for _, accept := range []string{"text/event-stream", "application/json", "application/x-ndjson"} {
		r := h.problem(410, "changes_gone", "GET", "/v1/changes?from=0", "", "Accept", accept)
		if r.json(t, "first") != 1.0 || r.json(t, "tail") != 2.0 {
			t.Error(r)
		}
	}
	for _, bad := range []string{"from=x", "from=tail&after=1", "limit=0", "limit=1001", "waitMs=60001", "live=x", "minOffset=1"} {
		h.problem(400, "bad_request", "GET", "/v1/changes?"+bad, "")
	}
}

func TestChangesLongPoll(t *testing.T) {
	t.Parallel()
	h := start(t)
	if r := h.must(200, "GET", "/v1/changes?from=0&waitMs=1", ""); r.json(t, "tail") != 0.0 {
		t.Error(r)
	}
	got := make(chan reply, 1)
	go func() { got <- h.get("/v1/changes?from=0&waitMs=60000") }()
	h.awaitWatchers(changesWatch, 1)
	h.append("a", startIn("t"))
	if r := <-got; !strings.Contains(string(r.body), `"created"`) {
		t.Error(r)
	}
	go func() { got <- h.get("/v1/changes?from=1&waitMs=60000") }()
	h.awaitWatchers(changesWatch, 1)
	h.gw.Drain()
	if r := <-got; r.status != 200 || r.json(t, "tail") != 1.0 {
		t.Error(r)
	}
}
