package event

import (
	"fmt"

	"github.com/tidwall/gjson"
)

// maxHeaderID bounds ids inside events: they are kept while open, and hashed when used.
const maxHeaderID = 1024

// parseHeader reads the top-level members of a valid JSON object. Like JSON.parse, the last of
// several members of one name counts.
func parseHeader(raw []byte) (Header, error) {
	var f fields
	gjson.ParseBytes(raw).ForEach(func(k, v gjson.Result) bool {
		f.set(k.Str, v)
		return true
	})
	if f.typ.Type != gjson.String || f.typ.Str == "" {
		return Header{}, &SyntaxError{`the event has no "type" string`}
	}
	h := Header{Type: TypeOf(f.typ.Str)}
	f.fill(&h)
	return h, nil
}

// fields are the members that headers are made of; a zero Result is an absent member.
type fields struct {
	typ, messageID, toolCallID, toolCallName, parentMessageID, stepName, subagentRunID gjson.Result
	runID, threadID, parentRunID, input, outcome, delta, content, message, role        gjson.Result
	snapshot, messages, name, value                                                    gjson.Result
}

func (f *fields) set(name string, v gjson.Result) {
	switch name {
	case "type":
		f.typ = v
	case "messageId":
		f.messageID = v
	case "toolCallId":
		f.toolCallID = v
	case "toolCallName":
		f.toolCallName = v
	case "parentMessageId":
		f.parentMessageID = v
	case "stepName":
		f.stepName = v
	case "subagentRunId":
		f.subagentRunID = v
	case "runId":
		f.runID = v
	case "threadId":
		f.threadID = v
	case "parentRunId":
		f.parentRunID = v
	case "outcome":
		f.outcome = v
	case "input":
		f.input = v
	case "delta":
		f.delta = v
	case "content":
		f.content = v
	case "message":
		f.message = v
	case "role":
		f.role = v
	case "snapshot":
		f.snapshot = v
	case "messages":
		f.messages = v
	case "name":
		f.name = v
	case "value":
		f.value = v
	}
}

// fill sets the header's fields for its type, and its flaw: the first field that the schemas of
// @ag-ui/core would reject.
func (f *fields) fill(h *Header) {
	if h.Type != TypeRunStarted && h.Type != TypeRunFinished && h.Type != TypeRunError {
		h.Lane = h.optional("subagentRunId", f.subagentRunID)
	}
	switch h.Type {
	case TypeRunStarted, TypeRunFinished:
		h.RunID = RunID(h.optional("runId", f.runID))
		h.ThreadID = ThreadID(h.optional("threadId", f.threadID))
		if h.Type == TypeRunStarted {
			h.ParentRunID = RunID(h.optional("parentRunId", f.parentRunID))
			h.Dialogue = h.answers(f.input)
		} else {
			h.Outcome = h.outcome(f.outcome)
			if h.Outcome == OutcomeInterrupt {
				h.Dialogue = h.asked(f.outcome)
			}
		}
	case TypeRunError:
		h.require("message", f.message, gjson.String)
	case TypeStepStarted, TypeStepFinished:
		h.ID = h.required("stepName", f.stepName)
	case TypeTextMessageStart, TypeTextMessageEnd, TypeReasoningStart, TypeReasoningEnd, TypeReasoningMessageEnd:
		h.ID = h.required("messageId", f.messageID)
		h.optional("role", f.role)
	case TypeReasoningMessageStart:
		h.ID = h.required("messageId", f.messageID)
		h.require("role", f.role, gjson.String)
	case TypeTextMessageContent, TypeReasoningMessageContent:
		h.ID = h.required("messageId", f.messageID)
		h.require("delta", f.delta, gjson.String)
	case TypeTextMessageChunk, TypeReasoningMessageChunk:
		h.ID = h.optional("messageId", f.messageID)
		h.optional("delta", f.delta)
	case TypeToolCallStart:
		h.ID = h.required("toolCallId", f.toolCallID)
		h.require("toolCallName", f.toolCallName, gjson.String)
		h.optional("parentMessageId", f.parentMessageID)
	case TypeToolCallArgs:
		h.ID = h.required("toolCallId", f.toolCallID)
		h.require("delta", f.delta, gjson.String)
	case TypeToolCallEnd:
		h.ID = h.required("toolCallId", f.toolCallID)
	case TypeToolCallChunk:
		h.ID = h.optional("toolCallId", f.toolCallID)
		h.Named = h.optional("toolCallName", f.toolCallName) != ""
		h.optional("parentMessageId", f.parentMessageID)
		h.optional("delta", f.delta)
	case TypeToolCallResult:
		h.ID = h.required("toolCallId", f.toolCallID)
		h.MessageID = h.required("messageId", f.messageID)
		if f.content.Type != gjson.String && !f.content.IsArray() {
			h.flaw("content is neither a string nor an array")
		}
	case TypeStateSnapshot:
		if !f.snapshot.Exists() {
			h.flaw("snapshot is missing")
		}
	case TypeStateDelta:
		h.array("delta", f.delta)
	case TypeMessagesSnapshot:
		h.array("messages", f.messages)
	case TypeActivitySnapshot, TypeActivityDelta:
		h.ID = h.required("messageId", f.messageID)
	case TypeCustom:
		h.require("name", f.name, gjson.String)
		if !f.value.Exists() {
			h.flaw("value is missing")
		}
	case TypeSubagentStarted, TypeSubagentFinished, TypeSubagentError:
		h.ID = h.required("subagentRunId", f.subagentRunID)
		h.Lane = ""
	}
}

func (h *Header) flaw(reason string) {
	if h.Flaw == "" {
		h.Flaw = reason
	}
}

func (h *Header) require(name string, v gjson.Result, t gjson.Type) {
	if !v.Exists() {
		h.flaw(name + " is missing")
	} else if v.Type != t {
		h.flaw(fmt.Sprintf("%s is not a string", name))
	}
}

func (h *Header) array(name string, v gjson.Result) {
	if !v.IsArray() {
		h.flaw(name + " is not an array")
	}
}

// required returns the string of a member that must be a non-empty id.
func (h *Header) required(name string, v gjson.Result) string {
	h.require(name, v, gjson.String)
	if v.Exists() && v.Type == gjson.String && v.Str == "" {
		h.flaw(name + " is empty")
	}
	return h.id(name, v)
}

// optional returns the string of a member that may be absent but not null.
func (h *Header) optional(name string, v gjson.Result) string {
	if v.Exists() && v.Type != gjson.String {
		h.flaw(name + " is not a string")
	}
	return h.id(name, v)
}

func (h *Header) id(name string, v gjson.Result) string {
	if v.Type != gjson.String {
		return ""
	}
	if name != "delta" && len(v.Raw) > len(v.Str)+2 && HalfSurrogate(v.Raw) {
		h.flaw(name + " holds half of a surrogate pair")
	}
	if name != "delta" && len(v.Str) > maxHeaderID {
		h.flaw(fmt.Sprintf("%s has over %d bytes", name, maxHeaderID))
		return v.Str[:maxHeaderID]
	}
	return v.Str
}

// outcome reads RUN_FINISHED.outcome; what it cannot read is success, as in the published client.
func (h *Header) outcome(v gjson.Result) Outcome {
	if !v.Exists() {
		return OutcomeSuccess
	}
	if !v.IsObject() {
		h.flaw("outcome is not an object")
		return OutcomeSuccess
	}
	switch v.Get("type").Str {
	case "interrupt":
		if n := len(v.Get("interrupts").Array()); n == 0 {
			h.flaw("outcome has no interrupts")
		}
		return OutcomeInterrupt
	case "cancelled":
		return OutcomeCancelled
	}
	return OutcomeSuccess
}
