package main

import (
	"strings"
	"testing"

	"github.com/runlog/runlog/cmd/runlog/sample"
	"github.com/runlog/runlog/event"
)

func screenOf(events ...string) string {
	var b strings.Builder
	s := newScreen(&b)
	for i, e := range events {
		s.show(event.Record{Offset: event.Offset(i), Raw: []byte(e)})
	}
	s.finish()
	return b.String()
}

// TestScreen: what people see of the common events.
func TestScreen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		events []string
		want   string
	}{
		"text": {[]string{
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"Hel"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"lo\nthere"}`,
		}, "assistant: Hello\n  there\n"},
		"split surrogate pair": {[]string{
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x\ud83d"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"n","delta":"y"}`,
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\ude80 z"}`,
		}, "assistant: x\nassistant: y\nassistant: 🚀 z\n"},
		"no half of a pair": {[]string{
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\\ud83d"}`,
		}, "assistant: \\ud83d\n"},
		"interleaved calls": {[]string{
			`{"type":"TOOL_CALL_START","toolCallId":"a","toolCallName":"f"}`,
			`{"type":"TOOL_CALL_START","toolCallId":"b","toolCallName":"g"}`,
			`{"type":"TOOL_CALL_ARGS","toolCallId":"a","delta":"{\"x\":"}`,
			`{"type":"TOOL_CALL_ARGS","toolCallId":"b","delta":"{}"}`,
			`{"type":"TOOL_CALL_ARGS","toolCallId":"a","delta":"1}"}`,
			`{"type":"TOOL_CALL_END","toolCallId":"b"}`,
			`{"type":"TOOL_CALL_END","toolCallId":"a"}`,
			`{"type":"TOOL_CALL_RESULT","toolCallId":"a","messageId":"r","content":"done"}`,
		}, "→ g({})\n→ f({\"x\":1})\n← f: done\n"},
		"escapes": {[]string{
			`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"\u001b[2J"}`,
			`{"type":"RUN_ERROR","message":"a\nb\u001b","code":"c"}`,
		}, "assistant: ␛[2J\n✗ a␊b␛ (c)\n"},
		"interrupt": {[]string{`{"type":"RUN_FINISHED","outcome":{"type":"interrupt"}}`}, "✓ finished (interrupt)\n"},
		"unknown":   {[]string{`{"type":"SOMETHING_NEW"}`, `not json`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := screenOf(c.events...); got != c.want {
				t.Errorf("%q\nwant %q", got, c.want)
			}
		})
	}
}

// TestScreenSample: the sample's awkward places come out right.
func TestScreenSample(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, e := range sample.Events() {
		lines = append(lines, string(e.Raw))
	}
	got := screenOf(lines...)
	for _, want := range []string{"without any deploy 🚀 Ping me", `fetch_trace({"traceId":12345678901234567890})`, "✓ finished"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
