package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/runlog/runlog/event"
)

// act is one event of the scripted agent and how long the agent takes to come up with it.
type act struct {
	raw  []byte
	wait time.Duration
	tool string // set on the result that wait stands for: the tool that runs meanwhile
}

// The pace of the scripted agent.
const (
	wordTime = 35 * time.Millisecond
	toolTime = 1500 * time.Millisecond
)

// turn is what the scripted agent is asked and does.
type turn struct {
	id              string // ids are made from it and from their place, so that each execution gives the same
	ask, plan       string
	tool, arguments string
	result, answer  string
}

var firstTurn = turn{
	id:  "t1",
	ask: "Why is checkout slow?",
	plan: "Since 17:04 every call of tax.lookup takes a second longer. " +
		"I will look at its traces before I say why.",
	tool: "read_traces", arguments: `{"service":"tax.lookup","since":"17:04"}`,
	result: "412 traces, 412 × certificate expired, 3 retries each",
	answer: "The certificate of tax.lookup expired at 17:04; each call fails and is retried three times. " +
		"Renew it, and checkout is fast again.",
}

var nextTurn = turn{
	id:  "t2",
	ask: "You stopped. Please look again.", plan: "I will read the traces again.",
	tool: "read_traces", arguments: firstTurn.arguments, result: firstTurn.result,
	answer: "The certificate of tax.lookup expired at 17:04.",
}

// script is all that the agent does in a run, from its first event to before its end.
func (t turn) script(run event.RunID, thread event.ThreadID) []act {
	s := &scriptWriter{}
	s.add(wordTime, map[string]any{"type": "RUN_STARTED", "threadId": thread, "runId": run, "input": map[string]any{
		"threadId": thread, "runId": run, "messages": []any{map[string]any{"id": t.id + "-user", "role": "user", "content": t.ask}},
	}})
	m, call := t.id+"-plan", t.id+"-call"
	s.say(m, t.plan)
	s.add(wordTime, map[string]any{"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": t.tool, "parentMessageId": m})
	for _, part := range pieces(t.arguments) {
		s.add(wordTime, map[string]any{"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": part})
	}
	s.add(wordTime, map[string]any{"type": "TOOL_CALL_END", "toolCallId": call})
	s.add(toolTime, map[string]any{"type": "TOOL_CALL_RESULT", "toolCallId": call, "messageId": call + "-result", "content": t.result})
	s.acts[len(s.acts)-1].tool = t.tool
	s.say(t.id+"-answer", t.answer)
	return s.acts
}

type scriptWriter struct{ acts []act }

func (s *scriptWriter) add(wait time.Duration, e map[string]any) {
	raw, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("demo: %v", err)) // the script above is wrong
	}
	s.acts = append(s.acts, act{raw: raw, wait: wait})
}

// say streams a message word by word.
func (s *scriptWriter) say(id, text string) {
	s.add(wordTime, map[string]any{"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"})
	for _, word := range strings.SplitAfter(text, " ") {
		s.add(wordTime, map[string]any{"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": word})
	}
	s.add(wordTime, map[string]any{"type": "TEXT_MESSAGE_END", "messageId": id})
}

// pieces cuts arguments as a model streams them.
func pieces(s string) []string {
	return strings.SplitAfter(s, ",")
}
