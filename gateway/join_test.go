package gateway

import (
	"strconv"
	"strings"
	"testing"
)

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
