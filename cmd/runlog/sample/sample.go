// Package sample is a recorded agent run to try things with: reasoning, text in token-sized pieces,
// parallel tool calls, steps and a shared state, 300-odd events in all. It holds what tends to get
// lost on the way: a character whose surrogate pair is split over two deltas, an integer beyond
// 2^53, text in several scripts. It is legal for a strict run and for the verifier of the
// published AG-UI client 1.0.0.
package sample

import (
	"bytes"
	_ "embed"
	"fmt"

	"github.com/runlog/runlog/event"
)

// NDJSON is the run, one event a line.
//
//go:embed run.ndjson
var NDJSON []byte

// RunID and ThreadID are those that the run's own events name.
const (
	RunID    event.RunID    = "incident-4711"
	ThreadID event.ThreadID = "on-call"
)

// Events returns the run's events, each with the bytes of its line.
func Events() []event.Event {
	var events []event.Event
	for line := range bytes.Lines(NDJSON) {
		e, err := event.ParseEvent(line)
		if err != nil {
			panic(fmt.Sprintf("sample: event %d: %v", len(events), err)) // the embedded file is wrong
		}
		events = append(events, e)
	}
	return events
}
