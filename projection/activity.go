package projection

// activitySnapshot makes an activity message, or replaces one unless the event says
// replace: false; over a message of another role it takes its place.
func (t *transcriptFold) activitySnapshot(f *fields) {
	replace := string(f.get(fReplace)) != "false"
	e := t.conv.byID[string(f.key(fMessageID))]
	switch {
	case e == nil:
		e = t.push(newActivity(f))
	case e.msg.role == roleActivity && replace:
		// A new value: another place that shares the message keeps the old one.
		m := *e.msg
		m.meta = e.msg.meta.clone()
		m.doc, m.activityType = newDocument(f.get(fContent)), string(f.get(fActivityType))
		m.sub = string(f.get(fSubagent))
		t.bytes += m.size() - e.msg.size()
		e.msg = &m
	case e.msg.role != roleActivity && replace:
		m := newActivity(f)
		t.bytes += m.size() - e.msg.size()
		t.conv.replace(e, m)
		e = t.conv.byID[string(f.key(fMessageID))]
	case e.msg.role != roleActivity:
		return
	}
	t.bytes += e.msg.meta.merge(f.get(fMetadata))
}

func newActivity(f *fields) *message {
	return &message{
		id: string(f.get(fMessageID)), role: roleActivity, kind: contentDoc,
		doc: newDocument(f.get(fContent)), activityType: string(f.get(fActivityType)),
		sub: string(f.get(fSubagent)),
	}
}

// activityDelta patches an activity's content, all or nothing. The metadata counts even when the
// patch does not apply.
func (t *transcriptFold) activityDelta(f *fields) {
	e := t.conv.byID[string(f.key(fMessageID))]
	if e == nil || e.msg.role != roleActivity {
		return
	}
	p, ok := parsePatch(f.get(fPatch))
	if !ok {
		return // malformed, as opposed to not applicable: the whole event is
	}
	t.bytes += e.msg.meta.merge(f.get(fMetadata))
	m := *e.msg
	if t.shared(e) {
		m.doc = m.doc.clone()
		m.meta = m.meta.clone()
	}
	before := m.doc.size
	if !m.doc.apply(p) {
		return
	}
	m.activityType = string(f.get(fActivityType))
	t.bytes += m.doc.size - before
	e.msg = &m
}

// shared reports whether another place in the array may hold e's message too.
func (t *transcriptFold) shared(e *entry) bool { return e.msg.shared }

func (m *metadata) clone() metadata {
	c := metadata{set: m.set}
	for _, mb := range m.members {
		c.add(mb)
	}
	return c
}
