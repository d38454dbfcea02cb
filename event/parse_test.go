package event

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseBody(t *testing.T) {
	t.Parallel()
	const a, b = `{"type":"RAW","event":1}`, `{"type":"CUSTOM","name":"n","value":{"s":"]}\\\"{["}}`
	cases := []struct {
		name, body string
		want       []string // raw events
		index      int      // of the refused event, when want is nil
		reason     string
	}{
		{name: "one object", body: a, want: []string{a}},
		{name: "array", body: " [ " + a + " ,\n" + b + "] ", want: []string{a, b}},
		{name: "ndjson", body: a + "\n" + b + "\n", want: []string{a, b}},
		{name: "crlf and blank lines", body: a + "\r\n\r\n" + b, want: []string{a, b}},
		{name: "pretty-printed", body: "{\n \"type\": \"RAW\",\n \"event\": 1\n}", want: []string{"{\n \"type\": \"RAW\",\n \"event\": 1\n}"}},
		{name: "bytes kept", body: `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\ud83d","n":12345678901234567890,"x":1.0}`,
			want: []string{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\ud83d","n":12345678901234567890,"x":1.0}`}},
		{name: "empty", body: " \n", reason: "no event"},
		{name: "empty array", body: "[]", reason: "no event"},
		{name: "not JSON", body: "hello", reason: "not a JSON object"},
		{name: "a number in the array", body: "[" + a + ",7]", index: 1, reason: "not a JSON object"},
		{name: "cut in a string", body: `{"type":"RAW","x":"ab`, reason: "cut short"},
		{name: "cut in the array", body: "[" + a, reason: "without ]"},
		{name: "trailing comma", body: "[" + a + ",]", index: 1, reason: "not a JSON object"},
		{name: "no comma", body: "[" + a + a + "]", reason: "no comma"},
		{name: "something after the array", body: "[" + a + "] x", reason: "follows the array"},
		{name: "no type", body: `{"typ":"RAW"}`, reason: `no "type"`},
		{name: "type not a string", body: `{"type":3}`, reason: `no "type"`},
		{name: "bad JSON inside", body: `{"type":"RAW","x":01}`, reason: "not valid JSON"},
		{name: "bad UTF-8", body: "{\"type\":\"RAW\",\"x\":\"\xff\"}", reason: "not valid UTF-8"},
		{name: "too deep", body: `{"type":"RAW","x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "}", reason: "deeper"},
		{name: "third is bad", body: a + "\n" + b + "\n{}", index: 2, reason: `no "type"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			events, err := ParseBody([]byte(c.body))
			if c.want == nil {
				var invalid *InvalidEvent
				if !errors.As(err, &invalid) || invalid.Index != c.index || !strings.Contains(invalid.Reason, c.reason) {
					t.Fatalf("got %v, want an InvalidEvent at %d saying %q", err, c.index, c.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var raws []string
			for _, e := range events {
				raws = append(raws, string(e.Raw))
			}
			if strings.Join(raws, "\x00") != strings.Join(c.want, "\x00") {
				t.Fatalf("got %q, want %q", raws, c.want)
			}
		})
	}
}

func TestParseBodyTooMany(t *testing.T) {
	t.Parallel()
	body := strings.Repeat(`{"type":"RAW","event":1}`+"\n", MaxBatchEvents+1)
	if _, err := ParseBody([]byte(body)); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	if events, err := ParseBody([]byte(body[:len(body)/(MaxBatchEvents+1)*MaxBatchEvents])); err != nil || len(events) != MaxBatchEvents {
		t.Fatalf("%d events, %v", len(events), err)
	}
}

func TestHeader(t *testing.T) {
	t.Parallel()
	cases := []struct {
		raw  string
		want Header
	}{
		{`{"type":"RUN_STARTED","threadId":"t","runId":"r","parentRunId":"p"}`, Header{Type: TypeRunStarted, RunID: "r", ThreadID: "t", ParentRunID: "p"}},
		{`{"type":"TOOL_CALL_RESULT","toolCallId":"c","messageId":"m","content":"x"}`, Header{Type: TypeToolCallResult, ID: "c", MessageID: "m"}},
		{`{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","subagentRunId":"s","delta":"d"}`, Header{Type: TypeTextMessageChunk, ID: "m", Lane: "s"}},
		{`{"type":"TOOL_CALL_CHUNK","toolCallId":"c","toolCallName":"n"}`, Header{Type: TypeToolCallChunk, ID: "c", Named: true}},
		{`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i"}]}}`, Header{Type: TypeRunFinished, Outcome: OutcomeInterrupt, Dialogue: &Dialogue{Asked: []string{"i"}}}},
		{`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[]}}`, Header{Type: TypeRunFinished, Outcome: OutcomeInterrupt, Flaw: "outcome has no interrupts"}},
		{`{"type":"RUN_FINISHED","outcome":{"type":"sideways"}}`, Header{Type: TypeRunFinished}},
		{`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m"}`, Header{Type: TypeTextMessageContent, ID: "m", Flaw: "delta is missing"}},
		{`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n","parentMessageId":null}`, Header{Type: TypeToolCallStart, ID: "c", Flaw: "parentMessageId is not a string"}},
		{`{"type":"FOO","messageId":7}`, Header{}},
		// The last member of a name counts, as in JSON.parse.
		{`{"type":"RAW","type":"STEP_STARTED","stepName":"a","stepName":"\u0062"}`, Header{Type: TypeStepStarted, ID: "b"}},
	}
	for _, c := range cases {
		e, err := ParseEvent([]byte(c.raw))
		if err != nil {
			t.Errorf("%s: %v", c.raw, err)
		} else if !reflect.DeepEqual(e.Header, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.raw, e.Header, c.want)
		}
	}
}

// A body that parses gives back exactly its bytes but for what stands between the events.
func FuzzParseBody(f *testing.F) {
	for _, s := range []string{`[{"type":"RAW"}]`, "{\"type\":\"RAW\"}\n{\"type\":\"A\",\"x\":\"\\\\\\\"\"}", `[{"type":"\"]"}, {}]`, `{"type":"x","y":[[{"z":"}"}]]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		events, err := ParseBody(body)
		if err != nil {
			return
		}
		rest := body
		for _, e := range events {
			i := bytes.Index(rest, e.Raw)
			if i < 0 || strings.Trim(string(rest[:i]), " \t\r\n[,") != "" {
				t.Fatalf("event %q not next in %q", e.Raw, rest)
			}
			rest = rest[i+len(e.Raw):]
			if again, err := ParseEvent(e.Raw); err != nil || !reflect.DeepEqual(again.Header, e.Header) {
				t.Fatalf("parsed again: %+v, %v", again, err)
			}
		}
		if strings.Trim(string(rest), " \t\r\n]") != "" {
			t.Fatalf("left over: %q", rest)
		}
	})
}

func genID(label string) *rapid.Generator[string] {
	return rapid.Map(rapid.SampledFrom([]string{"", "a", "b", "ü-🙂", strings.Repeat("x", 200)}), func(s string) string { return s + label })
}

func genEvent() *rapid.Generator[Event] {
	return rapid.Custom(func(t *rapid.T) Event {
		h := Header{
			Type: Type(rapid.IntRange(0, 36).Draw(t, "type")), ID: rapid.SampledFrom([]string{"", "m1", "c1"}).Draw(t, "id"),
			MessageID: rapid.SampledFrom([]string{"", "m"}).Draw(t, "messageId"), Lane: rapid.SampledFrom([]string{"", "s"}).Draw(t, "lane"),
			RunID: RunID(genID("r").Draw(t, "run")), ThreadID: ThreadID(genID("t").Draw(t, "thread")),
			Outcome: Outcome(rapid.IntRange(0, 2).Draw(t, "outcome")), Named: rapid.Bool().Draw(t, "named"),
			Flaw: rapid.SampledFrom([]string{"", "delta is missing"}).Draw(t, "flaw"),
		}
		return Event{Raw: rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "raw"), Header: h}
	})
}
