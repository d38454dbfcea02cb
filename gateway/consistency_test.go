package gateway

import (
	"testing"
	"time"
)

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
