package projection

// role is a message's. The numbers are persisted.
type role uint8

const (
	roleNone      role = 0
	roleDeveloper role = 1
	roleSystem    role = 2
	roleAssistant role = 3
	roleUser      role = 4
	roleTool      role = 5
	roleReasoning role = 6
	roleActivity  role = 7
)

var roleNames = [...]string{"", "developer", "system", "assistant", "user", "tool", "reasoning", "activity"}

func roleOf(body []byte) role {
	name := nameBytes(body)
	for r, s := range roleNames {
		if r > 0 && s == string(name) {
			return role(r)
		}
	}
	return roleNone
}

// textRole is roleOf restricted to what TEXT_MESSAGE_START may carry.
func textRole(body []byte) role {
	if r := roleOf(body); r <= roleUser {
		return r
	}
	return roleNone
}

// contentKind says how a message's content is held. The numbers are persisted.
type contentKind uint8

const (
	contentNone contentKind = 0 // no content member
	contentText contentKind = 1 // text holds the body of a JSON string
	contentJSON contentKind = 2 // text holds a JSON value: an array of parts
	contentDoc  contentKind = 3 // doc holds an activity's content
)

// message is one message of the transcript. String members are JSON strings, quotes included,
// as they were received; "" where absent.
type message struct {
	id           string
	role         role
	kind         contentKind
	text         []byte
	doc          *document
	name         string
	calls        []*call
	hasCalls     bool // an empty toolCalls array is not an absent one
	toolCallID   string
	errorText    string
	activityType string
	encrypted    string
	sub          string // subagentRunId
	meta         metadata
	shared       bool // may stand in more than one place of the array
}

// call is one entry of an assistant message's toolCalls.
type call struct {
	id        string
	name      string
	args      []byte // body of a JSON string
	encrypted string
	meta      metadata
	turn      uint64 // the fold's when the call was last started; 0: it came in a message
	again     int    // how long args were when a later run started the call again
}

// appendText appends a delta, the body of a JSON string. Content that is not text is dropped
// first, as the client drops it.
func (m *message) appendText(body []byte) {
	if m.kind != contentText {
		m.kind, m.text, m.doc = contentText, nil, nil
	}
	m.text = append(m.text, body...)
}

func (m *message) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendMember(dst, "id", m.id)
	dst = appendMember(dst, "role", `"`+roleNames[m.role]+`"`)
	dst = appendMember(dst, "name", m.name)
	dst = appendMember(dst, "activityType", m.activityType)
	if m.kind != contentNone {
		dst = m.appendContent(appendName(dst, "content"))
	}
	if m.hasCalls {
		dst = append(appendName(dst, "toolCalls"), '[')
		for i, c := range m.calls {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = c.appendJSON(dst)
		}
		dst = append(dst, ']')
	}
	dst = appendMember(dst, "toolCallId", m.toolCallID)
	dst = appendMember(dst, "error", m.errorText)
	dst = appendMember(dst, "subagentRunId", m.sub)
	dst = appendMember(dst, "encryptedValue", m.encrypted)
	if m.meta.set {
		dst = m.meta.appendJSON(appendName(dst, "metadata"))
	}
	return append(dst, '}')
}

// appendContent appends the content as JSON, nothing when there is none.
func (m *message) appendContent(dst []byte) []byte {
	switch m.kind {
	case contentText:
		dst = append(append(dst, '"'), m.text...)
		return append(dst, '"')
	case contentJSON:
		return append(dst, m.text...)
	case contentDoc:
		return m.doc.appendJSON(dst)
	}
	return dst
}

// once returns the call as its last start made it. A resumed run tells its calls again, under the
// ids they had; the client then holds the arguments twice in a row, which is no JSON any more.
func (c *call) once() *call {
	if c.again == 0 || c.again == len(c.args) {
		return c
	}
	own := *c
	own.args = c.args[c.again:]
	return &own
}

func (c *call) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendMember(dst, "id", c.id)
	dst = append(appendName(dst, "type"), `"function","function":{`...)
	dst = appendMember(dst, "name", c.name)
	dst = append(appendName(dst, "arguments"), '"')
	dst = append(append(dst, c.args...), '"', '}')
	dst = appendMember(dst, "encryptedValue", c.encrypted)
	if c.meta.set {
		dst = c.meta.appendJSON(appendName(dst, "metadata"))
	}
	return append(dst, '}')
}

// appendMember appends a member whose value is JSON already; an absent one ("") is left out.
func appendMember(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return append(appendName(dst, name), value...)
}

func appendName(dst []byte, name string) []byte {
	if n := len(dst); n > 0 && dst[n-1] != '{' {
		dst = append(dst, ',')
	}
	dst = append(dst, '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

// overhead is about what a message or a call costs beyond its content.
const overhead = 64

func (m *message) size() int {
	n := overhead + len(m.id) + len(m.text) + len(m.name) + len(m.toolCallID) + len(m.errorText) +
		len(m.activityType) + len(m.encrypted) + len(m.sub) + m.meta.size()
	if m.doc != nil {
		n += m.doc.size
	}
	for _, c := range m.calls {
		n += c.size()
	}
	return n
}

func (c *call) size() int {
	return overhead + len(c.id) + len(c.name) + len(c.args) + len(c.encrypted) + c.meta.size()
}

func (m *metadata) size() int {
	n := 0
	for _, mb := range m.members {
		n += len(mb.name) + len(mb.value) + 2
	}
	return n
}
