package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
)

// TestBenchEvents: what a benchmark sends is of the size that it says and legal in a strict run.
func TestBenchEvents(t *testing.T) {
	t.Parallel()
	if d := benchDelta(256); len(d) != 256 {
		t.Errorf("%d bytes", len(d))
	}
	if d := benchDelta(1); !json.Valid(d) {
		t.Errorf("%s", d)
	}
	run := benchPrefix() + "-0-0"
	w := event.NewWalk(event.Progress{}, event.Rules{Strict: true, Run: event.RunID(run), Thread: "bench"})
	for _, body := range [][]byte{benchStart(run), benchBatch(benchDelta(256), 1), benchBatch(benchDelta(256), 10)} {
		events, err := event.ParseBody(body)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if reason := w.Take(&e.Header); reason != "" {
				t.Fatal(reason)
			}
		}
	}
	if a, b := benchPrefix(), benchPrefix(); a == b || !strings.HasPrefix(a, "bench-") {
		t.Errorf("prefixes %s and %s", a, b)
	}
}

// TestMedian: the middle, of an odd number exactly.
func TestMedian(t *testing.T) {
	t.Parallel()
	if m := median([]float64{3, 1, 2}); m != 2 {
		t.Error(m)
	}
	if m := median(nil); m != 0 {
		t.Error(m)
	}
}

// TestHostPort: a node's address is found in either form.
func TestHostPort(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"http://127.0.0.1:4437": "127.0.0.1:4437", "127.0.0.1:4437": "127.0.0.1:4437", "http://h:1/": "h:1"} {
		if got := hostPort(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}
