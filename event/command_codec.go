package event

import (
	"encoding/binary"
	"fmt"
)

// AppendCommand appends kind, length and body of c to dst: one command of an entry, and one
// element of a forwarded group.
func AppendCommand(dst []byte, c Command) []byte {
	dst = append(dst, byte(c.Kind()))
	// The length is written before the body is known: reserve a fixed-width varint of 4 bytes.
	at := len(dst)
	dst = append(dst, 0x80, 0x80, 0x80, 0)
	switch c := c.(type) {
	case *Append:
		dst = appendBatch(dst, &c.Batch)
	case LeaderStart:
		dst = binary.AppendUvarint(dst, c.Term)
		dst = appendBytes(dst, c.ClusterID)
	case CreateRun:
		dst = appendCreateRun(dst, &c)
	case PatchRun:
		dst = appendBytes(dst, c.Run)
		dst = appendOptional(dst, (*uint64)(c.Epoch))
		dst = appendBytes(dst, c.Patch)
	case DeleteRun:
		dst = appendBytes(dst, c.Run)
	default:
		var ok bool
		if dst, ok = appendLeaseCommand(dst, c); !ok {
			dst, ok = appendStreamCommand(dst, c)
		}
		if !ok {
			dst, ok = appendRunStreamCommand(dst, c)
		}
		if !ok {
			dst, ok = appendSubscriptionCommand(dst, c)
		}
		if !ok {
			dst, ok = appendThreadCommand(dst, c)
		}
		if !ok {
			dst, ok = appendRosterCommand(dst, c)
		}
		if !ok {
			panic(fmt.Sprintf("event: command %T has no encoding", c))
		}
	}
	n := len(dst) - at - 4
	if n >= 1<<28 {
		panic("event: command over 256 MiB")
	}
	dst[at] |= byte(n & 0x7f)
	dst[at+1] |= byte(n >> 7 & 0x7f)
	dst[at+2] |= byte(n >> 14 & 0x7f)
	dst[at+3] = byte(n >> 21)
	return dst
}

// DecodeCommand decodes one command that [AppendCommand] wrote; byte slices alias b.
func DecodeCommand(b []byte) (Command, error) {
	w := wire{b: b}
	c, err := w.command()
	if err != nil {
		return nil, err
	}
	return c, w.done("command")
}

func (w *wire) command() (Command, error) {
	kind := Kind(w.byte())
	body := wire{b: w.bytes()}
	if w.err != nil {
		return nil, w.err
	}
	c, err := body.body(kind)
	if err != nil {
		return nil, err
	}
	return c, body.done(fmt.Sprintf("command of kind %d", kind))
}

func (w *wire) body(kind Kind) (Command, error) {
	switch kind {
	case KindAppend:
		return w.batch(), nil
	case KindLeaderStart:
		return LeaderStart{Term: w.uvarint(), ClusterID: w.string()}, nil
	case KindCreateRun:
		return w.createRun(), nil
	case KindPatchRun:
		return PatchRun{Run: RunID(w.string()), Epoch: (*Epoch)(w.optional()), Patch: w.bytes()}, nil
	case KindDeleteRun:
		return DeleteRun{Run: RunID(w.string())}, nil
	}
	if c := w.leaseCommand(kind); c != nil {
		return c, nil
	}
	if c := w.streamCommand(kind); c != nil {
		return c, nil
	}
	if c := w.subscriptionCommand(kind); c != nil {
		return c, nil
	}
	if c := w.runStreamCommand(kind); c != nil {
		return c, nil
	}
	if c := w.threadCommand(kind); c != nil {
		return c, nil
	}
	if c := w.rosterCommand(kind); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("command kind %d is not known to this build", kind)
}

func appendOptional(dst []byte, v *uint64) []byte {
	if v == nil {
		return append(dst, 0)
	}
	return binary.AppendUvarint(append(dst, 1), *v)
}

func (w *wire) optional() *uint64 {
	if w.byte() == 0 {
		return nil
	}
	v := w.uvarint()
	return &v
}

func appendBatch(dst []byte, b *Batch) []byte {
	dst = appendBytes(dst, b.Run)
	dst = appendOptional(dst, (*uint64)(b.Epoch))
	dst = appendOptional(dst, (*uint64)(b.Expect))
	if p := b.Producer; p == nil {
		dst = append(dst, 0)
	} else {
		dst = appendBytes(append(dst, 1), p.ID)
		dst = binary.AppendUvarint(dst, p.Epoch)
		dst = binary.AppendUvarint(dst, p.Seq)
		dst = binary.BigEndian.AppendUint64(dst, b.BodyHash)
	}
	dst = binary.AppendUvarint(dst, uint64(len(b.Events)))
	for i := range b.Events {
		dst = appendEventBytes(dst, &b.Events[i])
	}
	return dst
}

func (w *wire) batch() *Append {
	a := &Append{Batch{Run: RunID(w.string())}}
	a.Epoch = (*Epoch)(w.optional())
	a.Expect = (*Offset)(w.optional())
	if w.byte() != 0 {
		a.Producer = &Producer{ID: ProducerID(w.string()), Epoch: w.uvarint(), Seq: w.uvarint()}
		a.BodyHash = w.uint64()
	}
	n := w.count(3)
	a.Events = make([]Event, n)
	for i := range a.Events {
		w.event(&a.Events[i])
	}
	return a
}

func appendCreateRun(dst []byte, c *CreateRun) []byte {
	dst = appendBytes(dst, c.Run)
	dst = appendBytes(dst, c.Thread)
	dst = appendBytes(dst, c.Parent)
	dst = appendBytes(dst, c.Grammar)
	if c.Started == nil {
		dst = append(dst, 0)
	} else {
		dst = appendEventBytes(append(dst, 1), c.Started)
	}
	dst = appendBytes(dst, c.Holder)
	dst = binary.AppendVarint(dst, c.LeaseMs)
	dst = appendOptionalMs(dst, c.TakeoverMs)
	dst = appendFlag(dst, c.RejectBusy)
	dst = appendBytes(dst, c.Metadata)
	return append(dst, c.Key[:]...)
}

func (w *wire) createRun() CreateRun {
	c := CreateRun{
		Run: RunID(w.string()), Thread: ThreadID(w.string()), Parent: RunID(w.string()),
		Grammar: Grammar(w.string()),
	}
	if w.byte() != 0 {
		c.Started = new(Event)
		w.event(c.Started)
	}
	c.Holder = HolderID(w.string())
	c.LeaseMs = w.varint()
	c.TakeoverMs = w.optionalMs()
	c.RejectBusy = w.byte() != 0
	c.Metadata = w.bytes()
	copy(c.Key[:], w.take(16))
	return c
}
