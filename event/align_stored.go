package event

import (
	"context"
	"fmt"
)

// Stored is a run's log as an alignment reads it: from the first record on, each once.
type Stored interface {
	// Record returns the record at an offset, or false when the log ends before it. A later call may
	// return what was appended since.
	Record(ctx context.Context, at Offset) (Record, bool, error)
}

// Bounds of what an alignment holds in memory.
const (
	// maxAheadBytes bounds what was read of the log, or taken of the replay, before the other side
	// came to it. In an exact replay that is one event; it grows when the two cut or interleave texts
	// differently.
	maxAheadBytes = 8 << 20
	// maxLive bounds the CUSTOM and RAW events that are remembered so that the replay may still send
	// them; the oldest is given up first.
	maxLive = 4096
	// The search for a CUSTOM or RAW event reads ahead this far, in records and bytes.
	searchRecords = 1024
	searchBytes   = 256 << 10
)

// segment is stored text that the replay has not reproduced yet, or the place in its text that
// only a strict event passes.
type segment struct {
	it   *item
	text []byte // nil: it is a bound
}

// ahead is what was read of the log and not met by the replay.
type ahead struct {
	log    Stored
	next   Offset // of the next record to read
	lanes  chunkLanes
	strict []*item              // in order; a wall is the last one
	texts  map[string][]segment // by key; never empty lists
	pieces int                  // segments that hold text
	live   []liveEvent
	seq    uint64 // of the last strict item read
	bytes  int    // of the raw events held in strict and texts
}

// liveEvent is a CUSTOM or RAW event that stands after strict item seq.
type liveEvent struct {
	hash IDHash
	seq  uint64
}

// clear reports whether the replay has reproduced all that was read, apart from live events.
func (s *ahead) clear() bool { return len(s.strict) == 0 && s.pieces == 0 }

// blocked reports whether a wall stands in the way of reading on.
func (s *ahead) blocked() bool {
	return len(s.strict) > 0 && s.strict[len(s.strict)-1].wall
}

// pull reads one record in search of replayed's counterpart and files it; nil at the log's end. The
// alignment must not be blocked.
func (a *Aligner) pull(ctx context.Context, replayed *item) (*item, error) {
	s := &a.ahead
	rec, ok, err := s.log.Record(ctx, s.next)
	if err != nil || !ok {
		return nil, err
	}
	e, err := ParseEvent(rec.Raw)
	if err != nil {
		return nil, fmt.Errorf("stored event %d: %w", rec.Offset, err)
	}
	it := newItem(e, &s.lanes)
	it.offset = rec.Offset
	s.next++
	a.file(it)
	if s.bytes > maxAheadBytes {
		return nil, a.lost(replayed)
	}
	return it, nil
}

// file puts a stored item where the replay will look for it.
func (a *Aligner) file(it *item) {
	s := &a.ahead
	switch {
	case it.class == classLive:
		if len(s.live) == maxLive {
			s.live = s.live[1:]
			a.skipped++
		}
		s.live = append(s.live, liveEvent{it.liveHash(), s.seq})
		return
	case it.class == classStrict:
		s.seq++
		it.seq = s.seq
		s.strict = append(s.strict, it)
		for _, key := range it.bounds {
			s.texts[key] = append(s.texts[key], segment{it: it})
		}
		s.bytes += len(it.event.Raw)
	default:
		for _, key := range it.closes {
			// Not when the replay is past that stream, and would never meet the bound.
			if a.lanes.has(key) || len(s.texts[key]) > 0 {
				s.texts[key] = append(s.texts[key], segment{it: it})
			}
		}
		if len(it.text) == 0 {
			a.matched++ // it says nothing
		}
	}
	if len(it.text) > 0 {
		s.texts[it.key] = append(s.texts[it.key], segment{it, it.text})
		s.pieces++
		s.bytes += len(it.event.Raw)
	}
}

// shift removes the first segment of a text.
func (s *ahead) shift(key string) {
	list := s.texts[key]
	if list[0].text != nil {
		s.pieces--
		s.bytes -= len(list[0].it.event.Raw)
	}
	if len(list) == 1 {
		delete(s.texts, key)
		return
	}
	s.texts[key] = list[1:]
}

// first returns the first stored item that the replay has not reproduced, or nil.
func (s *ahead) first() *item {
	first := s.firstText()
	if len(s.strict) > 0 && (first == nil || s.strict[0].offset < first.offset) {
		first = s.strict[0]
	}
	return first
}

// firstText returns the first stored item whose text the replay has not reproduced, or nil.
func (s *ahead) firstText() *item {
	var first *item
	for _, list := range s.texts {
		for _, seg := range list {
			if seg.text != nil && (first == nil || seg.it.offset < first.offset) {
				first = seg.it
			}
		}
	}
	return first
}

// passLive gives up the live events before a strict item; after every one when it is not stored.
func (a *Aligner) passLive(before uint64) {
	s := &a.ahead
	n := 0
	for n < len(s.live) && s.live[n].seq < before {
		n++
	}
	a.skipped += n
	if s.live = s.live[n:]; len(s.live) == 0 {
		s.live = nil
	}
}

// takeLive finds a live event between the strict event met last and the next one.
func (s *ahead) takeLive(hash IDHash) bool {
	for i, l := range s.live {
		if len(s.strict) > 0 && l.seq >= s.strict[0].seq {
			return false
		}
		if l.hash == hash {
			s.live = append(s.live[:i:i], s.live[i+1:]...)
			return true
		}
	}
	return false
}
