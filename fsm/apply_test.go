package fsm

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
)

func ptr[T any](v T) *T { return &v }

// TestAppendOrder: of several reasons to refuse, the contract's first one is given.
func TestAppendOrder(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	producer := func(epoch, seq uint64) *event.Producer { return &event.Producer{ID: "p", Epoch: epoch, Seq: seq} }
	m.do(t, event.CreateRun{Run: "leased", Thread: "t", Holder: "h", LeaseMs: 1500, Started: ptr(ev(t, started))})
	m.do(t, batch(t, "ended", started, `{"type":"RUN_ERROR","message":"m"}`))
	first := batch(t, "open", started)
	first.Producer, first.BodyHash = producer(1, 0), 7
	if r := m.do(t, first)[0]; r.Refusal != nil || r.Appended.Tail != 1 {
		t.Fatalf("%+v", r)
	}
	m.do(t, batch(t, "gone", started, `{"type":"RUN_FINISHED"}`), event.DeleteRun{Run: "gone"})

	type mod func(*event.Append)
	expect := func(o event.Offset) mod { return func(a *event.Append) { a.Expect = &o } }
	epoch := func(e event.Epoch) mod { return func(a *event.Append) { a.Epoch = &e } }
	prod := func(e, s, body uint64) mod {
		return func(a *event.Append) { a.Producer, a.BodyHash = producer(e, s), body }
	}
	bad := func(a *event.Append) { a.Events[0] = ev(t, started) } // RUN_STARTED again
	cases := []struct {
		name string
		run  event.RunID
		mods []mod
		want event.Refusal
	}{
		{"unknown run before all", "nobody", []mod{epoch(4), expect(9)}, &event.RunNotFound{}},
		{"deleted run", "gone", []mod{expect(9)}, &event.RunDeleted{}},
		{"epoch required", "leased", []mod{expect(9), bad}, &event.EpochRequired{CurrentEpoch: 1}},
		{"fenced, below", "leased", []mod{epoch(0), expect(9)}, &event.Fenced{Epoch: 0, CurrentEpoch: 1}},
		{"fenced, above", "leased", []mod{epoch(2), prod(0, 5, 0)}, &event.Fenced{Epoch: 2, CurrentEpoch: 1}},
		{"a duplicate's other body before offset", "open", []mod{prod(1, 0, 8), expect(9)}, &event.ProducerConflict{Seq: 0}},
		{"an older producer epoch", "open", []mod{prod(0, 0, 7), expect(9)}, &event.ProducerFenced{ProducerEpoch: 0, CurrentProducerEpoch: 1}},
		{"ended before offset", "ended", []mod{expect(9), prod(0, 3, 0)}, &event.RunEnded{TerminalOffset: 1}},
		{"offset before gap", "open", []mod{expect(9), prod(1, 5, 0)}, &event.OffsetConflict{Expected: 9, Tail: 1}},
		{"gap before grammar", "open", []mod{prod(1, 5, 0), bad}, &event.ProducerGap{ExpectedSeq: 1, ReceivedSeq: 5}},
		{"a new producer epoch begins at 0", "open", []mod{prod(2, 1, 0)}, &event.ProducerGap{ExpectedSeq: 0, ReceivedSeq: 1}},
		{"grammar", "open", []mod{expect(1), prod(1, 1, 0), bad}, &event.InvalidEvent{Index: 0, Reason: "RUN_STARTED: the run has started already"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before, _ := m.StateHash()
			a := batch(t, c.run, custom(1))
			for _, mod := range c.mods {
				mod(a)
			}
			r := m.do(t, a)[0]
			if fmt.Sprintf("%#v", r.Refusal) != fmt.Sprintf("%#v", c.want) {
				t.Fatalf("got %#v, want %#v", r.Refusal, c.want)
			}
			if r.Index != before+1 {
				t.Fatalf("index %d after %d", r.Index, before)
			}
		})
	}
	for id, want := range map[event.RunID]event.Offset{"leased": 1, "ended": 2, "open": 1} {
		if run, err := m.Run(t.Context(), id); err != nil || run.Tail != want {
			t.Errorf("%s: tail %d, %v", id, run.Tail, err)
		}
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := open(t, dir)
	send := func(seq uint64, events ...string) event.Result {
		a := batch(t, "r", events...)
		a.Producer = &event.Producer{ID: "p", Seq: seq}
		a.BodyHash = event.HashBody(a.Events)
		return m.do(t, a)[0]
	}
	send(0, started, custom(0))
	for i := 1; i < 50; i++ {
		if r := send(uint64(i), custom(i)); r.Refusal != nil || r.Appended.Duplicate || r.Appended.FirstOffset != event.Offset(i+1) {
			t.Fatalf("%d: %+v", i, r)
		}
		if i == 25 {
			m.flushNow(t)
		}
	}
	check := func() {
		t.Helper()
		if r := send(49, custom(49)); !r.Appended.Duplicate || r.Appended.FirstOffset != 50 || r.Appended.Tail != 51 {
			t.Fatalf("the last again: %+v", r)
		}
		if r := send(30, custom(30)); !r.Appended.Duplicate || r.Appended.FirstOffset != 31 || r.Appended.Tail != 32 {
			t.Fatalf("an earlier one again: %+v", r)
		}
		if r := send(2, custom(2)); !r.Appended.Duplicate || !r.Appended.Forgotten || r.Appended.Tail != 51 {
			t.Fatalf("a very old one again: %+v", r)
		}
		if r := send(49, custom(7)); !errors.Is(r.Refusal, event.ErrProducerConflict) {
			t.Fatalf("another body: %+v", r)
		}
	}
	check()
	m.flushNow(t)
	m.close(t)
	m = open(t, dir)
	defer m.close(t)
	check()
}

func TestProducersAreNeverForgottenEarly(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	now := event.Time(1000)
	send := func(id string, seq uint64, events ...string) event.Result {
		a := batch(t, "r", events...)
		a.Producer = &event.Producer{ID: event.ProducerID(id), Seq: seq}
		l := entryAt(m.Applied() + 1)
		l.Data = event.AppendEntry(nil, event.Entry{Time: now, Commands: []event.Command{a}})
		return m.Apply(l).([]event.Result)[0]
	}
	send("p0", 0, started)
	for i := 1; i < maxProducers; i++ {
		now++
		if r := send(fmt.Sprint("p", i), 0, custom(i)); r.Refusal != nil {
			t.Fatalf("%d: %v", i, r.Refusal)
		}
	}
	now = 1000 + producerRetention - 1
	if r := send("new", 0, custom(0)); !errors.Is(r.Refusal, event.ErrTooManyProducers) {
		t.Fatalf("one too many: %+v", r)
	}
	now++ // p0 may go now, p1 may not
	m.flushNow(t)
	if r := send("new", 0, custom(0)); r.Refusal != nil {
		t.Fatalf("after 24 h: %+v", r)
	}
	if r := send("new2", 0, custom(0)); !errors.Is(r.Refusal, event.ErrTooManyProducers) {
		t.Fatalf("one too many again: %+v", r)
	}
	if r := send("p1", 1, custom(0)); r.Refusal != nil {
		t.Fatalf("p1 was forgotten: %+v", r)
	}
	if r := send("p0", 1, custom(0)); !errors.Is(r.Refusal, event.ErrProducerGap) {
		t.Fatalf("p0 is remembered: %+v", r)
	}
}

func TestCreateRun(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	create := func(mods ...func(*event.CreateRun)) event.Result {
		c := event.CreateRun{Run: "r", Thread: "t", Grammar: event.GrammarStrict}
		for _, mod := range mods {
			mod(&c)
		}
		return m.do(t, c)[0]
	}
	holder := func(h event.HolderID) func(*event.CreateRun) {
		return func(c *event.CreateRun) { c.Holder, c.LeaseMs = h, 2000 }
	}
	key := func(k string) func(*event.CreateRun) {
		return func(c *event.CreateRun) { c.Key = event.HashKey("create", k) }
	}
	if r := create(holder("h"), key("k1")); !r.Created || r.Run.Epoch != 1 || r.Run.Lease.Holder != "h" || r.Run.Lease.State != event.LeaseStateHeld || *r.Run.TakeoverMs != 0 {
		t.Fatalf("first: %+v", r.Run)
	}
	if r := create(holder("h"), key("k1")); !r.Created || r.Run.Epoch != 1 {
		t.Fatalf("the same request again: %+v", r.Run)
	}
	if r := create(); r.Created || r.Run.Epoch != 1 {
		t.Fatalf("without a holder: %+v", r.Run)
	}
	if r := create(holder("h")); r.Created || r.Run.Epoch != 2 {
		t.Fatalf("acquired again: %+v", r.Run)
	}
	if r := create(holder("h"), key("k2")); r.Run.Epoch != 3 {
		t.Fatalf("acquired with a key: %+v", r.Run)
	}
	if r := create(holder("h"), key("k2")); r.Run.Epoch != 3 {
		t.Fatalf("that repeated: %+v", r.Run)
	}
	if r := create(holder("h"), key("k1")); !errors.Is(r.Refusal, event.ErrFenced) {
		t.Fatalf("the creation repeated after others acquired: %+v", r)
	}
	if r := create(holder("h"), key("k3")); r.Run.Epoch != 4 {
		t.Fatalf("acquired with another key: %+v", r)
	}
	if r := create(holder("h"), key("k2")); !errors.Is(r.Refusal, event.ErrFenced) {
		t.Fatalf("an acquisition repeated after another: %+v", r)
	}
	if r := create(holder("other")); !errors.Is(r.Refusal, event.ErrLeaseHeld) {
		t.Fatalf("another holder: %+v", r)
	}
	r := create(func(c *event.CreateRun) { c.Thread = "t2" })
	var exists *event.RunExists
	if !errors.As(r.Refusal, &exists) || exists.Run.ThreadID != "t" {
		t.Fatalf("another thread: %+v", r)
	}
	busy := m.do(t, event.CreateRun{Run: "r2", Thread: "t", RejectBusy: true})[0]
	var tb *event.ThreadBusy
	if !errors.As(busy.Refusal, &tb) || tb.ActiveRunID != "r" {
		t.Fatalf("busy: %+v", busy)
	}
	if r := m.do(t, event.CreateRun{Run: "r2", Thread: "t"})[0]; !r.Created || r.Run.Lease != nil || r.Run.TakeoverMs != nil {
		t.Fatalf("allowed: %+v", r.Run)
	}
}

func TestDeleteRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := open(t, dir)
	m.do(t, batch(t, "r", started, custom(1)))
	if r := m.do(t, event.DeleteRun{Run: "r"})[0]; !errors.Is(r.Refusal, event.ErrRunActive) {
		t.Fatalf("open: %+v", r)
	}
	m.do(t, batch(t, "r", `{"type":"RUN_FINISHED"}`))
	m.flushNow(t)
	if r := m.do(t, event.DeleteRun{Run: "r"})[0]; r.Refusal != nil {
		t.Fatalf("ended: %+v", r)
	}
	gone := func(where string) {
		t.Helper()
		if _, err := m.Run(t.Context(), "r"); !errors.Is(err, event.ErrRunDeleted) {
			t.Fatalf("%s: read: %v", where, err)
		}
		if r := m.do(t, batch(t, "r", started))[0]; !errors.Is(r.Refusal, event.ErrRunDeleted) {
			t.Fatalf("%s: append: %+v", where, r)
		}
		if r := m.do(t, event.CreateRun{Run: "r", Thread: "r"})[0]; !errors.Is(r.Refusal, event.ErrRunDeleted) {
			t.Fatalf("%s: create: %+v", where, r)
		}
		if runs, _, err := m.Runs(t.Context(), event.RunQuery{}); err != nil || len(runs) != 0 {
			t.Fatalf("%s: listed: %+v, %v", where, runs, err)
		}
	}
	gone("at once")
	m.flushNow(t)
	gone("flushed")
	m.close(t)
	m = open(t, dir)
	gone("reopened")
	c := newChores(m.Machine)
	for did := true; did; {
		var err error
		if did, err = c.sweepDoomed(); err != nil {
			t.Fatal(err)
		}
	}
	gone("swept")
	m.close(t)
}

// TestEndedAndDeletedInOneCut: found by TestReplayAfterCrash. A run created in an earlier cut ends
// and goes within one; nothing of it may be taken for an open run at the next start.
func TestEndedAndDeletedInOneCut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := open(t, dir)
	m.do(t, batch(t, "r", started))
	m.flushNow(t)
	m.do(t, batch(t, "r", `{"type":"RUN_FINISHED"}`), event.DeleteRun{Run: "r"})
	m.flushNow(t)
	want := m.sums(t)
	m.close(t)
	m = open(t, dir)
	defer m.close(t)
	if got := m.sums(t); got != want || len(m.openRuns.bySID) != 0 {
		t.Fatalf("got %x, want %x; %d open", got, want, len(m.openRuns.bySID))
	}
}

// TestHeadStaysSmall: the longest ids and the most open spans still make a small head.
func TestHeadStaysSmall(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", event.MaxIDBytes)
	r := run{head: head{id: event.RunID(long), thread: event.ThreadID(long), parent: event.RunID(long), holder: event.HolderID(long),
		status: event.StatusRunning, lease: event.LeaseStateHeld, logHead: logHead{tail: event.MaxOffset, chain: 1 << 63}, updatedAt: 1 << 50}}
	for i := range event.MaxOpenSpans {
		r.open = append(r.open, event.Span{Seq: uint64(1_000_000 + 100*i)})
	}
	b := r.encodeHead()
	if len(b) > 4<<10 {
		t.Fatalf("%d bytes", len(b))
	}
	if got, err := decodeHead(b); err != nil || got.id != r.id || len(got.openSeqs) != len(r.open) {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestRunsListing(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	const n = 25
	for i := range n {
		thread := event.ThreadID(fmt.Sprint("t", i%2))
		m.do(t, event.CreateRun{Run: event.RunID(fmt.Sprintf("r%02d", i)), Thread: thread, Started: ptr(ev(t, started))})
		if i%3 == 0 {
			m.do(t, batch(t, event.RunID(fmt.Sprintf("r%02d", i)), `{"type":"RUN_FINISHED"}`))
		}
		if i == 9 || i == 17 {
			m.flushNow(t)
		}
	}
	list := func(q event.RunQuery) (ids []string) {
		q.Limit = 4
		for {
			runs, next, err := m.Runs(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range runs {
				ids = append(ids, string(r.RunID))
			}
			if next == "" {
				return ids
			}
			q.Cursor = next
		}
	}
	want := func(keep func(i int) bool, ascending bool) (ids []string) {
		for k := range n {
			i := n - 1 - k
			if ascending {
				i = k
			}
			if keep(i) {
				ids = append(ids, fmt.Sprintf("r%02d", i))
			}
		}
		return ids
	}
	all := func(int) bool { return true }
	for _, c := range []struct {
		name string
		q    event.RunQuery
		keep func(int) bool
	}{
		{"all", event.RunQuery{}, all},
		{"ascending", event.RunQuery{Ascending: true}, all},
		{"a thread", event.RunQuery{ThreadID: "t1"}, func(i int) bool { return i%2 == 1 }},
		{"a thread ascending", event.RunQuery{ThreadID: "t0", Ascending: true}, func(i int) bool { return i%2 == 0 }},
		{"running", event.RunQuery{Status: event.StatusRunning}, func(i int) bool { return i%3 != 0 }},
		{"prefix", event.RunQuery{Prefix: "r1"}, func(i int) bool { return i >= 10 && i < 20 }},
	} {
		if got, want := list(c.q), want(c.keep, c.q.Ascending); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n got %v\nwant %v", c.name, got, want)
		}
	}
	if ids, err := m.ThreadRuns(t.Context(), "t1"); err != nil || len(ids) != n/2 || ids[0] != "r01" {
		t.Errorf("thread runs %v, %v", ids, err)
	}
	if _, _, err := m.Runs(t.Context(), event.RunQuery{Cursor: "x"}); !errors.Is(err, event.ErrBadCursor) {
		t.Errorf("got %v", err)
	}
}
