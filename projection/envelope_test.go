package projection

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/runlog/runlog/event"
)

func foldRaw(events ...string) Fold {
	f := New(KindTranscript)
	for _, raw := range events {
		f.Apply(event.Record{Raw: []byte(raw)})
	}
	return f
}

func envelopeJSON(r Rehydration) []byte {
	b, _ := json.Marshal(r.Messages)
	return b
}

func mustEnvelope(t fataler, f Fold, chars int, format EnvelopeFormat) Rehydration {
	r, err := Envelope(f, chars, format)
	if err != nil {
		t.Fatalf("%d %s: %v", chars, format, err)
	}
	return r
}

// R1_8: whatever the runs hold and however little room there is: an envelope stays within its bound,
// keeps the newest, pairs each call with one result behind it, and is marked.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		run := anyRun(t)
		for i := range rapid.IntRange(0, 12).Draw(t, "long") {
			text := strings.Repeat(rapid.SampledFrom([]string{"x", "中\\n", `\"`, "\\ud83d\\ude00"}).Draw(t, "unit"), rapid.IntRange(1, 3000).Draw(t, "times"))
			run = append(run, records([]json.RawMessage{
				fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_START","messageId":"l%d"}`, i),
				fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"l%d","delta":"%s"}`, i, text),
				fmt.Appendf(nil, `{"type":"TOOL_CALL_START","toolCallId":"lc%d","toolCallName":"f","parentMessageId":"l%d"}`, i, i),
				fmt.Appendf(nil, `{"type":"TOOL_CALL_ARGS","toolCallId":"lc%d","delta":"{\"a\":\"%s\"}"}`, i, strings.Repeat("a", i*100)),
			})...)
		}
		f := foldThread(KindTranscript, run)
		chars := rapid.IntRange(MinEnvelopeChars, 20_000).Draw(t, "chars")
		before := f.AppendJSON(nil)
		r := mustEnvelope(t, f, chars, EnvelopeAGUI)
		if n := utf8.RuneCount(envelopeJSON(r)); n > chars {
			t.Fatalf("%d characters of %d", n, chars)
		}
		checkEnvelope(t, r, f)
		text := mustEnvelope(t, f, chars, EnvelopeText)
		if n := utf8.RuneCountInString(text.Text); n > chars {
			t.Fatalf("%d characters of %d", n, chars)
		}
		if strings.Count(text.Text, "runlog-envelope") != 2 || !strings.HasPrefix(text.Text, envelopeBegin) || !strings.HasSuffix(text.Text, envelopeEnd+"\n") {
			t.Fatalf("not between its lines:\n%s", text.Text)
		}
		if !bytes.Equal(f.AppendJSON(nil), before) {
			t.Fatalf("packing up changed the fold")
		}
	})
}

func checkEnvelope(t fataler, r Rehydration, f Fold) {
	raw := envelopeJSON(r)
	msgs := decodeMessages(t, raw)
	if s := flaw(msgs); s != "" {
		t.Fatalf("%s:\n%s", s, raw)
	}
	want := map[string]int{}
	for i, m := range msgs {
		if !bytes.Contains(r.Messages[i], []byte(`"runlog.envelope":1`)) {
			t.Fatalf("not marked: %s", r.Messages[i])
		}
		if m.Role == "tool" {
			if want[m.ToolCallID] != 1 {
				t.Fatalf("result %d answers no call, or one that has a result:\n%s", i, raw)
			}
			want[m.ToolCallID]--
		} else if len(slices.DeleteFunc(mapValues(want), func(n int) bool { return n == 0 })) > 0 {
			t.Fatalf("message %d comes before a result is there:\n%s", i, raw)
		}
		for _, c := range m.ToolCalls {
			want[c.ID]++
			if !json.Valid([]byte(c.Function.Arguments)) {
				t.Fatalf("arguments %q:\n%s", c.Function.Arguments, raw)
			}
		}
	}
	if len(slices.DeleteFunc(mapValues(want), func(n int) bool { return n == 0 })) > 0 {
		t.Fatalf("a call has no result:\n%s", raw)
	}
	// What is kept is the end of what could be kept.
	turns, spoken := f.(*transcriptFold).turns()
	var ids []string
	for _, m := range turns {
		ids = append(ids, decoded(m.messages[0].id))
	}
	var kept []string
	for _, m := range msgs[1:] {
		if m.Role != "tool" {
			kept = append(kept, deref(m.ID))
		}
	}
	if len(kept) > len(ids) || !slices.Equal(ids[len(ids)-len(kept):], kept) {
		t.Fatalf("kept %q of %q", kept, ids)
	}
	if r.Kept+r.Omitted != spoken || (len(kept) < len(ids)) && r.Omitted == 0 {
		t.Fatalf("kept %d, omitted %d of %d", r.Kept, r.Omitted, spoken)
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func mapValues(m map[string]int) (vs []int) {
	for _, v := range m {
		vs = append(vs, v)
	}
	return vs
}

// An envelope that comes back is not recorded: neither in a new thread nor in the one that it was
// made of, neither as input nor in a host's snapshot, in either format; so that envelopes do not nest.
func TestEnvelopeIsNotRecordedAgain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := foldThread(KindTranscript, anyRun(t))
		chars := rapid.IntRange(MinEnvelopeChars, 5_000).Draw(t, "chars")
		agui, text := mustEnvelope(t, f, chars, EnvelopeAGUI), mustEnvelope(t, f, chars, EnvelopeText)
		quotedText, _ := json.Marshal(text.Text)
		prompt, _ := json.Marshal(text.Text + "\n\nwhat next?")
		input := append(slices.Clone(agui.Messages),
			json.RawMessage(fmt.Sprintf(`{"id":"e","role":"user","content":%s}`, quotedText)),
			json.RawMessage(fmt.Sprintf(`{"id":"p","role":"developer","content":%s}`, quotedText)),
			json.RawMessage(fmt.Sprintf(`{"id":"parts","role":"user","content":[{"type":"text","text":%s}]}`, quotedText)),
			json.RawMessage(fmt.Sprintf(`{"id":"next","role":"user","content":%s}`, prompt)))
		all, _ := json.Marshal(input)
		started := fmt.Sprintf(`{"type":"RUN_STARTED","input":{"messages":%s}}`, all)
		snapshot := fmt.Sprintf(`{"type":"MESSAGES_SNAPSHOT","messages":%s}`, all)
		const want = `[{"id":"next","role":"user","content":"what next?"}]`
		for _, g := range []Fold{foldRaw(started), foldRaw(`{"type":"RUN_STARTED"}`, snapshot), foldRaw(started, snapshot)} {
			if got := string(g.AppendJSON(nil)); got != want {
				t.Fatalf("a new thread: %s, want %s", got, want)
			}
			again := mustEnvelope(t, g, chars, EnvelopeAGUI)
			if len(again.Messages) != 2 || again.Omitted != 0 {
				t.Fatalf("it nests: %s", envelopeJSON(again))
			}
		}
		before := f.AppendJSON(nil)
		f.Apply(event.Record{Raw: []byte(started)})
		got := f.AppendJSON(nil)
		if known := f.(*transcriptFold).conv.byID["next"]; known == nil || len(got) > len(before)+len(want) {
			t.Fatalf("the same thread:\n%s\nwant, and the question, \n%s", got, before)
		}
	})
}

func TestEnvelopeExplains(t *testing.T) {
	t.Parallel()
	f := foldRaw(
		`{"type":"RUN_STARTED","input":{"messages":[{"id":"u","role":"user","content":"go"}]}}`,
		`{"type":"TOOL_CALL_START","toolCallId":"c1","toolCallName":"rm","parentMessageId":"m"}`,
		`{"type":"TOOL_CALL_ARGS","toolCallId":"c1","delta":"{\"path\":"}`,
		`{"type":"TOOL_CALL_START","toolCallId":"c2","toolCallName":"ls","parentMessageId":"m"}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"c1-result","toolCallId":"c1","content":"{\"status\":\"interrupted\"}","metadata":{"interrupted":true}}`)
	r := mustEnvelope(t, f, MinEnvelopeChars*2, EnvelopeAGUI)
	for i, want := range []string{
		`"role":"system"`, `"content":"go"`, `"arguments":"{\"incomplete\":\"{\\\"path\\\":\"}"`,
		`"This call was interrupted: its run ended before a result was recorded. It may`, `"No result of this call was recorded. It may`,
	} {
		if i >= len(r.Messages) || !strings.Contains(string(r.Messages[i]), want) {
			t.Fatalf("message %d of %s lacks %s", i, envelopeJSON(r), want)
		}
	}
	text := mustEnvelope(t, f, MinEnvelopeChars*2, EnvelopeText).Text
	for _, want := range []string{"[user]\ngo\n", "[call c1 of rm]", "[result of c1]\nThis call was interrupted", "[result of c2]\nNo result"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q", text, want)
		}
	}
	if r.Kept != 3 || r.Omitted != 0 {
		t.Errorf("kept %d, omitted %d", r.Kept, r.Omitted)
	}
}

// A thread far beyond the bound: the end of it is there, and what is left out is counted.
func TestEnvelopeKeepsTheNewest(t *testing.T) {
	t.Parallel()
	var events []string
	for i := range 500 {
		events = append(events, fmt.Sprintf(`{"type":"TEXT_MESSAGE_START","messageId":"m%d"}`, i),
			fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m%d","delta":"%s"}`, i, strings.Repeat("w ", 100)))
	}
	r := mustEnvelope(t, foldRaw(events...), 10_000, EnvelopeAGUI)
	last := string(r.Messages[len(r.Messages)-1])
	if !strings.Contains(last, `"id":"m499"`) || r.Kept < 20 || r.Kept+r.Omitted != 500 ||
		!strings.Contains(string(r.Messages[0]), fmt.Sprintf("%d older messages are left out", r.Omitted)) {
		t.Errorf("kept %d, omitted %d, last %.100s", r.Kept, r.Omitted, last)
	}
	huge := foldRaw(events[0], fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m0","delta":"%s"}`, strings.Repeat("w", 100_000)))
	if r = mustEnvelope(t, huge, 10_000, EnvelopeText); r.Kept != 1 || !strings.Contains(r.Text, "characters cut]") {
		t.Errorf("the newest message is not cut but left out: %.200s", r.Text)
	}
}

func TestEnvelopeRefuses(t *testing.T) {
	t.Parallel()
	if _, err := Envelope(New(KindTranscript), MinEnvelopeChars-1, EnvelopeAGUI); !errors.Is(err, ErrEnvelopeChars) {
		t.Error(err)
	}
	if _, err := Envelope(New(KindTranscript), MinEnvelopeChars, "yaml"); !errors.Is(err, ErrEnvelopeFormat) {
		t.Error(err)
	}
}

// A host's snapshot that repeats an envelope says of its messages that they are still there.
func TestEnvelopeInASnapshotKeepsWhatItRepeats(t *testing.T) {
	t.Parallel()
	f := foldRaw(`{"type":"RUN_STARTED","input":{"messages":[{"id":"u","role":"user","content":"go"},{"id":"v","role":"user","content":"on"}]}}`)
	r := mustEnvelope(t, f, MinEnvelopeChars, EnvelopeAGUI)
	all, _ := json.Marshal(append(r.Messages[:2:2], json.RawMessage(`{"id":"a","role":"assistant","content":"so"}`)))
	f.Apply(event.Record{Raw: fmt.Appendf(nil, `{"type":"MESSAGES_SNAPSHOT","messages":%s}`, all)})
	if got, want := string(f.AppendJSON(nil)), `[{"id":"u","role":"user","content":"go"},{"id":"a","role":"assistant","content":"so"}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Wherever the lines of a text envelope stand in a content, whole or cut off: what is left is JSON
// without them, and what stood outside is still there.
func TestEnvelopeIsCutOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{envelopeBegin, envelopeEnd, "a", `"`, `\`, "\n", " ", "中", "`", "runlog-envelope"})
		draw := func(label string) string {
			return strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, label), "")
		}
		before := "kept" + strings.ReplaceAll(draw("before"), envelopeBegin, "")
		inside := draw("inside")
		b, _ := json.Marshal(before + envelopeBegin + inside)
		content := string(b)
		parts := rapid.Bool().Draw(t, "parts")
		if parts {
			content = `[{"type":"text","text":` + content + `},{"type":"text","text":"after"}]`
		}
		f := foldRaw(fmt.Sprintf(`{"type":"RUN_STARTED","input":{"messages":[{"id":"m","role":"user","content":%s}]}}`, content))
		got := f.AppendJSON(nil)
		msgs := decodeMessages(t, got)
		var first []struct{ Content any }
		if len(msgs) != 1 || json.Unmarshal(got, &first) != nil || bytes.Contains(got, []byte(envelopeBegin)) {
			t.Fatalf("%s became %s", content, got)
		}
		text, _ := first[0].Content.(string)
		if parts {
			list := first[0].Content.([]any)
			text = list[0].(map[string]any)["text"].(string)
			if len(list) != 2 || list[1].(map[string]any)["text"] != "after" {
				t.Fatalf("%s became %s", content, got)
			}
		}
		if !strings.HasPrefix(text, before) {
			t.Fatalf("%s became %s", content, got)
		}
	})
}
