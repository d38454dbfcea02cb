package fsm

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/runlog/runlog/event"
)

// The stream of changes is a log of records like a run's, under the one stream id that no command
// gives. What is kept of it is decided in Apply, by log time alone, so that all nodes keep the same:
// whole hours, once the last of an hour's changes is over changesKept old.
const (
	changesKept = 24 * changesHour
	changesHour = event.Time(60 * 60 * 1000)
)

// changesID is the stream of changes; a run's id holds its log index, which is never 0.
var changesID streamID

// changeLog is the head of the stream of changes, kept in [meta].
type changeLog struct {
	first event.Offset // the oldest that is kept
	tail  event.Offset
	chain uint64
	hours []changeHour // in which there were changes, oldest first; never changed in place
}

// changeHour is where an hour's changes begin.
type changeHour struct {
	hour  event.Time // log time / changesHour
	first event.Offset
}

// maxChangeHours bounds what is read back: the hours kept, the one under way and one to spare.
const maxChangeHours = int(changesKept/changesHour) + 2

func (c *changeLog) encode(e *enc) {
	e.uv(uint64(c.first))
	e.uv(uint64(c.tail))
	e.u64(c.chain)
	e.uv(uint64(len(c.hours)))
	for _, h := range c.hours {
		e.iv(int64(h.hour))
		e.uv(uint64(h.first))
	}
}

func (c *changeLog) decode(d *dec) {
	c.first, c.tail, c.chain = event.Offset(d.uv()), event.Offset(d.uv()), d.u64()
	n := d.uv()
	if n > uint64(maxChangeHours) {
		d.bad = true
		return
	}
	for range n {
		c.hours = append(c.hours, changeHour{event.Time(d.iv()), event.Offset(d.uv())})
	}
}

// trim forgets the hours that are over changesKept ago, and notes the present one.
func (c *changeLog) trim(now event.Time) {
	hours := c.hours
	for len(hours) > 0 && (hours[0].hour+1)*changesHour+changesKept <= now {
		hours = hours[1:]
	}
	hour := now / changesHour
	if len(hours) == 0 || hours[len(hours)-1].hour != hour {
		hours = append(hours[:len(hours):len(hours)], changeHour{hour, c.tail})
	}
	c.hours, c.first = hours, hours[0].first
}

// tell adds one message to the stream of changes: the run right after what happened to it.
func (a *applier) tell(kind event.ChangeKind, r *run) {
	raw, err := json.Marshal(event.Change{
		Change: kind, RunID: r.id, ThreadID: r.thread, Status: r.status,
		Epoch: r.epoch, Holder: r.holder, Tail: r.tail, Time: a.now,
	})
	if err != nil {
		panic(fmt.Sprintf("fsm: encode a change: %v", err))
	}
	c := &a.m.active.meta.changes
	c.trim(a.now)
	log := &logHead{sid: changesID, tail: c.tail, chain: c.chain}
	a.m.active.addRecord(log, 0, a.now, raw)
	c.tail, c.chain = log.tail, log.chain
	a.told = true
}

// Changes reads the stream of changes from offset from: at most most messages. A from before the
// oldest that is kept, or at or beyond the tail, gets none: the page says where the stream begins and ends.
func (m *Machine) Changes(ctx context.Context, from event.Offset, most int) (event.ChangePage, error) {
	m.mu.RLock()
	if m.store == nil {
		m.mu.RUnlock()
		return event.ChangePage{}, errClosed
	}
	c := m.active.meta.changes
	s := m.logRead(&logHead{sid: changesID, tail: c.tail})
	m.store.readers.Add(1)
	m.mu.RUnlock()
	defer s.store.readers.Done()
	page := event.ChangePage{First: c.first, Tail: c.tail}
	if from < c.first || from >= c.tail || most <= 0 {
		return page, nil
	}
	var damage error
	err := s.each(ctx, from, func(r event.Record) bool {
		var change event.Change
		if err := json.Unmarshal(r.Raw, &change); err != nil {
			damage = fmt.Errorf("%w: change %d: %v", ErrDamaged, r.Offset, err)
			return false
		}
		page.Changes = append(page.Changes, change)
		return len(page.Changes) < most
	})
	if damage != nil {
		err = damage
	}
	if err != nil && m.trimmedPast(from) {
		return m.Changes(ctx, from, most) // it went while it was read
	}
	return page, m.noteDamage(err)
}

func (m *Machine) trimmedPast(from event.Offset) bool { return from < m.meta().changes.first }

// sweepChanges removes segments whose changes are all forgotten.
func (c *chores) sweepChanges() (bool, error) {
	st := c.m.store
	mt := c.m.meta()
	first := mt.changes.first
	if first == 0 || c.m.Flushed() < mt.index { // only what a restart would forget too
		return false, nil
	}
	keys, err := st.appendKeys(nil, sidKey(keySegment, changesID), doomedKeys)
	if err != nil {
		return false, err
	}
	// A segment ends where the next one begins; the last one found stays.
	n := 0
	for n+1 < len(keys) && offsetOf(keys[n+1]) <= first {
		n++
	}
	if n == 0 {
		return false, nil
	}
	return true, st.remove(keys[:n])
}
