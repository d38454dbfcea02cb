package projection

import (
	"strconv"

	"github.com/runlog/runlog/event"
)

// toolsFold folds events into the history of a run's tool calls. A call that only stands in a
// message (of a snapshot or of the run's input) was not made by the run and is not listed.
type toolsFold struct {
	lanes lanes
	list  []*toolCall // in the order of starting
	byID  map[string]*toolCall
	// started holds the calls that the present run started, as the client's own tally does.
	started []*toolCall
	run     string // JSON string: the thread's run being folded; "" when one run is folded alone
	bytes   int
}

// toolCall is one call. String members are JSON strings; "" where absent.
type toolCall struct {
	id, name, parent, sub string
	args                  []byte // body of a JSON string
	started               moment
	ended                 *moment
	resulted              *moment
	resultMessageID       string
	result                string // JSON value; "" when the result carried no content
	interrupted           bool   // the cluster closed it
	pending               bool   // its run ended, and the client owes the result
	run, resultRun        string // of a thread: the runs that made it and that answered it
	inRun                 bool   // it is in toolsFold.started
	again                 bool   // a later run started it again, and has sent no arguments yet
}

// moment is an event's place and time.
type moment struct {
	offset event.Offset
	at     event.Time
}

func newTools() *toolsFold { return &toolsFold{byID: make(map[string]*toolCall)} }

// Apply folds one record in.
func (t *toolsFold) Apply(r event.Record) {
	var f fields
	if !f.parse(r.Raw) {
		return
	}
	s := t.lanes.take(&f)
	if s.reject {
		return
	}
	now := moment{r.Offset, r.Time}
	for _, ln := range s.closed {
		if ln.kind == streamTool {
			t.end([]byte(ln.key), now)
		}
	}
	if s.lane != nil {
		t.chunk(&f, s, now)
		return
	}
	switch f.typ {
	case event.TypeToolCallStart:
		t.start(string(f.get(fToolCallID)), string(f.get(fToolCallName)),
			string(f.get(fParentMessageID)), string(f.get(fSubagent)), now)
	case event.TypeToolCallArgs:
		t.arguments(f.key(fToolCallID), f.body(fDelta))
	case event.TypeToolCallEnd:
		t.end(f.key(fToolCallID), now)
	case event.TypeToolCallResult:
		t.result(&f, now)
	case event.TypeRunStarted:
		t.leaveRun()
		t.inputResults(&f, now)
	case event.TypeRunFinished:
		t.finish(f.get(fOutcome))
	}
}

func (t *toolsFold) chunk(f *fields, s step, now moment) {
	if s.lane.kind != streamTool {
		return
	}
	if s.start {
		t.start(s.lane.id, s.lane.name, s.lane.parent, s.lane.sub, now)
	}
	t.arguments([]byte(s.lane.key), f.body(fDelta))
}

// start lists a call, or opens a listed one again. Its arguments then go on, as in the transcript;
// when it is another run that started it again they are told anew, not added to.
func (t *toolsFold) start(id, name, parent, sub string, now moment) {
	c := t.byID[keyOf(id)]
	if c == nil {
		c = &toolCall{id: id, name: name, parent: parent, sub: sub, run: t.run, started: now}
		t.byID[keyOf(id)] = c
		t.list = append(t.list, c)
		t.bytes += 2*overhead + len(id) + len(name) + len(parent) + len(sub) + len(t.run)
	} else {
		c.name = name
		c.ended = nil
		c.again = !c.inRun && len(c.args) > 0
	}
	if !c.inRun {
		c.inRun = true
		t.started = append(t.started, c)
	}
}

func (t *toolsFold) arguments(key, body []byte) {
	if c := t.byID[string(key)]; c != nil {
		if c.again && len(body) > 0 {
			t.bytes -= len(c.args)
			c.args, c.again = nil, false
		}
		c.args = append(c.args, body...)
		t.bytes += len(body)
	}
}

func (t *toolsFold) end(key []byte, now moment) {
	if c := t.byID[string(key)]; c != nil && c.ended == nil {
		c.ended = &now
	}
}

// result answers a call; the first result counts.
func (t *toolsFold) result(f *fields, now moment) {
	c := t.byID[string(f.key(fToolCallID))]
	if c == nil || c.resulted != nil {
		return
	}
	t.answer(c, string(f.get(fMessageID)), string(f.get(fContent)), now)
	if string(memberOf(f.get(fMetadata), "interrupted")) == "true" {
		c.interrupted = true
		if c.ended == nil {
			c.ended = &now
		}
	}
}

func (t *toolsFold) answer(c *toolCall, messageID, content string, now moment) {
	c.resulted, c.pending, c.resultRun = &now, false, t.run
	c.resultMessageID, c.result = messageID, content
	t.bytes += len(content) + len(messageID) + len(t.run)
}

// inputResults takes in what the client answered: a tool message in the input of a run answers the
// call of an earlier one.
func (t *toolsFold) inputResults(f *fields, now moment) {
	if len(t.list) == 0 || !isObject(f.get(fInput)) {
		return
	}
	msgs, _ := parseMessages(memberOf(f.get(fInput), "messages"))
	for _, m := range msgs {
		if m.role != roleTool {
			continue
		}
		if c := t.byID[keyOf(m.toolCallID)]; c != nil && c.resulted == nil && !m.envelope() {
			t.answer(c, m.id, string(m.appendContent(nil)), now)
		}
	}
}

func (t *toolsFold) leaveRun() {
	for _, c := range t.started {
		c.inRun = false
	}
	t.started = t.started[:0]
}

// finish marks the calls whose results the client owes after a RUN_FINISHED: those that a
// success names, else those that the run started and nobody answered; those that interrupts
// name. A cancelled run owes nothing.
func (t *toolsFold) finish(outcome []byte) {
	switch kind := memberOf(outcome, "type"); string(keyBytes(kind)) {
	case "cancelled":
	case "interrupt":
		it := elements(memberOf(outcome, "interrupts"))
		for v, ok := it.next(); ok; v, ok = it.next() {
			t.owe(memberOf(v, "toolCallId"))
		}
	default:
		named := elements(memberOf(outcome, "pendingToolCallIds"))
		v, some := named.next()
		if !some || string(keyBytes(kind)) != "success" {
			for _, c := range t.started {
				c.pending = c.resulted == nil
			}
			return
		}
		for ; some; v, some = named.next() {
			t.owe(v)
		}
	}
}

func (t *toolsFold) owe(id []byte) {
	if !isString(id) {
		return
	}
	if c := t.byID[string(keyBytes(id))]; c != nil && c.resulted == nil {
		c.pending = true
	}
}

// status is the contract's word for where the call stands.
func (c *toolCall) status() string {
	switch {
	case c.interrupted:
		return "interrupted"
	case c.resulted != nil:
		return "completed"
	case c.pending:
		return "pending"
	case c.ended != nil:
		return "called"
	}
	return "streaming"
}

// AppendJSON appends the array of calls.
func (t *toolsFold) AppendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	for i, c := range t.list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = c.appendJSON(dst)
	}
	return append(dst, ']')
}

func (c *toolCall) appendJSON(dst []byte) []byte {
	dst = append(dst, '{')
	dst = appendMember(dst, "toolCallId", orEmpty(c.id))
	dst = appendMember(dst, "runId", c.run)
	dst = appendMember(dst, "name", orEmpty(c.name))
	dst = append(appendName(dst, "arguments"), '"')
	dst = append(append(dst, c.args...), '"')
	dst = appendMember(dst, "status", `"`+c.status()+`"`)
	dst = appendMember(dst, "parentMessageId", c.parent)
	dst = appendMember(dst, "subagentRunId", c.sub)
	dst = appendMoment(dst, "started", &c.started)
	dst = appendMoment(dst, "ended", c.ended)
	dst = appendMoment(dst, "result", c.resulted)
	if c.resultRun != c.run {
		dst = appendMember(dst, "resultRunId", c.resultRun)
	}
	dst = appendMember(dst, "resultMessageId", c.resultMessageID)
	dst = appendMember(dst, "result", c.result)
	return append(dst, '}')
}

func appendMoment(dst []byte, what string, m *moment) []byte {
	if m == nil {
		return dst
	}
	dst = strconv.AppendUint(appendName(dst, what+"Offset"), uint64(m.offset), 10)
	return strconv.AppendInt(appendName(dst, what+"At"), int64(m.at), 10)
}

func orEmpty(s string) string {
	if s == "" {
		return `""`
	}
	return s
}

// Size estimates the serialised size in bytes.
func (t *toolsFold) Size() int { return t.bytes + overhead }
