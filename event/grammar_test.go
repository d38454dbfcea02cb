package event

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// walk takes events given as JSON, one a line, and returns where it stopped and why.
func walk(t *testing.T, strict bool, lines ...string) (*Walk, int, string) {
	t.Helper()
	w := NewWalk(Progress{}, Rules{Strict: strict, Run: "r", Thread: "t"})
	for i, l := range lines {
		e, err := ParseEvent([]byte(l))
		if err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		if reason := w.Take(&e.Header); reason != "" {
			return w, i, reason
		}
	}
	return w, len(lines), ""
}

const (
	started   = `{"type":"RUN_STARTED","threadId":"t","runId":"r"}`
	finished  = `{"type":"RUN_FINISHED"}`
	errored   = `{"type":"RUN_ERROR","message":"no"}`
	textStart = `{"type":"TEXT_MESSAGE_START","messageId":"m"}`
	textDelta = `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}`
	textEnd   = `{"type":"TEXT_MESSAGE_END","messageId":"m"}`
	callStart = `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n"}`
	callArgs  = `{"type":"TOOL_CALL_ARGS","toolCallId":"c","delta":"{}"}`
	callEnd   = `{"type":"TOOL_CALL_END","toolCallId":"c"}`
	result    = `{"type":"TOOL_CALL_RESULT","toolCallId":"c","messageId":"tr","content":"ok"}`
	chunkM    = `{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"x"}`
	chunkN    = `{"type":"TEXT_MESSAGE_CHUNK","messageId":"n","delta":"x"}`
	chunkBare = `{"type":"TEXT_MESSAGE_CHUNK","delta":"x"}`
	custom    = `{"type":"CUSTOM","name":"n","value":1}`
	raw       = `{"type":"RAW","event":1}`
)

func TestStrictRefuses(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		events []string // the last one is refused
		reason string
	}{
		{"not RUN_STARTED first", []string{textStart}, "must be RUN_STARTED"},
		{"RUN_ERROR alone", []string{errored}, "must be RUN_STARTED"},
		{"RUN_STARTED twice", []string{started, started}, "started already"},
		{"another run's id", []string{`{"type":"RUN_STARTED","runId":"x"}`}, "runId"},
		{"another thread's id", []string{`{"type":"RUN_STARTED","threadId":"x"}`}, "threadId"},
		{"after RUN_FINISHED", []string{started, finished, custom}, "terminal"},
		{"a second terminal", []string{started, finished, errored}, "terminal"},
		{"a terminal after RUN_ERROR", []string{started, errored, finished}, "terminal"},
		{"START of an open id", []string{started, textStart, textStart}, "used before"},
		{"START of a used id", []string{started, textStart, textEnd, textStart}, "used before"},
		{"a chunk reopening an id", []string{started, chunkM, chunkN, chunkM}, "used before"},
		{"CONTENT of no open id", []string{started, textDelta}, "not open"},
		{"CONTENT after END", []string{started, textStart, textEnd, textDelta}, "not open"},
		{"END twice", []string{started, textStart, textEnd, textEnd}, "not open"},
		{"ARGS without START", []string{started, callArgs}, "not open"},
		{"ARGS after END", []string{started, callStart, callEnd, callArgs}, "not open"},
		{"a second result", []string{started, callStart, callEnd, result, result}, "has a result"},
		{"a second result for an unknown call", []string{started, result, result}, "has a result"},
		{"RUN_FINISHED with an open message", []string{started, textStart, finished}, `message "m" is open`},
		{"RUN_FINISHED with an open call", []string{started, callStart, finished}, `tool call "c" is open`},
		{"a first chunk without id", []string{started, chunkBare}, "must carry an id"},
		{"a bare chunk after CUSTOM", []string{started, chunkM, custom, chunkBare}, "must carry an id"},
		{"a first call chunk without name", []string{started, `{"type":"TOOL_CALL_CHUNK","toolCallId":"c"}`}, "toolCallName"},
		{"an explicit delta to a chunk's message", []string{started, chunkM, textDelta}, "not open"},
		{"a missing delta", []string{started, textStart, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m"}`}, "delta is missing"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w, at, reason := walk(t, true, c.events...)
			if at != len(c.events)-1 || !strings.Contains(reason, c.reason) {
				t.Fatalf("stopped at %d with %q, want %d with %q", at, reason, len(c.events)-1, c.reason)
			}
			_ = w
			if _, at, reason := walk(t, false, c.events...); reason != "" && !strings.Contains(reason, "terminal") {
				t.Fatalf("lenient: stopped at %d with %q", at, reason)
			}
		})
	}
}

func TestStrictAccepts(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		events []string
		open   int
		end    Status
	}{
		{"a whole run", []string{started, textStart, textDelta, textEnd, callStart, callArgs, callEnd, result, finished}, 0, StatusCompleted},
		{"ids absent", []string{`{"type":"RUN_STARTED"}`, finished}, 0, StatusCompleted},
		{"RUN_ERROR with things open", []string{started, textStart, callStart, errored}, 2, StatusFailed},
		{"a result before END", []string{started, callStart, result, callArgs, callEnd, finished}, 0, StatusCompleted},
		{"a result for an earlier run's call", []string{started, result, finished}, 0, StatusCompleted},
		{"a call without result", []string{started, callStart, callEnd, finished}, 1, StatusCompleted},
		{"chunks", []string{started, chunkM, chunkBare, raw, chunkBare, chunkN, finished}, 0, StatusCompleted},
		{"steps open and unmatched", []string{started, `{"type":"STEP_FINISHED","stepName":"x"}`, `{"type":"STEP_STARTED","stepName":"x"}`, finished}, 1, StatusCompleted},
		{"a reasoning span open", []string{started, `{"type":"REASONING_START","messageId":"z"}`, finished}, 1, StatusCompleted},
		{"unknown types", []string{started, `{"type":"FOO","messageId":3}`, finished}, 0, StatusCompleted},
		{"one id for a text and a call", []string{started, `{"type":"TEXT_MESSAGE_START","messageId":"c"}`, callStart, callEnd, `{"type":"TEXT_MESSAGE_END","messageId":"c"}`, finished}, 1, StatusCompleted},
		{"interrupt", []string{started, `{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"i","reason":"confirmation"}]}}`}, 0, StatusWaiting},
		{"cancelled", []string{started, `{"type":"RUN_FINISHED","outcome":{"type":"cancelled"}}`}, 0, StatusCancelled},
		{"a subagent's chunks beside the parent's", []string{started, chunkM, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"s","subagentRunId":"sub","delta":"x"}`, chunkBare, finished}, 0, StatusCompleted},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w, at, reason := walk(t, true, c.events...)
			if reason != "" {
				t.Fatalf("event %d refused: %s", at, reason)
			}
			if len(w.Spans) != c.open || w.End != c.end {
				t.Fatalf("open %+v, end %q", w.Spans, w.End)
			}
		})
	}
}

func TestOpenLimits(t *testing.T) {
	t.Parallel()
	w := NewWalk(Progress{Started: true}, Rules{Strict: true})
	id := func(i int) string { return strings.Repeat("i", 10) + Offset(i).String() }
	for i := range MaxOpenSpans {
		if reason := w.Take(&Header{Type: TypeTextMessageStart, ID: id(i)}); reason != "" {
			t.Fatalf("%d: %s", i, reason)
		}
	}
	if reason := w.Take(&Header{Type: TypeTextMessageStart, ID: id(MaxOpenSpans)}); !strings.Contains(reason, "at once") {
		t.Fatalf("got %q", reason)
	}
	w = NewWalk(Progress{Started: true}, Rules{Strict: true})
	for i := 0; ; i++ {
		if reason := w.Take(&Header{Type: TypeTextMessageStart, ID: strings.Repeat("i", 1000) + Offset(i).String()}); reason != "" {
			if i < 50 || i > 70 {
				t.Fatalf("refused at %d: %s", i, reason)
			}
			return
		}
	}
}

// TestCorpus: what the published verifier accepts, the strict grammar accepts too, but for the
// runs that use one id twice.
func TestCorpus(t *testing.T) {
	t.Parallel()
	reopening := map[string]bool{
		"12 duplicate result for a call, different messageId": true, "13 duplicate result, same messageId": true,
		"16 same messageId reopened after END": true, "21 toolcall restarted with a new name and parent": true,
	}
	for _, name := range []string{"ag-ui-golden.ndjson", "real-runs.ndjson"} {
		f, err := os.Open(filepath.Join("..", "..", "shared", "corpus", name))
		if err != nil {
			t.Skipf("the corpus is not here: %v", err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 64<<20)
		runs, refused := 0, 0
		for lines.Scan() {
			var line struct {
				Name        string
				Events      []json.RawMessage
				VerifyError *string
				Verify      *struct{ Error *string }
			}
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			runs++
			legal := line.VerifyError == nil
			if line.Verify != nil {
				legal = line.Verify.Error == nil
			}
			at, reason := corpusWalk(t, line.Events)
			if reason != "" {
				refused++
			}
			if legal && reason != "" && !reopening[line.Name] {
				t.Errorf("%s: event %d: %s", line.Name, at, reason)
			}
			if reopening[line.Name] && reason == "" {
				t.Errorf("%s is accepted; take it off the list", line.Name)
			}
		}
		if lines.Err() != nil || runs == 0 {
			t.Fatalf("%s: %d runs, %v", name, runs, lines.Err())
		}
		t.Logf("%s: %d runs, %d refused", name, runs, refused)
	}
}

// corpusWalk feeds the runs of one line, each RUN_STARTED after a terminal beginning another.
func corpusWalk(t *testing.T, events []json.RawMessage) (at int, reason string) {
	var w *Walk
	for i, raw := range events {
		e, err := ParseEvent(raw)
		if err != nil {
			t.Fatal(err)
		}
		if w == nil || w.Ended() && e.Header.Type == TypeRunStarted {
			w = NewWalk(Progress{}, Rules{Strict: true, Run: e.Header.RunID, Thread: e.Header.ThreadID})
		}
		if w.Ended() {
			return 0, "" // the first end is kept and what follows is refused
		}
		if reason := w.Take(&e.Header); reason != "" {
			return i, reason
		}
	}
	return 0, ""
}
