package projection

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"github.com/runlog/runlog/event"
)

func TestX(t *testing.T) {
	for _, n := range []string{"ag-ui-golden", "real-runs"} {
		fh, err := os.Open("../../shared/corpus/" + n + ".ndjson")
		if err != nil {
			t.Fatal(err)
		}
		sc := bufio.NewScanner(fh)
		sc.Buffer(nil, 10<<20)
		for sc.Scan() {
			var l struct {
				Name     string
				Events   []json.RawMessage
				Messages json.RawMessage
			}
			if err := json.Unmarshal(sc.Bytes(), &l); err != nil {
				t.Fatal(err)
			}
			f := New(KindTranscript)
			for i, e := range l.Events {
				f.Apply(event.Record{Offset: event.Offset(i), Raw: e})
			}
			got := f.AppendJSON(nil)
			if !equal(&node{raw: got}, &node{raw: l.Messages}) {
				t.Errorf("%s/%s:\n got %s\nwant %s", n, l.Name, got, l.Messages)
			}
		}
	}
}
