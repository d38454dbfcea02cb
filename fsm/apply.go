package fsm

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

var _ raft.BatchingFSM = (*Machine)(nil)

// ApplyBatch applies entries in order; Raft's FSM goroutine calls it. The answer to a command
// entry is a []event.Result, one per command, or nil for an entry that was applied before (after a
// restart, when nobody waits for the answer). An entry that cannot be decoded, or state that cannot
// be read, panics with index and term: skipping it would make the nodes differ.
func (m *Machine) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	for i, l := range logs {
		if l.Type == raft.LogCommand {
			answers[i] = m.Apply(l)
		} else {
			m.advance(l)
		}
	}
	return answers
}

// Apply applies one command entry; see [Machine.ApplyBatch].
func (m *Machine) Apply(l *raft.Log) any {
	if l.Index <= m.applied.get() {
		return nil
	}
	entry, err := event.DecodeEntry(l.Data)
	if err != nil {
		panic(fmt.Sprintf("fsm: entry at index %d, term %d: %v", l.Index, l.Term, err))
	}
	start := m.metrics.applyStart()
	m.mu.Lock()
	m.waitForRoom()
	a := applier{m: m, index: l.Index}
	results := a.entry(l, entry)
	m.appliedAt = time.Now() // for views alone: see clocksNow
	cut := m.active.wantsCut()
	m.mu.Unlock()

	m.applied.set(l.Index)
	m.watches.wake(a.touched, a.threads, a.told)
	if len(a.leases) > 0 && m.onLease != nil {
		m.onLease(l.Term, a.leases)
	}
	if cut {
		m.flusher.hurry()
	}
	m.metrics.applied(start, len(results))
	return results
}

// waitForRoom holds Apply back while the active overlay is full and the frozen one is not yet
// flushed; what is in memory alone stays bounded.
func (m *Machine) waitForRoom() {
	for m.stopped == nil && m.active.full() {
		if m.frozen == nil {
			m.cut()
			m.flusher.hurry()
			return
		}
		m.metrics.stalls.Inc()
		m.changed.Wait()
	}
	if m.stopped != nil {
		panic(fmt.Sprintf("fsm: stopped: %v", m.stopped))
	}
}

// advance takes note of an entry that carries no command.
func (m *Machine) advance(l *raft.Log) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.Index <= m.active.meta.index {
		return
	}
	m.active.meta.index, m.active.meta.term = l.Index, l.Term
	m.applied.set(l.Index)
}

// applier applies one entry. It runs under the machine's lock.
type applier struct {
	m       *Machine
	index   uint64
	now     event.Time
	effects xxhash.Digest
	touched []event.RunID    // runs whose tails must be woken
	threads []event.ThreadID // and threads
	told    bool             // the stream of changes grew
	leases  []event.LeaseView
}

func (a *applier) entry(l *raft.Log, e event.Entry) []event.Result {
	mt := &a.m.active.meta
	mt.index, mt.term = l.Index, l.Term
	if !beginsTerm(e) {
		mt.uptime += max(0, int64(e.Time-mt.now))
	}
	mt.now = max(mt.now, e.Time)
	a.now = mt.now
	a.effects.Reset()
	a.effect(mt.stateHash, l.Index, uint64(mt.now))
	results := make([]event.Result, len(e.Commands))
	for i, c := range e.Commands {
		r, err := a.command(i, c)
		if err != nil {
			panic(fmt.Sprintf("fsm: command %d of index %d, term %d: %v", i, l.Index, l.Term, err))
		}
		r.Index = l.Index
		if r.Refusal != nil {
			a.effects.WriteString(r.Refusal.Code())
		}
		results[i] = r
	}
	if a.told {
		a.effect(uint64(mt.changes.first), uint64(mt.changes.tail), mt.changes.chain)
	}
	mt.stateHash = a.effects.Sum64()
	mt.names, mt.nameSum = uint64(len(a.m.names.set)), a.m.names.sum
	mt.streams = a.m.streamNames.proof()
	mt.threads, mt.threadSum = uint64(len(a.m.threads.set)), a.m.threads.sum
	return results
}

// beginsTerm reports whether the entry opens a leader's term: the time before it was nobody's.
func beginsTerm(e event.Entry) bool {
	for _, c := range e.Commands {
		if _, ok := c.(event.LeaderStart); ok {
			return true
		}
	}
	return false
}

// command dispatches on the kind: one file per command. An error is damage; refusals are results.
func (a *applier) command(position int, c event.Command) (event.Result, error) {
	switch c := c.(type) {
	case *event.Append:
		return a.append(position, &c.Batch)
	case event.CreateRun:
		return a.createRun(position, &c)
	case event.PatchRun:
		return a.patchRun(&c)
	case event.DeleteRun:
		return a.deleteRun(&c)
	case event.DeleteThread:
		return a.deleteThread(&c)
	case event.LeaderStart:
		return a.leaderStart(&c)
	}
	if r, err, ok := a.leaseCommand(c); ok {
		return r, err
	}
	if r, err, ok := a.streamCommand(position, c); ok {
		return r, err
	}
	if r, err, ok := a.subscriptionCommand(position, c); ok {
		return r, err
	}
	if r, err, ok := a.runStreamCommand(position, c); ok {
		return r, err
	}
	if a.rosterCommand(c) {
		return event.Result{}, nil
	}
	return event.Result{}, fmt.Errorf("no rule for command kind %d", c.Kind())
}

// effect mixes numbers that describe what changed into the state hash.
func (a *applier) effect(numbers ...uint64) {
	var b [8]byte
	for _, n := range numbers {
		binary.BigEndian.PutUint64(b[:], n)
		a.effects.Write(b[:])
	}
}

// effectRun mixes a run's whole head in, for the commands that change more than its tail.
func (a *applier) effectRun(r *run) {
	a.m.openRuns.change(r)
	a.effects.Write(r.encodeHead())
	a.effects.Write(r.metadata)
}

// writable returns the run for changing: the active overlay's own copy.
func (a *applier) writable(r *run) *run {
	if a.m.active.runs[r.sid] == r {
		return r
	}
	own := *r
	a.m.active.setRun(&own)
	return &own
}

// progress moves the run on to where a walk has come.
func (a *applier) progress(r *run, w *event.Walk) error {
	o := a.m.active
	a.diffSpans(r.sid, r.open, w.Spans)
	r.started, r.open, r.lastSeq = w.Started, w.Spans, w.LastSeq
	if len(w.Added) > 0 {
		ids, err := a.m.usedIDs(r)
		if err != nil {
			return err
		}
		for _, h := range w.Added {
			ids[h] = struct{}{}
			o.addUsed(r.sid, h)
			r.used++
			r.usedXor.xor(fingerprint(h))
		}
		a.m.cache.usedIDs += len(w.Added)
	}
	if w.Ended() {
		r.status = w.End
		r.terminal = r.tail - 1
		r.endedAt = a.now
		a.m.openRuns.remove(r)
		o.mark(r.sid, changeEnded, 128)
		return a.ended(r)
	}
	return nil
}

// ended sees to what a run's end means for its thread and for those who watch.
func (a *applier) ended(r *run) error {
	t, err := a.thread(r.thread)
	if err != nil {
		return err
	}
	t.activity = a.now
	if r.status == event.StatusWaiting {
		a.tell(event.ChangeWaiting, r)
	} else {
		a.tell(event.ChangeEnded, r)
	}
	return a.giveBack(r)
}

// touch wakes whoever follows the run or its thread.
func (a *applier) touch(r *run) {
	a.touched = append(a.touched, r.id)
	a.threads = append(a.threads, r.thread)
}

// diffSpans notes the spans that differ. Both lists are in order of Seq and share their storage
// when nothing changed, which is the case for most events.
func (a *applier) diffSpans(s streamID, old, now []event.Span) {
	if len(old) == len(now) && (len(old) == 0 || &old[0] == &now[0]) {
		return
	}
	i, j := 0, 0
	for i < len(old) || j < len(now) {
		switch {
		case j == len(now) || i < len(old) && old[i].Seq < now[j].Seq:
			a.m.active.setSpan(s, old[i].Seq, nil)
			i++
		case i == len(old) || now[j].Seq < old[i].Seq:
			a.m.active.setSpan(s, now[j].Seq, &now[j])
			j++
		default:
			if old[i] != now[j] {
				a.m.active.setSpan(s, now[j].Seq, &now[j])
			}
			i, j = i+1, j+1
		}
	}
}
