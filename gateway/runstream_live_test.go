package gateway

import (
	"encoding/json"
	"strings"
	"testing"
)

// part is one event of a stream's tail.
type part struct{ name, data string }

// next reads the next event of a tail of the protocol, and nothing that its readers would not take:
// data and control alone, control after each data.
func (s *stream) part() (p part) {
	s.t.Helper()
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			s.t.Fatalf("the tail ended: %v", err)
		}
		line = strings.TrimSuffix(line, "\n")
		switch name, value, _ := strings.Cut(line, ":"); {
		case line == "" && p.name != "":
			return p
		case line == "", name == "": // a comment
		case name == "event":
			p.name = strings.TrimPrefix(value, " ")
		case name == "data":
			p.data += value
		default:
			s.t.Fatalf("unexpected line %q", line)
		}
	}
}

type controlEvent struct {
	StreamNextOffset, StreamCursor string
	UpToDate, StreamClosed         bool
}

func (s *stream) control() (c controlEvent) {
	s.t.Helper()
	p := s.part()
	if p.name != "control" || json.Unmarshal([]byte(p.data), &c) != nil {
		s.t.Fatalf("want a control event, got %+v", p)
	}
	return c
}

func (s *stream) dataIs(want string) {
	s.t.Helper()
	if p := s.part(); p.name != "data" || p.data != want {
		s.t.Fatalf("got %+v, want data %s", p, want)
	}
}

// TestParkedReadersGetTheLastEvent: an append and close in one request reaches long polls and
// server-sent events that wait, the event before the end, whichever side wrote it.
func TestParkedReadersGetTheLastEvent(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]func(h *harness){
		"stream": func(h *harness) {
			h.post(204, runPath, list(wire(2, finished())), append(holder("a"), "Stream-Closed", "true")...)
		},
		"terminal": func(h *harness) { h.post(204, runPath, list(wire(2, finished())), holder("a")...) },
		"native": func(h *harness) {
			h.must(200, "POST", "/v1/runs/r/events", finished(), "Run-Epoch", "1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, _ := startRunStreams(t)
			at := h.put(201, runPath, list(wire(1, started())), holder("a")...).header.Get("Stream-Next-Offset")
			s := h.open(runPath + "?live=sse&offset=-1")
			s.dataIs(list(wire(1, started())))
			if c := s.control(); c.StreamNextOffset != at || !c.UpToDate || c.StreamCursor == "" || c.StreamClosed {
				t.Fatalf("%+v", c)
			}
			polled := make(chan reply)
			go func() { polled <- h.get(runPath + "?live=long-poll&offset=" + at) }()
			finish(h)
			s.dataIs(list(wire(2, finished())))
			end := s.control()
			if !end.StreamClosed || !end.UpToDate {
				t.Fatalf("%+v", end)
			}
			s.end()
			if r := <-polled; r.status != 200 || string(r.body) != list(wire(2, finished())) || r.header.Get("Stream-Next-Offset") != end.StreamNextOffset {
				t.Fatalf("%s %v", r, r.header)
			}
			if r := h.get(runPath + "?live=long-poll&offset=" + end.StreamNextOffset); r.status != 204 || r.header.Get("Stream-Closed") != "true" {
				t.Fatalf("%s %v", r, r.header)
			}
		})
	}
}

// TestParkedReadersSeeTheClusterEndARun: a lost host's readers get the records that the cluster adds.
func TestParkedReadersSeeTheClusterEndARun(t *testing.T) {
	t.Parallel()
	h, n := startRunStreams(t)
	h.put(201, tanstackRun, list(wire(1, started())), holder("a")...)
	s := h.open(tanstackRun + "?offset=-1&live=sse")
	s.dataIs(list(wire(1, started())))
	s.control()
	n.expire(t, "r")
	if p := s.part(); !strings.HasPrefix(p.data, `[{"v":1,"seq":2,"chunk":{`) || !strings.Contains(p.data, "host_lost") {
		t.Fatalf("%+v", p)
	}
	if c := s.control(); !c.StreamClosed {
		t.Fatalf("%+v", c)
	}
	s.end()
}
