package fsm

import (
	"slices"

	"github.com/runlog/runlog/event"
)

// threadOverlay is what changed of threads since the previous cut.
type threadOverlay struct {
	threads    map[event.ThreadID]*threadChange
	places     map[place]streamID                         // zero: its run was deleted
	interrupts map[fingerprint]map[fingerprint]*interrupt // by thread and id; nil: forgotten
}

func newThreadOverlay() threadOverlay {
	return threadOverlay{
		threads:    make(map[event.ThreadID]*threadChange),
		places:     make(map[place]streamID),
		interrupts: make(map[fingerprint]map[fingerprint]*interrupt),
	}
}

func (o *overlay) setPlace(r *run, s streamID) {
	o.grow(48)
	o.places[place{fingerprintOf(r.thread), r.ordinal}] = s
}

func (o *overlay) setInterrupt(k interruptKey, i *interrupt) {
	of := o.interrupts[k.thread]
	if of == nil {
		of = make(map[fingerprint]*interrupt)
		o.interrupts[k.thread] = of
	}
	if _, ok := of[k.id]; !ok {
		o.grow(1024)
	}
	of[k.id] = i
}

func (w *writer) threads(o *overlay) {
	for id, t := range o.threads {
		fp := fingerprintOf(id)
		w.put(threadHeadKey(fp), t.encode())
		if t.was != 0 && (t.was != t.activity || t.live == 0) {
			w.del(activityKey(t.was, fp))
		}
		if t.live > 0 {
			w.put(activityKey(t.activity, fp), []byte(id))
		}
	}
	for p, s := range o.places {
		if s == (streamID{}) {
			w.put(placeKey(p), nil)
		} else {
			w.put(placeKey(p), s[:])
		}
	}
	for thread, of := range o.interrupts {
		for id, i := range of {
			key := interruptKey{thread, id}.bytes()
			if i == nil {
				w.put(key, nil)
			} else {
				w.put(key, i.encode())
			}
		}
	}
}

func sortedKeys[V any](m map[fingerprint]V) []fingerprint {
	keys := make([]fingerprint, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b fingerprint) int { return slices.Compare(a[:], b[:]) })
	return keys
}
