package event_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/internal/agentrun"
)

var allCuts = flag.Bool("allcuts", false, "align every recorded run at every cut, not at a sample of them")

// world is a log and a replay that is aligned with it and appended as the gateway would, with
// conflicts and unknown outcomes in between.
type world struct {
	log    event.Log
	a      *event.Aligner
	r      *rand.Rand
	faults bool
}

func newWorld(stored []event.Event, r *rand.Rand, faults bool) *world {
	w := &world{r: r, faults: faults}
	w.write(stored)
	w.a = event.NewAligner(&w.log, "r", "t")
	return w
}

func (w *world) write(events []event.Event) {
	for _, e := range events {
		w.log = append(w.log, event.Record{Offset: event.Offset(len(w.log)), Raw: e.Raw})
	}
}

// replay sends events and ends.
func (w *world) replay(events []event.Event) error {
	for _, e := range events {
		if _, err := w.a.Take(context.Background(), e); err != nil {
			return err
		}
		if w.r.IntN(3) == 0 {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	w.a.End()
	for {
		if err := w.flush(); err != nil {
			return err
		}
		if w.a.Through() == w.a.Taken() {
			return nil
		}
	}
}

// flush appends what is ready, or some of it, or has somebody else do so.
func (w *world) flush() error {
	ready := w.a.Ready(1+w.r.IntN(5), 1<<20)
	if len(ready) == 0 {
		return nil
	}
	if int(w.a.Tail()) != len(w.log) {
		return fmt.Errorf("ready at %d with the tail at %d", w.a.Tail(), len(w.log))
	}
	if !w.faults {
		w.write(ready)
		w.a.Confirm(len(ready))
		return nil
	}
	switch w.r.IntN(5) {
	case 0: // an unknown outcome that was an append
		w.write(ready)
		return w.a.Again(context.Background(), true)
	case 1: // one that was none
		return w.a.Again(context.Background(), true)
	case 2: // a conflict: another replay of the same stream was faster
		w.write(ready[:1+w.r.IntN(len(ready))])
		return w.a.Again(context.Background(), false)
	case 3: // a conflict with something that no replay sends, and that ends no chunk stream
		e, _ := event.ParseEvent([]byte(`{"type":"RAW","event":"other"}`))
		w.write([]event.Event{e})
		return w.a.Again(context.Background(), false)
	}
	w.write(ready)
	w.a.Confirm(len(ready))
	return nil
}

func (w *world) events() []event.Event {
	var list []event.Event
	for _, rec := range w.log {
		e, err := event.ParseEvent(rec.Raw)
		if err != nil {
			panic(err)
		}
		list = append(list, e)
	}
	return list
}

func sameFolds(a, b [3]string) error {
	for i, name := range []string{"transcript", "tool history", "state"} {
		if a[i] != b[i] && !event.SameJSON([]byte(a[i]), []byte(b[i])) {
			return fmt.Errorf("the %s is\n%s\nnot\n%s", name, a[i], b[i])
		}
	}
	return nil
}

func sameBytes(a, b []event.Event) bool {
	return slices.EqualFunc(a, b, func(x, y event.Event) bool { return string(x.Raw) == string(y.Raw) })
}

// way is one way to replay a run.
type way struct {
	name    string
	stored  func(r *rand.Rand, prefix []event.Event) []event.Event
	replay  func(r *rand.Rand, run []event.Event) []event.Event
	exact   bool // the log then is the run, byte for byte, hence equal at every offset
	partial bool // the replay leaves something out
}

func same(_ *rand.Rand, e []event.Event) []event.Event { return e }

var ways = []way{
	{name: "exact", stored: same, replay: same, exact: true},
	{name: "other boundaries", stored: same, replay: agentrun.Recut},
	{name: "another host's boundaries", stored: agentrun.Recut, replay: same},
	{name: "both", stored: agentrun.Recut, replay: agentrun.Recut},
	{name: "floating", stored: agentrun.Recut, replay: func(r *rand.Rand, e []event.Event) []event.Event { return agentrun.Recut(r, agentrun.Float(r, e)) }},
	{name: "without live", stored: same, replay: func(_ *rand.Rand, e []event.Event) []event.Event { return agentrun.WithoutLive(e) }, partial: true},
	{name: "without live, other boundaries", stored: agentrun.Recut, partial: true,
		replay: func(r *rand.Rand, e []event.Event) []event.Event { return agentrun.Recut(r, agentrun.WithoutLive(e)) }},
}

// law says what must hold after run was cut at cut and replayed in a way: the log ends up as if
// nothing had happened, which is whole, sending the replay again changes nothing, and the counts add up.
func law(run []event.Event, whole [3]string, cut int, wy way, r *rand.Rand, faults bool, broken string) error {
	stored, replay := wy.stored(r, run[:cut]), wy.replay(r, run)
	w := newWorld(stored, r, faults)
	if broken != "" {
		w.a.Break(event.Mutations[broken])
	}
	if err := w.replay(replay); err != nil {
		return fmt.Errorf("%s: %w", wy.name, err)
	}
	got := w.events()
	if err := sameFolds(agentrun.Folds(got), whole); err != nil {
		return fmt.Errorf("%s: %w", wy.name, err)
	}
	if wy.exact && !faults && !sameBytes(got, run) {
		return fmt.Errorf("%s: the log is not the run", wy.name)
	}
	if n := w.a.Matched() + w.a.Skipped() + w.a.Appended(); n > len(got) || !faults && !wy.partial && n != len(got) {
		return fmt.Errorf("%s: matched %d, skipped %d, appended %d of %d", wy.name, w.a.Matched(), w.a.Skipped(), w.a.Appended(), len(got))
	}
	if held := w.a.HeldBytes(); held > 0 {
		return fmt.Errorf("%s: %d bytes are held at the end", wy.name, held)
	}
	again := newWorld(got, r, false)
	if err := again.replay(replay); err != nil {
		return fmt.Errorf("%s, sent again: %w", wy.name, err)
	}
	if again.a.Appended() != 0 {
		return fmt.Errorf("%s: sent again, it appended %d", wy.name, again.a.Appended())
	}
	return nil
}

func source(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// TestAlignmentLaw, R3_1, R3_2, R3_3, R3_5: for every cut of a generated run and every way to replay it.
func TestAlignmentLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		faults := rapid.Bool().Draw(t, "faults")
		run := agentrun.Generate(source(seed))
		whole := agentrun.Folds(run)
		for cut := range len(run) + 1 {
			for _, wy := range ways {
				if err := law(run, whole, cut, wy, source(seed+uint64(cut)), faults, ""); err != nil {
					t.Fatalf("seed %d, cut %d: %v\n%s", seed, cut, err, lines(run, cut))
				}
			}
		}
	})
}

func lines(run []event.Event, cut int) string {
	var b strings.Builder
	for i, e := range run {
		if i == cut {
			b.WriteString("--- cut\n")
		}
		fmt.Fprintf(&b, "%d %s\n", i, e.Raw)
	}
	return b.String()
}

// TestAlignmentOfCorpus: the same for recorded runs.
func TestAlignmentOfCorpus(t *testing.T) {
	t.Parallel()
	for name, run := range agentrun.Corpus(t) {
		t.Run(name, func(t *testing.T) {
			step := 1
			if !*allCuts {
				step = 1 + len(run)/8
			}
			whole, strict := agentrun.Folds(run), agentrun.IsStrict(run)
			for cut := 0; cut <= len(run); cut += step {
				for _, wy := range ways {
					if wy.partial && !strict {
						continue // in a run that no verifier accepts a CUSTOM event may change what follows
					}
					if err := law(run, whole, cut, wy, source(uint64(cut)), cut%2 == 1, ""); err != nil {
						t.Fatalf("cut %d: %v", cut, err)
					}
				}
			}
		})
	}
}

// TestAlignmentLawNotices: each part of the alignment switched off breaks the law somewhere.
func TestAlignmentLawNotices(t *testing.T) {
	t.Parallel()
	for name := range event.Mutations {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				run := agentrun.Generate(source(seed))
				whole := agentrun.Folds(run)
				for cut := range len(run) + 1 {
					for _, wy := range ways {
						if law(run, whole, cut, wy, source(seed+uint64(cut)), false, name) != nil {
							return
						}
					}
					if differenceLaw(run, cut, source(seed), name) != nil {
						return
					}
				}
			}
			t.Fatal("the law holds without it")
		})
	}
}

// TestDifferenceIsFound: a replay that differs in one field is refused, naming the stored event and
// the field, and nothing is written.
func TestDifferenceIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		run := agentrun.Generate(source(seed))
		for cut := range len(run) + 1 {
			if err := differenceLaw(run, cut, source(seed+uint64(cut)), ""); err != nil {
				t.Fatalf("seed %d, cut %d: %v\n%s", seed, cut, err, lines(run, cut))
			}
		}
	})
}

// differenceLaw changes one member of one stored event in the replay.
func differenceLaw(run []event.Event, cut int, r *rand.Rand, broken string) error {
	if cut == 0 {
		return nil
	}
	if err := shorterLaw(run, cut, r, broken); err != nil {
		return err
	}
	at := r.IntN(cut)
	changed, field := change(r, run[at])
	if field == "" {
		return nil
	}
	replay := slices.Clone(run)
	replay[at] = changed
	w := newWorld(run[:cut], r, false)
	if broken != "" {
		w.a.Break(event.Mutations[broken])
	}
	err := w.replay(replay)
	var d *event.Diverged
	if !errors.As(err, &d) {
		return fmt.Errorf("event %d with another %s: got %v", at, field, err)
	}
	if d.Offset != event.Offset(at) || d.Field != field || string(d.Stored) != string(run[at].Raw) || string(d.Replayed) != string(changed.Raw) {
		return fmt.Errorf("event %d with another %s: got offset %d, field %s, stored %s, replayed %s", at, field, d.Offset, d.Field, d.Stored, d.Replayed)
	}
	if len(w.log) != cut {
		return fmt.Errorf("event %d with another %s: %d events were written", at, field, len(w.log)-cut)
	}
	return nil
}

// shorterLaw leaves out the end of a stored text, which shows at its END at the latest.
func shorterLaw(run []event.Event, cut int, r *rand.Rand, broken string) error {
	at := r.IntN(cut)
	h := run[at].Header
	var m map[string]json.RawMessage
	if err := json.Unmarshal(run[at].Raw, &m); err != nil {
		panic(err)
	}
	ends := slices.ContainsFunc(run[at:], func(e event.Event) bool {
		return e.Header.ID == h.ID && strings.HasSuffix(e.Header.Type.String(), "_END") && e.Header.Type != event.TypeReasoningEnd
	})
	more := slices.ContainsFunc(run[at+1:], func(e event.Event) bool { return agentrun.DeltaTypes[e.Header.Type] && e.Header.ID == h.ID })
	if !agentrun.DeltaTypes[h.Type] || more || !ends || len(m["delta"]) < 3 {
		return nil
	}
	u := agentrun.Units(string(m["delta"][1 : len(m["delta"])-1]))
	m["delta"] = json.RawMessage(`"` + agentrun.EncodeUnits(r, u[:len(u)-1]) + `"`)
	replay := slices.Clone(run)
	replay[at] = agentrun.Rebuild(r, m)
	w := newWorld(run[:cut], r, false)
	if broken != "" {
		w.a.Break(event.Mutations[broken])
	}
	var d *event.Diverged
	if err := w.replay(replay); !errors.As(err, &d) || d.Field != "delta" || len(w.log) != cut {
		return fmt.Errorf("event %d cut short: got %v, %d events written", at, err, len(w.log)-cut)
	}
	return nil
}

// change changes a member that counts, or returns "".
func change(r *rand.Rand, e event.Event) (event.Event, string) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(e.Raw, &m); err != nil {
		panic(err)
	}
	names := slices.Sorted(maps.Keys(m))
	name := names[r.IntN(len(names))]
	switch t := e.Header.Type; {
	case t == event.TypeCustom || t == event.TypeRaw || name == "type" || name == "input":
		return e, ""
	case agentrun.DeltaTypes[t] && name != "delta", name == "delta" && len(m[name]) < 3:
		return e, "" // another id's text, or a text that begins as the next does, may be right for a while
	case name == "delta" && m[name][0] == '"':
		// As many units as there were, the first one another, so that what differs is this event.
		u := agentrun.Units(string(m[name][1 : len(m[name])-1]))
		u[0] = '!'
		m[name] = json.RawMessage(`"` + agentrun.EncodeUnits(r, u) + `"`)
	default:
		m[name] = json.RawMessage(`"another"`)
	}
	return agentrun.Rebuild(r, m), name
}

func TestHints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ stored, replayed, field, hint string }{
		{`{"type":"RUN_STARTED","runId":"r","threadId":"t"}`, `{"type":"RUN_STARTED","runId":"r","threadId":"t2"}`, "threadId", "only threadId differs"},
		{`{"type":"RUN_STARTED"}`, `{"type":"RUN_STARTED","runId":"r9"}`, "runId", "only runId differs"},
		{`{"type":"TEXT_MESSAGE_START","messageId":"a"}`, `{"type":"TEXT_MESSAGE_START","messageId":"b"}`, "messageId", "only ids differ"},
		{`{"type":"TOOL_CALL_START","toolCallId":"a","toolCallName":"f"}`, `{"type":"TOOL_CALL_START","toolCallId":"b","toolCallName":"f"}`, "toolCallId", "only ids differ"},
		{`{"type":"TOOL_CALL_START","toolCallId":"a","toolCallName":"f"}`, `{"type":"TOOL_CALL_START","toolCallId":"b","toolCallName":"g"}`, "toolCallId", ""},
		{`{"type":"TEXT_MESSAGE_CHUNK","messageId":"a","delta":"x"}`, `{"type":"TEXT_MESSAGE_CHUNK","messageId":"b","delta":"x"}`, "messageId", "only ids differ"},
		{`{"type":"RUN_ERROR","message":"a"}`, `{"type":"RUN_FINISHED"}`, "type", ""},
	} {
		stored, _ := event.ParseEvent([]byte(c.stored))
		replayed, _ := event.ParseEvent([]byte(c.replayed))
		w := newWorld([]event.Event{stored}, source(1), false)
		var d *event.Diverged
		if err := w.replay([]event.Event{replayed}); !errors.As(err, &d) || d.Field != c.field || !strings.Contains(d.Hint, c.hint) || (c.hint == "") != (d.Hint == "") {
			t.Errorf("%s and %s: %v", c.stored, c.replayed, err)
		}
	}
}
