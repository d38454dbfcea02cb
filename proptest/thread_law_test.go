package proptest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/fsm"
)

// threadModel is what a thread should be: its runs in order of creation, deleted ones too, and how
// each interrupt stands. Written without regard to cost.
type threadModel struct {
	runs    []*threadModelRun
	asked   map[string]*modelInterrupt
	changes []string
	now     event.Time
}

type threadModelRun struct {
	id      event.RunID
	events  int
	ended   bool
	deleted bool
	answers []string
}

type modelInterrupt struct{ by, answerer event.RunID }

func (m *threadModel) tell(kind event.ChangeKind, r *threadModelRun) {
	m.changes = append(m.changes, fmt.Sprint(kind, " ", r.id, " ", r.events))
}

// begin creates a run that answers ids; false: one of them is not pending.
func (m *threadModel) begin(id event.RunID, answers []string) bool {
	for _, a := range answers {
		if i := m.asked[a]; i == nil || i.answerer != "" {
			return false
		}
	}
	r := &threadModelRun{id: id, answers: answers}
	m.runs = append(m.runs, r)
	m.tell(event.ChangeCreated, r)
	r.events = 1
	for _, a := range answers {
		m.asked[a].answerer = id
	}
	return true
}

// end ends a run: asking, well, or badly, which gives back what it answered.
func (m *threadModel) end(r *threadModelRun, how string) {
	r.events++
	r.ended = true
	kind := event.ChangeEnded
	switch how {
	case "i", "j":
		kind = event.ChangeWaiting
		m.asked[how] = &modelInterrupt{by: r.id}
	case "fail":
		for _, a := range r.answers {
			if i := m.asked[a]; i != nil && i.answerer == r.id {
				i.answerer = ""
			}
		}
	}
	m.tell(kind, r)
}

func (m *threadModel) delete(r *threadModelRun) {
	r.deleted = true
	for id, i := range m.asked {
		if i.by == r.id {
			delete(m.asked, id)
		}
	}
}

// threadLaw drives a machine and the model; log is what a second machine is fed with.
type threadLaw struct {
	m     *fsm.Machine
	model *threadModel
	log   []*raft.Log
}

func (l *threadLaw) apply(t *rapid.T, commands ...event.Command) []event.Result {
	l.model.now++
	entry := &raft.Log{Index: uint64(len(l.log) + 1), Term: 1, Type: raft.LogCommand,
		Data: event.AppendEntry(nil, event.Entry{Time: l.model.now, Commands: commands})}
	l.log = append(l.log, entry)
	return l.m.Apply(entry).([]event.Result)
}

func (l *threadLaw) begin(t *rapid.T) event.Command {
	id := event.RunID(fmt.Sprint("r", len(l.log), "-", rapid.Uint16().Draw(t, "id")))
	list := ""
	answers := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"i", "j", "k"}), 0, 2, func(s string) string { return s }).Draw(t, "answers")
	for n, a := range answers {
		if n > 0 {
			list += ","
		}
		list += fmt.Sprintf(`{"interruptId":%q,"status":"resolved","payload":%q}`, a, id)
	}
	raw := fmt.Sprintf(`{"type":"RUN_STARTED","threadId":"t","input":{"resume":[%s]}}`, list)
	return &event.Append{Batch: event.Batch{Run: id, Events: []event.Event{parse(t, raw)}}}
}

func (l *threadLaw) beginTwo(t *rapid.T) {
	a, b := l.begin(t), l.begin(t)
	if a.(*event.Append).Run == b.(*event.Append).Run {
		return
	}
	for n, r := range l.apply(t, a, b) { // the second sees the first
		b := []event.Command{a, b}[n].(*event.Append)
		var answers []string
		for _, d := range []*event.Dialogue{b.Events[0].Header.Dialogue} {
			for i := 0; d != nil && i < len(d.Answers); i++ {
				answers = append(answers, d.Answers[i].InterruptID)
			}
		}
		if want := l.model.begin(b.Run, answers); want != (r.Refusal == nil) {
			t.Fatalf("%s answers %v: %v, want accepted %v", b.Run, answers, r.Refusal, want)
		}
	}
}

// pick draws a run that is open, or ended and not deleted.
func (l *threadLaw) pick(t *rapid.T, ended bool) *threadModelRun {
	var some []*threadModelRun
	for _, r := range l.model.runs {
		if r.ended == ended && !r.deleted {
			some = append(some, r)
		}
	}
	if len(some) == 0 {
		t.Skip("no such run")
	}
	return rapid.SampledFrom(some).Draw(t, "run")
}

func (l *threadLaw) end(t *rapid.T) {
	r := l.pick(t, false)
	how := rapid.SampledFrom([]string{"ok", "i", "j", "fail"}).Draw(t, "how")
	raw := `{"type":"RUN_FINISHED"}`
	switch how {
	case "fail":
		raw = `{"type":"RUN_ERROR","message":"m"}`
	case "i", "j":
		raw = fmt.Sprintf(`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":%q,"reason":"r"}]}}`, how)
	}
	if res := l.apply(t, &event.Append{Batch: event.Batch{Run: r.id, Events: []event.Event{parse(t, raw)}}}); res[0].Refusal != nil {
		t.Fatal(res[0].Refusal)
	}
	l.model.end(r, how)
}

// check compares the thread, followed from its beginning, its interrupts and the changes.
func (l *threadLaw) check(t *rapid.T) {
	var want, got []string
	for n, r := range l.model.runs {
		for o := 1; !r.deleted && o <= r.events; o++ {
			want = append(want, fmt.Sprintf("%s %d.%d", r.id, n, o))
		}
		if !r.ended {
			break
		}
	}
	for at := (event.ThreadCursor{}); ; {
		page, err := l.m.ThreadRecords(context.Background(), "t", at, rapid.IntRange(1, 5).Draw(t, "page"), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if at = page.Next; len(page.Records) == 0 {
			v, err := l.m.Thread(context.Background(), "t", event.ThreadQuery{})
			if err != nil || v.Cursor != at {
				t.Fatalf("the stream ends at %v, the view at %v: %v", at, v.Cursor, err)
			}
			l.checkInterrupts(t, v.Interrupts)
			break
		}
		for _, r := range page.Records {
			got = append(got, fmt.Sprintf("%s %s", r.Run, r.Cursor))
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("followed %v, want %v", got, want)
	}
	l.checkChanges(t, l.m)
}

func (l *threadLaw) checkInterrupts(t *rapid.T, got []event.Interrupt) {
	if len(got) != len(l.model.asked) {
		t.Fatalf("%+v, want %+v", got, l.model.asked)
	}
	for _, i := range got {
		want := l.model.asked[i.InterruptID]
		if want == nil || i.RunID != want.by || i.ByRunID != want.answerer || (i.Status == event.InterruptPending) != (want.answerer == "") {
			t.Fatalf("%+v, want %+v", i, want)
		}
	}
}

func (l *threadLaw) checkChanges(t *rapid.T, m *fsm.Machine) {
	page, err := m.Changes(context.Background(), 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, c := range page.Changes {
		told = append(told, fmt.Sprint(c.Change, " ", c.RunID, " ", c.Tail))
	}
	if !slices.Equal(told, l.model.changes) {
		t.Fatalf("told %v, want %v", told, l.model.changes)
	}
}

func memory(t *rapid.T) *fsm.Machine {
	m, err := fsm.Open(fsm.Config{InMemory: true, FlushInterval: time.Hour, Fatal: func(err error) { panic(err) }})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// replay: a node that is fed the log again, and one that is restored from an export, are the same.
func (l *threadLaw) replay(t *rapid.T) {
	ctx := context.Background()
	again, restored := memory(t), memory(t)
	defer again.Close()
	defer restored.Close()
	for _, entry := range l.log {
		again.Apply(entry)
	}
	var export bytes.Buffer
	if _, err := l.m.Export(ctx, &export); err != nil {
		t.Fatal(err)
	}
	if err := restored.Restore(io.NopCloser(&export)); err != nil {
		t.Fatal(err)
	}
	_, hash := l.m.StateHash()
	digest, err := l.m.Digest(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*fsm.Machine{"replayed": again, "restored": restored} {
		_, h := m.StateHash()
		d, err := m.Digest(ctx)
		if err != nil || h != hash || d != digest {
			t.Fatalf("%s: hash %x, digest %x, want %x and %x: %v", name, h, d, hash, digest, err)
		}
		l.checkChanges(t, m)
	}
}

// TestThreadLaw: whatever happens to the runs of a thread, flushed whenever: its runs are numbered
// densely and followed once each, an interrupt is answered once at a time, and the changes are a function
// of the log.
func TestThreadLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := &threadLaw{m: memory(t), model: &threadModel{asked: map[string]*modelInterrupt{}}}
		defer l.m.Close()
		t.Repeat(map[string]func(*rapid.T){
			"begin two": l.beginTwo,
			"end":       l.end,
			"delete": func(t *rapid.T) {
				r := l.pick(t, true)
				l.apply(t, event.DeleteRun{Run: r.id})
				l.model.delete(r)
			},
			"flush": func(t *rapid.T) {
				if err := l.m.Flush(context.Background()); err != nil {
					t.Fatal(err)
				}
			},
			"": l.check,
		})
		l.replay(t)
	})
}
