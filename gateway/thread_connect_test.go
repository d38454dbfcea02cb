package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
)

// connect POSTs a RunAgentInput.
func (h *harness) connect(thread, body string) *stream {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	req, err := http.NewRequestWithContext(ctx, "POST", h.srv.URL+"/v1/threads/"+thread+"/connect", strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.http.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	s := &stream{h.t, resp, bufio.NewReaderSize(resp.Body, 64<<10), cancel}
	h.t.Cleanup(s.close)
	return s
}

// types reads n events and returns their types.
func (s *stream) types(n int) string {
	s.t.Helper()
	var types []string
	for range n {
		f := s.event()
		var e struct{ Type string }
		if err := json.Unmarshal([]byte(f.data), &e); err != nil {
			s.t.Fatal(err, f.data)
		}
		types = append(types, e.Type)
	}
	return strings.Join(types, " ")
}

const agentInput = `{"threadId":"t","runId":"mine","state":{"big":[1,{"a":null}]},"tools":[],"context":[],"forwardedProps":{},
	"messages":[{"id":"m1","role":"user","content":[{"type":"text","text":"x"}]},{"role":"user","content":"without an id"}]}`

func TestConnect(t *testing.T) {
	t.Parallel()
	h := start(t)
	s := h.connect("t", agentInput)
	if f := s.event(); !strings.Contains(f.data, `"runId":"mine"`) {
		t.Error(f)
	}
	if got := s.types(1); got != "RUN_FINISHED" {
		t.Error(got)
	}
	s.end()
	h.append("a", startIn("t"), said("m1", "one"), finished())
	s = h.connect("t", "")
	if got := s.types(3); got != "RUN_STARTED MESSAGES_SNAPSHOT RUN_FINISHED" {
		t.Error(got)
	}
	s.end()
	h.append("b", startIn("t"), `{"type":"TEXT_MESSAGE_START","messageId":"m2"}`)
	s = h.connect("t", agentInput)
	if got := s.types(3); got != "RUN_STARTED MESSAGES_SNAPSHOT TEXT_MESSAGE_START" {
		t.Error(got)
	}
	h.append("b", `{"type":"TEXT_MESSAGE_END","messageId":"m2"}`, finished())
	if got := s.types(2); got != "TEXT_MESSAGE_END RUN_FINISHED" {
		t.Error(got)
	}
	s.end()
	// A client that joins before the run's first event is told of the thread all the same.
	h.must(201, "POST", "/v1/runs", `{"runId":"c","threadId":"t","started":false}`)
	s = h.connect("t", agentInput)
	h.append("c", startIn("t"))
	if got := s.types(2); got != "RUN_STARTED MESSAGES_SNAPSHOT" {
		t.Error(got)
	}
	// A failed run's end, and with it what still waits for an answer.
	h.append("c", `{"type":"TEXT_MESSAGE_START","messageId":"m3"}`, `{"type":"RUN_ERROR","message":"gone"}`)
	h.node.interrupts = []event.Interrupt{{InterruptID: "i", RunID: "a", Status: event.InterruptPending, Interrupt: json.RawMessage(`{"id":"i"}`)},
		{InterruptID: "j", RunID: "a", Status: event.InterruptResolved, Interrupt: json.RawMessage(`{"id":"j"}`)}}
	s = h.connect("t", agentInput)
	if got := s.types(2); got != "RUN_STARTED MESSAGES_SNAPSHOT" {
		t.Error(got)
	}
	if f := s.event(); !strings.Contains(f.data, `"RUN_FINISHED"`) || !strings.Contains(f.data, `[{"id":"i"}]`) {
		t.Error(f)
	}
	s.end()
	for _, bad := range []string{"[", `"x"`, "{", `{"messages":7}`, `{"messages":[7]}`, `{"threadId":"other"}`, `{"runId":7}`, `{"messages":[{"id":"x"}`} {
		h.problem(400, "bad_request", "POST", "/v1/threads/t/connect", bad)
	}
	h.problem(415, "unsupported_media_type", "POST", "/v1/threads/t/connect", "{}", "Content-Encoding", "gzip")
}
