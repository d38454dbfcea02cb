package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

func main() {
	preludes := flag.Bool("preludes", false, "also write what a client that joins before each event is sent")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *preludes); err != nil {
		fmt.Fprintln(os.Stderr, "agui:", err)
		os.Exit(1)
	}
}

type folded struct {
	Messages json.RawMessage `json:"messages"`
	State    json.RawMessage `json:"state"`
}

type answer struct {
	Prefixes []folded            `json:"prefixes"`
	Preludes [][]json.RawMessage `json:"preludes,omitempty"`
}

func run(in io.Reader, out io.Writer, preludes bool) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	w := bufio.NewWriter(out)
	defer w.Flush()
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			var r struct {
				Events []json.RawMessage
				Held   []string
			}
			if err := json.Unmarshal(line, &r); err != nil {
				return fmt.Errorf("read a run: %w", err)
			}
			if err := enc.Encode(fold(r.Events, r.Held, preludes)); err != nil {
				return fmt.Errorf("write an answer: %w", err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read runs: %w", err)
		}
	}
}

func fold(events []json.RawMessage, held []string, preludes bool) answer {
	transcript, state := projection.New(projection.KindTranscript), projection.New(projection.KindState)
	var a answer
	for i, raw := range events {
		if preludes && i > 0 { // before the first event there is nothing to join
			var p []json.RawMessage
			for _, e := range projection.Connect("r", "t", transcript, state, held) {
				p = append(p, e)
			}
			a.Preludes = append(a.Preludes, p)
		}
		r := event.Record{Offset: event.Offset(i), Raw: raw}
		transcript.Apply(r)
		state.Apply(r)
		a.Prefixes = append(a.Prefixes, folded{transcript.AppendJSON(nil), state.AppendJSON(nil)})
	}
	return a
}
