package fsm

import (
	"context"

	"github.com/runlog/runlog/event"
)

// framing is how a run's log holds its events: bare, or each inside a record that carries a number
// (see event.Wrap). The first event that somebody writes fixes it; until then it is what the run's
// opener reads, and only the cluster's own events go by it. The zero value is a run of bare events,
// or of none.
type framing struct {
	records bool
	seq     uint64 // of the last record
	// streamSeq is the largest Stream-Seq accepted; empty: none was sent.
	streamSeq string
}

func (f *framing) encode(e *enc) {
	e.flag(f.records)
	e.uv(f.seq)
	e.str(f.streamSeq)
}

func (f *framing) decode(d *dec) {
	*f = framing{records: d.flag(), seq: d.uv(), streamSeq: d.str()}
}

// addBare adds an event that its writer sent bare, which makes an empty run one of bare events. r is
// the active overlay's own.
func (a *applier) addBare(r *run, raw []byte) {
	if r.tail == 0 {
		r.framing.records = false
	}
	a.addEvent(r, raw)
}

// addEvent adds a bare event to a run that is the active overlay's own. In a run of records it is
// wrapped and takes the next number.
func (a *applier) addEvent(r *run, raw []byte) {
	if r.framing.records {
		r.framing.seq++
		raw = event.Wrap(make([]byte, 0, len(raw)+event.WrapBytes), r.framing.seq, raw)
	}
	a.m.active.addRecord(&r.logHead, r.epoch, a.now, raw)
}

// closingBytes is how many bytes of JSON ending the run would write.
func (r *run) closingBytes(status event.Status) uint64 {
	p := r.progress()
	n := uint64(0)
	for _, e := range event.Closers(&p, r.id, r.thread, status) {
		n += uint64(len(e.Raw))
		if r.framing.records {
			n += event.WrapBytes
		}
	}
	return n
}

// each calls f with the run's records from offset from, until f returns false or the tail, events
// out of their framing.
func (s *snapshotRead) each(ctx context.Context, from event.Offset, f func(event.Record) bool) error {
	if !s.run.framing.records {
		return s.logRead.each(ctx, from, f)
	}
	return s.logRead.each(ctx, from, func(r event.Record) bool {
		if _, bare, ok := event.Unwrap(r.Raw); ok {
			r.Raw = bare
		}
		return f(r)
	})
}

// record returns the record at offset, which must be below the tail, out of its framing.
func (s *snapshotRead) record(ctx context.Context, offset event.Offset) (rec event.Record, err error) {
	err = s.each(ctx, offset, func(r event.Record) bool {
		rec = r
		return false
	})
	return rec, err
}

// RunMessages reads a run as the Durable Streams protocol shows it: records as they were sent. It is
// [Machine.Records] in every other way.
func (m *Machine) RunMessages(ctx context.Context, id event.RunID, from event.Offset, maxRecords, maxBytes int) (event.Page, error) {
	return m.records(ctx, id, from, maxRecords, maxBytes, func(s *snapshotRead) eacher { return s.logRead.each })
}

// eacher goes through a log's records from an offset on, until f returns false or the tail.
type eacher func(ctx context.Context, from event.Offset, f func(event.Record) bool) error
