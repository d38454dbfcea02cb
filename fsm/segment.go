package fsm

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/runlog/runlog/event"
)

// A segment: consecutive records of one run, under the key of the first one's offset.
//
//	field        type     meaning
//	version      uint8    1: records as they are · 2: records compressed with zstd
//	count        uvarint  records
//	chainBefore  uint64   the run's chain before the first record
//	chainAfter   uint64   and after the last
//	records               per record: epoch uvarint, time uvarint, length uvarint, raw JSON
//	crc          uint32   CRC-32C of key and value (see seal)
const (
	segmentPlain      = 1
	segmentCompressed = 2
)

// maxSegmentBytes bounds a segment unless it holds a single record.
const maxSegmentBytes = 64 << 10

// appendRecord appends one record's encoding.
func appendRecord(dst []byte, epoch event.Epoch, t event.Time, raw []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(epoch))
	dst = binary.AppendUvarint(dst, uint64(t))
	dst = binary.AppendUvarint(dst, uint64(len(raw)))
	return append(dst, raw...)
}

// readRecord reads the record at the front of b and returns how many bytes it took; 0 if none is whole.
func readRecord(b []byte) (r event.Record, n int) {
	epoch, n1 := binary.Uvarint(b)
	if n1 <= 0 {
		return r, 0
	}
	t, n2 := binary.Uvarint(b[n1:])
	if n2 <= 0 {
		return r, 0
	}
	size, n3 := binary.Uvarint(b[n1+n2:])
	start := n1 + n2 + n3
	if n3 <= 0 || size > uint64(len(b)-start) {
		return r, 0
	}
	end := start + int(size)
	return event.Record{Epoch: event.Epoch(epoch), Time: event.Time(t), Raw: b[start:end:end]}, end
}

// chainNext extends a run's chain by one encoded record (Haber & Stornetta's linking, with a
// fast hash: it guards against damage, not against an enemy).
func chainNext(chain uint64, record []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	var prev [8]byte
	binary.BigEndian.PutUint64(prev[:], chain)
	d.Write(prev[:])
	d.Write(record)
	return d.Sum64()
}

// chunk is consecutive encoded records of one run in memory. Records are only ever appended, so a
// copy of the struct, taken under the lock, stays valid without it.
type chunk struct {
	first       event.Offset
	chainBefore uint64
	buf         []byte
	starts      []uint32 // where each record begins in buf
}

func (c *chunk) end() event.Offset { return c.first + event.Offset(len(c.starts)) }

func (c *chunk) append(epoch event.Epoch, t event.Time, raw []byte) (record []byte) {
	start := len(c.buf)
	c.starts = append(c.starts, uint32(start))
	c.buf = appendRecord(c.buf, epoch, t, raw)
	return c.buf[start:]
}

func (c *chunk) record(i int) []byte {
	if i+1 < len(c.starts) {
		return c.buf[c.starts[i]:c.starts[i+1]]
	}
	return c.buf[c.starts[i]:]
}

// segments cuts the chunk into segment values of at most maxSegmentBytes and hands each to put.
func (c *chunk) segments(put func(first event.Offset, value []byte) error) error {
	chain := c.chainBefore
	for i := 0; i < len(c.starts); {
		n, after := i, chain
		start := int(c.starts[i])
		size := 0
		for n < len(c.starts) {
			rec := c.record(n)
			if n > i && size+len(rec) > maxSegmentBytes {
				break
			}
			size += len(rec)
			after = chainNext(after, rec)
			n++
		}
		value := segmentHeader(segmentPlain, n-i, chain, after, size)
		value = append(value, c.buf[start:start+size]...)
		if err := put(c.first+event.Offset(i), value); err != nil {
			return err
		}
		chain, i = after, n
	}
	return nil
}

func segmentHeader(version byte, count int, before, after uint64, room int) []byte {
	e := enc{make([]byte, 0, room+32)}
	e.u8(version)
	e.uv(uint64(count))
	e.u64(before)
	e.u64(after)
	return e.b
}

// segment is a decoded segment.
type segment struct {
	first         event.Offset
	count         int
	before, after uint64
	records       []byte
}

func (s *segment) end() event.Offset { return s.first + event.Offset(s.count) }

// decodeSegment checks a stored segment's checksum and decodes it; records alias sealed unless
// they were compressed.
func decodeSegment(key, sealed []byte, p *packer) (segment, error) {
	value, err := unseal(key, sealed)
	if err != nil {
		return segment{}, err
	}
	d := dec{b: value}
	version := d.u8()
	s := segment{first: offsetOf(key), count: int(d.uv()), before: d.u64(), after: d.u64()}
	if d.bad || s.count == 0 {
		return segment{}, fmt.Errorf("%w: segment header under %q", ErrDamaged, key)
	}
	s.records = d.b
	switch version {
	case segmentPlain:
	case segmentCompressed:
		if s.records, err = p.decompress(d.b); err != nil {
			return segment{}, fmt.Errorf("%w: segment under %q: %v", ErrDamaged, key, err)
		}
	default:
		return segment{}, fmt.Errorf("%w: segment version %d", ErrDamaged, version)
	}
	return s, nil
}

// each walks the segment's records from offset on, until f returns false, and checks that they
// are as many as the header says and, when it walked them all from the first, that the chain fits.
func (s *segment) each(from event.Offset, f func(event.Record) bool) error {
	b, chain := s.records, s.before
	for i := range s.count {
		r, n := readRecord(b)
		if n == 0 {
			return fmt.Errorf("%w: segment at %d ends in record %d", ErrDamaged, s.first, i)
		}
		chain = chainNext(chain, b[:n])
		b = b[n:]
		r.Offset = s.first + event.Offset(i)
		if r.Offset >= from && !f(r) {
			return nil
		}
	}
	if len(b) > 0 || chain != s.after {
		return fmt.Errorf("%w: segment at %d does not match its chain", ErrDamaged, s.first)
	}
	return nil
}
