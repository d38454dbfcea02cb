package agentrun

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// Folds are a log's projections; places and times of tool calls are left out, which depend on how
// texts are cut.
func Folds(events []event.Event) [3]string {
	var out [3]string
	for i, kind := range []projection.Kind{projection.KindTranscript, projection.KindTools, projection.KindState} {
		f := projection.New(kind)
		for at, e := range events {
			f.Apply(event.Record{Offset: event.Offset(at), Raw: e.Raw})
		}
		out[i] = string(f.AppendJSON(nil))
	}
	var calls []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(out[1]), &calls); err != nil {
		panic(err)
	}
	for _, c := range calls {
		maps.DeleteFunc(c, func(k string, _ json.RawMessage) bool {
			return strings.HasSuffix(k, "Offset") || strings.HasSuffix(k, "At")
		})
	}
	b, err := json.Marshal(calls)
	if err != nil {
		panic(err)
	}
	out[1] = string(b)
	return out
}
