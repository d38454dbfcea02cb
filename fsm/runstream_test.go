package fsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
)

func record(seq int, chunk string) string {
	return fmt.Sprintf(`{ "v": 1, "seq":%d,  "chunk":%s }`, seq, chunk)
}

func post(t *testing.T, raws ...string) *event.AppendRunStream {
	t.Helper()
	messages := make([][]byte, len(raws))
	for i := range raws {
		messages[i] = []byte(raws[i])
	}
	c := &event.AppendRunStream{Run: "r"}
	var err error
	if c.Messages.Events, c.Messages.Seqs, err = event.ParseMessages(messages); err != nil {
		t.Fatal(err)
	}
	return c
}

func (m *machine) messages(t *testing.T, id event.RunID) (all []string) {
	t.Helper()
	page, err := m.RunMessages(context.Background(), id, 0, 1000, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Records {
		all = append(all, string(r.Raw))
	}
	return all
}

func accepted(t *testing.T, r event.Result) event.Result {
	t.Helper()
	if r.Refusal != nil {
		t.Fatal(r.Refusal)
	}
	return r
}

func refused(t *testing.T, r event.Result, want error) {
	t.Helper()
	if !errors.Is(r.Refusal, want) {
		t.Fatalf("%v, want %v", r.Refusal, want)
	}
}

// TestRecordsKeepTheirBytesAndReadAsEvents: one log, two views of it; what is written natively and what
// the cluster adds continue the numbering, and all of it survives a restart and an export.
func TestRecordsKeepTheirBytesAndReadAsEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := open(t, dir)
	window := int64(0)
	accepted(t, m.do(t, &event.OpenRunStream{Run: "r", Holder: "h", LeaseMs: 1500, TakeoverMs: &window})[0])
	start, text := `{"type":"RUN_STARTED", "n":12345678901234567890}`, `{"type":"TEXT_MESSAGE_START","messageId":"m"}`
	c := post(t, record(1, start), record(5, text))
	c.Holder = "h"
	accepted(t, m.do(t, c)[0])
	native := `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n"}`
	accepted(t, appendAt(t, m, 1, native))

	m.flushNow(t)
	m.close(t)
	m = open(t, dir)
	accepted(t, m.do(t, event.ExpireRun{Run: "r", Epoch: 1, Tail: 3, MaxBytes: 4096})[0])

	events := m.raws(t, "r", 0)
	if fmt.Sprint(events[:3]) != fmt.Sprint([]string{start, text, native}) {
		t.Fatalf("events %q", events)
	}
	if len(events) != 7 || !strings.Contains(events[6], `"code":"host_lost"`) {
		t.Fatalf("closers %q", events[3:])
	}
	stored := m.messages(t, "r")
	if stored[0] != record(1, start) || stored[1] != record(5, text) {
		t.Fatalf("records changed: %q", stored)
	}
	for i, seq := 2, 6; i < len(stored); i, seq = i+1, seq+1 {
		if want := fmt.Sprintf(`{"v":1,"seq":%d,"chunk":%s}`, seq, events[i]); stored[i] != want {
			t.Fatalf("record %s, want %s", stored[i], want)
		}
	}
	if r := state(t, m); r.Status != event.StatusLost || r.Error == nil || r.Error.Code != event.CodeHostLost {
		t.Fatalf("%+v", r)
	}
	at, err := m.RunAt(context.Background(), "r", 3)
	if err != nil || len(at.Open.Messages) != 1 || len(at.Open.ToolCalls) != 1 {
		t.Fatalf("%+v %v", at.Open, err)
	}
	var export bytes.Buffer
	if _, err := m.Export(context.Background(), &export); err != nil {
		t.Fatal(err)
	}
	other := open(t, "")
	defer other.close(t)
	if err := other.Restore(nopCloser{&export}); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(other.messages(t, "r")) != fmt.Sprint(stored) || fmt.Sprint(other.raws(t, "r", 0)) != fmt.Sprint(events) {
		t.Fatal("the export differs")
	}
	m.close(t)
}

type nopCloser struct{ *bytes.Buffer }

func (nopCloser) Close() error { return nil }

// TestFirstEventFixesTheFraming: records after a bare event are refused, a bare event after records is
// wrapped; numbers only grow.
func TestFirstEventFixesTheFraming(t *testing.T) {
	t.Parallel()
	m := open(t, "")
	defer m.close(t)
	m.do(t, &event.OpenRunStream{Run: "r"})
	accepted(t, m.do(t, post(t, started))[0])
	refused(t, m.do(t, post(t, record(2, custom(1))))[0], event.ErrInvalidEvent)

	m.do(t, &event.OpenRunStream{Run: "framed"})
	send := func(raws ...string) event.Result {
		c := post(t, raws...)
		c.Run = "framed"
		return m.do(t, c)[0]
	}
	accepted(t, send(record(0, started), record(1, custom(0))))
	accepted(t, send(custom(1)))
	refused(t, send(record(2, custom(2))), event.ErrInvalidEvent)
	refused(t, send(record(4, custom(2)), record(4, custom(3))), event.ErrInvalidEvent)
	accepted(t, send(record(3, custom(2))))
	if got := m.messages(t, "framed")[2]; got != `{"v":1,"seq":2,"chunk":`+custom(1)+`}` {
		t.Fatal(got)
	}
}

// TestRunStreamWriters: on a leased run an old epoch and another holder are refused before anything
// else is looked at, and nothing changes.
func TestRunStreamWriters(t *testing.T) {
	t.Parallel()
	m := open(t, "")
	defer m.close(t)
	open := func(h event.HolderID) event.Result {
		return m.do(t, &event.OpenRunStream{Run: "r", Holder: h, LeaseMs: 1500, TakeoverMs: ptr(int64(60000))})[0]
	}
	if r := accepted(t, open("a")); !r.Created || r.Run.Epoch != 1 {
		t.Fatalf("%+v", r.Run)
	}
	refused(t, open("b"), event.ErrLeaseHeld)
	write := func(epoch *event.Epoch, h event.HolderID, closing bool, raws ...string) event.Result {
		c := post(t, raws...)
		c.Epoch, c.Holder, c.Close = epoch, h, closing
		return m.do(t, c)[0]
	}
	refused(t, write(nil, "", false, started), event.ErrLeaseHeld)
	refused(t, write(nil, "b", false, started), event.ErrLeaseHeld)
	refused(t, write(nil, "", true), event.ErrLeaseHeld)
	accepted(t, write(nil, "a", false, started))
	m.do(t, event.LapseLease{Run: "r", Epoch: 1, Tail: 1})
	accepted(t, write(nil, "a", false, custom(1))) // renews
	if r := state(t, m); r.Lease.State != event.LeaseStateHeld {
		t.Fatalf("%+v", r.Lease)
	}
	m.do(t, event.LapseLease{Run: "r", Epoch: 1, Tail: 2})
	if r := accepted(t, open("b")); r.Created || r.Run.Epoch != 2 {
		t.Fatalf("%+v", r.Run)
	}
	before := state(t, m)
	for _, r := range []event.Result{
		write(ptr(event.Epoch(1)), "a", false, custom(2)), write(ptr(event.Epoch(1)), "b", true), write(nil, "a", true), write(nil, "a", false, custom(2)),
	} {
		if r.Refusal == nil {
			t.Fatal("a zombie was let in")
		}
	}
	if after := state(t, m); after.Tail != before.Tail || after.Ended || after.Lease.State != event.LeaseStateHeld {
		t.Fatalf("%+v", after)
	}
	// A close without a terminal releases; the run goes on and wants an epoch or an acquisition.
	accepted(t, write(ptr(event.Epoch(2)), "", true))
	if r := state(t, m); r.Ended || r.Lease.State != event.LeaseStateReleased {
		t.Fatalf("%+v", r)
	}
	refused(t, write(nil, "b", false, custom(3)), event.ErrEpochRequired)
	accepted(t, open("c"))
	accepted(t, write(nil, "c", true, `{"type":"RUN_FINISHED"}`))
	accepted(t, write(nil, "c", true)) // idempotent
	refused(t, write(nil, "c", false, custom(4)), event.ErrStreamClosed)
	refused(t, write(ptr(event.Epoch(1)), "", true), event.ErrFenced)
	refused(t, open("d"), event.ErrStreamExists)
}

func TestRunStreamProducersAndSequences(t *testing.T) {
	t.Parallel()
	m := open(t, "")
	defer m.close(t)
	refused(t, m.do(t, post(t, started))[0], event.ErrRunNotFound)
	m.do(t, &event.OpenRunStream{Run: "r"})
	send := func(epoch, seq uint64, streamSeq string, raws ...string) event.Result {
		c := post(t, raws...)
		c.Producer, c.Seq = &event.Producer{ID: "p", Epoch: epoch, Seq: seq}, streamSeq
		return m.do(t, c)[0]
	}
	accepted(t, send(0, 0, "a", started))
	if r := accepted(t, send(0, 0, "a", started)); !r.Stream.Duplicate || r.Run.Tail != 1 {
		t.Fatalf("%+v", r.Stream)
	}
	refused(t, send(0, 2, "b", custom(1)), event.ErrProducerGap)
	refused(t, send(0, 1, "a", custom(1)), event.ErrStreamSeqConflict)
	accepted(t, send(0, 1, "b", custom(1)))
	refused(t, send(1, 3, "c", custom(1)), event.ErrProducerReset)
	accepted(t, send(1, 0, "c", custom(1)))
	refused(t, send(0, 2, "d", custom(1)), event.ErrProducerFenced)
}

// TestClosersOfAnEmptyRun: the cluster ends a run that nobody wrote to with what its opener reads, and
// the first event that is written outdoes the opener.
func TestClosersOfAnEmptyRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := open(t, dir)
	window := int64(0)
	opening := func(id event.RunID, records bool) *event.OpenRunStream {
		return &event.OpenRunStream{Run: id, Holder: "h", LeaseMs: 1500, TakeoverMs: &window, Records: records}
	}
	for _, id := range []event.RunID{"records", "bare-first", "r"} {
		accepted(t, m.do(t, opening(id, true))[0])
	}
	accepted(t, m.do(t, opening("events", false))[0])
	accepted(t, m.do(t, event.CreateRun{Run: "native", Thread: "t", Holder: "h", LeaseMs: 1500, TakeoverMs: &window})[0])
	accepted(t, m.do(t, opening("native", true))[0]) // the same holder again
	c := post(t, started)
	c.Run, c.Holder = "bare-first", "h"
	accepted(t, m.do(t, c)[0])
	accepted(t, appendAt(t, m, 1, started))
	m.flushNow(t)
	m.close(t)
	m = open(t, dir)
	defer m.close(t)
	for _, want := range []struct {
		id      event.RunID
		records bool
	}{{"records", true}, {"events", false}, {"native", true}, {"bare-first", false}, {"r", false}} {
		r, err := m.Run(context.Background(), want.id)
		if err != nil {
			t.Fatal(err)
		}
		accepted(t, m.do(t, event.ExpireRun{Run: want.id, Epoch: r.Epoch, Tail: r.Tail, MaxBytes: 4096})[0])
		events, stored := m.raws(t, want.id, 0), m.messages(t, want.id)
		if len(events) == 0 || !strings.Contains(events[len(events)-1], `"code":"host_lost"`) {
			t.Fatalf("%s: %q", want.id, events)
		}
		for i := range events {
			if want.records {
				events[i] = fmt.Sprintf(`{"v":1,"seq":%d,"chunk":%s}`, i+1, events[i])
			}
		}
		if fmt.Sprint(events) != fmt.Sprint(stored) {
			t.Errorf("%s: %q, want %q", want.id, stored, events)
		}
	}
}
