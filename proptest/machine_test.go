package proptest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/fsm"
)

func parse(t *rapid.T, raw string) event.Event {
	e, err := event.ParseEvent([]byte(raw))
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return e
}

// drawEvent draws an event that fits often and not always.
func drawEvent(t *rapid.T) event.Event {
	id := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "id")
	return parse(t, rapid.SampledFrom([]string{
		`{"type":"CUSTOM","name":"n","value":1}`,
		`{"type":"TEXT_MESSAGE_START","messageId":"` + id + `"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"` + id + `","delta":"\ud83d"}`,
		`{"type":"TEXT_MESSAGE_END","messageId":"` + id + `"}`,
		`{"type":"TOOL_CALL_START","toolCallId":"` + id + `","toolCallName":"n"}`,
		`{"type":"TOOL_CALL_END","toolCallId":"` + id + `"}`,
		`{"type":"TOOL_CALL_RESULT","toolCallId":"` + id + `","messageId":"r","content":""}`,
		`{"type":"RUN_FINISHED"}`, `{"type":"RUN_ERROR","message":"m"}`, `{"type":"RUN_STARTED"}`,
	}).Draw(t, "event"))
}

func drawRun(t *rapid.T) event.RunID {
	return event.RunID(rapid.SampledFrom([]string{"r1", "r2", "r3"}).Draw(t, "run"))
}

func drawAppend(t *rapid.T, m *model) *event.Append {
	a := &event.Append{Batch: event.Batch{Run: drawRun(t)}}
	r := m.runs[a.Run]
	if (r == nil || len(r.events) == 0) && rapid.IntRange(0, 4).Draw(t, "no start?") > 0 {
		a.Events = append(a.Events, parse(t, `{"type":"RUN_STARTED"}`))
	}
	for range rapid.IntRange(1-len(a.Events), 4).Draw(t, "events") {
		a.Events = append(a.Events, drawEvent(t))
	}
	if r != nil && (r.epoch > 0) != (rapid.IntRange(0, 5).Draw(t, "wrong epoch?") == 0) {
		e := r.epoch + event.Epoch(rapid.SampledFrom([]int{0, 0, 0, -1, 1}).Draw(t, "epoch off by"))
		a.Epoch = &e
	}
	if rapid.IntRange(0, 3).Draw(t, "expect?") == 0 {
		tail := 0
		if r != nil {
			tail = len(r.events)
		}
		o := event.Offset(max(0, tail+rapid.SampledFrom([]int{0, 0, 0, -1, 1}).Draw(t, "expect off by")))
		a.Expect = &o
	}
	if rapid.Bool().Draw(t, "producer?") {
		a.Producer = &event.Producer{ID: event.ProducerID(rapid.SampledFrom([]string{"p", "q"}).Draw(t, "producer")), Epoch: rapid.Uint64Range(0, 1).Draw(t, "pe")}
		next := 0
		if r != nil {
			if p := r.producers[a.Producer.ID]; p != nil && p.epoch == a.Producer.Epoch {
				next = len(p.done)
			}
		}
		a.Producer.Seq = uint64(max(0, next-rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, -1}).Draw(t, "seq back")))
		a.BodyHash = rapid.Uint64Range(0, 1).Draw(t, "body")
	}
	return a
}

func drawCreate(t *rapid.T) event.CreateRun {
	c := event.CreateRun{Run: drawRun(t), Thread: event.ThreadID(rapid.SampledFrom([]string{"r1", "t"}).Draw(t, "thread")), LeaseMs: 1500}
	c.Grammar = rapid.SampledFrom([]event.Grammar{event.GrammarStrict, event.GrammarLenient}).Draw(t, "grammar")
	c.Holder = event.HolderID(rapid.SampledFrom([]string{"", "h", "g"}).Draw(t, "holder"))
	c.RejectBusy = rapid.Bool().Draw(t, "reject busy")
	if rapid.Bool().Draw(t, "started") {
		e := parse(t, `{"type":"RUN_STARTED"}`)
		c.Started = &e
	}
	return c
}

func drawAcquire(t *rapid.T, m *model) event.AcquireLease {
	c := event.AcquireLease{Run: drawRun(t), LeaseMs: 1500, Holder: event.HolderID(rapid.SampledFrom([]string{"h", "g"}).Draw(t, "holder"))}
	if r := m.runs[c.Run]; r != nil && rapid.IntRange(0, 2).Draw(t, "ifEpoch?") == 0 {
		e := r.epoch + event.Epoch(rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "epoch off by"))
		c.IfEpoch, c.Steal = &e, rapid.Bool().Draw(t, "steal")
	}
	return c
}

// answer puts a result into the model's words.
func answer(c event.Command, r event.Result) string {
	if r.Refusal != nil {
		if inv, ok := r.Refusal.(*event.InvalidEvent); ok {
			return fmt.Sprint(inv.Code(), " ", inv.Index)
		}
		return r.Refusal.Code()
	}
	switch c.(type) {
	case *event.Append:
		return fmt.Sprint("ok ", r.Appended.FirstOffset, r.Appended.Tail, r.Appended.Duplicate)
	case event.CreateRun:
		if r.Created {
			return fmt.Sprint("ok created ", r.Run.Epoch)
		}
		return fmt.Sprint("ok ", r.Run.Epoch)
	case event.AcquireLease:
		return fmt.Sprint("ok ", r.Run.Epoch)
	}
	return "ok"
}

// machineLaw drives one machine and the model with the same commands.
type machineLaw struct {
	m     *fsm.Machine
	model *model
	index uint64
}

func (l *machineLaw) apply(t *rapid.T, c event.Command, want string) {
	l.index++
	l.model.now++
	results := l.m.Apply(&raft.Log{Index: l.index, Term: 1, Type: raft.LogCommand,
		Data: event.AppendEntry(nil, event.Entry{Time: l.model.now, Commands: []event.Command{c}})}).([]event.Result)
	if got := answer(c, results[0]); got != want {
		t.Fatalf("%T: got %q (%v), want %q", c, got, results[0].Refusal, want)
	}
}

// check compares what can be read of every run with the model.
func (l *machineLaw) check(t *rapid.T) {
	ctx := context.Background()
	for id, r := range l.model.runs {
		run, err := l.m.Run(ctx, id)
		if err != nil {
			t.Fatalf("run %s: %v", id, err)
		}
		if r.lost {
			l.checkLost(t, id, r, run)
			continue
		}
		if run.Tail != event.Offset(len(r.events)) || run.Ended != r.ended() || run.Epoch != r.epoch || run.ThreadID != r.thread {
			t.Fatalf("run %s: %+v, want %+v", id, run, r)
		}
		from := rapid.IntRange(0, len(r.events)).Draw(t, "from")
		page, err := l.m.Records(ctx, id, event.Offset(from), 1000, 1<<20)
		if err != nil || len(page.Records) != len(r.events)-from {
			t.Fatalf("run %s from %d: %d records, %v", id, from, len(page.Records), err)
		}
		for i, rec := range page.Records {
			if string(rec.Raw) != r.events[from+i] || rec.Offset != event.Offset(from+i) {
				t.Fatalf("run %s: record %d is %s, want %s", id, rec.Offset, rec.Raw, r.events[from+i])
			}
		}
	}
	runs, _, err := l.m.Runs(ctx, event.RunQuery{Ascending: true})
	if err != nil {
		t.Fatal(err)
	}
	var ids []event.RunID
	for _, r := range runs {
		ids = append(ids, r.RunID)
	}
	if fmt.Sprint(ids) != fmt.Sprint(l.model.order) {
		t.Fatalf("listed %v, want %v", ids, l.model.order)
	}
}

// checkLost: what the cluster added to a lost run ends with one terminal, and changed nothing before it.
func (l *machineLaw) checkLost(t *rapid.T, id event.RunID, r *modelRun, run event.Run) {
	page, err := l.m.Records(context.Background(), id, 0, 1000, 1<<20)
	if err != nil || run.Status != event.StatusLost || !page.Ended {
		t.Fatalf("run %s: %+v, %v", id, run, err)
	}
	terminals := 0
	for i, rec := range page.Records {
		if i < len(r.events) && string(rec.Raw) != r.events[i] {
			t.Fatalf("run %s: record %d was changed", id, i)
		}
		if isTerminal(string(rec.Raw)) {
			terminals++
		}
	}
	if terminals != 1 || *run.TerminalOffset != run.Tail-1 {
		t.Fatalf("run %s: %d terminals, %+v", id, terminals, run)
	}
}

// TestMachineAgreesWithModel: whatever commands come, flushed whenever, every answer and every
// read is the naive model's.
func TestMachineAgreesWithModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, err := fsm.Open(fsm.Config{InMemory: true, FlushInterval: time.Hour, Fatal: func(err error) { panic(err) }})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		l := &machineLaw{m: m, model: newModel()}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				a := drawAppend(t, l.model)
				l.apply(t, a, l.model.append(&a.Batch))
			},
			"append again": func(t *rapid.T) {
				a := drawAppend(t, l.model)
				l.apply(t, a, l.model.append(&a.Batch))
				l.apply(t, a, l.model.append(&a.Batch))
			},
			"create": func(t *rapid.T) {
				c := drawCreate(t)
				l.apply(t, c, l.model.create(&c))
			},
			"delete": func(t *rapid.T) {
				id := drawRun(t)
				l.apply(t, event.DeleteRun{Run: id}, l.model.delete(id))
			},
			"acquire": func(t *rapid.T) {
				c := drawAcquire(t, l.model)
				l.apply(t, c, l.model.acquire(&c))
			},
			"judge": func(t *rapid.T) {
				id := drawRun(t)
				var epoch event.Epoch
				var tail event.Offset
				if r := l.model.runs[id]; r != nil {
					epoch = r.epoch + event.Epoch(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "epoch off by"))
					tail = event.Offset(len(r.events) + rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "tail off by"))
				}
				if rapid.IntRange(0, 2).Draw(t, "expire?") == 0 {
					l.apply(t, event.ExpireRun{Run: id, Epoch: epoch, Tail: tail, MaxBytes: 1 << 20}, l.model.judge(id, epoch, tail, true))
				} else {
					l.apply(t, event.LapseLease{Run: id, Epoch: epoch, Tail: tail}, l.model.judge(id, epoch, tail, false))
				}
			},
			"flush": func(t *rapid.T) {
				if err := m.Flush(context.Background()); err != nil {
					t.Fatal(err)
				}
			},
			"": l.check,
		})
	})
}
