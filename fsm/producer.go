package fsm

import (
	"fmt"
	"sort"

	"github.com/runlog/runlog/event"
)

const (
	// maxProducers bounds the producers that a run remembers.
	maxProducers = 1024
	// producerRetention is how long, in log time, a producer is remembered at least.
	producerRetention event.Time = 24 * 60 * 60 * 1000
	// maxRemembered is how many of a producer's last appends keep their offsets and body hash.
	maxRemembered = 32
	// maxProducerBytes estimates an encoded producer beside its id.
	maxProducerBytes = 64 + maxRemembered*16
)

// producer is what a run remembers of an idempotent producer (Durable Streams, section 5.2.1).
// Records are replaced, never changed in place, once a cut may have seen them.
type producer struct {
	id       event.ProducerID
	epoch    uint64
	lastSeq  uint64
	lastTime event.Time
	// recent holds the last appends, oldest first; the last one is lastSeq's.
	recent    []remembered
	forgotten bool // kept as a mark, not deleted: nothing may rely on Badger's deletes
}

type remembered struct {
	first event.Offset
	tail  event.Offset
	body  uint64
}

// next returns the producer after one more append.
func (p *producer) next(ref *event.Producer, now event.Time, r remembered) *producer {
	n := &producer{id: ref.ID, epoch: ref.Epoch, lastSeq: ref.Seq, lastTime: now}
	if p != nil && p.epoch == ref.Epoch {
		keep := p.recent
		if len(keep) >= maxRemembered {
			keep = keep[len(keep)-maxRemembered+1:]
		}
		n.recent = append(make([]remembered, 0, len(keep)+1), keep...)
	}
	n.recent = append(n.recent, r)
	return n
}

// lookup finds the append with that sequence number, at the producer's present epoch.
func (p *producer) lookup(seq uint64) (remembered, bool) {
	if back := p.lastSeq - seq; seq <= p.lastSeq && back < uint64(len(p.recent)) {
		return p.recent[uint64(len(p.recent))-1-back], true
	}
	return remembered{}, false
}

func (p *producer) encode() []byte {
	e := enc{make([]byte, 0, 64+16*len(p.recent))}
	e.str(string(p.id))
	e.flag(p.forgotten)
	e.uv(p.epoch)
	e.uv(p.lastSeq)
	e.iv(int64(p.lastTime))
	e.uv(uint64(len(p.recent)))
	for _, r := range p.recent {
		e.uv(uint64(r.first))
		e.uv(uint64(r.tail - r.first))
		e.u64(r.body)
	}
	return e.b
}

func decodeProducer(b []byte) (*producer, error) {
	d := dec{b: b}
	p := &producer{id: event.ProducerID(d.str()), forgotten: d.flag(), epoch: d.uv(), lastSeq: d.uv(), lastTime: event.Time(d.iv())}
	n := d.uv()
	if n > maxRemembered {
		return nil, fmt.Errorf("%w: producer remembers %d appends", ErrDamaged, n)
	}
	for range n {
		r := remembered{first: event.Offset(d.uv())}
		r.tail = r.first + event.Offset(d.uv())
		r.body = d.u64()
		p.recent = append(p.recent, r)
	}
	return p, d.done("producer")
}

// producerHash names a producer in keys.
func producerHash(id event.ProducerID) event.IDHash { return event.IDHash(fingerprintOf(id)) }

// admit makes room for one more producer among all: nothing to do, or the longest silent one
// that may be forgotten. It reports false if none may. Ties are broken by id, so that every node
// forgets the same one.
func admit(all map[event.ProducerID]*producer, now event.Time) (forget event.ProducerID, ok bool) {
	if len(all) < maxProducers {
		return "", true
	}
	old := make([]*producer, 0, 8)
	for _, p := range all {
		if p.lastTime <= now-producerRetention {
			old = append(old, p)
		}
	}
	if len(old) == 0 {
		return "", false
	}
	sort.Slice(old, func(i, j int) bool {
		if old[i].lastTime != old[j].lastTime {
			return old[i].lastTime < old[j].lastTime
		}
		return old[i].id < old[j].id
	})
	return old[0].id, true
}
