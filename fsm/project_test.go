package fsm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// settle returns once what was offered to the flusher is done.
func (m *machine) settle() {
	done := make(chan struct{})
	m.flusher.tasks <- func(*store) error { close(done); return nil }
	<-done
}

// naive folds the records of runs from the first on, through the public reads.
func (m *machine) naive(t tb, kind projection.Kind, runs []projection.ThreadRun) string {
	t.Helper()
	f := projection.New(kind)
	for _, r := range runs {
		projection.BeginRun(f, r.RunID)
		for i, raw := range m.raws(t, r.RunID, 0) {
			f.Apply(event.Record{Offset: event.Offset(i), Raw: []byte(raw)})
		}
	}
	return withoutTimes(f.AppendJSON(nil))
}

// withoutTimes zeroes the times that records came with.
func withoutTimes(b []byte) string {
	parts := strings.Split(string(b), `At":`)
	for i := range parts[1:] {
		parts[i+1] = strings.TrimLeft(parts[i+1], "0123456789")
	}
	return strings.Join(parts, `At":`)
}

var projections = []projection.Kind{projection.KindTranscript, projection.KindTools, projection.KindState}

// turnOf is a run that speaks, calls, answers an older call, and ends, or not.
func turnOf(i, size int, end bool) []string {
	s := []string{
		fmt.Sprintf(`{"type":"RUN_STARTED","input":{"messages":[{"id":"u%d","role":"user","content":"%s"}]}}`, i, strings.Repeat("q", size)),
		fmt.Sprintf(`{"type":"TOOL_CALL_START","toolCallId":"c%d","toolCallName":"f"}`, i),
		fmt.Sprintf(`{"type":"TOOL_CALL_END","toolCallId":"c%d"}`, i),
		fmt.Sprintf(`{"type":"TOOL_CALL_RESULT","messageId":"r%d","toolCallId":"c%d","content":"late"}`, i, i-1),
		fmt.Sprintf(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/k%d","value":%d}]}`, i, i),
	}
	if end {
		s = append(s, `{"type":"RUN_FINISHED"}`)
	}
	return s
}

// Whatever was created, appended, deleted, flushed and read before: a thread's fold, whole or along
// a chain of parents, is the fold of its runs' records.
func TestThreadFoldIsTheFoldOfItsRuns(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := open(t, "")
		defer m.close(t)
		var runs []event.RunID
		open := map[event.RunID]bool{}
		for i := range rapid.IntRange(1, 25).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1, 2:
				id := event.RunID(fmt.Sprintf("r%d", i))
				c := event.CreateRun{Run: id, Thread: "t"}
				if len(runs) > 0 && rapid.Bool().Draw(t, "child") {
					c.Parent = rapid.SampledFrom(runs).Draw(t, "parent")
				}
				end := rapid.IntRange(0, 4).Draw(t, "end") > 0
				m.do(t, c, batch(t, id, turnOf(i, rapid.SampledFrom([]int{1, 300, 3000}).Draw(t, "size"), end)...))
				runs, open[id] = append(runs, id), !end
			case 3:
				if len(runs) > 0 {
					id := rapid.SampledFrom(runs).Draw(t, "run")
					if open[id] {
						m.do(t, batch(t, id, custom(i), `{"type":"RUN_ERROR","message":"lost"}`))
						open[id] = false
					} else {
						m.do(t, event.DeleteRun{Run: id})
						runs = slices.DeleteFunc(runs, func(r event.RunID) bool { return r == id })
					}
				}
			case 4:
				m.flushNow(t)
			}
			head := event.RunID("")
			if len(runs) > 0 && rapid.Bool().Draw(t, "head") {
				head = rapid.SampledFrom(runs).Draw(t, "of")
			}
			checkThread(t, m, head)
		}
	})
}

func checkThread(t *rapid.T, m *machine, head event.RunID) {
	for _, kind := range projections {
		got, err := m.FoldThread(t.Context(), "t", head, kind)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := withoutTimes(got.Folds[0].AppendJSON(nil)), m.naive(t, kind, got.Runs); a != b {
			t.Fatalf("%s of %v\n got %s\nwant %s", kind, got.Runs, a, b)
		}
		m.settle()
	}
	if head == "" {
		return
	}
	whole, err := m.FoldThread(t.Context(), "t", "", projection.KindTranscript)
	if err != nil {
		t.Fatal(err)
	}
	joined, _, err := m.Fold(t.Context(), head, projection.KindTranscript, nil, event.ScopeThread)
	if err != nil {
		t.Fatal(err)
	}
	upTo := slices.IndexFunc(whole.Runs, func(r projection.ThreadRun) bool { return r.RunID == head })
	if a, b := string(joined.AppendJSON(nil)), m.naive(t, projection.KindTranscript, whole.Runs[:upTo+1]); a != b {
		t.Fatalf("up to %s\n got %s\nwant %s", head, a, b)
	}
}

// A thread that was read before is not folded from its beginning again: only what came since, and
// at most what lies between two checkpoints.
func TestThreadIsNotFoldedAgain(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	const runs = 400
	for i := range runs {
		m.do(t, event.CreateRun{Run: event.RunID(fmt.Sprintf("r%d", i)), Thread: "t"},
			batch(t, event.RunID(fmt.Sprintf("r%d", i)), turnOf(i, 100, true)...))
	}
	m.flushNow(t)
	for _, kind := range projections {
		for range 5 { // a busy flusher leaves checkpoints out; later readers come that far again
			if _, err := m.FoldThread(t.Context(), "t", "", kind); err != nil {
				t.Fatal(err)
			}
			m.settle()
		}
		all, err := m.readThread(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		defer releaseAll(all)
		f := threadFolder{m: m.Machine, runs: all}
		f.addPrefixes(kind)
		i, from := f.nearest(kind, all[runs-1].run.tail)
		perRun := int(all[0].run.bytes) + runFoldCost
		if left := (runs - i) * perRun; left > f.fold.Size()/2+2*perRun+m.cfg.CheckpointBytes {
			t.Errorf("%s: %d of %d runs are folded again, from offset %d, a fold of %d bytes", kind, runs-i, runs, from, f.fold.Size())
		}
	}
	size, records := m.bytesUnder(t, keyThreadFold), m.bytesUnder(t, keySegment)
	if size == 0 || size > 3*len(projections)*records {
		t.Errorf("checkpoints take %d bytes, the records %d", size, records)
	}
}

func (m *machine) bytesUnder(t tb, kind byte) (n int) {
	t.Helper()
	keys, err := m.store.appendKeys(nil, []byte{kind}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	txn := m.store.db.NewTransaction(false)
	defer txn.Discard()
	for _, k := range keys {
		item, err := txn.Get(k)
		if err != nil {
			t.Fatal(err)
		}
		n += int(item.ValueSize())
	}
	return n
}

// What was folded over a thread goes with each of its runs, and is not written again by a reader
// that began before.
func TestDeletedRunLeavesNoThreadCheckpoint(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	for i := range 3 {
		id := event.RunID(fmt.Sprintf("r%d", i))
		m.do(t, event.CreateRun{Run: id, Thread: "t"}, batch(t, id, turnOf(i, 5000, true)...))
	}
	m.flushNow(t)
	if _, err := m.FoldThread(t.Context(), "t", "", projection.KindTranscript); err != nil {
		t.Fatal(err)
	}
	m.settle()
	if m.bytesUnder(t, keyThreadFold) == 0 {
		t.Fatal("no checkpoint to begin with")
	}
	early, err := m.readThread(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	defer releaseAll(early)
	m.do(t, event.DeleteRun{Run: "r0"})
	m.flushNow(t)
	c := newChores(m.Machine)
	for did := true; did; {
		if did, err = c.sweepDoomed(); err != nil {
			t.Fatal(err)
		}
	}
	if n := m.bytesUnder(t, keyThreadFold); n > 0 {
		t.Errorf("%d bytes are left", n)
	}
	if _, err := m.foldRuns(t.Context(), early, projection.KindTranscript, early[2].run.tail); !errors.Is(err, errThreadChanged) {
		t.Errorf("a reader that began before the deletion: %v", err)
	}
	late := threadFolder{m: m.Machine, runs: early, far: 1 << 20, fold: projection.New(projection.KindTranscript)}
	late.addPrefixes(projection.KindTranscript)
	late.checkpoint(2, 1)
	m.settle()
	if n := m.bytesUnder(t, keyThreadFold); n > 0 {
		t.Errorf("a late reader wrote %d bytes", n)
	}
	got, err := m.FoldThread(t.Context(), "t", "", projection.KindTranscript)
	if err != nil || strings.Contains(string(got.Folds[0].AppendJSON(nil)), `"u0"`) {
		t.Errorf("%v, %v", got.Runs, err)
	}
}

func TestHeadOfAThread(t *testing.T) {
	t.Parallel()
	m := open(t, "")
	defer m.close(t)
	for _, r := range []struct{ id, thread, parent event.RunID }{
		{"a", "t", ""}, {"b", "t", "a"}, {"b2", "t", "a"}, {"c", "t", "b2"}, // regenerated
		{"o", "t", "unknown"}, {"o2", "t", "o"}, {"x", "u", ""}, {"y", "t", "x"}, {"self", "t", "self"},
		{"gone", "t", "a"}, {"left", "t", "gone"},
	} {
		m.do(t, event.CreateRun{Run: r.id, Thread: event.ThreadID(r.thread), Parent: r.parent},
			batch(t, r.id, started, `{"type":"RUN_FINISHED"}`))
	}
	m.do(t, event.DeleteRun{Run: "gone"})
	for _, c := range []struct{ head, runs, missing event.RunID }{
		{"a", "a", ""}, {"b", "a b", ""}, {"c", "a b2 c", ""},
		{"o2", "o o2", "unknown"}, {"y", "y", "x"}, {"self", "self", "self"}, {"left", "left", "gone"},
	} {
		got, err := m.FoldThread(t.Context(), "t", c.head, projection.KindTranscript)
		var ids []string
		for _, r := range got.Runs {
			ids = append(ids, string(r.RunID))
		}
		if err != nil || strings.Join(ids, " ") != string(c.runs) || got.Missing != c.missing {
			t.Errorf("%s: %v, missing %q, %v; want %s, missing %q", c.head, ids, got.Missing, err, c.runs, c.missing)
		}
	}
	for head, want := range map[event.RunID]error{"nobody": event.ErrRunNotFound, "x": event.ErrRunNotFound, "gone": event.ErrRunDeleted} {
		if _, err := m.FoldThread(t.Context(), "t", head, projection.KindTranscript); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", head, err, want)
		}
	}
	if got, err := m.FoldThread(t.Context(), "empty", "", projection.KindTranscript); err != nil || len(got.Runs) != 0 || string(got.Folds[0].AppendJSON(nil)) != "[]" {
		t.Errorf("an unknown thread: %+v, %v", got, err)
	}
}

// BenchmarkFoldThread reads the transcript of a thread of many turns, as a chat page does after each
// of them.
func BenchmarkFoldThread(b *testing.B) {
	for _, runs := range []int{10, 1000} {
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) {
			m := open(b, b.TempDir())
			m.Machine.cfg.CheckpointBytes = 1 << 20
			defer m.close(b)
			for i := range runs {
				id := event.RunID(fmt.Sprintf("r%d", i))
				m.do(b, event.CreateRun{Run: id, Thread: "t"}, batch(b, id, turnOf(i, 1000, true)...))
			}
			m.flushNow(b)
			b.ReportAllocs()
			for b.Loop() {
				f, err := m.FoldThread(b.Context(), "t", "", projection.KindTranscript)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(f.Folds[0].Size()))
			}
		})
	}
}
