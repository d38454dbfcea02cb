package fsm

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

func (m *machine) changes(t tb) (all []string) {
	t.Helper()
	page, err := m.Changes(ctxOf(t), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range page.Changes {
		all = append(all, fmt.Sprintf("%s %s %s e%d %s t%d", c.Change, c.RunID, c.Status, c.Epoch, c.Holder, c.Tail))
	}
	return all
}

// TestChanges: each change is told once, in order, and nothing else is.
func TestChanges(t *testing.T) {
	t.Parallel()
	w := []string{}
	everywhere(t, func(m *machine) {
		watch := m.WatchChanges()
		defer watch.Close()
		step := func(want []string, commands ...event.Command) {
			t.Helper()
			m.do(t, commands...)
			w = append(w, want...)
			select {
			case <-watch.C():
				if want == nil {
					t.Fatal("woken for nothing")
				}
			default:
				if want != nil {
					t.Fatal("not woken")
				}
			}
		}
		e := event.Epoch(1)
		leased := func(raws ...string) *event.Append {
			a := batch(t, "r", raws...)
			a.Epoch = &e
			return a
		}
		step([]string{"created r running e0  t0", "acquired r running e1 h t0"}, event.CreateRun{Run: "r", Thread: "t", Holder: "h", LeaseMs: 1500})
		step(nil, leased(started, custom(1)))
		step([]string{"lapsed r running e1 h t2"}, event.LapseLease{Run: "r", Epoch: 1, Tail: 2})
		step(nil, leased(custom(2)), event.ReviveLease{Run: "r", Epoch: 1, LeaseMs: 2000})
		step([]string{"released r running e1 h t3"}, event.ReleaseLease{Run: "r", Epoch: 1})
		step(nil, event.ReleaseLease{Run: "r", Epoch: 1})
		step([]string{"cancelRequested r running e1 h t3"}, event.CancelRun{Run: "r"}, event.CancelRun{Run: "r"})
		step([]string{"ended r cancelled e1 h t4"}, event.EnforceCancel{Run: "r", Epoch: 1, Tail: 3, MaxBytes: 1 << 20})
		step([]string{"created q running e0  t0", "waiting q waiting e0  t2"}, batch(t, "q", started, asks("i")))
		step(nil, event.PatchRun{Run: "r", Patch: []byte(`{"a":1}`)})
	}, func(m *machine, where string) {
		if got := m.changes(t); fmt.Sprint(got) != fmt.Sprint(w) {
			t.Fatalf("%s: %q, want %q", where, got, w)
		}
	})
}

// TestChangesAreForgotten: whole hours go once they are a day old, on a node that replayed and on one
// that was restored alike; offsets stay.
func TestChangesAreForgotten(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	const hours = 40
	for h := range hours {
		at := event.Time(h)*changesHour + 5
		id := event.RunID(fmt.Sprint("r", h))
		m.Apply(&raft.Log{Index: m.Applied() + 1, Term: 1, Type: raft.LogCommand,
			Data: event.AppendEntry(nil, event.Entry{Time: at, Commands: []event.Command{batch(t, id, started)}})})
		m.flushNow(t)
	}
	check := func(m *machine) {
		t.Helper()
		page, err := m.Changes(t.Context(), 15, 1000)
		if err != nil || page.First != 15 || page.Tail != hours || len(page.Changes) != hours-15 || page.Changes[0].RunID != "r15" {
			t.Fatalf("%d to %d, %d changes, %v", page.First, page.Tail, len(page.Changes), err)
		}
		if page, err = m.Changes(t.Context(), 14, 1000); err != nil || len(page.Changes) > 0 {
			t.Fatalf("%+v, %v", page, err)
		}
	}
	check(m)
	c := newChores(m.Machine)
	for {
		did, err := c.sweepChanges()
		if err != nil {
			t.Fatal(err)
		}
		if !did {
			break
		}
	}
	if keys, err := m.store.appendKeys(nil, sidKey(keySegment, changesID), 100); err != nil || len(keys) != hours-15 {
		t.Fatalf("%d segments are left, %v", len(keys), err)
	}
	check(m)
	want := m.sums(t)
	var export bytes.Buffer
	if _, err := m.Export(t.Context(), &export); err != nil {
		t.Fatal(err)
	}
	other := open(t, t.TempDir())
	defer other.close(t)
	if err := other.Restore(io.NopCloser(&export)); err != nil {
		t.Fatal(err)
	}
	check(other)
	if got := other.sums(t); got != want {
		t.Fatalf("restored %x, want %x", got, want)
	}
}
