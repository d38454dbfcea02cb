package projection

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/runlog/runlog/event"
)

// A run written as records {"v","seq","chunk"} folds to what its bare events fold to.
func TestRecordRuns(t *testing.T) {
	t.Parallel()
	for _, r := range ownRuns(t) {
		for _, kind := range kinds {
			wrapped := New(kind)
			for i, rec := range r.records {
				rec.Raw = fmt.Appendf(nil, `{"v":1,"seq":%d,"chunk":%s}`, i, rec.Raw)
				wrapped.Apply(rec)
			}
			if got, want := wrapped.AppendJSON(nil), foldAll(kind, r.records).AppendJSON(nil); !bytes.Equal(got, want) {
				t.Errorf("%s %s:\n got %s\nwant %s", r.name, kind, got, want)
			}
		}
	}
}

// What the client chokes on counts for nothing, and what follows counts again.
func TestMalformedEventsAreIgnored(t *testing.T) {
	t.Parallel()
	f := New(KindTranscript)
	for _, raw := range []string{
		`{"type":"TEXT_MESSAGE_START","messageId":"m"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":null}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":7,"delta":"x"}`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x","metadata":null}`,
		`{"type":"TEXT_MESSAGE_START","messageId":"n","role":"tool"}`,
		`{"type":"TEXT_MESSAGE_CHUNK","delta":"x"}`,
		`{"type":"TOOL_CALL_CHUNK","toolCallId":"c","delta":"x"}`,
		`{"type":"TOOL_CALL_START","toolCallId":"c","toolCallName":"f","parentMessageId":null}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"c","content":{}}`,
		`{"type":"TOOL_CALL_RESULT","messageId":"r","toolCallId":"c","content":"x","role":"user"}`,
		`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"z","role":"user","content":7}]}`,
		`{"type":"MESSAGES_SNAPSHOT","messages":7}`,
		`{"type":"ACTIVITY_SNAPSHOT","messageId":"a","activityType":"p","content":[]}`,
		`{"type":7}`, `{}`, `[]`, `null`, ``, `{"type":"TEXT_MESSAGE_START"`,
		`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"on"}`,
	} {
		f.Apply(event.Record{Raw: []byte(raw)})
	}
	if got, want := string(f.AppendJSON(nil)), `[{"id":"m","role":"assistant","content":"on"}]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNewPanicsOnAnUnknownKind(t *testing.T) {
	t.Parallel()
	defer func() {
		if got := recover(); got != "projection: no such kind 9" {
			t.Errorf("recovered %v", got)
		}
	}()
	New(9)
}
