package projection

import "github.com/runlog/runlog/event"

// toolsVersion is the layout that MarshalBinary writes: the calls in order, the numbers of those
// that the present run started, the present run, the open chunk streams.
const toolsVersion = 2

// Bits of a call's flags.
const (
	callEnded       = 1 << 0
	callResulted    = 1 << 1
	callInterrupted = 1 << 2
	callPending     = 1 << 3
	callAgain       = 1 << 4
)

// MarshalBinary returns the fold.
func (t *toolsFold) MarshalBinary() ([]byte, error) {
	e := newEncoder(KindTools, toolsVersion, t.Size())
	e.uint(uint64(len(t.list)))
	number := make(map[*toolCall]int, len(t.list))
	for i, c := range t.list {
		number[c] = i
		e.toolCall(c)
	}
	e.uint(uint64(len(t.started)))
	for _, c := range t.started {
		e.uint(uint64(number[c]))
	}
	e.string(t.run)
	e.lanes(&t.lanes)
	return e.out, nil
}

// UnmarshalBinary replaces the fold.
func (t *toolsFold) UnmarshalBinary(data []byte) error {
	d, err := newDecoder(KindTools, toolsVersion, data)
	if err != nil {
		return err
	}
	n := newTools()
	for range d.count() {
		c := d.toolCall()
		n.list = append(n.list, c)
		n.byID[keyOf(c.id)] = c
		n.bytes += 2*overhead + len(c.id) + len(c.name) + len(c.parent) + len(c.sub) +
			len(c.args) + len(c.result) + len(c.resultMessageID) + len(c.run) + len(c.resultRun)
	}
	for range d.count() {
		i := d.uint()
		if i >= uint64(len(n.list)) {
			return ErrCorrupt
		}
		n.list[i].inRun = true
		n.started = append(n.started, n.list[i])
	}
	n.run = d.raw()
	d.lanes(&n.lanes)
	if err := d.end(); err != nil {
		return err
	}
	*t = *n
	return nil
}

func (e *encoder) toolCall(c *toolCall) {
	var flags byte
	if c.ended != nil {
		flags |= callEnded
	}
	if c.resulted != nil {
		flags |= callResulted
	}
	if c.interrupted {
		flags |= callInterrupted
	}
	if c.pending {
		flags |= callPending
	}
	if c.again {
		flags |= callAgain
	}
	e.byte(flags)
	for _, s := range []string{c.id, c.name, c.parent, c.sub, c.run, c.resultRun, c.resultMessageID, c.result} {
		e.string(s)
	}
	e.bytes(c.args)
	for _, m := range []*moment{&c.started, c.ended, c.resulted} {
		if m != nil {
			e.uint(uint64(m.offset))
			e.uint(uint64(m.at))
		}
	}
}

func (d *decoder) toolCall() *toolCall {
	flags := d.byte()
	c := &toolCall{
		id: d.raw(), name: d.raw(), parent: d.raw(), sub: d.raw(),
		run: d.raw(), resultRun: d.raw(), resultMessageID: d.raw(), result: d.string(), args: d.copy(),
	}
	c.started = d.moment()
	if flags&callEnded != 0 {
		m := d.moment()
		c.ended = &m
	}
	if flags&callResulted != 0 {
		m := d.moment()
		c.resulted = &m
	}
	c.again = flags&callAgain != 0
	c.interrupted, c.pending = flags&callInterrupted != 0, flags&callPending != 0
	return c
}

func (d *decoder) moment() moment {
	return moment{event.Offset(d.uint()), event.Time(d.uint())}
}
