package agentrun

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
)

// Snippets are bodies of JSON strings that are hard to compare: escapes, characters outside the
// BMP raw and escaped, halves of them.
var Snippets = []string{
	"a", "bc", " ", "é", "日本", "😀", `\ud83d\ude00`, `\uD83D`, `\ude00`, `\n`, `\"`, `\\`, `\/`, "/", `\u0061`, `{\"k\":`, `1}`,
}

func text(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(4) {
		b.WriteString(Snippets[r.IntN(len(Snippets))])
	}
	return b.String()
}

// Generate makes a legal run: actors that each have a sequence of events to say, interleaved, and
// of that whatever the strict grammar accepts.
func Generate(r *rand.Rand) []event.Event {
	var actors [][]string
	for i := range 1 + r.IntN(6) {
		actors = append(actors, actor(r, fmt.Sprint("i", i)))
	}
	lines := []string{`{"type":"RUN_STARTED","threadId":"t","runId":"r","input":{"messages":[{"id":"u","role":"user","content":"hi"}]}}`}
	for len(actors) > 0 {
		i := r.IntN(len(actors))
		n := 1
		if r.IntN(3) == 0 { // runs of one actor, so that texts are not always torn apart
			n = len(actors[i])
		}
		for ; n > 0 && len(actors[i]) > 0; n-- {
			lines = append(lines, actors[i][0])
			actors[i] = actors[i][1:]
		}
		if len(actors[i]) == 0 {
			actors = append(actors[:i], actors[i+1:]...)
		}
	}
	lines = append(lines, []string{
		`{"type":"RUN_FINISHED","threadId":"t","runId":"r"}`,
		`{"type":"RUN_FINISHED","result":{"n":12345678901234567890}}`,
		`{"type":"RUN_FINISHED","outcome":{"type":"interrupt","interrupts":[{"id":"x","reason":"tool_call","toolCallId":"i0"}]}}`,
		`{"type":"RUN_ERROR","message":"it broke"}`,
		`{"type":"CUSTOM","name":"last","value":null}`, // a run that is not over
	}[r.IntN(5)])
	return Legal(lines, true)
}

// actor is one strand of a run.
func actor(r *rand.Rand, id string) []string {
	delta := func(typ, idName string) (list []string) {
		for range r.IntN(4) {
			list = append(list, `{"type":"`+typ+`","`+idName+`":"`+id+`","delta":"`+text(r)+`"}`)
		}
		return list
	}
	messages := func(start, content, end, more string) []string {
		list := append([]string{`{"type":"` + start + `","messageId":"` + id + `"` + more + `}`}, delta(content, "messageId")...)
		return append(list, `{"type":"`+end+`","messageId":"`+id+`"}`)
	}
	switch r.IntN(10) {
	case 0, 1:
		return messages("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", `,"role":"assistant","metadata":{"k":"`+id+`"}`)
	case 2:
		list := append([]string{`{"type":"REASONING_START","messageId":"` + id + `"}`},
			messages("REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END", `,"role":"reasoning"`)...)
		return append(list, `{"type":"REASONING_ENCRYPTED_VALUE","subtype":"message","entityId":"`+id+`","encryptedValue":"zz"}`,
			`{"type":"REASONING_END","messageId":"`+id+`"}`)
	case 3, 4:
		list := append([]string{`{"type":"TOOL_CALL_START","toolCallId":"` + id + `","toolCallName":"f","parentMessageId":"i0"}`},
			delta("TOOL_CALL_ARGS", "toolCallId")...)
		return append(list, `{"type":"TOOL_CALL_END","toolCallId":"`+id+`"}`,
			`{"type":"TOOL_CALL_RESULT","toolCallId":"`+id+`","messageId":"`+id+`-res","content":"`+text(r)+`"}`)
	case 5: // chunks of the run's own agent, with what does not end them
		return chunks(r, `"messageId":"`+id+`"`, "TEXT_MESSAGE_CHUNK", "")
	case 6: // chunks of a subagent
		return chunks(r, `"toolCallId":"`+id+`","toolCallName":"g"`, "TOOL_CALL_CHUNK", `,"subagentRunId":"`+id+`"`)
	case 7:
		return []string{
			`{"type":"STEP_STARTED","stepName":"` + id + `"}`,
			`{"type":"STATE_SNAPSHOT","snapshot":{"a":[1],"b":"` + text(r) + `"}}`,
			`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/a/-","value":1.50}]}`,
			`{"type":"STEP_FINISHED","stepName":"` + id + `"}`,
		}
	case 8:
		return []string{
			`{"type":"TOOL_CALL_RESULT","toolCallId":"earlier-` + id + `","messageId":"` + id + `","content":"ok"}`,
			`{"type":"ACTIVITY_SNAPSHOT","messageId":"act-` + id + `","activityType":"plan","content":{"n":1}}`,
			`{"type":"ACTIVITY_DELTA","messageId":"act-` + id + `","activityType":"plan","patch":[{"op":"replace","path":"/n","value":2}]}`,
			`{"type":"MESSAGES_SNAPSHOT","messages":[{"id":"i0","role":"assistant","content":"` + text(r) + `"}]}`,
		}
	}
	return []string{
		`{"type":"CUSTOM","name":"tick","value":` + strconv.Itoa(r.IntN(3)) + `}`,
		`{"type":"RAW","event":{"` + id + `":1}}`,
		`{"type":"CUSTOM","name":"tick","value":1}`,
		`{"type":"NOT_KNOWN","messageId":"` + id + `"}`,
	}
}

func chunks(r *rand.Rand, id, typ, lane string) []string {
	list := []string{`{"type":"` + typ + `",` + id + `,"delta":"` + text(r) + `"` + lane + `}`}
	for range r.IntN(4) {
		switch r.IntN(4) {
		case 0:
			list = append(list, `{"type":"RAW","event":1}`)
		case 1:
			list = append(list, `{"type":"`+typ+`"`+lane+`}`)
		default:
			list = append(list, `{"type":"`+typ+`","delta":"`+text(r)+`"`+lane+`}`)
		}
	}
	return list
}

// Legal keeps of a sequence what a run accepts.
func Legal(lines []string, strict bool) []event.Event {
	var events []event.Event
	used := map[event.IDHash]bool{}
	var p event.Progress
	for _, l := range lines {
		e, err := event.ParseEvent([]byte(l))
		if err != nil {
			continue
		}
		w := event.NewWalk(p, event.Rules{Strict: strict, Run: "r", Thread: "t", Used: func(h event.IDHash) bool { return used[h] }})
		if w.Take(&e.Header) != "" {
			continue
		}
		p = w.Progress
		for _, h := range w.Added {
			used[h] = true
		}
		events = append(events, e)
	}
	return events
}

// IsStrict reports whether a strict run would accept the events.
func IsStrict(events []event.Event) bool {
	if len(events) == 0 {
		return true
	}
	h := events[0].Header
	used := map[event.IDHash]bool{}
	w := event.NewWalk(event.Progress{}, event.Rules{Strict: true, Run: h.RunID, Thread: h.ThreadID, Used: func(id event.IDHash) bool { return used[id] }})
	for i := range events {
		if w.Take(&events[i].Header) != "" {
			return false
		}
	}
	return true
}

// Corpus returns the recorded runs, cut at their first terminal event; it skips the test where
// they are not.
func Corpus(t *testing.T) map[string][]event.Event {
	runs := map[string][]event.Event{}
	for _, name := range []string{"ag-ui-golden", "real-runs"} {
		f, err := os.Open("../../shared/corpus/" + name + ".ndjson")
		if err != nil {
			t.Skip("the recorded runs are not beside the project: ", err)
		}
		defer f.Close()
		s := bufio.NewScanner(f)
		s.Buffer(nil, 16<<20)
		for s.Scan() {
			var line struct {
				Name   string
				Events []json.RawMessage
			}
			if err := json.Unmarshal(s.Bytes(), &line); err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, e := range line.Events {
				lines = append(lines, string(e))
			}
			runs[name+"/"+line.Name] = Legal(lines, false)
		}
		if s.Err() != nil {
			t.Fatal(s.Err())
		}
	}
	return runs
}

// Ways to say the same again.

// DeltaTypes are the events that carry a piece of a text.
var DeltaTypes = map[event.Type]bool{
	event.TypeTextMessageContent: true, event.TypeReasoningMessageContent: true, event.TypeToolCallArgs: true,
	event.TypeTextMessageChunk: true, event.TypeReasoningMessageChunk: true, event.TypeToolCallChunk: true,
}

// Recut cuts deltas elsewhere, also inside a surrogate pair, escapes them otherwise, joins
// neighbours, adds empty ones and changes timestamps.
func Recut(r *rand.Rand, events []event.Event) []event.Event {
	var out []event.Event
	for i := 0; i < len(events); i++ {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(events[i].Raw, &m); err != nil {
			panic(err)
		}
		if r.IntN(3) == 0 {
			m["timestamp"] = json.RawMessage(strconv.Itoa(r.IntN(1e9)))
		}
		d, has := m["delta"]
		if !DeltaTypes[events[i].Header.Type] || !has || len(d) < 2 || d[0] != '"' {
			out = append(out, Rebuild(r, m))
			continue
		}
		u := Units(string(d[1 : len(d)-1]))
		chunk := strings.HasSuffix(events[i].Header.Type.String(), "_CHUNK")
		for i+1 < len(events) && !chunk && r.IntN(3) == 0 && joinable(events[i], events[i+1]) {
			i++
			var next struct{ Delta json.RawMessage }
			_ = json.Unmarshal(events[i].Raw, &next)
			u = append(u, Units(string(next.Delta[1:len(next.Delta)-1]))...)
		}
		for first := true; first || len(u) > 0; first = false {
			n := len(u)
			if n > 1 && r.IntN(2) == 0 {
				n = r.IntN(n)
			}
			m["delta"] = json.RawMessage(`"` + EncodeUnits(r, u[:n]) + `"`)
			out = append(out, Rebuild(r, m))
			u = u[n:]
		}
	}
	return out
}

func joinable(a, b event.Event) bool {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(b.Raw, &m)
	return a.Header.Type == b.Header.Type && a.Header.ID == b.Header.ID && len(m) == 3
}

// Rebuild writes an event with its members in another order.
func Rebuild(r *rand.Rand, m map[string]json.RawMessage) event.Event {
	var parts []string
	for k, v := range m { // the order is meant to be any
		name, _ := json.Marshal(k)
		parts = append(parts, string(name)+":"+string(v))
	}
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	e, err := event.ParseEvent([]byte("{" + strings.Join(parts, ",") + "}"))
	if err != nil {
		panic(err)
	}
	return e
}

// Float lets explicit deltas of different ids, and of an id and the STEP of another thing, change
// places.
func Float(r *rand.Rand, events []event.Event) []event.Event {
	out := append([]event.Event(nil), events...)
	explicit := func(e event.Event) bool {
		return DeltaTypes[e.Header.Type] && !strings.HasSuffix(e.Header.Type.String(), "_CHUNK")
	}
	for i := 1; i < len(out); i++ {
		a, b := out[i-1], out[i]
		if r.IntN(2) == 0 && explicit(a) && explicit(b) && a.Header.ID != b.Header.ID {
			out[i-1], out[i] = b, a
		}
	}
	return out
}

// WithoutLive leaves out what only the live host had a reason to emit.
func WithoutLive(events []event.Event) []event.Event {
	var out []event.Event
	for _, e := range events {
		if e.Header.Type != event.TypeCustom && e.Header.Type != event.TypeRaw {
			out = append(out, e)
		}
	}
	return out
}
