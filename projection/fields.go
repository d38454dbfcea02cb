package projection

import (
	"bytes"

	"github.com/runlog/runlog/event"
)

// field numbers the members of an event that some fold reads.
type field uint8

const (
	fType field = iota
	fMessageID
	fToolCallID
	fToolCallName
	fParentMessageID
	fRole
	fName
	fDelta
	fContent
	fSubagent
	fMetadata
	fRawEvent
	fSnapshot
	fMessages
	fActivityType
	fReplace
	fPatch
	fSubtype
	fEntityID
	fEncryptedValue
	fInput
	fOutcome
	fStepName
	fDescription
	fParentSubagent
	fParentToolCall
	fMessage
	fCode
	fUsage
	fResult
	fVersion
	fSeq
	fChunk
	fieldCount
)

// fields is an event taken apart: its type, and where its members stand in raw. A member that is
// absent has an empty range; of a repeated one the last counts, as in JSON.parse.
type fields struct {
	raw []byte
	typ event.Type
	at  [fieldCount]struct{ from, to uint32 }
}

// get returns the member's JSON value, or nil when it is absent.
func (f *fields) get(n field) []byte {
	r := f.at[n]
	if r.to == 0 {
		return nil
	}
	return f.raw[r.from:r.to]
}

func (f *fields) has(n field) bool { return f.at[n].to != 0 }

// body returns the inside of a string member; nil when it is absent.
func (f *fields) body(n field) []byte {
	v := f.get(n)
	if len(v) < 2 {
		return nil
	}
	return v[1 : len(v)-1]
}

// key returns what the string member denotes, or the key of an absent id.
func (f *fields) key(n field) []byte { return keyBytes(f.get(n)) }

// parse takes raw apart. It reports false for what no fold would read: other types, and known
// types with a member of the wrong shape, at which the published client gives up.
func (f *fields) parse(raw []byte) bool {
	if !f.scan(raw) {
		return false
	}
	if !f.has(fType) && f.has(fChunk) && f.has(fSeq) && f.has(fVersion) {
		// A run written as records {"v":1,"seq":n,"chunk":{event}}.
		if !f.scan(f.get(fChunk)) {
			return false
		}
	}
	if v := f.get(fType); isString(v) {
		f.typ = event.TypeOf(string(keyBytes(v)))
	}
	return f.typ != event.TypeUnknown && f.wellFormed()
}

func (f *fields) scan(raw []byte) bool {
	*f = fields{raw: raw}
	m := members(raw)
	for {
		name, value, ok := m.next()
		if !ok {
			return !m.bad
		}
		if bytes.IndexByte(name, '\\') >= 0 {
			name = unescape(name)
		}
		if n := fieldOf(name); n < fieldCount {
			// value is a part of raw: its capacity tells where it starts.
			from := cap(raw) - cap(value)
			f.at[n].from, f.at[n].to = uint32(from), uint32(from+len(value))
		}
	}
}

func fieldOf(name []byte) field {
	switch string(name) {
	case "type":
		return fType
	case "messageId":
		return fMessageID
	case "toolCallId":
		return fToolCallID
	case "toolCallName":
		return fToolCallName
	case "parentMessageId":
		return fParentMessageID
	case "role":
		return fRole
	case "name":
		return fName
	case "delta":
		return fDelta
	case "content":
		return fContent
	case "subagentRunId":
		return fSubagent
	case "metadata":
		return fMetadata
	case "rawEvent":
		return fRawEvent
	case "snapshot":
		return fSnapshot
	case "messages":
		return fMessages
	case "activityType":
		return fActivityType
	case "replace":
		return fReplace
	case "patch":
		return fPatch
	case "subtype":
		return fSubtype
	case "entityId":
		return fEntityID
	case "encryptedValue":
		return fEncryptedValue
	case "input":
		return fInput
	case "outcome":
		return fOutcome
	}
	return rareFieldOf(name)
}

func rareFieldOf(name []byte) field {
	switch string(name) {
	case "stepName":
		return fStepName
	case "description":
		return fDescription
	case "parentSubagentRunId":
		return fParentSubagent
	case "parentToolCallId":
		return fParentToolCall
	case "message":
		return fMessage
	case "code":
		return fCode
	case "usage":
		return fUsage
	case "result":
		return fResult
	case "v":
		return fVersion
	case "seq":
		return fSeq
	case "chunk":
		return fChunk
	}
	return fieldCount
}
