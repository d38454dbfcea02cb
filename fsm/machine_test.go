package fsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/runlog/runlog/event"
)

// testing.TB and *rapid.T, as far as these tests need them.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// machine is a Machine in a directory, and the log that it was fed.
type machine struct {
	*Machine
	cfg Config
}

// open opens a machine whose flusher works only when told to, so that a test decides where cuts
// fall; without a directory it is in memory.
func open(t tb, dir string) *machine {
	t.Helper()
	cfg := Config{Dir: dir, InMemory: dir == "", FlushInterval: time.Hour, CheckpointBytes: 2000, TailCacheBytes: 4 << 10,
		Fatal: func(err error) { panic(err) }}
	m, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &machine{m, cfg}
}

func (m *machine) close(t tb) {
	t.Helper()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// crash ends the machine without its last flush, as a killed process does.
func (m *machine) crash(t tb) {
	t.Helper()
	m.mu.Lock()
	m.stopLocked(errors.New("crashed"))
	m.mu.Unlock()
	m.close(t)
}

func (m *machine) flushNow(t tb) {
	t.Helper()
	if err := m.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func entryAt(index uint64, commands ...event.Command) *raft.Log {
	return &raft.Log{Index: index, Term: 1, Type: raft.LogCommand,
		Data: event.AppendEntry(nil, event.Entry{Time: event.Time(1000 + index), Commands: commands})}
}

// do applies commands as the next entry.
func (m *machine) do(t tb, commands ...event.Command) []event.Result {
	t.Helper()
	return m.Apply(entryAt(m.Applied()+1, commands...)).([]event.Result)
}

func ev(t tb, raw string) event.Event {
	t.Helper()
	e, err := event.ParseEvent([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return e
}

func batch(t tb, run event.RunID, raws ...string) *event.Append {
	t.Helper()
	a := &event.Append{Batch: event.Batch{Run: run}}
	for _, r := range raws {
		a.Events = append(a.Events, ev(t, r))
	}
	return a
}

const started = `{"type":"RUN_STARTED"}`

func custom(i int) string { return fmt.Sprintf(`{"type":"CUSTOM","name":"n","value":%d}`, i) }

func (m *machine) raws(t tb, id event.RunID, from event.Offset) (all []string) {
	t.Helper()
	for {
		page, err := m.Records(context.Background(), id, from, 7, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Records) == 0 {
			return all
		}
		for _, r := range page.Records {
			if r.Offset != from {
				t.Fatalf("record %d where %d was due", r.Offset, from)
			}
			from++
			all = append(all, string(r.Raw))
		}
	}
}

// TestReadsWhereverRecordsAre appends, flushes, merges and restarts, reading from every offset
// each time: active, frozen, cached, in segments, in merged segments.
func TestReadsWhereverRecordsAre(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := open(t, dir)
	want := []string{started}
	m.do(t, batch(t, "r", started))
	check := func(where string) {
		t.Helper()
		for from := 0; from <= len(want); from += 1 + from/7 {
			if got := m.raws(t, "r", event.Offset(from)); fmt.Sprint(got) != fmt.Sprint(want[from:]) {
				t.Fatalf("%s: from %d: %d records, want %d", where, from, len(got), len(want)-from)
			}
		}
	}
	for round := range 30 {
		for i := range 20 {
			e := custom(round*20 + i)
			want = append(want, e)
			m.do(t, batch(t, "r", e), batch(t, event.RunID(fmt.Sprintf("other-%d", i)), started))
		}
		check("active")
		if round%2 == 0 {
			m.flushNow(t)
			check("flushed")
		}
	}
	end := `{"type":"RUN_FINISHED"}`
	want = append(want, end)
	m.do(t, batch(t, "r", end))
	check("ended")
	m.flushNow(t)
	m.close(t)
	m = open(t, dir)
	check("reopened")
	c := newChores(m.Machine)
	for {
		did, err := c.mergeEnded()
		if err != nil {
			t.Fatal(err)
		}
		check("merging")
		if !did {
			break
		}
	}
	m.close(t)
	m = open(t, dir)
	check("merged")
	m.close(t)
}

func TestBeyondTheTail(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	m.do(t, batch(t, "r", started))
	_, err := m.Records(t.Context(), "r", 2, 1, 1)
	var out *event.OffsetOutOfRange
	if !errors.As(err, &out) || out.Tail != 1 || out.Offset != 2 {
		t.Fatalf("got %v", err)
	}
	if _, err := m.Records(t.Context(), "nobody", 0, 1, 1); !errors.Is(err, event.ErrRunNotFound) {
		t.Fatalf("got %v", err)
	}
}

// genEntries draws a log: a few runs, producers, epochs and ids, many refusals.
func genEntries(t *rapid.T) []*raft.Log {
	n := rapid.IntRange(1, 40).Draw(t, "entries")
	logs := []*raft.Log{entryAt(1, event.LeaderStart{Term: 1, ClusterID: "c"})}
	for i := range n {
		index := uint64(i + 2)
		if rapid.IntRange(0, 9).Draw(t, "configuration?") == 0 {
			logs = append(logs, &raft.Log{Index: index, Term: 1, Type: raft.LogConfiguration})
			continue
		}
		l := entryAt(index, rapid.SliceOfN(rapid.Custom(genCommand), 1, 6).Draw(t, "commands")...)
		if late := rapid.SampledFrom([]uint64{0, 0, 500, 2500}).Draw(t, "late"); late > 0 {
			l = entryIn(t, l, late)
		}
		logs = append(logs, l)
	}
	return logs
}

// entryIn returns the entry with a time that is late ms later.
func entryIn(t tb, l *raft.Log, late uint64) *raft.Log {
	t.Helper()
	e, err := event.DecodeEntry(l.Data)
	if err != nil {
		t.Fatal(err)
	}
	e.Time += event.Time(late)
	return &raft.Log{Index: l.Index, Term: l.Term, Type: l.Type, Data: event.AppendEntry(nil, e)}
}

func genCommand(t *rapid.T) event.Command {
	run := event.RunID(rapid.SampledFrom([]string{"r1", "r2", "r3", "r4"}).Draw(t, "run"))
	switch rapid.IntRange(0, 6).Draw(t, "family") {
	case 3:
		return genSubscriptionCommand(t)
	case 0:
		return genLeaseCommand(t, run)
	case 1, 2:
		return genStreamCommand(t)
	}
	switch rapid.IntRange(0, 11).Draw(t, "kind") {
	case 0:
		c := event.CreateRun{Run: run, Thread: event.ThreadID(rapid.SampledFrom([]string{"t1", "t2"}).Draw(t, "thread")), Grammar: event.GrammarLenient}
		c.Holder = event.HolderID(rapid.SampledFrom([]string{"", "h1", "h2"}).Draw(t, "holder"))
		c.RejectBusy = rapid.Bool().Draw(t, "busy")
		if rapid.Bool().Draw(t, "key") {
			c.Key = event.HashKey("create", "k")
		}
		if rapid.Bool().Draw(t, "started") {
			e := ev(t, started)
			c.Started = &e
		}
		return c
	case 1:
		return event.PatchRun{Run: run, Patch: fmt.Appendf(nil, `{"k%d":%d}`, rapid.IntRange(0, 2).Draw(t, "k"), rapid.IntRange(0, 9).Draw(t, "v"))}
	case 2:
		return event.DeleteRun{Run: run}
	}
	a := &event.Append{Batch: event.Batch{Run: run}}
	if rapid.IntRange(0, 3).Draw(t, "first?") == 0 {
		a.Events = append(a.Events, ev(t, started))
	}
	for range rapid.IntRange(1, 4).Draw(t, "events") {
		id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
		a.Events = append(a.Events, ev(t, rapid.SampledFrom([]string{
			custom(1), `{"type":"TEXT_MESSAGE_START","messageId":"` + id + `"}`, `{"type":"TEXT_MESSAGE_END","messageId":"` + id + `"}`,
			`{"type":"TOOL_CALL_START","toolCallName":"n","toolCallId":"` + id + `"}`, `{"type":"TOOL_CALL_END","toolCallId":"` + id + `"}`,
			`{"type":"TOOL_CALL_RESULT","messageId":"x","content":"y","toolCallId":"` + id + `"}`,
			`{"type":"TEXT_MESSAGE_CHUNK","delta":"y","messageId":"` + id + `"}`, `{"type":"RUN_FINISHED"}`, `{"type":"RUN_ERROR","message":"m"}`,
		}).Draw(t, "event")))
	}
	if rapid.Bool().Draw(t, "producer") {
		a.Producer = &event.Producer{ID: event.ProducerID(rapid.SampledFrom([]string{"p1", "p2"}).Draw(t, "id")),
			Epoch: rapid.Uint64Range(0, 1).Draw(t, "pe"), Seq: rapid.Uint64Range(0, 3).Draw(t, "seq")}
		a.BodyHash = event.HashBody(a.Events)
	}
	if rapid.IntRange(0, 3).Draw(t, "epoch?") == 0 {
		e := event.Epoch(rapid.Uint64Range(0, 2).Draw(t, "epoch"))
		a.Epoch = &e
	}
	return a
}

func genLeaseCommand(t *rapid.T, run event.RunID) event.Command {
	holder := event.HolderID(rapid.SampledFrom([]string{"h1", "h2"}).Draw(t, "holder"))
	epoch := event.Epoch(rapid.Uint64Range(0, 3).Draw(t, "epoch"))
	tail := event.Offset(rapid.Uint64Range(0, 6).Draw(t, "tail"))
	lock := event.LockName(rapid.SampledFrom([]string{"l1", "l2"}).Draw(t, "lock"))
	return rapid.SampledFrom([]event.Command{
		event.AcquireLease{Run: run, Holder: holder, LeaseMs: 1500}, event.AcquireLease{Run: run, Holder: holder, LeaseMs: 1500, Key: event.HashKey("lease", "k")},
		event.AcquireLease{Run: run, Holder: holder, IfEpoch: &epoch, Steal: true}, event.ReviveLease{Run: run, Epoch: epoch},
		event.ReleaseLease{Run: run, Epoch: epoch}, event.LapseLease{Run: run, Epoch: epoch, Tail: tail},
		event.ExpireRun{Run: run, Epoch: epoch, Tail: tail, MaxBytes: 1 << 20}, event.CancelRun{Run: run, WithinMs: 5},
		event.EnforceCancel{Run: run, Epoch: epoch, Tail: tail, MaxBytes: 1 << 20}, event.AcquireLock{Name: lock, Holder: holder, LeaseMs: 5},
		event.ReleaseLock{Name: lock, Epoch: epoch}, event.LapseLock{Name: lock, Epoch: epoch},
	}).Draw(t, "lease command")
}

// feed applies logs[from:to], flushing now and then.
func (m *machine) feed(t *rapid.T, logs []*raft.Log, label string) {
	for _, l := range logs {
		m.ApplyBatch([]*raft.Log{l})
		if rapid.IntRange(0, 4).Draw(t, label+" flush?") == 0 {
			m.flushNow(t)
		}
	}
}

type sums struct{ index, hash, digest uint64 }

func (m *machine) sums(t tb) sums {
	t.Helper()
	d, err := m.Digest(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	index, hash := m.StateHash()
	return sums{index, hash, d}
}

// reference applies a whole log with no flush but the last.
func reference(t *rapid.T, logs []*raft.Log) sums {
	m := open(t, "")
	defer m.close(t)
	m.ApplyBatch(logs)
	return m.sums(t)
}

// TestReplayAfterCrash: apply a prefix, be killed, replay the whole log → the same state.
func TestReplayAfterCrash(t *testing.T) {
	t.Parallel()
	dirs := tempDirs(t)
	rapid.Check(t, func(t *rapid.T) {
		logs := genEntries(t)
		want := reference(t, logs)
		dir := dirs()
		for range rapid.IntRange(1, 3).Draw(t, "crashes") {
			m := open(t, dir)
			m.feed(t, logs[:rapid.IntRange(0, len(logs)).Draw(t, "prefix")], "before")
			m.crash(t)
		}
		m := open(t, dir)
		defer m.close(t)
		m.feed(t, logs, "after")
		if got := m.sums(t); got != want {
			t.Fatalf("got %x, want %x", got, want)
		}
	})
}

// TestSnapshotAnywhere: export after a prefix, restore elsewhere, apply the rest → the same state.
func TestSnapshotAnywhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		logs := genEntries(t)
		want := reference(t, logs)
		cut := rapid.IntRange(0, len(logs)).Draw(t, "cut")
		a, b := open(t, ""), open(t, "")
		defer a.close(t)
		defer b.close(t)
		a.feed(t, logs[:cut], "a")
		c := newChores(a.Machine)
		for rapid.Bool().Draw(t, "chore?") {
			c.step()
		}
		b.feed(t, logs[:rapid.IntRange(0, cut).Draw(t, "b had")], "b")
		var export bytes.Buffer
		index, err := a.Export(context.Background(), &export)
		if err != nil || index != a.Applied() {
			t.Fatalf("export at %d of %d: %v", index, a.Applied(), err)
		}
		if err := VerifyExport(bytes.NewReader(export.Bytes())); err != nil {
			t.Fatal(err)
		}
		if err := b.Restore(io.NopCloser(&export)); err != nil {
			t.Fatal(err)
		}
		if got, want := b.sums(t), a.sums(t); got != want {
			t.Fatalf("restored: got %x, want %x", got, want)
		}
		a.feed(t, logs[cut:], "a rest")
		b.feed(t, logs, "b all") // what the snapshot holds is skipped
		if got := a.sums(t); got != want {
			t.Fatalf("a: got %x, want %x", got, want)
		}
		if got := b.sums(t); got != want {
			t.Fatalf("b: got %x, want %x", got, want)
		}
	})
}

// TestDamagedExport: whatever byte of an export is changed or missing, a restore fails and the
// state stays.
func TestDamagedExport(t *testing.T) {
	t.Parallel()
	m := open(t, "")
	defer m.close(t)
	for i := range 20 {
		m.do(t, batch(t, event.RunID(fmt.Sprint("r", i)), started, custom(i)))
	}
	want := m.sums(t)
	var export bytes.Buffer
	if _, err := m.Export(t.Context(), &export); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < export.Len(); i += 1 + export.Len()/64 {
		bad := bytes.Clone(export.Bytes())
		bad[i] ^= 0x10
		if err := m.Restore(io.NopCloser(bytes.NewReader(bad))); err == nil {
			t.Fatalf("a flipped bit at %d was restored", i)
		}
		if err := m.Restore(io.NopCloser(bytes.NewReader(export.Bytes()[:i]))); err == nil {
			t.Fatalf("%d of %d bytes were restored", i, export.Len())
		}
	}
	if got := m.sums(t); got != want {
		t.Fatalf("got %x, want %x", got, want)
	}
}

// tempDirs returns a maker of fresh directories that all go when the test ends.
func tempDirs(t *testing.T) func() string {
	root := t.TempDir()
	n := 0
	return func() string { n++; return fmt.Sprintf("%s/%d", root, n) }
}
