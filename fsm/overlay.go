package fsm

import (
	"github.com/runlog/runlog/event"
)

// Limits of an overlay. Apply asks for a cut at the first pair and waits for the flusher at the
// second; one entry (event.MaxEntryCost) may come on top of that, and all of it must fit one
// Badger transaction: [Open] asserts that.
const (
	cutBytes = 1 << 20
	cutKeys  = 8000

	fullBytes = 2 << 20
	fullKeys  = 16000
)

// keyOverhead is what Badger accounts per entry beside key and value, rounded up.
const keyOverhead = 48

// overlay is state that changed since the previous cut. The active overlay is changed by Apply
// under the machine's lock; a frozen one is never changed again.
type overlay struct {
	// The prefix of the log that the state up to and including this overlay reflects.
	meta meta

	names     map[event.RunID]nameEntry
	runs      map[streamID]*run
	changed   map[streamID]change
	chunks    map[streamID]*chunk
	spans     map[spanID]*event.Span // nil: closed
	used      map[streamID][]event.IDHash
	producers map[streamID]map[event.ProducerID]*producer
	doomed    map[streamID]event.ThreadID // deleted runs and their threads
	locks     map[event.LockName]*lock
	roster    *event.Roster // nil: unchanged

	bytes int // estimated size of the transaction that writes it
	keys  int
}

// change says which of a run's own keys an overlay has to write.
type change uint8

const (
	changeCreated change = 1 << iota
	changeMetadata
	changeEnded
	changeDeleted
)

type nameEntry struct {
	sid     streamID
	deleted bool
}

type spanID struct {
	sid streamID
	seq uint64
}

func newOverlay() *overlay {
	return &overlay{
		names:     make(map[event.RunID]nameEntry),
		runs:      make(map[streamID]*run),
		changed:   make(map[streamID]change),
		chunks:    make(map[streamID]*chunk),
		spans:     make(map[spanID]*event.Span),
		used:      make(map[streamID][]event.IDHash),
		producers: make(map[streamID]map[event.ProducerID]*producer),
		doomed:    make(map[streamID]event.ThreadID),
		locks:     make(map[event.LockName]*lock),
	}
}

// grow accounts for one more key of about size bytes.
func (o *overlay) grow(size int) {
	o.keys++
	o.bytes += size + keyOverhead
}

func (o *overlay) wantsCut() bool { return o.bytes >= cutBytes || o.keys >= cutKeys }
func (o *overlay) full() bool     { return o.bytes >= fullBytes || o.keys >= fullKeys }

// dirty reports whether there is anything to write; the applied index alone counts too.
func (o *overlay) dirty(flushed uint64) bool { return o.meta.index > flushed }

func (o *overlay) setName(id event.RunID, n nameEntry) {
	if _, ok := o.names[id]; !ok {
		o.grow(len(id) + 24)
	}
	o.names[id] = n
}

func (o *overlay) setRun(r *run) {
	if _, ok := o.runs[r.sid]; !ok {
		o.grow(512)
	}
	o.runs[r.sid] = r
}

// dropRun takes a deleted run out; readers find the nil before they look further down.
func (o *overlay) dropRun(s streamID, thread event.ThreadID) {
	o.mark(s, changeDeleted, 128)
	o.runs[s] = nil
	o.doomed[s] = thread
}

func (o *overlay) mark(s streamID, c change, size int) {
	if o.changed[s]&c == 0 {
		o.grow(size)
	} else {
		o.bytes += size // metadata written again: an overestimate is fine
	}
	o.changed[s] |= c
}

func (o *overlay) setSpan(s streamID, seq uint64, span *event.Span) {
	id := spanID{s, seq}
	if _, ok := o.spans[id]; !ok {
		size := 64
		if span != nil {
			size += len(span.ID) + len(span.Lane)
		}
		o.grow(size)
	}
	o.spans[id] = span
}

func (o *overlay) addUsed(s streamID, h event.IDHash) {
	o.grow(40)
	o.used[s] = append(o.used[s], h)
}

func (o *overlay) setProducer(s streamID, p *producer) {
	m := o.producers[s]
	if m == nil {
		m = make(map[event.ProducerID]*producer)
		o.producers[s] = m
	}
	if _, ok := m[p.id]; !ok {
		o.grow(len(p.id) + maxProducerBytes)
	}
	m[p.id] = p
}

func (o *overlay) setLock(name event.LockName, l *lock) {
	if _, ok := o.locks[name]; !ok {
		o.grow(2*len(name) + 350)
	}
	o.locks[name] = l
}

// dropProducer marks a producer as forgotten.
func (o *overlay) dropProducer(s streamID, id event.ProducerID) {
	o.setProducer(s, &producer{id: id, forgotten: true})
}

// chunkOf returns the chunk that takes the run's next record.
func (o *overlay) chunkOf(r *run) *chunk {
	c := o.chunks[r.sid]
	if c == nil {
		c = &chunk{first: r.tail, chainBefore: r.chain}
		o.chunks[r.sid] = c
		o.grow(64)
	}
	return c
}

// addRecord appends one record to its run and extends the run's chain.
func (o *overlay) addRecord(r *run, t event.Time, raw []byte) {
	c := o.chunkOf(r)
	before := len(c.buf)
	rec := c.append(r.epoch, t, raw)
	r.chain = chainNext(r.chain, rec)
	r.bytes += uint64(len(rec))
	r.tail++
	o.bytes += len(rec)
	if before/maxSegmentBytes != len(c.buf)/maxSegmentBytes {
		o.grow(64) // one more segment key
	}
}
