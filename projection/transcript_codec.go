package projection

// transcriptVersion is the layout that MarshalBinary writes: the messages (each once), their
// places in the array, the number of runs, the open chunk streams, the open spans.
const transcriptVersion = 2

// MarshalBinary returns the fold.
func (t *transcriptFold) MarshalBinary() ([]byte, error) {
	e := newEncoder(KindTranscript, transcriptVersion, t.Size())
	number := make(map[*message]int, t.conv.len)
	var table []*message
	var places []int
	for n := t.conv.head; n != nil; n = n.next {
		i, ok := number[n.msg]
		if !ok {
			i = len(table)
			number[n.msg] = i
			table = append(table, n.msg)
		}
		places = append(places, i)
	}
	e.uint(uint64(len(table)))
	for _, m := range table {
		e.message(m)
	}
	e.uint(uint64(len(places)))
	for _, i := range places {
		e.uint(uint64(i))
	}
	e.uint(t.turn)
	e.lanes(&t.lanes)
	e.spans(&t.spans)
	return e.out, nil
}

// UnmarshalBinary replaces the fold.
func (t *transcriptFold) UnmarshalBinary(data []byte) error {
	d, err := newDecoder(KindTranscript, transcriptVersion, data)
	if err != nil {
		return err
	}
	n := newTranscript()
	table := make([]*message, d.count())
	for i := range table {
		table[i] = d.message()
	}
	for range d.count() {
		i := d.uint()
		if i >= uint64(len(table)) {
			return ErrCorrupt
		}
		n.push(table[i])
	}
	n.turn = d.uint()
	d.lanes(&n.lanes)
	d.spans(&n.spans)
	if err := d.end(); err != nil {
		return err
	}
	*t = *n
	return nil
}

func (e *encoder) message(m *message) {
	e.string(m.id)
	e.byte(byte(m.role))
	e.byte(byte(m.kind))
	switch m.kind {
	case contentText, contentJSON:
		e.bytes(m.text)
	case contentDoc:
		e.bytes(m.doc.appendJSON(nil))
	}
	e.string(m.name)
	e.bool(m.hasCalls)
	e.uint(uint64(len(m.calls)))
	for _, c := range m.calls {
		e.string(c.id)
		e.string(c.name)
		e.bytes(c.args)
		e.string(c.encrypted)
		e.uint(c.turn)
		e.uint(uint64(c.again))
		e.metadata(&c.meta)
	}
	e.string(m.toolCallID)
	e.string(m.errorText)
	e.string(m.activityType)
	e.string(m.encrypted)
	e.string(m.sub)
	e.bool(m.shared)
	e.metadata(&m.meta)
}

func (d *decoder) message() *message {
	m := &message{id: d.raw(), role: role(d.byte()), kind: contentKind(d.byte())}
	switch m.kind {
	case contentNone:
	case contentText, contentJSON:
		m.text = d.copy()
	case contentDoc:
		m.doc = newDocument(d.bytes())
	default:
		d.bad = true
	}
	if m.role == roleNone || m.role > roleActivity || (m.role == roleActivity) != (m.kind == contentDoc) {
		d.bad = true
	}
	m.name = d.raw()
	m.hasCalls = d.bool()
	for range d.count() {
		c := &call{id: d.raw(), name: d.raw(), args: d.copy(), encrypted: d.raw(), turn: d.uint()}
		if again := d.uint(); again <= uint64(len(c.args)) {
			c.again = int(again)
		} else {
			d.bad = true
		}
		d.metadata(&c.meta)
		m.calls = append(m.calls, c)
	}
	m.toolCallID = d.raw()
	m.errorText = d.raw()
	m.activityType = d.raw()
	m.encrypted = d.raw()
	m.sub = d.raw()
	m.shared = d.bool()
	d.metadata(&m.meta)
	return m
}

func (e *encoder) metadata(m *metadata) {
	e.bool(m.set)
	e.uint(uint64(len(m.members)))
	for _, mb := range m.members {
		e.string(mb.name)
		e.string(mb.value)
	}
}

func (d *decoder) metadata(m *metadata) {
	m.set = d.bool()
	for range d.count() {
		mb := member{name: d.raw(), value: d.string()}
		mb.key = keyOf(mb.name)
		m.add(mb)
	}
}

func (e *encoder) lanes(l *lanes) {
	e.uint(uint64(len(l.open)))
	for _, ln := range l.open {
		e.byte(byte(ln.kind))
		for _, s := range []string{ln.sub, ln.id, ln.role, ln.name, ln.parent} {
			e.string(s)
		}
	}
}

func (d *decoder) lanes(l *lanes) {
	for range d.count() {
		ln := &lane{kind: streamKind(d.byte())}
		for _, p := range []*string{&ln.sub, &ln.id, &ln.role, &ln.name, &ln.parent} {
			*p = d.raw()
		}
		ln.owner, ln.key = keyOf(ln.sub), keyOf(ln.id)
		if ln.kind < streamText || ln.kind > streamReasoning || (ln.kind == streamText) != (ln.role != "") {
			d.bad = true
		}
		l.open = append(l.open, ln)
	}
}

func (e *encoder) spans(s *spans) {
	keys := s.keys()
	e.uint(uint64(len(keys)))
	for _, k := range keys {
		e.byte(byte(k.kind))
		e.string(k.owner)
		e.string(k.id)
		e.string(s.open[k].start)
		e.string(s.open[k].end)
	}
}

func (d *decoder) spans(s *spans) {
	for range d.count() {
		k := spanKey{kind: spanKind(d.byte()), owner: d.string(), id: d.string()}
		s.put(k, &span{seq: s.seq, start: d.string(), end: d.string()})
	}
}
