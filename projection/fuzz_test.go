package projection

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/runlog/runlog/event"
)

// FuzzFold feeds lines of anything to every fold. Whatever they are, nothing panics; when all of
// them are events as the log stores them, the values are JSON and survive a checkpoint.
func FuzzFold(f *testing.F) {
	for _, r := range ownRuns(f) {
		var lines []byte
		for _, rec := range r.records {
			lines = append(append(lines, rec.Raw...), '\n')
		}
		f.Add(lines)
	}
	f.Add([]byte(`{"v":1,"seq":0,"chunk":{"type":"TEXT_MESSAGE_CHUNK","messageId":"m","delta":"x"}}`))
	f.Add([]byte(`{"type":"STATE_DELTA","delta":[{"op":"copy","from":"","path":"/a"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		lines := bytes.Split(data, []byte("\n"))
		stored := true
		for _, l := range lines {
			_, err := event.ParseEvent(l)
			stored = stored && err == nil
		}
		for _, kind := range kinds {
			fold := New(kind)
			for i, l := range lines {
				fold.Apply(event.Record{Offset: event.Offset(i), Raw: l})
			}
			value := fold.AppendJSON(nil)
			data, err := fold.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			if !stored {
				_ = New(kind).UnmarshalBinary(data)
				continue
			}
			if !json.Valid(value) {
				t.Fatalf("%s: not JSON: %s", kind, value)
			}
			again := New(kind)
			if err := again.UnmarshalBinary(data); err != nil {
				t.Fatal(err)
			}
			if got := again.AppendJSON(nil); !bytes.Equal(got, value) {
				t.Fatalf("%s: the checkpoint holds %s, want %s", kind, got, value)
			}
		}
		transcript, state := New(KindTranscript), New(KindState)
		for i, l := range lines {
			transcript.Apply(event.Record{Offset: event.Offset(i), Raw: l})
			state.Apply(event.Record{Offset: event.Offset(i), Raw: l})
			Prelude("r", "t", transcript, state)
			Terminal(l)
		}
	})
}

// FuzzUnmarshal: damaged checkpoints are refused or give a fold that works.
func FuzzUnmarshal(f *testing.F) {
	for _, r := range ownRuns(f) {
		for _, kind := range kinds {
			data, _ := foldAll(kind, r.records[:len(r.records)/2]).MarshalBinary()
			f.Add(data)
		}
	}
	next := []event.Record{
		{Raw: []byte(`{"type":"TEXT_MESSAGE_CHUNK","delta":"x"}`)},
		{Raw: []byte(`{"type":"TOOL_CALL_CHUNK","delta":"x"}`)},
		{Raw: []byte(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a/b","value":1}]}`)},
		{Raw: []byte(`{"type":"ACTIVITY_DELTA","messageId":"a1","activityType":"x","patch":[{"op":"add","path":"/a","value":1}]}`)},
		{Raw: []byte(`{"type":"RUN_FINISHED"}`)},
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range kinds {
			fold := New(kind)
			if fold.UnmarshalBinary(data) != nil {
				continue
			}
			for _, r := range next {
				fold.Apply(r)
			}
			fold.AppendJSON(nil)
			if kind == KindTranscript {
				Prelude("r", "t", fold, nil)
			}
		}
	})
}
