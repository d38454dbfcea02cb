package projection

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/runlog/runlog/event"
)

// foldThread folds events as a thread's: each RUN_STARTED begins a run, whose offsets count from 0.
func foldThread(kind Kind, rs []event.Record) Fold {
	f := New(kind)
	n, first := 0, 0
	for i, r := range rs {
		if bytes.Contains(r.Raw, []byte(`"RUN_STARTED"`)) {
			n++
			first = i
			BeginRun(f, event.RunID(fmt.Sprintf("r%d", n)))
		}
		r.Offset -= event.Offset(first)
		f.Apply(r)
	}
	return f
}

// Each archive in testdata/threads holds the events of a thread's runs, what the client holds after
// each of them, and two parts that -update writes: "history", one message a line, and "calls".
func TestThreads(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("testdata/threads/*.txtar")
	if len(files) < 19 {
		t.Fatalf("%d threads", len(files))
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		part := func(name string) *[]byte {
			for i := range a.Files {
				if a.Files[i].Name == name {
					return &a.Files[i].Data
				}
			}
			a.Files = append(a.Files, txtar.File{Name: name})
			return &a.Files[len(a.Files)-1].Data
		}
		var events []json.RawMessage
		for _, line := range bytes.Split(bytes.TrimSpace(*part("events")), []byte("\n")) {
			events = append(events, line)
		}
		transcript := foldThread(KindTranscript, records(events))
		history := lines(rawLines(History(transcript)))
		var calls []json.RawMessage
		if err := json.Unmarshal(foldThread(KindTools, records(events)).AppendJSON(nil), &calls); err != nil {
			t.Fatal(err)
		}
		if *update {
			*part("history"), *part("calls") = history, lines(rawLines(calls))
			if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, want := history, *part("history"); !bytes.Equal(got, want) {
			t.Errorf("%s: history\n%s\nwant\n%s", file, got, want)
		}
		if got, want := lines(rawLines(calls)), *part("calls"); !bytes.Equal(got, want) {
			t.Errorf("%s: calls\n%s\nwant\n%s", file, got, want)
		}
	}
}

func lines(ls [][]byte) []byte {
	if len(ls) == 0 {
		return nil
	}
	return append(bytes.Join(ls, []byte("\n")), '\n')
}

// A thread's runs, told one after the other with BeginRun between them, are to the transcript what
// they are in one stream, which is how the client is fed.
func TestThreadIsWhatTheClientHolds(t *testing.T) {
	t.Parallel()
	for _, r := range ownRuns(t) {
		want := foldAll(KindTranscript, r.records).AppendJSON(nil)
		if got := foldThread(KindTranscript, r.records).AppendJSON(nil); !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", r.name, got, want)
		}
	}
}

type historyMessage struct {
	ID         *string
	Role       string
	ToolCallID string
	ToolCalls  []struct {
		ID       string
		Function struct{ Arguments string }
	}
}

func decodeMessages(t fataler, raw []byte) (msgs []historyMessage) {
	if err := json.Unmarshal(raw, &msgs); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return msgs
}

// flaw says what in a history a model provider would refuse, or "".
func flaw(msgs []historyMessage) string {
	ids, owners := map[string]bool{}, map[string]int{}
	for i, m := range msgs {
		if m.ID != nil && ids[*m.ID] {
			return "id " + *m.ID + " stands twice"
		}
		if m.ID != nil {
			ids[*m.ID] = true
		}
		for _, c := range m.ToolCalls {
			if _, ok := owners[c.ID]; !ok {
				owners[c.ID] = i
			}
		}
	}
	home := -1
	for i, m := range msgs {
		if m.Role != "tool" {
			home = i
		} else if owner, ok := owners[m.ToolCallID]; ok && owner != home {
			return fmt.Sprintf("the result %d of %s does not follow message %d", i, m.ToolCallID, owner)
		}
	}
	return ""
}

// Whatever the runs hold: a history has no flaw, holds every id of the transcript, and is the
// transcript itself when that has none.
func TestHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { checkHistory(t, anyRun(t)) })
}

func TestHistoryOfTheCorpus(t *testing.T) {
	t.Parallel()
	for _, r := range readCorpus(t, "real-runs.ndjson") {
		checkHistory(t, records(r.Events))
	}
}

func checkHistory(t fataler, run []event.Record) {
	f := foldThread(KindTranscript, run)
	transcript, history := f.AppendJSON(nil), AppendHistory(nil, f)
	was, is := decodeMessages(t, transcript), decodeMessages(t, history)
	if s := flaw(is); s != "" {
		t.Fatalf("%s:\n%s", s, history)
	}
	seen := map[string]bool{}
	for _, m := range is {
		if m.ID != nil {
			seen[*m.ID] = true
		}
	}
	for _, m := range was {
		if m.ID != nil && !seen[*m.ID] {
			t.Fatalf("%s is lost:\n%s", *m.ID, history)
		}
	}
	retold := len(strings.Join(arguments(was), "")) != len(strings.Join(arguments(is), ""))
	if flaw(was) == "" && !retold && !bytes.Equal(transcript, history) {
		t.Fatalf("got %s\nwant %s", history, transcript)
	}
	if again := f.AppendJSON(nil); !bytes.Equal(again, transcript) {
		t.Fatalf("reading the history changed the fold")
	}
}

func arguments(msgs []historyMessage) (args []string) {
	for _, m := range msgs {
		for _, c := range m.ToolCalls {
			args = append(args, c.Function.Arguments)
		}
	}
	return args
}
