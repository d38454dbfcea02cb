package event

// field is a member that two events must agree in to be the same.
type field struct {
	name string
	// absent is what an absent member reads as, JSON; "" means that absent is a value of its own.
	absent string
	// may says that the replay need not say it: the cluster writes RUN_STARTED for a host, and
	// hosts say less than it does.
	may bool
	// id says that the member is an id that a program may make up anew each time it runs.
	id bool
}

// compared is, per type, what must agree, in the order in which differences are looked for. What is
// not listed is ignored: timestamp and rawEvent, which another execution cannot reproduce; usage
// and protocolVersion, which say how and not what; members that no projection reads. metadata is
// compared where it becomes part of a message, except on deltas, whose boundaries are free. Of
// RUN_STARTED's input only what enters the conversation counts.
var compared = map[Type][]field{
	TypeRunStarted: {
		{name: "threadId", may: true, id: true}, {name: "runId", may: true, id: true}, {name: "parentRunId", may: true},
		{name: "input.messages", absent: "[]", may: true}, {name: "input.resume", absent: "[]", may: true},
	},
	TypeRunFinished: {
		{name: "threadId", may: true, id: true}, {name: "runId", may: true, id: true},
		{name: "outcome", absent: `{"type":"success"}`}, {name: "result"},
	},
	TypeRunError:     {{name: "message"}, {name: "code"}},
	TypeStepStarted:  {{name: "stepName"}, fieldLane},
	TypeStepFinished: {{name: "stepName"}, fieldLane},

	TypeTextMessageStart: {fieldMessageID, {name: "role", absent: `"assistant"`}, {name: "name"}, fieldLane, fieldMetadata},
	TypeTextMessageEnd:   {fieldMessageID, fieldLane, fieldMetadata},
	TypeTextMessageChunk: {fieldMessageID, {name: "role", absent: `"assistant"`}, {name: "name"}, fieldLane},

	TypeToolCallStart:  {fieldCallID, {name: "toolCallName"}, fieldParentID, fieldLane, fieldMetadata},
	TypeToolCallEnd:    {fieldCallID, fieldLane, fieldMetadata},
	TypeToolCallChunk:  {fieldCallID, {name: "toolCallName"}, fieldParentID, fieldLane},
	TypeToolCallResult: {fieldCallID, fieldMessageID, {name: "content"}, {name: "role", absent: `"tool"`}, fieldLane, fieldMetadata},

	TypeStateSnapshot:    {{name: "snapshot"}, fieldLane},
	TypeStateDelta:       {{name: "delta"}, fieldLane},
	TypeMessagesSnapshot: {{name: "messages"}, fieldMetadata},
	TypeActivitySnapshot: {fieldMessageID, {name: "activityType"}, {name: "content"}, {name: "replace", absent: "true"}, fieldLane, fieldMetadata},
	TypeActivityDelta:    {fieldMessageID, {name: "activityType"}, {name: "patch"}, fieldLane, fieldMetadata},

	TypeReasoningStart:          {fieldMessageID, fieldLane},
	TypeReasoningEnd:            {fieldMessageID, fieldLane},
	TypeReasoningMessageStart:   {fieldMessageID, {name: "role", absent: `"reasoning"`}, fieldLane, fieldMetadata},
	TypeReasoningMessageEnd:     {fieldMessageID, fieldLane, fieldMetadata},
	TypeReasoningMessageChunk:   {fieldMessageID, fieldLane},
	TypeReasoningEncryptedValue: {{name: "subtype"}, {name: "entityId", id: true}, {name: "encryptedValue"}, fieldLane},

	TypeRaw:    {{name: "event"}, {name: "source"}, fieldLane},
	TypeCustom: {{name: "name"}, {name: "value"}, fieldLane},

	TypeSubagentStarted: {
		fieldLane, {name: "name"}, {name: "description"}, {name: "parentSubagentRunId", id: true},
		{name: "parentToolCallId", id: true}, fieldParentID,
	},
	TypeSubagentFinished: {fieldLane, {name: "result"}, {name: "outcome", absent: `{"type":"success"}`}},
	TypeSubagentError:    {fieldLane, {name: "message"}, {name: "code"}},

	TypeThinkingStart:            {{name: "title"}},
	TypeThinkingEnd:              {},
	TypeThinkingTextMessageStart: {},
	TypeThinkingTextMessageEnd:   {},
}

var (
	fieldMessageID = field{name: "messageId", id: true}
	fieldCallID    = field{name: "toolCallId", id: true}
	fieldParentID  = field{name: "parentMessageId", id: true}
	fieldLane      = field{name: "subagentRunId", id: true}
	fieldMetadata  = field{name: "metadata"}
)

// ignoredAnywhere are the members of types that have no entry in the table that do not count.
func ignoredAnywhere(name []byte) bool {
	return string(name) == "timestamp" || string(name) == "rawEvent"
}

// difference says in what two events differ: the first field, and whether all that differs is ids.
type difference struct {
	field   string
	onlyIDs bool
}

// differ compares the fields of two events, not their deltas. own holds what RUN_STARTED and
// RUN_FINISHED mean where the stored event leaves out an id of the run.
func differ(stored, replayed *item, own map[string]string) (d difference, differs bool) {
	if stored.typ != replayed.typ {
		return difference{field: "type"}, true
	}
	fields, known := compared[stored.typ]
	if !known || stored.odd || replayed.odd {
		return differAnywhere(stored, replayed)
	}
	d.onlyIDs = true
	for _, f := range fields {
		if sameField(f, valueOf(stored.members, f.name), valueOf(replayed.members, f.name), own) {
			continue
		}
		if !differs {
			d.field, differs = f.name, true
		}
		d.onlyIDs = d.onlyIDs && f.id
	}
	return d, differs
}

func sameField(f field, stored, replayed []byte, own map[string]string) bool {
	if replayed == nil && f.may {
		return true
	}
	if stored == nil && f.may && f.id {
		id, known := own[f.name]
		return !known || textOf(replayed) == id
	}
	return sameJSON(orAbsent(stored, f), orAbsent(replayed, f))
}

func orAbsent(value []byte, f field) []byte {
	if value == nil && f.absent != "" {
		return []byte(f.absent)
	}
	return value
}

// differAnywhere compares all members.
func differAnywhere(stored, replayed *item) (difference, bool) {
	for _, m := range stored.members {
		other := find(replayed.members, string(m.name))
		if !ignoredAnywhere(m.name) && (other == nil || !sameJSON(m.value, other.value)) {
			return difference{field: string(m.name)}, true
		}
	}
	for _, m := range replayed.members {
		if !ignoredAnywhere(m.name) && find(stored.members, string(m.name)) == nil {
			return difference{field: string(m.name)}, true
		}
	}
	return difference{}, false
}

// hint recognises the mistakes that a successor is most often set up with.
func (d difference) hint(t Type) string {
	switch {
	case !d.onlyIDs:
		return ""
	case t == TypeRunStarted || t == TypeRunFinished:
		return "only " + d.field + " differs: the replay was made under another " + d.field +
			" than this run's; let the successor run under the ids of the run that it takes over"
	}
	return "only ids differ: the replay was made with fresh ids; derive ids from the run and their place in it, " +
		"or record them, so that a second execution gives the same"
}
