package event

import (
	"bytes"
	"context"
	"math"
	"slices"
)

// place finds an item in the log, or makes it ready.
func (a *Aligner) place(ctx context.Context, it *item) (Verdict, error) {
	switch {
	case a.broken == appendsAll:
		return a.append(it)
	case it.class == classLive:
		return a.placeLive(ctx, it)
	case it.class == classStrict && !it.met:
		return a.placeStrict(ctx, it)
	case len(it.text) == 0:
		return a.placeEmpty(ctx, it)
	}
	return a.placeDelta(ctx, it)
}

// append makes an item ready.
func (a *Aligner) append(it *item) (Verdict, error) {
	if !a.ahead.clear() {
		if a.readyBytes > maxAheadBytes {
			return 0, a.lost(it)
		}
		if a.breaksIn(it) {
			return 0, diverged(a.ahead.first(), it, "type", "")
		}
	}
	a.ready = append(a.ready, it)
	a.readyBytes += len(it.event.Raw)
	if it.done > 0 {
		return VerdictRest, nil
	}
	return VerdictAppend, nil
}

// breaksIn reports whether an event that waits would end a chunk stream that the log has open and
// the replay has not come to: that stream could not go on.
func (a *Aligner) breaksIn(it *item) bool {
	lanes := chunkLanes{open: slices.Clone(a.ahead.lanes.open)}
	there := item{typ: it.typ, members: it.members, lane: it.lane}
	lanes.take(&there)
	for _, key := range there.closes {
		if !slices.Contains(it.closes, key) {
			return true
		}
	}
	return false
}

func (a *Aligner) placeStrict(ctx context.Context, it *item) (Verdict, error) {
	s := &a.ahead
	for len(s.strict) == 0 {
		var read *item
		var err error
		if len(a.ready) == 0 {
			if read, err = a.pull(ctx, it); err != nil {
				return 0, err
			}
		}
		if read != nil {
			continue
		}
		if err := a.within(it, it); err != nil {
			return 0, err
		}
		a.passLive(math.MaxUint64)
		return a.append(it)
	}
	stored := s.strict[0]
	if d, differs := differ(stored, it, a.own); differs && a.broken != ignoresFields {
		return 0, diverged(stored, it, d.field, d.hint(stored.typ))
	}
	if err := a.within(stored, it); err != nil {
		return 0, err
	}
	for _, key := range stored.bounds {
		for own := false; !own && len(s.texts[key]) > 0; s.shift(key) {
			own = s.texts[key][0].it == stored
		}
	}
	s.strict = s.strict[1:]
	s.bytes -= len(stored.event.Raw)
	a.passLive(stored.seq)
	if len(stored.text) == 0 {
		a.matched++ // else with its text
	}
	if it.met = true; len(it.text) == 0 {
		return VerdictHeld, nil
	}
	return a.placeDelta(ctx, it)
}

// within checks that no stored text comes before a strict event that the replay sends only after
// it. bound is the stored event, or the replayed one when the log lacks it.
func (a *Aligner) within(bound, it *item) error {
	s := &a.ahead
	if a.broken == ignoresBounds {
		return nil
	}
	if bound.wall && s.pieces > 0 {
		return diverged(s.firstText(), it, "delta", "")
	}
	for _, key := range bound.bounds {
		for _, seg := range s.texts[key] {
			if seg.text != nil {
				return diverged(seg.it, it, "delta", "")
			}
			if seg.it == bound {
				break
			}
		}
	}
	return nil
}

// closed leaves the chunk streams that a replayed event has ended: the log holds no more of them.
// There they may have been ended by another event, if that was a delta.
func (a *Aligner) closed(it *item) error {
	s := &a.ahead
	if a.broken == ignoresBounds {
		return nil
	}
	for _, key := range it.closes {
		list := s.texts[key]
		if len(list) > 0 && list[0].text != nil {
			return diverged(list[0].it, it, "delta", "")
		}
		if len(list) > 0 && list[0].it.class == classDelta {
			s.shift(key)
		}
	}
	return nil
}

func (a *Aligner) placeDelta(ctx context.Context, it *item) (Verdict, error) {
	s := &a.ahead
	for it.done < len(it.text) {
		if list := s.texts[it.key]; len(list) > 0 {
			if err := a.meet(it, &list[0]); err != nil {
				return 0, err
			}
			continue
		}
		if s.blocked() {
			return 0, diverged(s.strict[len(s.strict)-1], it, "delta", "")
		}
		var read *item
		var err error
		if len(a.ready) == 0 {
			if read, err = a.pull(ctx, it); err != nil {
				return 0, err
			}
		}
		if read == nil {
			if a.broken == appendsWhole {
				it.done = 0
			}
			return a.append(it)
		}
	}
	return VerdictHeld, nil
}

// meet compares what is left of a replayed delta with the next stored text of its id.
func (a *Aligner) meet(it *item, seg *segment) error {
	if seg.text == nil {
		if a.broken == ignoresBounds {
			a.ahead.shift(it.key)
			return nil
		}
		return diverged(seg.it, it, "delta", "")
	}
	if seg.it.typ != it.typ {
		return diverged(seg.it, it, "type", "")
	}
	left := it.text[it.done:]
	n := min(len(left), len(seg.text))
	if !bytes.Equal(left[:n], seg.text[:n]) && a.broken != ignoresFields {
		return diverged(seg.it, it, "delta", "")
	}
	it.done += n
	if seg.text = seg.text[n:]; len(seg.text) == 0 {
		seg.text = emptyText // it was text, not a bound
		a.ahead.shift(it.key)
		a.matched++
	}
	return nil
}

var emptyText = []byte{}

// placeEmpty passes an event whose delta is empty. It says nothing, so it is appended only where
// the log ends, to leave an exact replay as it is.
func (a *Aligner) placeEmpty(ctx context.Context, it *item) (Verdict, error) {
	s := &a.ahead
	for {
		if !s.clear() && len(a.ready) == 0 {
			return VerdictHeld, nil
		}
		if len(a.ready) > 0 {
			return a.append(it)
		}
		read, err := a.pull(ctx, it)
		switch {
		case err != nil:
			return 0, err
		case read == nil:
			return a.append(it)
		case read.class == classDelta && len(read.text) == 0 && read.typ == it.typ && read.key == it.key:
			return VerdictHeld, nil
		}
	}
}

// placeLive looks for a CUSTOM or RAW event between the strict events around it.
func (a *Aligner) placeLive(ctx context.Context, it *item) (Verdict, error) {
	s := &a.ahead
	hash := it.liveHash()
	if s.takeLive(hash) {
		a.matched++
		return VerdictHeld, nil
	}
	if len(a.ready) > 0 {
		return a.append(it)
	}
	from, held := s.next, s.bytes
	for len(s.strict) == 0 && s.next-from < searchRecords && s.bytes-held < searchBytes {
		read, err := a.pull(ctx, it)
		switch {
		case err != nil:
			return 0, err
		case read == nil && s.clear():
			return a.append(it)
		case read == nil:
			a.lacking++
			return VerdictLacking, nil
		case read.class == classLive && s.takeLive(hash):
			a.matched++
			return VerdictHeld, nil
		}
	}
	a.lacking++
	return VerdictLacking, nil
}
