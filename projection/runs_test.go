package projection

import (
	"encoding/json"
	"fmt"

	"github.com/runlog/runlog/event"
	"pgregory.net/rapid"
)

// anyEvent draws one event over few ids, so that things collide, as a host might send it; some
// are malformed.
func anyEvent(t *rapid.T) json.RawMessage {
	pick := func(a ...string) string { return rapid.SampledFrom(a).Draw(t, "pick") }
	mid := func() string { return pick(`"a"`, `"b"`, `"c1"`, `"\u0061"`, `"\ud83d"`) }
	cid := func() string { return pick(`"c1"`, `"c2"`, `"a"`) }
	delta := func() string { return pick(`""`, `"x"`, `"\ud83d"`, `"\ude00"`, `"\\\"\n"`, `"中"`) }
	maybe := func(name string, v func() string) string {
		if rapid.IntRange(0, 2).Draw(t, "maybe") > 0 {
			return ""
		}
		return `,"` + name + `":` + v()
	}
	sub := func() string { return maybe("subagentRunId", func() string { return pick(`"s1"`, `"s2"`, `null`) }) }
	metaValue := func() string { return pick(`{"k":1}`, `{"k":null,"l":[1]}`, `{}`, `{"\u006b":1.0}`, `7`) }
	meta := func() string { return maybe("metadata", metaValue) }
	content := func() string {
		return pick(`"r"`, `""`, `[{"type":"text","text":"t","x":1},{"type":"?"}]`, `[{"type":"image","source":{"type":"url","value":"u"}}]`, `{}`)
	}
	object := func() string { return pick(`{}`, `{"a":{"b":1},"x":[1,2]}`, `{"n":12345678901234567890}`) }
	patch := func() string {
		path := func() string {
			return pick(`""`, `"/a"`, `"/a/b"`, `"/x/-"`, `"/x/0"`, `"/x/01"`, `"/x/9"`, `"/~1"`, `"q"`)
		}
		out := "["
		for i := range rapid.IntRange(0, 3).Draw(t, "ops") {
			if i > 0 {
				out += ","
			}
			out += fmt.Sprintf(`{"op":%s,"path":%s,"from":%s,"value":%s}`,
				pick(`"add"`, `"add"`, `"replace"`, `"remove"`, `"move"`, `"copy"`, `"test"`, `"wish"`), path(), path(), pick(`1`, `{"b":{}}`, `[1]`))
		}
		return out + "]"
	}
	message := func() string {
		return pick(
			fmt.Sprintf(`{"id":%s,"role":"user","content":%s,"x":1}`, mid(), content()),
			fmt.Sprintf(`{"id":%s,"role":"assistant","toolCalls":[{"id":%s,"type":"function","function":{"name":"f","arguments":"{"}}]}`, mid(), cid()),
			fmt.Sprintf(`{"id":%s,"role":"assistant","content":"hi"%s}`, mid(), meta()),
			fmt.Sprintf(`{"id":%s,"role":"tool","toolCallId":%s,"content":%s}`, mid(), cid(), content()),
			fmt.Sprintf(`{"id":%s,"role":"reasoning","content":"why"}`, mid()),
			fmt.Sprintf(`{"id":%s,"role":"activity","activityType":"plan","content":%s}`, mid(), object()),
			`{"id":"z","role":"narrator"}`)
	}
	messages := func() string {
		out := "["
		for i := range rapid.IntRange(0, 4).Draw(t, "messages") {
			if i > 0 {
				out += ","
			}
			out += message()
		}
		return out + "]"
	}
	f := fmt.Sprintf
	events := []func() string{
		func() string { return f(`"RUN_STARTED","input":{"messages":%s}`, messages()) },
		func() string {
			return f(`"RUN_FINISHED","outcome":%s`, pick(`null`, `{"type":"success"}`, `{"type":"cancelled"}`,
				`{"type":"interrupt","interrupts":[{"id":"i","toolCallId":"c1"}]}`, `{"type":"success","pendingToolCallIds":["c2"]}`))
		},
		func() string { return `"RUN_ERROR","message":"m"` },
		func() string {
			return f(`"TEXT_MESSAGE_START","messageId":%s%s%s%s`, mid(), maybe("role", func() string { return pick(`"user"`, `"tool"`) }), sub(), meta())
		},
		func() string { return f(`"TEXT_MESSAGE_CONTENT","messageId":%s,"delta":%s%s`, mid(), delta(), meta()) },
		func() string { return f(`"TEXT_MESSAGE_END","messageId":%s%s`, mid(), meta()) },
		func() string {
			return f(`"TEXT_MESSAGE_CHUNK"%s%s%s%s`, maybe("messageId", mid), maybe("delta", delta), sub(), meta())
		},
		func() string {
			return f(`"TOOL_CALL_START","toolCallId":%s,"toolCallName":"f"%s%s%s`, cid(), maybe("parentMessageId", mid), sub(), meta())
		},
		func() string { return f(`"TOOL_CALL_ARGS","toolCallId":%s,"delta":%s%s`, cid(), delta(), meta()) },
		func() string { return f(`"TOOL_CALL_END","toolCallId":%s%s`, cid(), meta()) },
		func() string {
			return f(`"TOOL_CALL_CHUNK","toolCallName":"f"%s%s%s`, maybe("toolCallId", cid), maybe("delta", delta), sub())
		},
		func() string {
			return f(`"TOOL_CALL_RESULT","messageId":%s,"toolCallId":%s,"content":%s%s`, mid(), cid(), content(),
				maybe("metadata", func() string { return `{"interrupted":true}` }))
		},
		func() string { return f(`"REASONING_MESSAGE_START","messageId":%s,"role":"reasoning"%s`, mid(), sub()) },
		func() string { return f(`"REASONING_MESSAGE_CONTENT","messageId":%s,"delta":%s`, mid(), delta()) },
		func() string {
			return f(`"REASONING_MESSAGE_CHUNK"%s%s%s`, maybe("messageId", mid), maybe("delta", delta), sub())
		},
		func() string {
			return f(`"REASONING_ENCRYPTED_VALUE","subtype":%s,"entityId":%s,"encryptedValue":"e"`, pick(`"message"`, `"tool-call"`), mid())
		},
		func() string {
			return f(`"ACTIVITY_SNAPSHOT","messageId":%s,"activityType":"plan","content":%s%s%s`, mid(), object(),
				maybe("replace", func() string { return pick(`true`, `false`) }), meta())
		},
		func() string {
			return f(`"ACTIVITY_DELTA","messageId":%s,"activityType":"map","patch":%s%s`, mid(), patch(), meta())
		},
		func() string { return f(`"STATE_SNAPSHOT","snapshot":%s`, object()) },
		func() string { return f(`"STATE_DELTA","delta":%s`, patch()) },
		func() string { return f(`"MESSAGES_SNAPSHOT","messages":%s`, messages()) },
		func() string { return f(`"CUSTOM","name":"n","value":1%s`, sub()) },
		func() string { return f(`"STEP_STARTED","stepName":%s`, mid()) },
		func() string { return f(`"STEP_FINISHED","stepName":%s`, mid()) },
		func() string { return f(`"SUBAGENT_STARTED","subagentRunId":%s,"name":"n"`, pick(`"s1"`, `"s2"`)) },
		func() string { return f(`"SUBAGENT_FINISHED","subagentRunId":%s`, pick(`"s1"`, `"s2"`)) },
		func() string { return `"THINKING_START"` },
		func() string { return `"NOVELTY"` },
	}
	return json.RawMessage(`{"type":` + rapid.SampledFrom(events).Draw(t, "event")() + `}`)
}

func anyRun(t *rapid.T) []event.Record {
	n := rapid.IntRange(0, 60).Draw(t, "length") // slices alone would nearly all be short
	return records(rapid.SliceOfN(rapid.Custom(anyEvent), n, n).Draw(t, "run"))
}
