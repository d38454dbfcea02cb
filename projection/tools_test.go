package projection

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/runlog/runlog/event"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// Each archive in testdata/tools holds a run's events and, one a line, the calls that the fold
// lists at their end. Offsets count from 0, times from 1000.
func TestTools(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("testdata/tools/*.txtar")
	if len(files) == 0 {
		t.Fatal("no golden files")
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f := New(KindTools)
		for i, line := range bytes.Split(bytes.TrimSpace(a.Files[0].Data), []byte("\n")) {
			f.Apply(event.Record{Offset: event.Offset(i), Time: event.Time(1000 + i), Raw: line})
		}
		var calls []json.RawMessage
		if err := json.Unmarshal(f.AppendJSON(nil), &calls); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		got := append(bytes.Join(rawLines(calls), []byte("\n")), '\n')
		if *update {
			a.Files = append(a.Files[:1], txtar.File{Name: "calls", Data: got})
			if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if len(a.Files) != 2 || !bytes.Equal(a.Files[1].Data, got) {
			t.Errorf("%s: run with -update and read the diff; got\n%s", file, got)
		}
	}
}

func rawLines(in []json.RawMessage) [][]byte {
	out := make([][]byte, len(in))
	for i, v := range in {
		out[i] = v
	}
	return out
}
