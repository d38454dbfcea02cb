package proptest

import (
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/runlog/runlog/event"
)

// model is what the state machine should be, written without regard to cost: every run is its
// list of events, and everything else is computed from that list each time.
type model struct {
	runs    map[event.RunID]*modelRun
	order   []event.RunID // of creation
	deleted map[event.RunID]bool
	now     event.Time
}

type modelRun struct {
	lapsed    bool
	thread    event.ThreadID
	events    []string
	epoch     event.Epoch
	holder    event.HolderID
	strict    bool
	producers map[event.ProducerID]*modelProducer
	metadata  map[string]int
	lost      bool // ended by the cluster, with events that the model does not foresee
}

type modelProducer struct {
	epoch uint64
	done  []modelAppend // by sequence number
}

type modelAppend struct {
	first, tail event.Offset
	body        uint64
}

func newModel() *model {
	return &model{runs: map[event.RunID]*modelRun{}, deleted: map[event.RunID]bool{}}
}

func (r *modelRun) ended() bool {
	return r.lost || len(r.events) > 0 && isTerminal(r.events[len(r.events)-1])
}

func isTerminal(raw string) bool {
	t := gjson.Get(raw, "type").Str
	return t == "RUN_FINISHED" || t == "RUN_ERROR"
}

// append returns the answer that the contract demands: a refusal's code and its data as text, or
// "ok first tail duplicate".
func (m *model) append(b *event.Batch) string {
	if m.deleted[b.Run] {
		return event.CodeRunDeleted
	}
	r := m.runs[b.Run]
	if r == nil {
		return m.appendFirst(b)
	}
	switch {
	case b.Epoch == nil && r.epoch > 0:
		return event.CodeEpochRequired
	case b.Epoch != nil && *b.Epoch != r.epoch:
		return event.CodeFenced
	}
	p := b.Producer
	var known *modelProducer
	if p != nil {
		if known = r.producers[p.ID]; known != nil {
			if p.Epoch < known.epoch {
				return event.CodeProducerFenced
			}
			if p.Epoch == known.epoch && p.Seq < uint64(len(known.done)) {
				was := known.done[p.Seq]
				if was.body != b.BodyHash {
					return event.CodeProducerConflict
				}
				return fmt.Sprint("ok ", was.first, was.tail, true)
			}
		}
	}
	if r.ended() {
		return event.CodeRunEnded
	}
	if b.Expect != nil && *b.Expect != event.Offset(len(r.events)) {
		return event.CodeOffsetConflict
	}
	if p != nil {
		want := 0
		if known != nil && known.epoch == p.Epoch {
			want = len(known.done)
		}
		if p.Seq != uint64(want) {
			return event.CodeProducerGap
		}
	}
	return r.write(b)
}

func (m *model) appendFirst(b *event.Batch) string {
	if gjson.GetBytes(b.Events[0].Raw, "type").Str != "RUN_STARTED" {
		return event.CodeRunNotFound
	}
	switch {
	case b.Epoch != nil && *b.Epoch > 0:
		return event.CodeFenced
	case b.Expect != nil && *b.Expect > 0:
		return event.CodeOffsetConflict
	case b.Producer != nil && b.Producer.Seq > 0:
		return event.CodeProducerGap
	}
	r := m.newRun(event.ThreadID(b.Run), true)
	answer := r.write(b)
	if answer[:2] == "ok" {
		m.add(b.Run, r)
	}
	return answer
}

func (m *model) newRun(thread event.ThreadID, strict bool) *modelRun {
	return &modelRun{thread: thread, strict: strict, producers: map[event.ProducerID]*modelProducer{}, metadata: map[string]int{}}
}

func (m *model) add(id event.RunID, r *modelRun) {
	m.runs[id] = r
	m.order = append(m.order, id)
}

func (r *modelRun) write(b *event.Batch) string {
	all := r.events
	for i, e := range b.Events {
		all = append(all[:len(all):len(all)], string(e.Raw))
		if !legal(all, r.strict) {
			return fmt.Sprint(event.CodeInvalidEvent, " ", i)
		}
	}
	r.lapsed = false // its holder goes on
	first := event.Offset(len(r.events))
	r.events = all
	tail := event.Offset(len(r.events))
	if p := b.Producer; p != nil {
		known := r.producers[p.ID]
		if known == nil || known.epoch != p.Epoch {
			known = &modelProducer{epoch: p.Epoch}
			r.producers[p.ID] = known
		}
		known.done = append(known.done, modelAppend{first, tail, b.BodyHash})
	}
	return fmt.Sprint("ok ", first, tail, false)
}

// legal judges a whole run by the contract's words for the events that the generators draw.
func legal(events []string, strict bool) bool {
	open, used, results := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, raw := range events {
		e := gjson.Parse(raw)
		kind, id := e.Get("type").Str, e.Get("messageId").Str
		if i > 0 && isTerminal(events[i-1]) {
			return false
		}
		if !strict {
			continue
		}
		if (i == 0) != (kind == "RUN_STARTED") {
			return false
		}
		call := "call " + e.Get("toolCallId").Str
		ok := true
		switch kind {
		case "TEXT_MESSAGE_START":
			ok = !used[id]
			used[id], open[id] = true, true
		case "TEXT_MESSAGE_CONTENT":
			ok = open[id]
		case "TEXT_MESSAGE_END":
			ok = open[id]
			delete(open, id)
		case "TOOL_CALL_START":
			ok = !used[call]
			used[call], open[call] = true, true
		case "TOOL_CALL_END":
			ok = open[call]
			delete(open, call)
		case "TOOL_CALL_RESULT":
			ok = !results[call]
			results[call] = true
		case "RUN_FINISHED":
			ok = len(open) == 0
		}
		if !ok {
			return false
		}
	}
	return true
}

// create returns what a CreateRun must answer.
func (m *model) create(c *event.CreateRun) string {
	if m.deleted[c.Run] {
		return event.CodeRunDeleted
	}
	r := m.runs[c.Run]
	if r == nil {
		if c.RejectBusy {
			for _, other := range m.runs {
				if other.thread == c.Thread && !other.ended() {
					return event.CodeThreadBusy
				}
			}
		}
		r = m.newRun(c.Thread, c.Grammar == event.GrammarStrict)
		if c.Started != nil {
			r.events = []string{string(c.Started.Raw)}
		}
		if c.Holder != "" {
			r.epoch, r.holder = 1, c.Holder
		}
		m.add(c.Run, r)
		return fmt.Sprint("ok created ", r.epoch)
	}
	switch {
	case r.thread != c.Thread:
		return event.CodeRunExists
	case c.Holder == "":
		return fmt.Sprint("ok ", r.epoch)
	case r.ended():
		return event.CodeRunEnded
	case r.held() && r.holder != c.Holder:
		return event.CodeLeaseHeld
	}
	return r.take(c.Holder)
}

func (r *modelRun) held() bool { return r.epoch > 0 && !r.lapsed && !r.lost }

func (r *modelRun) take(h event.HolderID) string {
	r.epoch++
	r.holder, r.lapsed = h, false
	return fmt.Sprint("ok ", r.epoch)
}

// acquire returns what an AcquireLease must answer.
func (m *model) acquire(c *event.AcquireLease) string {
	r := m.runs[c.Run]
	switch {
	case m.deleted[c.Run]:
		return event.CodeRunDeleted
	case r == nil:
		return event.CodeRunNotFound
	case c.IfEpoch != nil && *c.IfEpoch != r.epoch:
		return event.CodeFenced
	case r.ended():
		return event.CodeRunEnded
	case r.held() && r.holder != c.Holder && !c.Steal:
		return event.CodeLeaseHeld
	}
	return r.take(c.Holder)
}

// judge returns what a verdict must answer, and carries it out: it counts only if nothing happened
// to the run since.
func (m *model) judge(id event.RunID, epoch event.Epoch, tail event.Offset, expire bool) string {
	r := m.runs[id]
	if r == nil || r.epoch != epoch || event.Offset(len(r.events)) != tail || r.ended() || !expire && !r.held() {
		return event.CodeStaleVerdict
	}
	if !expire {
		r.lapsed = true
		return "ok"
	}
	r.lost = true
	return "ok"
}

func (m *model) delete(id event.RunID) string {
	r := m.runs[id]
	switch {
	case m.deleted[id]:
		return event.CodeRunDeleted
	case r == nil:
		return event.CodeRunNotFound
	case !r.ended():
		return event.CodeRunActive
	}
	delete(m.runs, id)
	m.deleted[id] = true
	for i, other := range m.order {
		if other == id {
			m.order = append(m.order[:i:i], m.order[i+1:]...)
			break
		}
	}
	return "ok"
}
