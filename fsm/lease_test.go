package fsm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
)

// leased begins a run held by h at epoch 1, with a text and a call open.
func leased(t *testing.T, m *machine, takeoverMs int64) {
	t.Helper()
	m.do(t, event.CreateRun{Run: "r", Thread: "t", Holder: "h", LeaseMs: 1500, TakeoverMs: &takeoverMs, Started: ptr(ev(t, started)), Grammar: event.GrammarStrict})
	a := batch(t, "r", `{"type":"TEXT_MESSAGE_START","messageId":"m"}`, `{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"n"}`,
		`{"type":"TOOL_CALL_START","toolCallId":"d","toolCallName":"n"}`, `{"type":"TOOL_CALL_END","toolCallId":"d"}`, `{"type":"TOOL_CALL_RESULT","toolCallId":"d","messageId":"x","content":"y"}`)
	a.Epoch = ptr(event.Epoch(1))
	if r := m.do(t, a)[0]; r.Refusal != nil {
		t.Fatal(r.Refusal)
	}
}

func appendAt(t *testing.T, m *machine, epoch event.Epoch, raws ...string) event.Result {
	t.Helper()
	a := batch(t, "r", raws...)
	a.Epoch = &epoch
	return m.do(t, a)[0]
}

func state(t *testing.T, m *machine) event.Run {
	t.Helper()
	r, err := m.Run(context.Background(), "r")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestExpireRun, R2_3, R2_6, R2_8: the end closes what is open, once, in one entry; completed calls stay.
func TestExpireRun(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	leased(t, m, 0)
	expire := event.ExpireRun{Run: "r", Epoch: 1, Tail: 6, MaxBytes: 4096}
	for _, stale := range []event.ExpireRun{
		{Run: "r", Epoch: 0, Tail: 6, MaxBytes: 4096}, {Run: "r", Epoch: 2, Tail: 6, MaxBytes: 4096}, {Run: "r", Epoch: 1, Tail: 5, MaxBytes: 4096},
		{Run: "r", Epoch: 1, Tail: 6, MaxBytes: 10}, {Run: "nobody", MaxBytes: 4096},
	} {
		if r := m.do(t, stale)[0]; !errors.Is(r.Refusal, event.ErrStaleVerdict) {
			t.Fatalf("%+v: %+v", stale, r)
		}
	}
	if r := m.do(t, expire)[0]; r.Refusal != nil || r.Appended.FirstOffset != 6 || r.Appended.Tail != 10 {
		t.Fatalf("%+v", r)
	}
	got := strings.Join(m.raws(t, "r", 6), "\n")
	for _, want := range []string{`"TEXT_MESSAGE_END","messageId":"m"`, `"TOOL_CALL_END","toolCallId":"c"`, `"messageId":"c-result"`, `"code":"host_lost"`} {
		if strings.Count(got, want) != 1 {
			t.Fatalf("%s not once in\n%s", want, got)
		}
	}
	if run := state(t, m); run.Status != event.StatusLost || *run.TerminalOffset != 9 || run.Error.Code != event.CodeHostLost {
		t.Fatalf("%+v", run)
	}
	if r := m.do(t, expire)[0]; !errors.Is(r.Refusal, event.ErrStaleVerdict) {
		t.Fatalf("a second sweep: %+v", r)
	}
	if r := appendAt(t, m, 1, `{"type":"RUN_FINISHED"}`); !errors.Is(r.Refusal, event.ErrRunEnded) {
		t.Fatalf("the host's own end: %+v", r)
	}
	if r := m.do(t, event.AcquireLease{Run: "r", Holder: "g"})[0]; !errors.Is(r.Refusal, event.ErrRunEnded) {
		t.Fatalf("acquired after the end: %+v", r)
	}
}

// TestExpireRunWithoutEvents, R2_11: a run that has produced nothing yet is open and ends like any other.
func TestExpireRunWithoutEvents(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	m.do(t, event.CreateRun{Run: "r", Thread: "t", Holder: "h", Grammar: event.GrammarStrict})
	m.do(t, event.ExpireRun{Run: "r", Epoch: 1, MaxBytes: 4096})
	if got := m.raws(t, "r", 0); len(got) != 2 || !strings.Contains(got[0], "RUN_STARTED") || !strings.Contains(got[1], "host_lost") {
		t.Fatalf("%q", got)
	}
}

// TestFencing, R3_7: after an acquisition the old epoch can write nothing, in any way.
func TestFencing(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	leased(t, m, 60_000)
	if r := m.do(t, event.AcquireLease{Run: "r", Holder: "g", LeaseMs: 1500})[0]; !errors.Is(r.Refusal, event.ErrLeaseHeld) {
		t.Fatalf("taken while held: %+v", r)
	}
	if r := m.do(t, event.LapseLease{Run: "r", Epoch: 1, Tail: 6})[0]; r.Refusal != nil || state(t, m).Lease.State != event.LeaseStateLapsed {
		t.Fatalf("%+v", r)
	}
	if r := appendAt(t, m, 1, custom(1)); r.Refusal != nil || state(t, m).Lease.State != event.LeaseStateHeld {
		t.Fatalf("the lapsed holder goes on: %+v", r)
	}
	m.do(t, event.LapseLease{Run: "r", Epoch: 1, Tail: 7})
	if r := m.do(t, event.ReviveLease{Run: "r", Epoch: 1})[0]; r.Refusal != nil || state(t, m).Lease.State != event.LeaseStateHeld {
		t.Fatalf("a late renewal: %+v", r)
	}
	m.do(t, event.LapseLease{Run: "r", Epoch: 1, Tail: 7})
	taken := m.do(t, event.AcquireLease{Run: "r", Holder: "g", LeaseMs: 1500})[0]
	if taken.Refusal != nil || taken.Run.Epoch != 2 || taken.Run.Tail != 7 {
		t.Fatalf("%+v", taken)
	}
	old := event.Epoch(1)
	retry := batch(t, "r", custom(1))
	retry.Epoch, retry.Producer = &old, &event.Producer{ID: "p"}
	for what, c := range map[string]event.Command{
		"event": retry, "metadata": event.PatchRun{Run: "r", Epoch: &old, Patch: []byte(`{}`)},
		"revive": event.ReviveLease{Run: "r", Epoch: 1}, "release": event.ReleaseLease{Run: "r", Epoch: 1},
		"delayed steal": event.AcquireLease{Run: "r", Holder: "h", IfEpoch: &old, Steal: true},
	} {
		if r := m.do(t, c)[0]; !errors.Is(r.Refusal, event.ErrFenced) {
			t.Errorf("%s by the old epoch: %+v", what, r)
		}
	}
	if r := appendAt(t, m, 1, `{"type":"RUN_ERROR","message":"m"}`); !errors.Is(r.Refusal, event.ErrFenced) {
		t.Errorf("an end by the old epoch: %+v", r)
	}
	now := event.Epoch(2)
	stolen := event.AcquireLease{Run: "r", Holder: "h", IfEpoch: &now, Steal: true, Key: event.HashKey("lease", "s")}
	for range 2 { // a steal repeated with its key gets the same epoch
		if r := m.do(t, stolen)[0]; r.Refusal != nil || r.Run.Epoch != 3 {
			t.Fatalf("%+v", r)
		}
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	var views []event.LeaseView
	m.OnLease(func(_ uint64, v []event.LeaseView) { views = append(views, v...) })
	leased(t, m, 0)
	for range 2 {
		if r := m.do(t, event.ReleaseLease{Run: "r", Epoch: 1})[0]; r.Refusal != nil {
			t.Fatal(r.Refusal)
		}
	}
	if v := views[len(views)-1]; v.State != event.LeaseStateReleased || *v.TakeoverMs != event.DefaultReleaseWindowMs {
		t.Fatalf("%+v", v)
	}
	if runs, err := m.HolderRuns("h"); err != nil || len(runs) != 0 {
		t.Fatalf("%+v, %v", runs, err)
	}
	if r := m.do(t, event.AcquireLease{Run: "r", Holder: "g"})[0]; r.Refusal != nil || *views[len(views)-1].TakeoverMs != 0 {
		t.Fatalf("%+v, %+v", r, views[len(views)-1])
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	leased(t, m, 0)
	if r := m.do(t, event.EnforceCancel{Run: "r", Epoch: 1, Tail: 6, MaxBytes: 4096})[0]; !errors.Is(r.Refusal, event.ErrStaleVerdict) {
		t.Fatalf("enforced without a cancel: %+v", r)
	}
	m.do(t, event.CancelRun{Run: "r", WithinMs: 100})
	if r := appendAt(t, m, 1, custom(1)); !r.Appended.CancelRequested {
		t.Fatalf("the holder is not told: %+v", r)
	}
	if r := m.do(t, event.EnforceCancel{Run: "r", Epoch: 2, Tail: 7, MaxBytes: 4096})[0]; !errors.Is(r.Refusal, event.ErrStaleVerdict) {
		t.Fatalf("enforced at another epoch: %+v", r)
	}
	if r := m.do(t, event.EnforceCancel{Run: "r", Epoch: 1, Tail: 2, MaxBytes: 4096})[0]; r.Refusal != nil { // the tail moved on
		t.Fatal(r.Refusal)
	}
	if run := state(t, m); run.Status != event.StatusCancelled || string(run.Outcome) != `{"type":"cancelled"}` {
		t.Fatalf("%+v", run)
	}
	if r := m.do(t, event.CancelRun{Run: "r"})[0]; !errors.Is(r.Refusal, event.ErrRunEnded) {
		t.Fatalf("%+v", r)
	}
}

func TestLocks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := open(t, dir)
	take := func(name event.LockName, h event.HolderID, key string) event.Result {
		c := event.AcquireLock{Name: name, Holder: h, LeaseMs: 1500}
		if key != "" {
			c.Key = event.HashKey("lock", key)
		}
		return m.do(t, c)[0]
	}
	if r := take("l", "h", "k"); r.LockEpoch != 1 {
		t.Fatalf("%+v", r)
	}
	if r := take("l", "h", "k"); r.LockEpoch != 1 {
		t.Fatalf("repeated: %+v", r)
	}
	if r := take("l", "g", ""); !errors.Is(r.Refusal, event.ErrLeaseHeld) {
		t.Fatalf("held: %+v", r)
	}
	if r := take("other", "g", ""); r.LockEpoch != 2 {
		t.Fatalf("%+v", r)
	}
	m.flushNow(t)
	m.close(t)
	m = open(t, dir)
	defer m.close(t)
	if v, ok := m.Lock("l"); !ok || v.Epoch != 1 || v.Holder != "h" {
		t.Fatalf("after a restart: %+v, %v", v, ok)
	}
	if r := m.do(t, event.ReleaseLock{Name: "l", Epoch: 2})[0]; !errors.Is(r.Refusal, event.ErrFenced) {
		t.Fatalf("%+v", r)
	}
	if r := m.do(t, event.ReleaseLock{Name: "l", Epoch: 1})[0]; r.Refusal != nil {
		t.Fatalf("%+v", r)
	}
	if r := take("l", "g", ""); r.LockEpoch != 3 {
		t.Fatalf("an epoch was given twice: %+v", r)
	}
	if r := m.do(t, event.LapseLock{Name: "l", Epoch: 1})[0]; !errors.Is(r.Refusal, event.ErrStaleVerdict) {
		t.Fatalf("%+v", r)
	}
	if views, bad := m.Leases(); len(views) != 2 || len(bad) != 0 {
		t.Fatal(fmt.Sprint(views, bad))
	}
}
