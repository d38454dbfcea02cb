package projection

import (
	"encoding/json"
	"fmt"

	"pgregory.net/rapid"
)

// legalRun draws a run that the grammar accepts, cut off anywhere: explicit streams interleaved,
// chunk streams between them, results, activities, state.
func legalRun(t *rapid.T) []json.RawMessage {
	run := []json.RawMessage{json.RawMessage(`{"type":"RUN_STARTED","threadId":"t","runId":"r"}`)}
	add := func(format string, a ...any) { run = append(run, fmt.Appendf(nil, format, a...)) }
	delta := rapid.SampledFrom([]string{`"a"`, `""`, `"\ud83d"`, `"\ude00"`, `"\n中"`})
	type stream struct{ content, end string }
	var open []stream
	chunk := "" // the open chunk stream's type
	for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
		switch rapid.IntRange(0, 9).Draw(t, "step") {
		case 0:
			add(`{"type":"TEXT_MESSAGE_START","messageId":"m%d","metadata":{"i":%d}}`, i, i)
			open = append(open, stream{fmt.Sprintf(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m%d"`, i), fmt.Sprintf(`{"type":"TEXT_MESSAGE_END","messageId":"m%d"}`, i)})
			chunk = ""
		case 1:
			add(`{"type":"TOOL_CALL_START","toolCallId":"c%d","toolCallName":"f","parentMessageId":"m%d","metadata":{"i":%d}}`, i, rapid.IntRange(0, i).Draw(t, "parent"), i)
			open = append(open, stream{fmt.Sprintf(`{"type":"TOOL_CALL_ARGS","toolCallId":"c%d","metadata":{"i":-1}`, i), fmt.Sprintf(`{"type":"TOOL_CALL_END","toolCallId":"c%d"}`, i)})
			chunk = ""
		case 2:
			add(`{"type":"REASONING_MESSAGE_START","messageId":"m%d","role":"reasoning"}`, i)
			open = append(open, stream{fmt.Sprintf(`{"type":"REASONING_MESSAGE_CONTENT","messageId":"m%d"`, i), fmt.Sprintf(`{"type":"REASONING_MESSAGE_END","messageId":"m%d"}`, i)})
			chunk = ""
		case 3:
			chunk = rapid.SampledFrom([]string{"TEXT_MESSAGE", "TOOL_CALL", "REASONING_MESSAGE"}).Draw(t, "chunk")
			id := map[string]string{"TEXT_MESSAGE": "messageId", "TOOL_CALL": "toolCallName\":\"f\",\"toolCallId", "REASONING_MESSAGE": "messageId"}[chunk]
			add(`{"type":"%s_CHUNK","%s":"k%d","delta":%s}`, chunk, id, i, delta.Draw(t, "delta"))
		case 4, 5:
			if chunk != "" {
				add(`{"type":"%s_CHUNK","delta":%s}`, chunk, delta.Draw(t, "delta"))
			}
		case 6, 7:
			if len(open) > 0 {
				n := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				chunk = ""
				if rapid.Bool().Draw(t, "more") {
					add(`%s,"delta":%s}`, open[n].content, delta.Draw(t, "delta"))
				} else {
					add(`%s`, open[n].end)
					open = append(open[:n], open[n+1:]...)
				}
			}
		case 8:
			add(`{"type":"TOOL_CALL_RESULT","messageId":"r%d","toolCallId":"c%d","content":"ok"}`, i, rapid.IntRange(0, i).Draw(t, "call"))
			chunk = ""
		case 9:
			if rapid.Bool().Draw(t, "activity") {
				add(`{"type":"ACTIVITY_SNAPSHOT","messageId":"act","activityType":"plan","content":{"i":%d}}`, i)
			} else {
				add(`{"type":"STATE_DELTA","delta":[{"op":"add","path":"/k%d","value":%d}]}`, i, i)
				chunk = ""
			}
		}
	}
	return run
}
