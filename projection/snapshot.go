package projection

// messagesSnapshot merges a MESSAGES_SNAPSHOT: local messages keep their order, those that the
// snapshot does not name go (but see keeps), those it names are replaced in place, and new ones
// follow in the snapshot's order.
func (t *transcriptFold) messagesSnapshot(f *fields) {
	snapshot, ok := parseMessages(f.get(fMessages))
	if !ok {
		return
	}
	last := make(map[string]*message, len(snapshot)) // of a repeated id, the last
	var has omissions
	quoted := make(map[string]bool) // ids that an envelope repeats: they say that the message is still there
	for _, m := range snapshot {
		if m.envelope() {
			quoted[keyOf(m.id)] = true
			continue
		}
		last[keyOf(m.id)] = m
		has.activity = has.activity || m.role == roleActivity
		has.reasoning = has.reasoning || m.role == roleReasoning
	}
	has.owned, has.ownsAll, has.declared = activityAuthority(f.get(fMetadata))

	msgs := make([]*message, 0, max(t.conv.len, len(snapshot)))
	present := make(map[string]bool, len(msgs))
	for e := t.conv.head; e != nil; e = e.next {
		key := keyOf(e.msg.id)
		m := last[key]
		switch {
		case m != nil:
			m.shared = present[key]
		case quoted[key], has.keeps(e.msg):
			m = e.msg
		default:
			continue
		}
		present[key] = true
		msgs = append(msgs, m)
	}
	for _, m := range snapshot {
		if !present[keyOf(m.id)] && !m.envelope() {
			msgs = append(msgs, m)
		}
	}
	t.conv.rebuild(msgs)
	t.bytes = 0
	for _, m := range msgs {
		t.bytes += m.size()
	}
}

// omissions decides what a message's absence from a snapshot means.
type omissions struct {
	activity, reasoning bool            // the snapshot carries such messages
	declared, ownsAll   bool            // its metadata declares what activities it owns; all of them
	owned               map[string]bool // by key of the activity type
}

// keeps reports whether a local message outlives a snapshot that does not name it: a host that
// sends no activity (or reasoning) in its snapshots does not know of them.
func (o *omissions) keeps(m *message) bool {
	switch m.role {
	case roleReasoning:
		return !o.reasoning
	case roleActivity:
		if o.declared {
			return !o.ownsAll && !o.owned[keyOf(m.activityType)]
		}
		return !o.activity
	}
	return false
}

// activityAuthority reads metadata["@ag-ui/client"].authoritativeActivityTypes: null owns every
// type, an array its own, anything else none. It is the client package's own convention.
func activityAuthority(meta []byte) (owned map[string]bool, all, declared bool) {
	ns := memberOf(meta, "@ag-ui/client")
	if ns == nil {
		return nil, false, false
	}
	if !isObject(ns) {
		return nil, false, true
	}
	types := memberOf(ns, "authoritativeActivityTypes")
	if types == nil {
		return nil, false, false
	}
	if isNull(types) {
		return nil, true, true
	}
	owned = make(map[string]bool)
	it := elements(types)
	for {
		v, ok := it.next()
		if !ok {
			return owned, false, true
		}
		if !isString(v) {
			return nil, false, true
		}
		owned[string(keyBytes(v))] = true
	}
}

// memberOf returns the value of an object's member (of a repeated one, the last), or nil.
func memberOf(obj []byte, want string) []byte {
	var found []byte
	it := members(obj)
	for {
		name, value, ok := it.next()
		if !ok {
			return found
		}
		if string(nameBytes(name)) == want {
			found = value
		}
	}
}

// runStarted appends the messages of the run's input that the conversation does not hold yet. An
// envelope is not entered: it repeats what the log holds.
func (t *transcriptFold) runStarted(f *fields) {
	t.turn++
	if !isObject(f.get(fInput)) {
		return
	}
	raw := memberOf(f.get(fInput), "messages")
	if raw == nil {
		return
	}
	msgs, ok := parseMessages(raw)
	if !ok {
		return
	}
	for _, m := range msgs {
		if t.conv.byID[keyOf(m.id)] == nil && !m.envelope() {
			t.push(m)
		}
	}
}
