package projection

// parseMessages reads a messages array as the client's enforcement leaves it: members that the
// protocol does not describe are dropped, and so are messages of a role that it does not know.
// It reports false where the client gives up: a described member of the wrong shape. (An
// optional one that is null reads as absent; producers older than 1.0 write them so.)
func parseMessages(raw []byte) ([]*message, bool) {
	var msgs []*message
	it := elements(raw)
	for {
		v, ok := it.next()
		if !ok {
			return msgs, !it.bad
		}
		if !isObject(v) {
			return nil, false
		}
		m, ok := parseMessage(v)
		if !ok {
			return nil, false
		}
		if m != nil {
			msgs = append(msgs, m)
		}
	}
}

// parseMessage returns nil for a message of an unknown role.
func parseMessage(raw []byte) (*message, bool) {
	m := new(message)
	if r := memberOf(raw, "role"); isString(r) {
		m.role = roleOf(r[1 : len(r)-1])
	}
	if m.role == roleNone {
		return nil, true
	}
	it := members(raw)
	for {
		name, v, ok := it.next()
		if !ok {
			break
		}
		if !m.set(string(nameBytes(name)), v) {
			return nil, false
		}
	}
	if m.role == roleActivity && m.doc == nil {
		return nil, false
	}
	m.cutEnvelope()
	return m, !it.bad
}

// set takes one member in; it reports false when the member is malformed.
func (m *message) set(name string, v []byte) bool {
	switch name {
	case "content":
		return m.setContent(v)
	case "metadata":
		if isNull(v) {
			return true
		}
		m.meta = metadata{}
		m.meta.merge(v)
		return isObject(v)
	case "toolCalls":
		if m.role != roleAssistant || isNull(v) {
			return true
		}
		var ok bool
		m.calls, ok = parseCalls(v)
		m.hasCalls = true
		return ok
	}
	if p := m.stringMember(name); p != nil && !isNull(v) {
		*p = string(v)
		return isString(v)
	}
	return true
}

// stringMember returns where a string member of a message of this role is held, or nil when the
// role has no such member.
func (m *message) stringMember(name string) *string {
	switch name {
	case "id":
		return &m.id
	case "subagentRunId":
		return &m.sub
	case "name":
		if m.role <= roleUser {
			return &m.name
		}
	case "encryptedValue":
		if m.role != roleActivity {
			return &m.encrypted
		}
	case "toolCallId":
		if m.role == roleTool {
			return &m.toolCallID
		}
	case "error":
		if m.role == roleTool {
			return &m.errorText
		}
	case "activityType":
		if m.role == roleActivity {
			return &m.activityType
		}
	}
	return nil
}

// setContent sets content to a JSON value (nil: none) of a shape that the role allows.
func (m *message) setContent(v []byte) bool {
	m.kind, m.text, m.doc = contentNone, nil, nil
	switch {
	case v == nil || isNull(v):
		return true
	case m.role == roleActivity:
		if !isObject(v) {
			return false
		}
		m.kind, m.doc = contentDoc, newDocument(v)
	case isString(v):
		m.kind, m.text = contentText, append([]byte(nil), v[1:len(v)-1]...)
	case isArray(v) && (m.role == roleUser || m.role == roleTool):
		parts, ok := cleanParts(v)
		if !ok {
			return false
		}
		m.kind, m.text = contentJSON, parts
	default:
		return false
	}
	return true
}

func parseCalls(raw []byte) ([]*call, bool) {
	var calls []*call
	it := elements(raw)
	for {
		v, ok := it.next()
		if !ok {
			return calls, !it.bad
		}
		c, ok := parseCall(v)
		if !ok {
			return nil, false
		}
		calls = append(calls, c)
	}
}

func parseCall(raw []byte) (*call, bool) {
	c := new(call)
	it := members(raw)
	function := false
	for {
		name, v, ok := it.next()
		if !ok {
			return c, !it.bad && function
		}
		switch string(nameBytes(name)) {
		case "id":
			c.id = string(v)
			ok = isString(v)
		case "encryptedValue":
			if ok = isString(v); ok {
				c.encrypted = string(v)
			}
			ok = ok || isNull(v)
		case "metadata":
			c.meta = metadata{}
			c.meta.merge(v)
			ok = isObject(v) || isNull(v)
		case "function":
			function = true
			ok = c.setFunction(v)
		}
		if !ok {
			return nil, false
		}
	}
}

func (c *call) setFunction(raw []byte) bool {
	name, args := memberOf(raw, "name"), memberOf(raw, "arguments")
	if !isString(name) || !isString(args) {
		return false
	}
	c.name, c.args = string(name), append([]byte(nil), args[1:len(args)-1]...)
	return true
}
