package projection

import (
	"math/bits"

	"github.com/runlog/runlog/event"
)

// What the client's enforcement demands of the members that the folds read (npm @ag-ui/core
// 1.0.0, generated/schemas.ts). Members that no fold reads are not checked: a client would have
// given up on the run there, and the fold has nothing to lose by going on.

const (
	sText      = 1<<fMessageID | 1<<fSubagent
	sTool      = 1<<fToolCallID | 1<<fSubagent
	sToolOpen  = sTool | 1<<fToolCallName | 1<<fParentMessageID
	sAnyDelta  = 1 << fDelta
	sRoleName  = 1<<fRole | 1<<fName
	sActivity  = sText | 1<<fActivityType
	sEncrypted = 1<<fSubtype | 1<<fEntityID | 1<<fEncryptedValue | 1<<fSubagent
	sSubagent  = 1<<fSubagent | 1<<fName | 1<<fDescription | 1<<fParentSubagent | 1<<fParentToolCall | 1<<fParentMessageID
)

// stringFields names, per event type, the members that must be strings where present.
var stringFields = [...]uint64{
	event.TypeStepStarted:             1<<fStepName | 1<<fSubagent,
	event.TypeStepFinished:            1<<fStepName | 1<<fSubagent,
	event.TypeTextMessageStart:        sText | sRoleName,
	event.TypeTextMessageContent:      sText | sAnyDelta,
	event.TypeTextMessageEnd:          sText,
	event.TypeTextMessageChunk:        sText | sRoleName | sAnyDelta,
	event.TypeToolCallStart:           sToolOpen,
	event.TypeToolCallArgs:            sTool | sAnyDelta,
	event.TypeToolCallEnd:             sTool,
	event.TypeToolCallChunk:           sToolOpen | sAnyDelta,
	event.TypeToolCallResult:          sText | sTool | 1<<fRole,
	event.TypeStateSnapshot:           1 << fSubagent,
	event.TypeStateDelta:              1 << fSubagent,
	event.TypeActivitySnapshot:        sActivity,
	event.TypeActivityDelta:           sActivity,
	event.TypeReasoningStart:          sText,
	event.TypeReasoningEnd:            sText,
	event.TypeReasoningMessageStart:   sText,
	event.TypeReasoningMessageContent: sText | sAnyDelta,
	event.TypeReasoningMessageEnd:     sText,
	event.TypeReasoningMessageChunk:   sText | sAnyDelta,
	event.TypeReasoningEncryptedValue: sEncrypted,
	event.TypeCustom:                  1 << fSubagent,
	event.TypeSubagentStarted:         sSubagent,
	event.TypeSubagentFinished:        1 << fSubagent,
	event.TypeSubagentError:           1 << fSubagent,
}

func (f *fields) wellFormed() bool {
	if int(f.typ) < len(stringFields) {
		for want := stringFields[f.typ]; want != 0; want &= want - 1 {
			n := field(bits.TrailingZeros64(want))
			if f.has(n) && !isString(f.get(n)) {
				return false
			}
		}
	}
	if f.has(fMetadata) && !isObject(f.get(fMetadata)) {
		return false
	}
	return f.wellFormedValues()
}

// wellFormedValues checks what is more than a string.
func (f *fields) wellFormedValues() bool {
	switch f.typ {
	case event.TypeTextMessageContent, event.TypeReasoningMessageContent, event.TypeToolCallArgs:
		return f.has(fDelta)
	case event.TypeTextMessageStart, event.TypeTextMessageChunk:
		return !f.has(fRole) || textRole(f.body(fRole)) != roleNone
	case event.TypeToolCallResult:
		return (!f.has(fRole) || string(f.key(fRole)) == "tool") &&
			(!f.has(fContent) || isString(f.get(fContent)) || isArray(f.get(fContent)))
	case event.TypeStateSnapshot:
		return f.has(fSnapshot)
	case event.TypeActivitySnapshot:
		replace := f.get(fReplace)
		return isObject(f.get(fContent)) && (replace == nil || string(replace) == "true" || string(replace) == "false")
	case event.TypeReasoningEncryptedValue:
		sub := string(f.key(fSubtype))
		return f.has(fEncryptedValue) && (sub == "tool-call" || sub == "message")
	}
	return true
}
