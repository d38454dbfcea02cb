package projection

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/runlog/runlog/event"
)

// corpusDir holds runs that are shared beside the repository; a fresh clone has none.
const corpusDir = "../../shared/corpus"

type recordedRun struct {
	Name     string
	Events   []json.RawMessage
	Messages json.RawMessage
}

func readCorpus(t testing.TB, name string) []recordedRun {
	t.Helper()
	f, err := os.Open(filepath.Join(corpusDir, name))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("no corpus beside the repository: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var runs []recordedRun
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r recordedRun
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, r)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return runs
}

func records(events []json.RawMessage) []event.Record {
	rs := make([]event.Record, len(events))
	for i, raw := range events {
		rs[i] = event.Record{Offset: event.Offset(i), Time: event.Time(1000 + i), Raw: raw}
	}
	return rs
}

func foldAll(kind Kind, rs []event.Record) Fold {
	f := New(kind)
	for _, r := range rs {
		f.Apply(r)
	}
	return f
}

// The hand-made runs' messages are those of the client with its enforcement, the recorded runs'
// those without it (most of them lack fields that enforcement demands); neither is verified, so
// all events count, also those behind a first terminal, which the log itself would refuse. In
// five hand-made runs the client gives up (25, 27, 60, 61: the fold ignores the event it gave
// up on; in none of them does anything that follows show in the messages). There are no
// exceptions: every line is compared, every number as text.
func TestCorpus(t *testing.T) {
	t.Parallel()
	for file, lines := range map[string]int{"ag-ui-golden.ndjson": 50, "real-runs.ndjson": 207} {
		runs := readCorpus(t, file)
		if len(runs) != lines {
			t.Errorf("%s holds %d runs, want %d", file, len(runs), lines)
		}
		for _, r := range runs {
			got := foldAll(KindTranscript, records(r.Events)).AppendJSON(nil)
			sameJSON(t, r.Name, got, r.Messages, false)
		}
	}
}

// A single run's log ends at its first terminal event; what a recorder caught behind it changes
// no message (RUN_FINISHED after RUN_ERROR), so the log's transcript is the recorded one too.
func TestCorpusUpToTheFirstTerminal(t *testing.T) {
	t.Parallel()
	for _, r := range readCorpus(t, "real-runs.ndjson") {
		f := New(KindTranscript)
		for _, rec := range records(r.Events) {
			f.Apply(rec)
			if bytes.Contains(rec.Raw, []byte(`"RUN_FINISHED"`)) || bytes.Contains(rec.Raw, []byte(`"RUN_ERROR"`)) {
				break
			}
		}
		sameJSON(t, r.Name, f.AppendJSON(nil), r.Messages, false)
	}
}

// ownRun is a run of testdata/runs, or the runs of a thread of testdata/threads. Its client part is what the published client holds after
// each event, written by conformance/agui ("npm run golden").
type ownRun struct {
	name    string
	records []event.Record
	client  [][]byte // {"messages":…,"state":…}, up to where the client gives up
}

func ownRuns(t testing.TB) []ownRun {
	t.Helper()
	files, err := filepath.Glob("testdata/*s/*.txtar")
	files = slices.DeleteFunc(files, func(f string) bool { return strings.Contains(f, "tools") })
	if err != nil || len(files) == 0 {
		t.Fatalf("no runs in testdata: %v", err)
	}
	var runs []ownRun
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := ownRun{name: filepath.Base(file)}
		for _, part := range a.Files {
			lines := bytes.Split(bytes.TrimSpace(part.Data), []byte("\n"))
			switch part.Name {
			case "events":
				for i, l := range lines {
					r.records = append(r.records, event.Record{Offset: event.Offset(i), Time: event.Time(1000 + i), Raw: l})
				}
			case "client":
				r.client = lines
			}
		}
		runs = append(runs, r)
	}
	return runs
}

func TestEveryPrefixIsWhatTheClientHolds(t *testing.T) {
	t.Parallel()
	for _, r := range ownRuns(t) {
		transcript, state := New(KindTranscript), New(KindState)
		want := []byte("{}")
		for i, line := range r.client {
			if string(line) == "error" {
				break
			}
			if string(line) != "=" {
				want = line
			}
			transcript.Apply(r.records[i])
			state.Apply(r.records[i])
			got := transcript.AppendJSON([]byte(`{"messages":`))
			got = state.AppendJSON(append(got, `,"state":`...))
			sameJSON(t, r.name+" after "+string(r.records[i].Raw), append(got, '}'), want, true)
		}
		if gaveUp := string(r.client[len(r.client)-1]) == "error"; !gaveUp && len(r.client) != len(r.records) {
			t.Errorf("%s: %d events, but the client's part has %d lines: run npm run golden", r.name, len(r.records), len(r.client))
		}
	}
}

// What JavaScript would have rounded is kept.
func TestBytesSurvive(t *testing.T) {
	t.Parallel()
	for _, r := range ownRuns(t) {
		var all []byte
		for _, kind := range []Kind{KindTranscript, KindState, KindTools} {
			for i := range r.records {
				all = foldAll(kind, r.records[:i+1]).AppendJSON(all)
			}
		}
		for _, number := range []string{"12345678901234567890", "1.50", "1e2", "-0.0"} {
			for _, rec := range r.records {
				if strings.Contains(string(rec.Raw), ":"+number) && !strings.Contains(string(all), ":"+number) {
					t.Errorf("%s: %s is lost", r.name, number)
				}
			}
		}
	}
}
