package projection

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/runlog/runlog/event"
)

// A client that holds what an earlier part of the thread left, and connects, ends up with the whole
// thread's messages in their order.
func TestConnectHoldingMessages(t *testing.T) {
	t.Parallel()
	cleared := 0
	for _, r := range ownRuns(t) {
		for from := range r.records {
			for cut := max(1, from); cut <= len(r.records); cut++ {
				cleared += checkConnect(t, r.records, from, cut)
			}
		}
	}
	if cleared == 0 {
		t.Error("no case needs the client to let go of anything")
	}
	rapid.Check(t, func(t *rapid.T) {
		run := records(legalRun(t))
		cut := rapid.IntRange(1, len(run)).Draw(t, "cut")
		checkConnect(t, run, rapid.IntRange(0, cut).Draw(t, "from"), cut)
	})
}

// checkConnect lets a client hold what the first from records left, and join at cut.
func checkConnect(t fataler, run []event.Record, from, cut int) (cleared int) {
	joined := foldAll(KindTranscript, run[:from])
	var held []string
	for _, m := range joined.(*transcriptFold).conv.list() {
		if m.role != roleActivity { // which a client does not tell
			held = append(held, keyOf(m.id))
		}
	}
	transcript := foldAll(KindTranscript, run[:cut])
	events := Connect("r", "t", transcript, foldAll(KindState, run[:cut]), held)
	for _, raw := range events {
		joined.Apply(event.Record{Raw: raw})
	}
	if !bytes.Equal(joined.AppendJSON(nil), transcript.AppendJSON(nil)) && !displayOnly(joined, transcript) {
		t.Fatalf("holding %d, joined at %d by\n%s\n got %s\nwant %s", from, cut, bytes.Join(events, []byte("\n")), joined.AppendJSON(nil), transcript.AppendJSON(nil))
	}
	return bytes.Count(bytes.Join(events, nil), []byte("MESSAGES_SNAPSHOT")) - 1
}

// displayOnly reports whether the two differ in what a client keeps of its own: reasoning and
// activities that a snapshot does not know of, and messages without an id or with a repeated one.
func displayOnly(a, b Fold) bool {
	own := func(f Fold) (ids []string, odd bool) {
		c := &f.(*transcriptFold).conv
		for _, m := range c.list() {
			if m.role != roleReasoning && m.role != roleActivity {
				ids = append(ids, keyOf(m.id))
			}
		}
		return ids, len(c.unique()) != c.len || c.byID[absentID] != nil
	}
	x, odd := own(a)
	y, odder := own(b)
	display := len(x) != a.(*transcriptFold).conv.len || len(y) != b.(*transcriptFold).conv.len
	return odd || odder || display && slices.Equal(x, y)
}

func TestConnectEnd(t *testing.T) {
	t.Parallel()
	i := json.RawMessage(`{"id":"i1","reason":"confirmation"}`)
	waiting := `{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[{"id":"i1","reason":"confirmation"}]}}`
	for _, c := range []struct {
		terminal string
		pending  []json.RawMessage
		want     string
	}{
		{`{"type":"RUN_FINISHED","outcome":{"type":"success"}}`, nil, `{"type":"RUN_FINISHED","outcome":{"type":"success"}}`},
		{`{"type":"RUN_ERROR","message":"m"}`, nil, `{"type":"RUN_ERROR","message":"m"}`},
		{waiting, []json.RawMessage{i}, waiting},
		{waiting, nil, `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`},
		{`{"type":"RUN_ERROR","message":"m"}`, []json.RawMessage{i}, waiting},
	} {
		if got := string(ConnectEnd("r", "t", []byte(c.terminal), c.pending)); got != c.want {
			t.Errorf("after %s with %s pending: %s, want %s", c.terminal, c.pending, got, c.want)
		}
	}
	twice := foldAll(KindTranscript, []event.Record{{Raw: []byte(`{"type":"TEXT_MESSAGE_START","messageId":"m"}`)}})
	if n := len(Connect("r", "t", twice, nil, []string{"m", "m"})); n != 3+1 {
		t.Errorf("a client that holds one message twice is sent %d events", n)
	}
	got := ConnectEmpty("r", "t")
	if len(got) != 2 || string(got[0]) != `{"type":"RUN_STARTED","threadId":"t","runId":"r"}` || string(got[1]) != `{"type":"RUN_FINISHED","threadId":"t","runId":"r"}` {
		t.Errorf("%s", got)
	}
}
