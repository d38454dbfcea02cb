package fsm

import (
	"fmt"

	"github.com/runlog/runlog/event"
)

// meta is what is stored beside the state with every flush: which prefix of the log it is, and
// what must be found in it.
type meta struct {
	version     byte   // that was read; what is written is of metaVersion
	index, term uint64 // of the last entry applied
	now         event.Time
	stateHash   uint64
	leaderTerm  uint64 // of the last LeaderStart
	clusterID   string
	names       uint64 // how many run ids exist or existed
	nameSum     fingerprint
	runs        uint64      // how many heads exist
	lockEpoch   event.Epoch // the last one given to any lock
	streams     proof       // of the names of plain streams
	// uptime counts the milliseconds during which a leader was at work. Unlike now it never follows a
	// wall clock, so a leader whose clock is wrong does not end what lives by elapsed time.
	uptime    int64
	threads   uint64 // how many threads have or had a run
	threadSum fingerprint
	changes   changeLog
}

const (
	metaVersion1 = 1 // without plain streams, threads and changes: [store.upgrade]
	metaVersion  = 3
)

var metaKey = []byte{keyMeta}

func (m *meta) encode() []byte {
	var e enc
	e.u8(metaVersion)
	e.uv(m.index)
	e.uv(m.term)
	e.iv(int64(m.now))
	e.u64(m.stateHash)
	e.uv(m.leaderTerm)
	e.str(m.clusterID)
	e.uv(m.names)
	e.raw(m.nameSum[:])
	e.uv(m.runs)
	e.uv(uint64(m.lockEpoch))
	e.uv(m.streams.count)
	e.raw(m.streams.sum[:])
	e.iv(m.uptime)
	e.uv(m.threads)
	e.raw(m.threadSum[:])
	m.changes.encode(&e)
	return e.b
}

func decodeMeta(sealed []byte) (meta, error) {
	b, err := unseal(metaKey, sealed)
	if err != nil {
		return meta{}, err
	}
	d := dec{b: b}
	v := d.u8()
	if v != metaVersion && v != metaVersion1 {
		return meta{}, fmt.Errorf("%w: state version %d; this build knows %d", ErrDamaged, v, metaVersion)
	}
	m := meta{index: d.uv(), term: d.uv(), now: event.Time(d.iv()), stateHash: d.u64(), leaderTerm: d.uv(), clusterID: d.str(), names: d.uv()}
	copy(m.nameSum[:], d.take(16))
	m.runs = d.uv()
	m.lockEpoch = event.Epoch(d.uv())
	m.version = v
	if v != metaVersion1 {
		m.streams.count = d.uv()
		copy(m.streams.sum[:], d.take(16))
		m.uptime = d.iv()
		m.threads = d.uv()
		copy(m.threadSum[:], d.take(16))
		m.changes.decode(&d)
	}
	return m, d.done("meta")
}
