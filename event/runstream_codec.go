package event

import "encoding/binary"

// appendRunStreamCommand appends the body of a Durable Streams operation on a run; false: it is none.
func appendRunStreamCommand(dst []byte, c Command) ([]byte, bool) {
	switch c := c.(type) {
	case *OpenRunStream:
		dst = appendBytes(dst, c.Run)
		dst = appendOptional(dst, (*uint64)(c.Epoch))
		dst = appendBytes(dst, c.Holder)
		dst = binary.AppendVarint(dst, c.LeaseMs)
		dst = appendOptionalMs(dst, c.TakeoverMs)
		dst = append(dst, c.flags())
		if c.Thread != "" {
			dst = appendBytes(dst, c.Thread)
		}
		dst = appendRunMessages(dst, &c.Messages)
		dst = append(dst, c.Key[:]...)
	case *AppendRunStream:
		dst = appendBytes(dst, c.Run)
		dst = appendOptional(dst, (*uint64)(c.Epoch))
		dst = appendBytes(dst, c.Holder)
		dst = binary.AppendVarint(dst, c.LeaseMs)
		dst = appendRunMessages(dst, &c.Messages)
		dst = appendFlag(dst, c.Close)
		dst = appendBytes(dst, c.Seq)
		dst = appendFlag(dst, c.Producer != nil)
		if p := c.Producer; p != nil {
			dst = appendBytes(dst, p.ID)
			dst = binary.AppendUvarint(dst, p.Epoch)
			dst = binary.AppendUvarint(dst, p.Seq)
		}
	default:
		return dst, false
	}
	return dst, true
}

// The bits of an OpenRunStream's flags.
const (
	openClosed  = 1
	openRecords = 2
	openThread  = 4 // a thread follows
)

func (c *OpenRunStream) flags() (b byte) {
	if c.Closed {
		b |= openClosed
	}
	if c.Records {
		b |= openRecords
	}
	if c.Thread != "" {
		b |= openThread
	}
	return b
}

// runStreamCommand decodes what appendRunStreamCommand wrote; nil: the kind is none of its.
func (w *wire) runStreamCommand(kind Kind) Command {
	switch kind {
	case KindOpenRunStream:
		c := &OpenRunStream{
			Run: RunID(w.string()), Epoch: (*Epoch)(w.optional()), Holder: HolderID(w.string()), LeaseMs: w.varint(),
			TakeoverMs: w.optionalMs(),
		}
		flags := w.byte()
		c.Closed, c.Records = flags&openClosed != 0, flags&openRecords != 0
		if flags&openThread != 0 {
			c.Thread = ThreadID(w.string())
		}
		c.Messages = w.runMessages()
		copy(c.Key[:], w.take(16))
		return c
	case KindAppendRunStream:
		c := &AppendRunStream{
			Run: RunID(w.string()), Epoch: (*Epoch)(w.optional()), Holder: HolderID(w.string()), LeaseMs: w.varint(),
			Messages: w.runMessages(), Close: w.byte() != 0, Seq: w.string(),
		}
		if w.byte() != 0 {
			c.Producer = &Producer{ID: ProducerID(w.string()), Epoch: w.uvarint(), Seq: w.uvarint()}
		}
		return c
	}
	return nil
}

// appendRunMessages appends a count, whether they are records, and each message, a record's number first.
func appendRunMessages(dst []byte, m *RunMessages) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(m.Events)))
	dst = appendFlag(dst, m.Framed())
	for i := range m.Events {
		if m.Framed() {
			dst = binary.AppendUvarint(dst, m.Seqs[i])
		}
		dst = appendEventBytes(dst, &m.Events[i])
	}
	return dst
}

func (w *wire) runMessages() (m RunMessages) {
	n := w.count(3)
	framed := w.byte() != 0
	if n > 0 {
		m.Events = make([]Event, n)
	}
	if framed && n > 0 {
		m.Seqs = make([]uint64, n)
	}
	for i := range m.Events {
		if framed {
			m.Seqs[i] = w.uvarint()
		}
		w.event(&m.Events[i])
	}
	return m
}
