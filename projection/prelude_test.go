package projection

import (
	"bytes"
	"testing"

	"github.com/runlog/runlog/event"
	"pgregory.net/rapid"
)

// What a joining client is sent, folded with the rest of the run, gives the whole run's messages
// and state. (conformance/agui asks the published client, with its verifier, the same.)
func checkPrelude(t fataler, run []event.Record, cut int) {
	joined := [2]Fold{New(KindTranscript), New(KindState)}
	at := [2]Fold{foldAll(KindTranscript, run[:cut]), foldAll(KindState, run[:cut])}
	prelude := Prelude("r", "t", at[0], at[1])
	for i, kind := range []Kind{KindTranscript, KindState} {
		for _, raw := range prelude {
			if _, err := event.ParseEvent(raw); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			joined[i].Apply(event.Record{Raw: raw})
		}
		for _, r := range run[cut:] {
			joined[i].Apply(r)
		}
		want := foldAll(kind, run).AppendJSON(nil)
		if got := joined[i].AppendJSON(nil); !bytes.Equal(got, want) {
			t.Fatalf("%s joined at %d by %s\n got %s\nwant %s", kind, cut, bytes.Join(prelude, []byte("\n")), got, want)
		}
	}
}

func TestPreludeAnywhereInTheCorpus(t *testing.T) {
	t.Parallel()
	for _, r := range readCorpus(t, "real-runs.ndjson") {
		run := records(r.Events)
		for cut := range run {
			// The messages without ids of lenient runs cannot be told apart by any client.
			if cut > 0 && bytes.Contains(foldAll(KindTranscript, run).AppendJSON(nil), []byte(`{"role"`)) {
				break
			}
			checkPrelude(t, run, cut)
		}
	}
}

// Streams of deltas over distinct ids, opened and closed as the grammar wants.
func TestPreludeAnywhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		run := records(legalRun(t))
		checkPrelude(t, run, rapid.IntRange(1, len(run)).Draw(t, "cut"))
	})
}

func TestPreludeNamesTheRun(t *testing.T) {
	t.Parallel()
	got := Prelude(`r"1`, "t\n", New(KindTranscript), nil)
	want := []string{`{"type":"RUN_STARTED","threadId":"t\u000a","runId":"r\"1"}`, `{"type":"MESSAGES_SNAPSHOT","messages":[]}`}
	if len(got) != 2 || string(got[0]) != want[0] || string(got[1]) != want[1] {
		t.Errorf("got %s, want %s", got, want)
	}
}
