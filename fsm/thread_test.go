package fsm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/runlog/runlog/event"
)

const (
	finished = `{"type":"RUN_FINISHED"}`
	failed   = `{"type":"RUN_ERROR","message":"m"}`
)

func asks(ids ...string) string {
	list := ""
	for i, id := range ids {
		if i > 0 {
			list += ","
		}
		list += fmt.Sprintf(`{"id":%q,"reason":"r"}`, id)
	}
	return `{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[` + list + `]}}`
}

func answers(status string, ids ...string) string {
	list := ""
	for i, id := range ids {
		if i > 0 {
			list += ","
		}
		list += fmt.Sprintf(`{"interruptId":%q,"status":%q,"payload":{"for":%q}}`, id, status, id)
	}
	return `{"type":"RUN_STARTED","threadId":"t","input":{"resume":[` + list + `]}}`
}

func inThread(run event.RunID) string {
	return fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","runId":%q}`, run)
}

// threadRaws follows a thread from a cursor to its end, in pages of n.
func (m *machine) threadRaws(t tb, id event.ThreadID, after event.ThreadCursor, n int) (all []string, end event.ThreadCursor) {
	t.Helper()
	for {
		p, err := m.ThreadRecords(ctxOf(t), id, after, n, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Records) == 0 {
			return all, p.Next
		}
		for _, r := range p.Records {
			all = append(all, fmt.Sprintf("%s %d.%d %s", r.Run, r.Cursor.Ordinal, r.Cursor.Offset, r.Raw))
		}
		after = p.Next
	}
}

func (m *machine) thread(t tb, id event.ThreadID) event.ThreadView {
	t.Helper()
	v, err := m.Thread(ctxOf(t), id, event.ThreadQuery{})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// everywhere runs check with what was done in memory, flushed, and read back after a restart.
func everywhere(t *testing.T, do func(m *machine), check func(m *machine, where string)) {
	t.Helper()
	dir := t.TempDir()
	m := open(t, dir)
	do(m)
	check(m, "in memory")
	m.flushNow(t)
	check(m, "flushed")
	m.close(t)
	m = open(t, dir)
	defer m.close(t)
	check(m, "restarted")
}

// TestThreadOrder: events come by ordinal; a second open run is held back until the first has ended,
// and a deleted run keeps its number.
func TestThreadOrder(t *testing.T) {
	t.Parallel()
	everywhere(t, func(m *machine) {
		m.do(t, batch(t, "a", inThread("a"), custom(1), finished))
		m.do(t, batch(t, "b", inThread("b"), custom(2)), batch(t, "c", inThread("c"), custom(3), finished))
		m.do(t, batch(t, "d", `{"type":"RUN_STARTED","threadId":"t","parentRunId":"a"}`))
	}, func(m *machine, where string) {
		for n := 1; n < 6; n++ {
			got, end := m.threadRaws(t, "t", event.ThreadCursor{}, n)
			if len(got) != 5 || end != (event.ThreadCursor{Ordinal: 1, Offset: 2}) || got[4] != `b 1.2 {"type":"CUSTOM","name":"n","value":2}` {
				t.Fatalf("%s: %v, end %v", where, got, end)
			}
		}
		v := m.thread(t, "t")
		if v.Cursor != (event.ThreadCursor{Ordinal: 1, Offset: 2}) || v.ActiveRun == nil || v.ActiveRun.RunID != "d" || len(v.Runs) != 4 || v.Runs[0].RunID != "d" {
			t.Fatalf("%s: %+v", where, v)
		}
		v, err := m.Thread(t.Context(), "t", event.ThreadQuery{Head: "d", Limit: 1})
		if err != nil || len(v.Runs) != 1 || v.NextCursor == "" {
			t.Fatalf("%s: %+v, %v", where, v, err)
		}
		v, err = m.Thread(t.Context(), "t", event.ThreadQuery{Head: "d", Limit: 1, Before: v.NextCursor})
		if err != nil || len(v.Runs) != 1 || v.Runs[0].RunID != "a" || v.NextCursor != "" {
			t.Fatalf("%s: %+v, %v", where, v, err)
		}
		if _, err := m.Thread(t.Context(), "t", event.ThreadQuery{Head: "nobody"}); !errors.Is(err, event.ErrRunNotFound) {
			t.Fatal(err)
		}
	})
	everywhere(t, func(m *machine) {
		m.do(t, batch(t, "a", inThread("a"), finished), batch(t, "b", inThread("b"), finished), batch(t, "c", inThread("c"), finished))
		m.flushNow(t)
		m.do(t, event.DeleteRun{Run: "b"})
		m.flushNow(t)
		m.do(t, batch(t, "d", inThread("d"), finished))
		m.do(t, event.DeleteRun{Run: "d"})
	}, func(m *machine, where string) {
		got, end := m.threadRaws(t, "t", event.ThreadCursor{}, 2)
		v := m.thread(t, "t")
		if want := (event.ThreadCursor{Ordinal: 4}); len(got) != 4 || end != want || v.Cursor != want || got[3] != "c 2.2 "+finished {
			t.Fatalf("%s: %v, end %v, %+v", where, got, end, v)
		}
		if v := m.thread(t, "nobody"); v.Cursor != (event.ThreadCursor{}) || len(v.Runs) > 0 || v.ActiveRun != nil {
			t.Fatalf("%+v", v)
		}
	})
}

// TestInterrupts: an answer counts once; an answering run that comes to nothing gives it back.
func TestInterrupts(t *testing.T) {
	t.Parallel()
	status := func(m *machine, where string, want ...string) {
		t.Helper()
		var got []string
		for _, i := range m.thread(t, "t").Interrupts {
			got = append(got, fmt.Sprint(i.InterruptID, " ", i.Status, " ", i.RunID, " ", i.ByRunID, " ", string(i.Response)))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %q, want %q", where, got, want)
		}
	}
	refused := func(m *machine, c event.Command, want event.InterruptNotPending) {
		t.Helper()
		var got *event.InterruptNotPending
		if r := m.do(t, c)[0]; !errors.As(asError(r.Refusal), &got) || *got != want {
			t.Fatalf("%+v, want %+v", r.Refusal, want)
		}
	}
	everywhere(t, func(m *machine) {
		m.do(t, batch(t, "a", inThread("a"), asks("i", "j")))
		refused(m, batch(t, "x", answers("resolved", "nobody")), event.InterruptNotPending{InterruptID: "nobody"})
		// Two answers in one entry: the second sees the first.
		r := m.do(t, batch(t, "b", answers("resolved", "i")), batch(t, "c", answers("resolved", "i")))
		if r[0].Refusal != nil || !errors.Is(asError(r[1].Refusal), event.ErrInterruptNotPending) {
			t.Fatalf("%+v", r)
		}
		m.flushNow(t)
		refused(m, event.CreateRun{Run: "d", Thread: "t", Started: ptr(ev(t, answers("resolved", "j", "i")))},
			event.InterruptNotPending{InterruptID: "i", Status: event.InterruptResolved, ByRunID: "b"})
	}, func(m *machine, where string) {
		status(m, where, `i resolved a b {"for":"i"}`, `j pending a  `)
		if _, err := m.Run(t.Context(), "c"); !errors.Is(err, event.ErrRunNotFound) {
			t.Fatalf("%s: the refused run exists: %v", where, err)
		}
	})
	everywhere(t, func(m *machine) {
		m.do(t, batch(t, "a", inThread("a"), asks("i", "j")))
		m.do(t, batch(t, "b", answers("resolved", "i", "j")), batch(t, "b", failed))
		create := event.CreateRun{Run: "c", Thread: "t", Started: ptr(ev(t, answers("cancelled", "i"))), Key: event.IdempotencyKey{1}}
		if r := m.do(t, create)[0]; !r.Created {
			t.Fatalf("%+v", r)
		}
		if r := m.do(t, create)[0]; !r.Created { // repeated: answered as before
			t.Fatalf("%+v", r)
		}
		m.do(t, batch(t, "c", asks("k")))
	}, func(m *machine, where string) {
		status(m, where, `i cancelled a c {"for":"i"}`, `j pending a  `, `k pending c  `)
	})
	everywhere(t, func(m *machine) {
		m.do(t, batch(t, "a", inThread("a"), asks("i")), batch(t, "b", answers("resolved", "i"), finished))
		m.flushNow(t)
		m.do(t, event.DeleteRun{Run: "b"})
	}, func(m *machine, where string) {
		status(m, where, `i resolved a b `)
	})
	everywhere(t, func(m *machine) {
		m.do(t, batch(t, "a", inThread("a"), asks("i")))
		m.flushNow(t)
		m.do(t, event.DeleteRun{Run: "a"})
		refused(m, batch(t, "b", answers("resolved", "i")), event.InterruptNotPending{InterruptID: "i"})
	}, func(m *machine, where string) {
		status(m, where)
	})
}

func asError(r event.Refusal) error {
	if r == nil {
		return nil
	}
	return r
}

// TestDeleteThread: nothing of it is listed or read, its ids stay used, and it may begin again.
func TestDeleteThread(t *testing.T) {
	t.Parallel()
	everywhere(t, func(m *machine) {
		m.do(t, batch(t, "a", inThread("a"), asks("i")), batch(t, "b", inThread("b")))
		if r := m.do(t, event.DeleteThread{Thread: "t"})[0]; !errors.Is(asError(r.Refusal), event.ErrRunActive) {
			t.Fatalf("%+v", r)
		}
		m.do(t, batch(t, "b", finished))
		m.flushNow(t)
		if r := m.do(t, event.DeleteThread{Thread: "t"}, event.DeleteThread{Thread: "nobody"}); r[0].Refusal != nil || r[1].Refusal != nil {
			t.Fatalf("%+v", r)
		}
		if r := m.do(t, batch(t, "a", inThread("a")))[0]; !errors.Is(asError(r.Refusal), event.ErrRunDeleted) {
			t.Fatalf("%+v", r)
		}
	}, func(m *machine, where string) {
		v := m.thread(t, "t")
		list, _, err := m.Threads(t.Context(), "", 10, "")
		if err != nil || len(v.Runs)+len(v.Interrupts)+len(list) > 0 || v.Cursor.Ordinal != 2 {
			t.Fatalf("%s: %+v, %+v, %v", where, v, list, err)
		}
	})
}

// TestThreadsByActivity pages through threads, open and ended, stored and not.
func TestThreadsByActivity(t *testing.T) {
	t.Parallel()
	everywhere(t, func(m *machine) {
		for i := range 20 {
			run := event.RunID(fmt.Sprintf("r%02d", i))
			m.do(t, event.CreateRun{Run: run, Thread: event.ThreadID("t" + run), Started: ptr(ev(t, started))})
			if i%3 > 0 {
				m.do(t, batch(t, run, finished))
			}
			if i == 9 {
				m.flushNow(t)
			}
		}
		m.do(t, batch(t, "r00", custom(1))) // open: its events count
	}, func(m *machine, where string) {
		want := []event.ThreadID{"tr00"}
		for i := 19; i > 0; i-- {
			want = append(want, event.ThreadID(fmt.Sprintf("tr%02d", i)))
		}
		for limit := 1; limit < 25; limit += 4 {
			var got []event.ThreadID
			for cursor := ""; ; {
				list, next, err := m.Threads(t.Context(), "", limit, cursor)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range list {
					got = append(got, s.ThreadID)
					if open := len(s.ActiveRuns) == 1; s.Runs != 1 || open != (m.thread(t, s.ThreadID).ActiveRun != nil) {
						t.Fatalf("%s: %+v", where, s)
					}
				}
				if cursor = next; cursor == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s, pages of %d: %v", where, limit, got)
			}
		}
		if list, next, err := m.Threads(t.Context(), "tr1", 100, ""); err != nil || len(list) != 10 || next != "" {
			t.Fatalf("%s: %v %q %v", where, list, next, err)
		}
		if _, _, err := m.Threads(t.Context(), "", 1, "zz"); !errors.Is(err, event.ErrBadCursor) {
			t.Fatal(err)
		}
	})
}

func ctxOf(t tb) context.Context {
	if c, ok := t.(interface{ Context() context.Context }); ok {
		return c.Context()
	}
	return context.Background()
}
