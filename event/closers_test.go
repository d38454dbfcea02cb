package event

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestClosersAreAccepted: wherever a run stops, what the cluster writes is valid JSON, parses to
// the headers it carries, passes the strict grammar, answers every call once and ends with the terminal.
func TestClosersAreAccepted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		used := map[IDHash]bool{}
		rules := Rules{Strict: true, Run: "r", Thread: "t", Used: func(h IDHash) bool { return used[h] }}
		p := Progress{}
		calls, answered := map[string]bool{}, map[string]bool{}
		take := func(e Event) bool {
			w := NewWalk(p, rules)
			if w.Take(&e.Header) != "" {
				return false
			}
			for _, h := range w.Added {
				used[h] = true
			}
			p = w.Progress
			switch e.Header.Type {
			case TypeToolCallStart, TypeToolCallChunk:
				if e.Header.ID != "" {
					calls[e.Header.ID] = true
				}
			case TypeToolCallResult:
				answered[e.Header.ID] = true
			}
			return true
		}
		for range rapid.IntRange(0, 25).Draw(t, "events") {
			id := rapid.SampledFrom([]string{"a", "b", `quote"d\`, "c\u0001"}).Draw(t, "id")
			lane := rapid.SampledFrom([]string{"", "", "sub"}).Draw(t, "lane")
			h := Header{ID: id, MessageID: id + "m", Lane: lane, Named: true, Type: rapid.SampledFrom([]Type{
				TypeRunStarted, TypeTextMessageStart, TypeTextMessageEnd, TypeReasoningStart, TypeReasoningMessageStart, TypeToolCallStart,
				TypeToolCallEnd, TypeToolCallResult, TypeTextMessageChunk, TypeToolCallChunk, TypeStepStarted, TypeSubagentStarted, TypeReasoningMessageChunk,
			}).Draw(t, "type")}
			if !p.Started {
				h = Header{Type: TypeRunStarted}
			}
			take(Event{Header: h})
		}
		status := rapid.SampledFrom([]Status{StatusLost, StatusCancelled}).Draw(t, "status")
		events := Closers(&p, "r", "t", status)
		if n := ClosingBytes(&p, "r", "t", status); n == 0 {
			t.Fatal("nothing to write")
		}
		for i, e := range events {
			if !json.Valid(e.Raw) {
				t.Fatalf("not JSON: %s", e.Raw)
			}
			parsed, err := ParseEvent(e.Raw)
			if err != nil || !reflect.DeepEqual(parsed.Header, e.Header) {
				t.Fatalf("%s: parsed %+v, carried %+v, %v", e.Raw, parsed.Header, e.Header, err)
			}
			before := p
			if !take(e) {
				w := NewWalk(before, rules)
				t.Fatalf("event %d, %s, refused: %s", i, e.Raw, w.Take(&e.Header))
			}
		}
		for id := range calls {
			if !answered[id] {
				t.Fatalf("call %q has no result", id)
			}
		}
		if !p.Ended() {
			t.Fatal("the run has not ended")
		}
		for _, s := range p.Spans {
			if s.Kind != SpanSubagent {
				t.Fatalf("left open: %+v", s)
			}
		}
	})
}

func TestClosersBytes(t *testing.T) {
	t.Parallel()
	p := Progress{Started: true, Spans: []Span{
		{Kind: SpanText, ID: "m"}, {Kind: SpanToolCall, ID: "c"}, {Kind: SpanToolCall, ID: "d", Ended: true}, {Kind: SpanToolCall, ID: "e", Answered: true}, {Kind: SpanStep, ID: "s", Lane: "sub"},
	}}
	var got []string
	for _, e := range Closers(&p, "r", "t", StatusLost) {
		got = append(got, string(e.Raw))
	}
	want := []string{
		`{"type":"TEXT_MESSAGE_END","messageId":"m"}`,
		`{"type":"TOOL_CALL_END","toolCallId":"c"}`,
		`{"type":"TOOL_CALL_END","toolCallId":"e"}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"c-result","toolCallId":"c","content":"{\"status\":\"interrupted\",\"reason\":\"host_lost\"}","role":"tool","metadata":{"interrupted":true}}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"d-result","toolCallId":"d","content":"{\"status\":\"interrupted\",\"reason\":\"host_lost\"}","role":"tool","metadata":{"interrupted":true}}`,
		`{"type":"STEP_FINISHED","stepName":"s","subagentRunId":"sub"}`,
		`{"type":"RUN_ERROR","message":"The host of this run was lost, and no other took it over in time.","code":"host_lost"}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
