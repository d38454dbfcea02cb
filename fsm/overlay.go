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
	doomed    map[streamID]doomed
	locks     map[event.LockName]*lock
	roster    *event.Roster // nil: unchanged
	threadOverlay

	streamNames map[event.StreamName]nameEntry
	streams     map[streamID]*stream // nil: gone
	sources     map[streamID]uint64  // how many forks read a log
	// doomedStreams are deleted streams and their names; swept are deleted runs that no fork reads any more.
	doomedStreams map[streamID]event.StreamName
	swept         map[streamID]struct{}

	pairs map[string][]byte // keys and values that are written as they are

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

// doomed is a deleted run, as far as its keys are named after it.
type doomed struct {
	thread event.ThreadID
	parent event.RunID
	status event.Status
	kept   bool // forks still read its records
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
		doomed:    make(map[streamID]doomed),
		locks:     make(map[event.LockName]*lock),

		threadOverlay: newThreadOverlay(),

		streamNames:   make(map[event.StreamName]nameEntry),
		streams:       make(map[streamID]*stream),
		sources:       make(map[streamID]uint64),
		pairs:         make(map[string][]byte),
		doomedStreams: make(map[streamID]event.StreamName),
		swept:         make(map[streamID]struct{}),
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
func (o *overlay) dropRun(r *run, kept bool) {
	o.mark(r.sid, changeDeleted, 256)
	o.runs[r.sid] = nil
	o.doomed[r.sid] = doomed{r.thread, r.parent, r.status, kept}
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

func (o *overlay) setStreamName(name event.StreamName, n nameEntry) {
	if _, ok := o.streamNames[name]; !ok {
		o.grow(len(name) + 24)
	}
	o.streamNames[name] = n
}

func (o *overlay) setStream(s *stream) {
	if _, ok := o.streams[s.sid]; !ok {
		o.grow(2*len(s.name) + 256)
	}
	o.streams[s.sid] = s
}

// dropStream takes a deleted stream out; readers find the nil before they look further down.
func (o *overlay) dropStream(s *stream) {
	if o.streams[s.sid] == nil {
		o.grow(64)
	}
	o.streams[s.sid] = nil
	o.mark(s.sid, changeDeleted, 64)
	o.doomedStreams[s.sid] = s.name
}

// setSource notes how many forks read a log.
func (o *overlay) setSource(sid streamID, forks uint64) {
	if _, ok := o.sources[sid]; !ok {
		o.grow(32)
	}
	o.sources[sid] = forks
}

// setPair notes a key that is written as it is. value must not be changed afterwards.
func (o *overlay) setPair(key, value []byte) {
	if _, ok := o.pairs[string(key)]; !ok {
		o.grow(len(key))
	}
	o.bytes += len(value)
	o.pairs[string(key)] = value
}

// sweep has the keys of a deleted run removed, which forks kept until now.
func (o *overlay) sweep(sid streamID) {
	o.grow(32)
	o.swept[sid] = struct{}{}
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

// chunkOf returns the chunk that takes the log's next record.
func (o *overlay) chunkOf(r *logHead) *chunk {
	c := o.chunks[r.sid]
	if c == nil {
		c = &chunk{first: r.tail, chainBefore: r.chain}
		o.chunks[r.sid] = c
		o.grow(64)
	}
	return c
}

// addRecord appends one record to its log and extends the log's chain.
func (o *overlay) addRecord(r *logHead, epoch event.Epoch, t event.Time, raw []byte) {
	c := o.chunkOf(r)
	before := len(c.buf)
	rec := c.append(epoch, t, raw)
	r.chain = chainNext(r.chain, rec)
	r.bytes += uint64(len(rec))
	r.tail++
	o.bytes += len(rec)
	if before/maxSegmentBytes != len(c.buf)/maxSegmentBytes {
		o.grow(64) // one more segment key
	}
}
