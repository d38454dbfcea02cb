package event

import "encoding/binary"

// appendStreamCommand appends the body of a command about plain streams; false: it is none.
func appendStreamCommand(dst []byte, c Command) ([]byte, bool) {
	switch c := c.(type) {
	case *CreateStream:
		dst = appendBytes(dst, c.Name)
		dst = appendBytes(dst, c.ContentType)
		dst = appendOptionalMs(dst, c.TTLSeconds)
		dst = appendOptionalMs(dst, (*int64)(c.ExpiresAt))
		dst = appendFlag(dst, c.Closed)
		dst = appendFork(dst, c.Fork)
		dst = appendMessages(dst, c.Messages)
		dst = append(dst, c.Key[:]...)
	case *AppendStream:
		dst = appendBytes(dst, c.Name)
		dst = appendBytes(dst, c.ContentType)
		dst = appendMessages(dst, c.Messages)
		dst = appendFlag(dst, c.Close)
		dst = appendBytes(dst, c.Seq)
		dst = appendFlag(dst, c.Producer != nil)
		if p := c.Producer; p != nil {
			dst = appendBytes(dst, p.ID)
			dst = binary.AppendUvarint(dst, p.Epoch)
			dst = binary.AppendUvarint(dst, p.Seq)
		}
	case DeleteStream:
		dst = appendBytes(dst, c.Name)
	case TouchStream:
		dst = appendBytes(dst, c.Name)
		dst = appendBytes(dst, c.Generation)
	case ExpireStream:
		dst = appendBytes(dst, c.Name)
		dst = appendBytes(dst, c.Generation)
	default:
		return dst, false
	}
	return dst, true
}

// streamCommand decodes what appendStreamCommand wrote; nil: the kind is none of its.
func (w *wire) streamCommand(kind Kind) Command {
	switch kind {
	case KindCreateStream:
		c := &CreateStream{
			Name: StreamName(w.string()), ContentType: w.string(), TTLSeconds: w.optionalMs(),
			ExpiresAt: (*Time)(w.optionalMs()), Closed: w.byte() != 0, Fork: w.fork(), Messages: w.messages(),
		}
		copy(c.Key[:], w.take(16))
		return c
	case KindAppendStream:
		c := &AppendStream{
			Name: StreamName(w.string()), ContentType: w.string(), Messages: w.messages(), Close: w.byte() != 0, Seq: w.string(),
		}
		if w.byte() != 0 {
			c.Producer = &Producer{ID: ProducerID(w.string()), Epoch: w.uvarint(), Seq: w.uvarint()}
		}
		return c
	case KindDeleteStream:
		return DeleteStream{Name: StreamName(w.string())}
	case KindTouchStream:
		return TouchStream{Name: StreamName(w.string()), Generation: Generation(w.string())}
	case KindExpireStream:
		return ExpireStream{Name: StreamName(w.string()), Generation: Generation(w.string())}
	}
	return nil
}

func appendMessages(dst []byte, messages [][]byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(messages)))
	for _, m := range messages {
		dst = appendBytes(dst, m)
	}
	return dst
}

func (w *wire) messages() [][]byte {
	n := w.count(1)
	if n == 0 {
		return nil
	}
	messages := make([][]byte, n)
	for i := range messages {
		messages[i] = w.bytes()
	}
	return messages
}

func appendFork(dst []byte, f *Fork) []byte {
	dst = appendFlag(dst, f != nil)
	if f == nil {
		return dst
	}
	dst = appendBytes(dst, f.Source)
	dst = appendFlag(dst, f.OfRun)
	dst = appendBytes(dst, f.Generation)
	dst = appendOptional(dst, (*uint64)(f.At))
	dst = appendOptional(dst, (*uint64)(f.Requested))
	return binary.AppendUvarint(dst, f.Sub)
}

func (w *wire) fork() *Fork {
	if w.byte() == 0 {
		return nil
	}
	return &Fork{
		Source: StreamName(w.string()), OfRun: w.byte() != 0, Generation: Generation(w.string()),
		At: (*Offset)(w.optional()), Requested: (*Offset)(w.optional()), Sub: w.uvarint(),
	}
}

// appendStreamResult appends what a forwarded command about a stream answered.
func appendStreamResult(dst []byte, r *StreamResult) []byte {
	s := &r.Stream
	for _, text := range []string{string(s.Name), string(s.Generation), s.ContentType, s.LastSeq} {
		dst = appendBytes(dst, text)
	}
	dst = binary.AppendUvarint(dst, uint64(s.Tail))
	dst = appendFlag(dst, s.Closed)
	dst = appendOptionalMs(dst, s.TTLSeconds)
	dst = appendOptionalMs(dst, (*int64)(s.ExpiresAt))
	dst = binary.AppendVarint(dst, s.IdleMs)
	dst = appendFork(dst, s.Fork)
	dst = appendFlag(dst, s.Gone)
	dst = appendFlag(dst, r.Duplicate)
	dst = binary.AppendUvarint(dst, r.ProducerEpoch)
	return binary.AppendUvarint(dst, r.ProducerSeq)
}

func (w *wire) streamResult() *StreamResult {
	return &StreamResult{
		Stream: Stream{
			Name: StreamName(w.string()), Generation: Generation(w.string()), ContentType: w.string(), LastSeq: w.string(),
			Tail: Offset(w.uvarint()), Closed: w.byte() != 0, TTLSeconds: w.optionalMs(), ExpiresAt: (*Time)(w.optionalMs()),
			IdleMs: w.varint(), Fork: w.fork(), Gone: w.byte() != 0,
		},
		Duplicate: w.byte() != 0, ProducerEpoch: w.uvarint(), ProducerSeq: w.uvarint(),
	}
}
