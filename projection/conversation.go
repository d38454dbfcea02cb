package projection

// conversation is the messages array, with the lookups that the reducer makes turned into
// indexes: "the first message with this id", "the first message that owns this call", "after
// the tool messages that follow it".
type conversation struct {
	head, tail *entry
	len        int
	byID       map[string]*entry  // first entry with the id
	calls      map[string]callRef // first call with the id
}

// entry is a place in the array. Two places may hold the same message: a MESSAGES_SNAPSHOT puts
// one message wherever its id stood, and the client then changes both at once.
type entry struct {
	msg  *message
	next *entry
	run  *toolRun // of a tool message: the unbroken sequence of tool messages around it
}

// toolRun is a longest sequence of adjacent tool messages; a result goes after its last.
type toolRun struct{ last *entry }

// callRef is a call and the message that owns it.
type callRef struct {
	owner *entry
	call  *call
}

func (c *conversation) reset() {
	*c = conversation{byID: make(map[string]*entry), calls: make(map[string]callRef)}
}

// push appends m.
func (c *conversation) push(m *message) *entry {
	e := &entry{msg: m}
	prev := c.tail
	if prev == nil {
		c.head = e
	} else {
		prev.next = e
	}
	c.tail = e
	c.len++
	if m.role == roleTool {
		if prev != nil && prev.run != nil {
			e.run = prev.run
		} else {
			e.run = new(toolRun)
		}
		e.run.last = e
	}
	if key := keyOf(m.id); c.byID[key] == nil {
		c.byID[key] = e
	}
	c.indexCalls(e)
	return e
}

func (c *conversation) indexCalls(e *entry) {
	for _, cl := range e.msg.calls {
		key := keyOf(cl.id)
		if _, ok := c.calls[key]; !ok {
			c.calls[key] = callRef{e, cl}
		}
	}
}

// insertResult puts a tool message behind its call's owner and the tool messages that follow it.
func (c *conversation) insertResult(owner *entry, m *message) {
	after := owner
	if owner.next != nil && owner.next.run != nil {
		after = owner.next.run.last
	}
	if after == c.tail {
		c.push(m)
		return
	}
	e := &entry{msg: m, next: after.next, run: after.run}
	if e.run == nil {
		e.run = new(toolRun)
	}
	e.run.last = e
	after.next = e
	c.len++
	key := keyOf(m.id)
	if other := c.byID[key]; other == nil || e.before(other) {
		c.byID[key] = e
	}
}

// before reports whether e stands before o. It walks; only a repeated id asks.
func (e *entry) before(o *entry) bool {
	for n := e.next; n != nil; n = n.next {
		if n == o {
			return true
		}
	}
	return false
}

// addCall appends a call that the conversation does not know to e's message.
func (c *conversation) addCall(e *entry, cl *call) {
	e.msg.hasCalls = true
	e.msg.calls = append(e.msg.calls, cl)
	c.calls[keyOf(cl.id)] = callRef{e, cl}
}

// rebuild replaces the array.
func (c *conversation) rebuild(msgs []*message) {
	c.reset()
	for _, m := range msgs {
		c.push(m)
	}
}

// replace puts m in e's place.
func (c *conversation) replace(e *entry, m *message) {
	was := e.msg
	e.msg = m
	if was.role == roleTool || len(was.calls) > 0 {
		c.rebuild(c.list())
	}
}

func (c *conversation) list() []*message {
	msgs := make([]*message, 0, c.len)
	for e := c.head; e != nil; e = e.next {
		msgs = append(msgs, e.msg)
	}
	return msgs
}
