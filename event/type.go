package event

// Type is the kind of an AG-UI 1.0 event. The numbers are persisted in commands and must
// stay stable; a type that this build does not know is [TypeUnknown] and kept untouched.
type Type uint8

// The event types of AG-UI 1.0 (npm @ag-ui/core 1.0.0), and the deprecated THINKING_* ones.
const (
	TypeUnknown                    Type = 0
	TypeRunStarted                 Type = 1
	TypeRunFinished                Type = 2
	TypeRunError                   Type = 3
	TypeStepStarted                Type = 4
	TypeStepFinished               Type = 5
	TypeTextMessageStart           Type = 6
	TypeTextMessageContent         Type = 7
	TypeTextMessageEnd             Type = 8
	TypeTextMessageChunk           Type = 9
	TypeToolCallStart              Type = 10
	TypeToolCallArgs               Type = 11
	TypeToolCallEnd                Type = 12
	TypeToolCallChunk              Type = 13
	TypeToolCallResult             Type = 14
	TypeStateSnapshot              Type = 15
	TypeStateDelta                 Type = 16
	TypeMessagesSnapshot           Type = 17
	TypeActivitySnapshot           Type = 18
	TypeActivityDelta              Type = 19
	TypeReasoningStart             Type = 20
	TypeReasoningEnd               Type = 21
	TypeReasoningMessageStart      Type = 22
	TypeReasoningMessageContent    Type = 23
	TypeReasoningMessageEnd        Type = 24
	TypeReasoningMessageChunk      Type = 25
	TypeReasoningEncryptedValue    Type = 26
	TypeRaw                        Type = 27
	TypeCustom                     Type = 28
	TypeSubagentStarted            Type = 29
	TypeSubagentFinished           Type = 30
	TypeSubagentError              Type = 31
	TypeThinkingStart              Type = 32
	TypeThinkingEnd                Type = 33
	TypeThinkingTextMessageStart   Type = 34
	TypeThinkingTextMessageContent Type = 35
	TypeThinkingTextMessageEnd     Type = 36
)

var typeNames = [...]string{
	TypeUnknown:                    "",
	TypeRunStarted:                 "RUN_STARTED",
	TypeRunFinished:                "RUN_FINISHED",
	TypeRunError:                   "RUN_ERROR",
	TypeStepStarted:                "STEP_STARTED",
	TypeStepFinished:               "STEP_FINISHED",
	TypeTextMessageStart:           "TEXT_MESSAGE_START",
	TypeTextMessageContent:         "TEXT_MESSAGE_CONTENT",
	TypeTextMessageEnd:             "TEXT_MESSAGE_END",
	TypeTextMessageChunk:           "TEXT_MESSAGE_CHUNK",
	TypeToolCallStart:              "TOOL_CALL_START",
	TypeToolCallArgs:               "TOOL_CALL_ARGS",
	TypeToolCallEnd:                "TOOL_CALL_END",
	TypeToolCallChunk:              "TOOL_CALL_CHUNK",
	TypeToolCallResult:             "TOOL_CALL_RESULT",
	TypeStateSnapshot:              "STATE_SNAPSHOT",
	TypeStateDelta:                 "STATE_DELTA",
	TypeMessagesSnapshot:           "MESSAGES_SNAPSHOT",
	TypeActivitySnapshot:           "ACTIVITY_SNAPSHOT",
	TypeActivityDelta:              "ACTIVITY_DELTA",
	TypeReasoningStart:             "REASONING_START",
	TypeReasoningEnd:               "REASONING_END",
	TypeReasoningMessageStart:      "REASONING_MESSAGE_START",
	TypeReasoningMessageContent:    "REASONING_MESSAGE_CONTENT",
	TypeReasoningMessageEnd:        "REASONING_MESSAGE_END",
	TypeReasoningMessageChunk:      "REASONING_MESSAGE_CHUNK",
	TypeReasoningEncryptedValue:    "REASONING_ENCRYPTED_VALUE",
	TypeRaw:                        "RAW",
	TypeCustom:                     "CUSTOM",
	TypeSubagentStarted:            "SUBAGENT_STARTED",
	TypeSubagentFinished:           "SUBAGENT_FINISHED",
	TypeSubagentError:              "SUBAGENT_ERROR",
	TypeThinkingStart:              "THINKING_START",
	TypeThinkingEnd:                "THINKING_END",
	TypeThinkingTextMessageStart:   "THINKING_TEXT_MESSAGE_START",
	TypeThinkingTextMessageContent: "THINKING_TEXT_MESSAGE_CONTENT",
	TypeThinkingTextMessageEnd:     "THINKING_TEXT_MESSAGE_END",
}

var typesByName = func() map[string]Type {
	m := make(map[string]Type, len(typeNames))
	for t, name := range typeNames {
		if name != "" {
			m[name] = Type(t)
		}
	}
	return m
}()

// TypeOf returns the type that AG-UI calls name, or [TypeUnknown].
func TypeOf(name string) Type { return typesByName[name] }

// String returns AG-UI's name for t, or "unknown".
func (t Type) String() string {
	if t == TypeUnknown || int(t) >= len(typeNames) {
		return "unknown"
	}
	return typeNames[t]
}

// Terminal reports whether an event of this type ends its run.
func (t Type) Terminal() bool { return t == TypeRunFinished || t == TypeRunError }
