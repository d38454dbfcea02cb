package event_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/internal/agentrun"
)

// longRun is a run of any length that exists nowhere: a text of n deltas beside n steps.
type longRun struct{ n int }

func (l longRun) Record(_ context.Context, at event.Offset) (event.Record, bool, error) {
	if int(at) >= 2*l.n+2 {
		return event.Record{}, false, nil
	}
	return event.Record{Offset: at, Raw: l.raw(int(at), 10)}, true, nil
}

// raw is event at, its deltas of that many characters.
func (l longRun) raw(at, chars int) []byte {
	switch {
	case at == 0:
		return []byte(`{"type":"RUN_STARTED"}`)
	case at == 1:
		return []byte(`{"type":"TEXT_MESSAGE_START","messageId":"m"}`)
	case at%2 == 0:
		return fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"%s"}`, strings.Repeat("x", chars))
	}
	return fmt.Appendf(nil, `{"type":"STEP_STARTED","stepName":"s%d"}`, at)
}

// TestMemoryIsBounded: what is held does not grow with the run, when the replay is exact, and when
// it is always half a delta behind.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	l := longRun{n: 50_000}
	for _, behind := range []int{0, 5} {
		a := event.NewAligner(l, "r", "t")
		most := 0
		for at := range 2*l.n + 2 {
			chars := 10
			if at == 2 {
				chars -= behind
			}
			e, err := event.ParseEvent(l.raw(at, chars))
			if err != nil {
				t.Fatal(err)
			}
			if v, err := a.Take(context.Background(), e); v != event.VerdictHeld || err != nil {
				t.Fatalf("behind %d, event %d: %v, %v", behind, at, v, err)
			}
			most = max(most, a.HeldBytes())
		}
		if most > 1000 {
			t.Errorf("behind %d: held %d bytes", behind, most)
		}
	}
}

// TestTooFarAhead: a replay whose counterpart does not come is refused before memory runs out.
func TestTooFarAhead(t *testing.T) {
	t.Parallel()
	a := event.NewAligner(longRun{n: 1_000_000}, "r", "t")
	for _, raw := range []string{`{"type":"RUN_STARTED"}`, `{"type":"TEXT_MESSAGE_START","messageId":"m"}`} {
		e, _ := event.ParseEvent([]byte(raw))
		if _, err := a.Take(context.Background(), e); err != nil {
			t.Fatal(err)
		}
	}
	e, _ := event.ParseEvent([]byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"other","delta":"x"}`))
	_, err := a.Take(context.Background(), e)
	var d *event.Diverged
	if !errors.As(err, &d) || d.Offset != 2 || d.Hint == "" || a.HeldBytes() > 9<<20 {
		t.Fatalf("got %v, %d bytes held", err, a.HeldBytes())
	}
}

// TestReportedCase: R3_8, a result and an answer brought by the successor.
func TestReportedCase(t *testing.T) {
	t.Parallel()
	run := agentrun.Legal([]string{
		`{"type":"RUN_STARTED"}`, `{"type":"TEXT_MESSAGE_START","messageId":"m1"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"Starting the job."}`, `{"type":"TEXT_MESSAGE_END","messageId":"m1"}`,
		`{"type":"TOOL_CALL_START","toolCallId":"bash-1","toolCallName":"bash","parentMessageId":"m1"}`,
		`{"type":"TOOL_CALL_ARGS","toolCallId":"bash-1","delta":"{}"}`, `{"type":"TOOL_CALL_END","toolCallId":"bash-1"}`,
		`{"type":"TOOL_CALL_RESULT","toolCallId":"bash-1","messageId":"r1","content":"done"}`, `{"type":"TEXT_MESSAGE_START","messageId":"m2"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m2","delta":"Finished."}`, `{"type":"TEXT_MESSAGE_END","messageId":"m2"}`, `{"type":"RUN_FINISHED"}`,
	}, true)
	w := newWorld(run[:7], source(1), false)
	if err := w.replay(run); err != nil {
		t.Fatal(err)
	}
	want := `[{"id":"m1","role":"assistant","content":"Starting the job.","toolCalls":[{"id":"bash-1","type":"function","function":{"name":"bash","arguments":"{}"}}]},` +
		`{"id":"r1","role":"tool","content":"done","toolCallId":"bash-1"},{"id":"m2","role":"assistant","content":"Finished."}]`
	if got := agentrun.Folds(w.events())[0]; !event.SameJSON([]byte(got), []byte(want)) || w.a.Appended() != 5 {
		t.Fatalf("appended %d, transcript %s", w.a.Appended(), got)
	}
}

// FuzzAligner: whatever is stored and whatever is replayed, the alignment does not fail otherwise
// than by finding a difference; and what it accepted it accepts again, without adding anything.
func FuzzAligner(f *testing.F) {
	for seed := range uint64(8) {
		r := source(seed)
		run := agentrun.Generate(r)
		f.Add(ndjson(run[:len(run)/2]), ndjson(agentrun.Recut(r, run)), seed)
	}
	f.Fuzz(func(t *testing.T, stored, replay string, seed uint64) {
		s, rep := agentrun.Legal(strings.Split(stored, "\n"), false), parseLines(replay)
		w := newWorld(s, source(seed), false)
		if err := w.replay(rep); err != nil {
			if !errors.Is(err, event.ErrDiverged) {
				t.Fatal(err)
			}
			return
		}
		again := newWorld(w.events(), source(seed), false)
		if err := again.replay(rep); err != nil || again.a.Appended() != 0 {
			t.Fatalf("again: %v, %d appended\nlog\n%s\nreplay\n%s", err, again.a.Appended(), lines(w.events(), len(s)), lines(rep, -1))
		}
	})
}

func ndjson(events []event.Event) string {
	var b strings.Builder
	for _, e := range events {
		b.Write(e.Raw)
		b.WriteByte('\n')
	}
	return b.String()
}

func parseLines(s string) (events []event.Event) {
	for l := range strings.SplitSeq(s, "\n") {
		if e, err := event.ParseEvent([]byte(l)); err == nil {
			events = append(events, e)
		}
	}
	return events
}
