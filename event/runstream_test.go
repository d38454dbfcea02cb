package event

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func genRunStreamCommand(t *rapid.T, run RunID) Command {
	e := genEvent().Draw(t, "event")
	return rapid.SampledFrom([]Command{
		&OpenRunStream{Run: run, Holder: "h", LeaseMs: 1500, TakeoverMs: ptr(int64(9)), Messages: RunMessages{Events: []Event{e}}, Key: IdempotencyKey{1}},
		&OpenRunStream{Run: run, Thread: "thread", Records: true, Closed: rapid.Bool().Draw(t, "closed")},
		&OpenRunStream{Run: run, Epoch: ptr(Epoch(3)), Closed: true, Messages: RunMessages{Events: []Event{e, e}, Seqs: []uint64{0, 1 << 52}}},
		&AppendRunStream{Run: run, Epoch: ptr(Epoch(3)), Holder: "h", LeaseMs: 1, Messages: RunMessages{Events: []Event{e}, Seqs: []uint64{7}}, Seq: "x",
			Producer: &Producer{"p", 1, 2}},
		&AppendRunStream{Run: run, Close: true},
	}).Draw(t, "run stream command")
}

func goldenRunStreamCommands() map[string]Command {
	raw := []byte(`{"v":1,"seq":4,"chunk":{"type":"RUN_STARTED","runId":"r1"}}`)
	m := RunMessages{Events: []Event{{Raw: raw, Header: Header{Type: TypeRunStarted, RunID: "r1"}}}, Seqs: []uint64{4}}
	return map[string]Command{
		"open_run_stream": &OpenRunStream{Run: "r1", Epoch: ptr(Epoch(2)), Holder: "h", LeaseMs: 1500, TakeoverMs: ptr(int64(60_000)), Closed: true,
			Messages: m, Key: IdempotencyKey{1, 2}},
		"open_empty_run_stream":     &OpenRunStream{Run: "r1", Holder: "h", LeaseMs: 1500, Records: true},
		"open_run_stream_of_thread": &OpenRunStream{Run: "r1", Thread: "t1", Holder: "h", LeaseMs: 1500},
		"append_run_stream": &AppendRunStream{Run: "r1", Epoch: ptr(Epoch(2)), Holder: "h", LeaseMs: 1500, Messages: m, Close: true, Seq: "007",
			Producer: &Producer{"p", 1, 2}},
	}
}

// TestWrapUnwrap: what was wrapped comes out as the same bytes, wherever the chunk stands in the record.
func TestWrapUnwrap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(`{"type": ` + quote(rapid.String().Draw(t, "type")) + `,"a":[{"chunk":"}\"]"}] }`)
		seq := rapid.Uint64Range(0, MaxRecordSeq).Draw(t, "seq")
		wrapped := Wrap([]byte("x"), seq, raw)[1:]
		if len(wrapped) > len(raw)+WrapBytes {
			t.Fatalf("wrapping adds %d bytes", len(wrapped)-len(raw))
		}
		members := rapid.Permutation([]string{`"v" : 1`, fmt.Sprintf(`"seq":%d`, seq), `"chunk":` + string(raw), `"more":["}",{"chunk":2}]`}).Draw(t, "order")
		for _, b := range [][]byte{wrapped, []byte(" {\n" + strings.Join(members, " , ") + "} ")} {
			n, chunk, ok := Unwrap(b)
			if !ok || n != seq || !bytes.Equal(chunk, raw) {
				t.Fatalf("%s: %d %s %v", b, n, chunk, ok)
			}
		}
	})
}

func TestUnwrapRefuses(t *testing.T) {
	t.Parallel()
	for _, b := range []string{
		``, `[]`, `1`, `{}`, `{"type":"CUSTOM"}`, `{"v":2,"seq":1,"chunk":{}}`, `{"v":1,"seq":-1,"chunk":{}}`, `{"v":1,"seq":1.5,"chunk":{}}`,
		`{"v":1,"seq":9007199254740992,"chunk":{}}`, `{"v":1,"seq":"1","chunk":{}}`, `{"v":1,"seq":1,"chunk":[]}`, `{"v":1,"seq":1}`,
		`{"v":1,"seq":1,"chunk":{},"chunk":{"a":1}}`, `{"v":1,"seq":1,"seq":1,"chunk":{}}`, `{"v":1,"seq":1,"chunk":{}`, `{"v"`, `{"v":`, `{"v":"`,
	} {
		if _, _, ok := Unwrap([]byte(b)); ok {
			t.Errorf("%s passes as a record", b)
		}
	}
}

func TestParseMessages(t *testing.T) {
	t.Parallel()
	parse := func(messages ...string) ([]Event, []uint64, error) {
		var all [][]byte
		for _, m := range messages {
			all = append(all, []byte(m))
		}
		return ParseMessages(all)
	}
	bare, rec := `{"type":"RUN_STARTED","runId":"r"}`, ` {"v":1,"seq":3,"chunk":{"type":"RUN_STARTED","runId":"r"}}`
	for _, m := range []string{bare, rec} {
		events, seqs, err := parse(m, m)
		if err != nil || len(events) != 2 || string(events[1].Raw) != m || events[1].Header.RunID != "r" || (seqs != nil) != (m == rec) {
			t.Errorf("%s: %+v %v %v", m, events, seqs, err)
		}
	}
	for _, bad := range [][]string{
		{bare, rec}, {rec, bare}, {`1`}, {`{"v":1,"seq":1,"chunk":{"no":"type"}}`}, {`{"a":1}`}, {`{"v":1,"seq":1,"chunk":{"type":"A"},"x":nope}`},
		{`{"v":1,"seq":1,"chunk":{"type":"A"},"x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`},
	} {
		if _, _, err := parse(bad...); err == nil {
			t.Errorf("%s: taken", bad)
		}
	}
}
