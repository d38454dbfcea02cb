package fsm

import (
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/runlog/runlog/event"
)

const (
	cachedRuns      = 16 << 10
	cachedProducers = 4 << 10  // runs whose producers are resident
	cachedUsedIDs   = 2 << 20  // ids over all runs, about 32 bytes each
	cachedUsedRuns  = 64 << 10 // runs whose used ids are resident

	cachedThreads    = 16 << 10
	cachedInterrupts = 1 << 10 // threads whose interrupts are resident
)

// cache holds clean state that Badger has too: what it forgets is read again. Nothing of it
// influences what Apply decides.
type cache struct {
	names *lru.Cache[event.RunID, nameEntry]
	runs  *lru.Cache[streamID, *run] // never changed once in here

	streamNames *lru.Cache[event.StreamName, nameEntry]
	streams     *lru.Cache[streamID, *stream] // never changed once in here
	threads     *lru.Cache[event.ThreadID, threadHead]

	// The FSM goroutine's own; a set here is complete, overlays included.
	used      *simplelru.LRU[streamID, map[event.IDHash]struct{}]
	usedIDs   int
	producers *simplelru.LRU[streamID, map[event.ProducerID]*producer]

	interrupts *simplelru.LRU[event.ThreadID, map[fingerprint]*interrupt]
}

func newCache() *cache {
	c := &cache{
		names: must(lru.New[event.RunID, nameEntry](cachedRuns)),
		runs:  must(lru.New[streamID, *run](cachedRuns)),

		streamNames: must(lru.New[event.StreamName, nameEntry](cachedRuns)),
		streams:     must(lru.New[streamID, *stream](cachedRuns)),
		threads:     must(lru.New[event.ThreadID, threadHead](cachedThreads)),
	}
	c.used = must(simplelru.NewLRU(cachedUsedRuns, func(_ streamID, ids map[event.IDHash]struct{}) { c.usedIDs -= len(ids) }))
	c.producers = must(simplelru.NewLRU[streamID, map[event.ProducerID]*producer](cachedProducers, nil))
	c.interrupts = must(simplelru.NewLRU[event.ThreadID, map[fingerprint]*interrupt](cachedInterrupts, nil))
	return c
}

// must is for constructors that fail for a non-positive size alone.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// keepUsed makes ids resident for s, at the expense of the sets not asked for the longest.
func (c *cache) keepUsed(s streamID, ids map[event.IDHash]struct{}) {
	c.used.Add(s, ids)
	c.usedIDs += len(ids)
	for c.usedIDs > cachedUsedIDs && c.used.Len() > 1 {
		c.used.RemoveOldest()
	}
}

func (c *cache) forget(id event.RunID, s streamID) {
	c.names.Remove(id)
	c.runs.Remove(s)
	c.used.Remove(s)
	c.producers.Remove(s)
}

func (c *cache) forgetStream(s *stream) {
	c.streamNames.Remove(s.name)
	c.streams.Remove(s.sid)
	c.producers.Remove(s.sid)
}
