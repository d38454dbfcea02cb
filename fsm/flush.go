package fsm

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/internal/watchdog"
)

// flusher is the one goroutine that writes to Badger: overlays first, then local upkeep
// (checkpoints, merged segments, what deleted runs left) while nothing else waits.
type flusher struct {
	kick    chan struct{} // capacity 1: a flush is wanted now
	tasks   chan task     // local upkeep asked for by readers; when full, it is asked for again later
	quit    chan struct{}
	stopped chan struct{}
}

// task is local upkeep: it changes nothing that Apply or a reader could see.
type task func(*store) error

const maxTasks = 64

// init makes the queues, which outlive a restart of the goroutine during a restore.
func (f *flusher) init() {
	f.kick = make(chan struct{}, 1)
	f.tasks = make(chan task, maxTasks)
}

func (f *flusher) start(m *Machine) {
	f.quit = make(chan struct{})
	f.stopped = make(chan struct{})
	go f.run(m)
}

// stop flushes what was applied and waits for the goroutine. Safe twice.
func (f *flusher) stop() {
	select {
	case <-f.quit:
	default:
		close(f.quit)
	}
	<-f.stopped
}

// hurry asks for a flush now instead of at the next tick.
func (f *flusher) hurry() {
	select {
	case f.kick <- struct{}{}:
	default: // one is already asked for
	}
}

// offer hands a task over, or drops it when many wait already.
func (f *flusher) offer(t task) {
	select {
	case f.tasks <- t:
	default:
	}
}

func (f *flusher) run(m *Machine) {
	defer close(f.stopped)
	tick := time.NewTicker(m.cfg.FlushInterval)
	defer tick.Stop()
	chores := newChores(m)
	for {
		select {
		case <-f.quit:
			m.flushAll()
			return
		case <-f.kick:
			m.flush()
		case <-tick.C:
			if !m.flush() {
				chores.step()
			}
		case t := <-f.tasks:
			if err := t(m.store); err != nil {
				m.fatal(fmt.Errorf("fsm: local upkeep: %w", err))
				return
			}
		}
	}
}

// flushAll flushes until nothing is left; once more than needed when a cut was already frozen.
func (m *Machine) flushAll() {
	for m.flush() {
	}
}

// cut freezes the active overlay. It needs mu exclusively, which makes it fall between two entries.
func (m *Machine) cut() {
	m.frozen = m.active
	m.active = newOverlay()
	m.active.meta = m.frozen.meta
}

// flush writes one overlay and reports whether there was one. A write that fails, or that takes
// longer than cfg.FlushTimeout, stops the machine.
func (m *Machine) flush() bool {
	m.mu.Lock()
	if m.frozen == nil && m.stopped == nil && m.active.dirty(m.flushed) {
		m.cut()
	}
	o := m.frozen
	m.mu.Unlock()
	if o == nil || m.isStopped() {
		return false
	}
	start := time.Now()
	hung := watchdog.New(m.cfg.FlushTimeout, func() {
		m.fatal(fmt.Errorf("fsm: a flush takes over %s: the disk hangs", m.cfg.FlushTimeout))
	})
	hung.Start()
	if m.cfg.beforeWrite != nil {
		m.cfg.beforeWrite()
	}
	err := m.store.write(o)
	hung.Stop()
	if err != nil {
		m.fatal(fmt.Errorf("fsm: flush up to index %d: %w", o.meta.index, err))
		return false
	}
	m.metrics.flushed(start, o)
	m.drop(o)
	return true
}

func (m *Machine) isStopped() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.stopped != nil
}

// drop forgets the frozen overlay, which Badger now holds, keeping what is likely to be read.
func (m *Machine) drop(o *overlay) {
	m.mu.Lock()
	for id, n := range o.names {
		m.cache.names.Add(id, n)
	}
	for s, r := range o.runs {
		if r != nil {
			m.cache.runs.Add(s, r)
		}
	}
	for name, n := range o.streamNames {
		m.cache.streamNames.Add(name, n)
	}
	for sid, s := range o.streams {
		if s != nil {
			m.cache.streams.Add(sid, s)
		}
	}
	for id, t := range o.threads {
		m.cache.threads.Add(id, t.threadHead)
	}
	for s, c := range o.chunks {
		m.recent.add(s, c)
	}
	for s := range o.doomed {
		m.recent.remove(s)
	}
	for s := range o.doomedStreams {
		m.recent.remove(s)
	}
	m.frozen = nil
	m.flushed = o.meta.index
	m.changed.Broadcast()
	m.mu.Unlock()
	m.flushes.set(o.meta.index)
}

// write commits an overlay in one transaction: never a WriteBatch, which may commit half of it.
func (s *store) write(o *overlay) error {
	txn := s.db.NewTransaction(true)
	defer txn.Discard()
	w := writer{txn: txn}
	w.overlay(o)
	if w.err != nil {
		return w.err
	}
	return txn.Commit()
}

// writer puts sealed values into a transaction and keeps the first error.
type writer struct {
	txn *badger.Txn
	err error
}

func (w *writer) put(key, value []byte) {
	if w.err == nil {
		w.err = w.txn.Set(key, seal(key, value))
	}
}

func (w *writer) del(key []byte) {
	if w.err == nil {
		w.err = w.txn.Delete(key)
	}
}

func (w *writer) overlay(o *overlay) {
	for id, n := range o.names {
		w.put(nameKey(id), encodeName(n))
	}
	for s, r := range o.runs {
		if r != nil {
			w.run(s, r, o.changed[s])
		}
	}
	for s, c := range o.chunks {
		w.chunk(s, c)
	}
	for id, span := range o.spans {
		if key := spanKey(id.sid, id.seq); span == nil {
			w.del(key)
		} else {
			w.put(key, encodeSpan(span))
		}
	}
	for s, hashes := range o.used {
		for _, h := range hashes {
			w.put(hashKey(keyUsed, s, h), nil)
		}
	}
	for s, producers := range o.producers {
		for id, p := range producers {
			w.put(hashKey(keyProducer, s, producerHash(id)), p.encode())
		}
	}
	for name, l := range o.locks {
		w.put(lockKey(name), l.encode())
	}
	if o.roster != nil {
		w.put(rosterKey, encodeRoster(o.roster))
	}
	w.streams(o)
	w.threads(o)
	for s, d := range o.doomed {
		// The head is overwritten, not deleted: nothing may rely on Badger's deletes.
		w.put(sidKey(keyHead, s), []byte{headDeleted})
		hash := fingerprintOf(d.thread)
		w.del(threadKey(hash, s))
		w.del(statusKey(d.status, s))
		if d.parent != "" {
			w.del(parentKey(d.parent, s))
		}
		w.del(sidKey(keyOpenRun, s)) // it may have ended and gone within this overlay
		if d.kept {
			w.put(sidKey(keyDoomedFolds, s), hash[:])
		} else {
			w.put(sidKey(keyDoomed, s), hash[:])
		}
	}
	w.put(metaKey, o.meta.encode())
}

// streams writes what changed of plain streams, as run and overlay do for runs.
func (w *writer) streams(o *overlay) {
	for name, n := range o.streamNames {
		w.put(streamNameKey(name), encodeName(n))
	}
	for sid, s := range o.streams {
		if s == nil {
			continue
		}
		w.put(sidKey(keyStream, sid), s.encode())
		if o.changed[sid]&changeCreated != 0 && s.expires() {
			w.put(sidKey(keyExpiring, sid), nil)
		}
	}
	for sid, forks := range o.sources {
		w.put(sidKey(keySource, sid), binary.AppendUvarint(nil, forks))
	}
	for sid, name := range o.doomedStreams {
		w.put(sidKey(keyStream, sid), []byte{headDeleted})
		w.del(sidKey(keyExpiring, sid))
		w.put(sidKey(keyDoomedStream, sid), []byte(name))
	}
	for sid := range o.swept {
		w.put(sidKey(keyDoomed, sid), nil)
	}
	for key, value := range o.pairs {
		w.put([]byte(key), slices.Clip(value)) // sealing appends
	}
}

func (w *writer) run(s streamID, r *run, c change) {
	w.put(sidKey(keyHead, s), r.encodeHead())
	if c&changeCreated != 0 {
		w.put(threadKey(fingerprintOf(r.thread), s), nil)
		if r.parent != "" {
			w.put(parentKey(r.parent, s), nil)
		}
	}
	switch {
	case c&changeEnded != 0:
		w.del(sidKey(keyOpenRun, s))
		w.put(sidKey(keyUnmerged, s), nil)
		w.put(statusKey(r.status, s), nil)
	case c&changeCreated != 0:
		w.put(sidKey(keyOpenRun, s), nil)
	}
	if c&changeMetadata != 0 {
		w.put(sidKey(keyMetadata, s), r.metadata)
	}
}

func (w *writer) chunk(s streamID, c *chunk) {
	err := c.segments(func(first event.Offset, value []byte) error {
		w.put(offsetKey(keySegment, s, first), value)
		return w.err
	})
	if w.err == nil {
		w.err = err
	}
}
