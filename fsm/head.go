package fsm

import (
	"bytes"
	"fmt"

	"github.com/runlog/runlog/event"
)

// logHead is what Apply keeps of a log of records, whether a run's or a plain stream's.
type logHead struct {
	sid       streamID
	tail      event.Offset
	chain     uint64 // rolling hash over the log's own records: chainNext
	bytes     uint64 // of the records, encoded
	producers uint64 // how many are remembered
}

// head is what Apply keeps per run. It stays below 4 KiB: everything that grows with the run has
// keys of its own.
type head struct {
	id     event.RunID
	thread event.ThreadID
	parent event.RunID
	logHead
	strict   bool
	status   event.Status
	started  bool // an event was taken
	lastSeq  uint64
	openSeqs []uint64 // which spans are open: what is stored of others does not count

	epoch      event.Epoch
	holder     event.HolderID
	leaseMs    int64
	lease      event.LeaseState // empty: never leased
	takeoverMs *int64
	// windowMs is the window that a release left for a successor; nil: takeoverMs counts.
	windowMs *int64

	cancelRequested bool
	cancelWithinMs  int64

	terminal event.Offset

	startedAt, updatedAt, endedAt event.Time

	used    uint64 // how many ids the run has used
	usedXor fingerprint

	createKey   event.IdempotencyKey
	createEpoch event.Epoch // that the creation granted; 0: no lease
	// acquired holds the last acquisitions that came with a key, oldest first. It is never changed in place.
	acquired []acquisition

	metadataBytes uint64

	framing framing
	ordinal event.Ordinal // its number in its thread
	answers uint64        // how many interrupts it answered
}

// acquisition is an Idempotency-Key and the epoch that it got.
type acquisition struct {
	key   event.IdempotencyKey
	epoch event.Epoch
}

// maxAcquisitions bounds the acquisitions whose keys a run remembers.
const maxAcquisitions = 8

const (
	headDeleted = 0 // stands where the head of a deleted run was
	headVersion = 3

	headVersion1 = 1 // without ordinal and answers: [store.upgrade]
)

var statuses = []event.Status{
	event.StatusRunning, event.StatusCompleted, event.StatusWaiting, event.StatusCancelled, event.StatusFailed, event.StatusLost,
}

var leaseStates = []event.LeaseState{"", event.LeaseStateHeld, event.LeaseStateLapsed, event.LeaseStateReleased}

func indexOf[T comparable](list []T, v T) byte {
	for i := range list {
		if list[i] == v {
			return byte(i)
		}
	}
	panic(fmt.Sprintf("fsm: %v has no number", v))
}

func at[T any](d *dec, list []T) (v T) {
	if i := d.u8(); int(i) < len(list) {
		return list[i]
	}
	d.bad = true
	return v
}

// isDeleted tells what stands for a deleted run from a head.
func isDeleted(value []byte) bool { return len(value) == 1 && value[0] == headDeleted }

func (h *head) encode() []byte {
	e := enc{make([]byte, 0, 256)}
	e.u8(headVersion)
	e.str(string(h.id))
	e.str(string(h.thread))
	e.str(string(h.parent))
	e.raw(h.sid[:])
	e.flag(h.strict)
	e.u8(indexOf(statuses, h.status))
	e.flag(h.started)
	e.uv(h.lastSeq)
	e.uv(uint64(len(h.openSeqs)))
	last := uint64(0)
	for _, seq := range h.openSeqs {
		e.uv(seq - last)
		last = seq
	}
	e.uv(uint64(h.epoch))
	e.str(string(h.holder))
	e.iv(h.leaseMs)
	e.u8(indexOf(leaseStates, h.lease))
	e.optIv(h.takeoverMs)
	e.optIv(h.windowMs)
	e.flag(h.cancelRequested)
	e.iv(h.cancelWithinMs)
	e.uv(uint64(h.tail))
	e.u64(h.chain)
	e.uv(h.bytes)
	e.uv(uint64(h.terminal))
	e.iv(int64(h.startedAt))
	e.iv(int64(h.updatedAt))
	e.iv(int64(h.endedAt))
	e.uv(h.used)
	e.raw(h.usedXor[:])
	e.uv(h.producers)
	e.raw(h.createKey[:])
	e.uv(uint64(h.createEpoch))
	e.uv(uint64(len(h.acquired)))
	for i := range h.acquired {
		e.raw(h.acquired[i].key[:])
		e.uv(uint64(h.acquired[i].epoch))
	}
	e.uv(h.metadataBytes)
	e.uv(uint64(h.ordinal))
	e.uv(h.answers)
	h.framing.encode(&e)
	return e.b
}

func decodeHead(b []byte) (head, error) {
	d := dec{b: b}
	v := d.u8()
	if v != headVersion && v != headVersion1 {
		return head{}, fmt.Errorf("%w: head version %d", ErrDamaged, v)
	}
	var h head
	h.id = event.RunID(d.str())
	h.thread = event.ThreadID(d.str())
	h.parent = event.RunID(d.str())
	copy(h.sid[:], d.take(16))
	h.strict = d.flag()
	h.status = at(&d, statuses)
	h.started = d.flag()
	h.lastSeq = d.uv()
	if n := d.uv(); n <= event.MaxOpenSpans {
		last := uint64(0)
		for range n {
			last += d.uv()
			h.openSeqs = append(h.openSeqs, last)
		}
	} else {
		d.bad = true
	}
	h.epoch = event.Epoch(d.uv())
	h.holder = event.HolderID(d.str())
	h.leaseMs = d.iv()
	h.lease = at(&d, leaseStates)
	h.takeoverMs = d.optIv()
	h.windowMs = d.optIv()
	h.cancelRequested = d.flag()
	h.cancelWithinMs = d.iv()
	h.tail = event.Offset(d.uv())
	h.chain = d.u64()
	h.bytes = d.uv()
	h.terminal = event.Offset(d.uv())
	h.startedAt = event.Time(d.iv())
	h.updatedAt = event.Time(d.iv())
	h.endedAt = event.Time(d.iv())
	h.used = d.uv()
	copy(h.usedXor[:], d.take(16))
	h.producers = d.uv()
	copy(h.createKey[:], d.take(16))
	h.createEpoch = event.Epoch(d.uv())
	if n := d.uv(); n <= maxAcquisitions {
		for range n {
			var a acquisition
			copy(a.key[:], d.take(16))
			a.epoch = event.Epoch(d.uv())
			h.acquired = append(h.acquired, a)
		}
	} else {
		d.bad = true
	}
	h.metadataBytes = d.uv()
	if v != headVersion1 {
		h.ordinal, h.answers = event.Ordinal(d.uv()), d.uv()
		h.framing.decode(&d)
	}
	return h, d.done("head")
}

// run is a run's head with what is small enough to travel with it. spans and metadata are never
// changed in place, so copies may share them.
type run struct {
	head
	open     []event.Span
	metadata []byte
}

// encodeHead returns the stored head.
func (r *run) encodeHead() []byte {
	h := r.head
	h.openSeqs = make([]uint64, len(r.open))
	for i := range r.open {
		h.openSeqs[i] = r.open[i].Seq
	}
	return h.encode()
}

func (r *run) ended() bool { return r.status != event.StatusRunning }

func (r *run) grammar() event.Grammar {
	if r.strict {
		return event.GrammarStrict
	}
	return event.GrammarLenient
}

func (r *run) progress() event.Progress {
	return event.Progress{Started: r.started, End: r.status, Spans: r.open, LastSeq: r.lastSeq}
}

// view returns the run as readers see it, but for what its terminal event says.
func (r *run) view() *event.Run {
	p := r.progress()
	open := p.Open()
	v := &event.Run{
		RunID: r.id, ThreadID: r.thread, ParentRunID: r.parent,
		Status: r.status, Ended: r.ended(), Epoch: r.epoch, Tail: r.tail,
		StartedAt: r.startedAt, UpdatedAt: r.updatedAt,
		CancelRequested: r.cancelRequested, Grammar: r.grammar(), Open: &open, Metadata: bytes.Clone(r.metadata),
	}
	if r.lease != "" {
		v.Lease = &event.Lease{Holder: r.holder, LeaseMs: r.leaseMs, State: r.lease}
	}
	if r.takeoverMs != nil {
		ms := *r.takeoverMs
		v.TakeoverMs = &ms
	}
	if r.ended() {
		endedAt, terminal := r.endedAt, r.terminal
		v.EndedAt, v.TerminalOffset = &endedAt, &terminal
	}
	return v
}

func encodeSpan(s *event.Span) []byte {
	e := enc{make([]byte, 0, 16+len(s.ID)+len(s.Lane))}
	e.u8(byte(s.Kind))
	e.flag(s.Chunked)
	e.flag(s.Ended)
	e.flag(s.Answered)
	e.uv(s.Seq)
	e.str(s.ID)
	e.str(s.Lane)
	return e.b
}

func decodeSpan(b []byte) (event.Span, error) {
	d := dec{b: b}
	s := event.Span{Kind: event.SpanKind(d.u8()), Chunked: d.flag(), Ended: d.flag(), Answered: d.flag(), Seq: d.uv(), ID: d.str(), Lane: d.str()}
	return s, d.done("span")
}
