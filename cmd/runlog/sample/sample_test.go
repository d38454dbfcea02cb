package sample_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/runlog/runlog/cmd/runlog/sample"
	"github.com/runlog/runlog/event"
)

// TestStrict: the sample is what a strict run accepts, from its first event to its end.
func TestStrict(t *testing.T) {
	t.Parallel()
	w := event.NewWalk(event.Progress{}, event.Rules{Strict: true, Run: sample.RunID, Thread: sample.ThreadID})
	for i, e := range sample.Events() {
		if reason := w.Take(&e.Header); reason != "" {
			t.Fatalf("event %d: %s", i, reason)
		}
	}
	if w.End != event.StatusCompleted || len(w.Spans) != 0 {
		t.Fatalf("ends as %q with %d spans open", w.End, len(w.Spans))
	}
}

// TestAwkward: the sample keeps what it is there for.
func TestAwkward(t *testing.T) {
	t.Parallel()
	for _, s := range []string{`\ud83d"`, `"\ude80`, "12345678901234567890", "東京", "REASONING_MESSAGE_CONTENT", "STATE_DELTA"} {
		if !bytes.Contains(sample.NDJSON, []byte(s)) {
			t.Errorf("the sample has no %s", s)
		}
	}
	var all strings.Builder
	for _, e := range sample.Events() {
		all.Write(e.Raw)
		all.WriteByte('\n')
	}
	if all.String() != string(sample.NDJSON) {
		t.Error("the events are not the bytes of their lines")
	}
}
