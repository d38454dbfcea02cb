package event

import "encoding/binary"

// appendLeaseCommand appends the body of a command about leases or locks; false: it is none.
func appendLeaseCommand(dst []byte, c Command) ([]byte, bool) {
	switch c := c.(type) {
	case AcquireLease:
		dst = appendBytes(dst, c.Run)
		dst = appendBytes(dst, c.Holder)
		dst = binary.AppendVarint(dst, c.LeaseMs)
		dst = appendOptional(dst, (*uint64)(c.IfEpoch))
		dst = appendFlag(dst, c.Steal)
		dst = append(dst, c.Key[:]...)
	case ReviveLease:
		dst = appendVerdict(dst, c.Run, c.Epoch, uint64(c.LeaseMs))
	case ReleaseLease:
		dst = appendVerdict(dst, c.Run, c.Epoch)
		dst = appendOptionalMs(dst, c.TakeoverMs)
	case LapseLease:
		dst = appendVerdict(dst, c.Run, c.Epoch, uint64(c.Tail))
	case ExpireRun:
		dst = appendVerdict(dst, c.Run, c.Epoch, uint64(c.Tail), c.MaxBytes)
	case CancelRun:
		dst = appendBytes(dst, c.Run)
		dst = appendBytes(dst, c.Reason)
		dst = binary.AppendVarint(dst, c.WithinMs)
	case EnforceCancel:
		dst = appendVerdict(dst, c.Run, c.Epoch, uint64(c.Tail), c.MaxBytes)
	case AcquireLock:
		dst = appendBytes(dst, c.Name)
		dst = appendBytes(dst, c.Holder)
		dst = binary.AppendVarint(dst, c.LeaseMs)
		dst = append(dst, c.Key[:]...)
	case ReleaseLock:
		dst = appendVerdict(dst, c.Name, c.Epoch)
	case LapseLock:
		dst = appendVerdict(dst, c.Name, c.Epoch)
	default:
		return dst, false
	}
	return dst, true
}

func appendVerdict[T ~string](dst []byte, name T, epoch Epoch, numbers ...uint64) []byte {
	dst = appendBytes(dst, name)
	dst = binary.AppendUvarint(dst, uint64(epoch))
	for _, n := range numbers {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

func appendFlag(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

func appendOptionalMs(dst []byte, ms *int64) []byte {
	if ms == nil {
		return append(dst, 0)
	}
	return binary.AppendVarint(append(dst, 1), *ms)
}

func (w *wire) optionalMs() *int64 {
	if w.byte() == 0 {
		return nil
	}
	ms := w.varint()
	return &ms
}

// leaseCommand decodes what appendLeaseCommand wrote; nil: kind is none of its kinds.
func (w *wire) leaseCommand(kind Kind) Command {
	switch kind {
	case KindAcquireLease:
		c := AcquireLease{Run: RunID(w.string()), Holder: HolderID(w.string()), LeaseMs: w.varint(),
			IfEpoch: (*Epoch)(w.optional()), Steal: w.byte() != 0}
		copy(c.Key[:], w.take(16))
		return c
	case KindReviveLease:
		return ReviveLease{Run: RunID(w.string()), Epoch: Epoch(w.uvarint()), LeaseMs: int64(w.uvarint())}
	case KindReleaseLease:
		return ReleaseLease{Run: RunID(w.string()), Epoch: Epoch(w.uvarint()), TakeoverMs: w.optionalMs()}
	case KindLapseLease:
		return LapseLease{Run: RunID(w.string()), Epoch: Epoch(w.uvarint()), Tail: Offset(w.uvarint())}
	case KindExpireRun:
		return ExpireRun{Run: RunID(w.string()), Epoch: Epoch(w.uvarint()), Tail: Offset(w.uvarint()), MaxBytes: w.uvarint()}
	case KindCancelRun:
		return CancelRun{Run: RunID(w.string()), Reason: w.string(), WithinMs: w.varint()}
	case KindEnforceCancel:
		return EnforceCancel{Run: RunID(w.string()), Epoch: Epoch(w.uvarint()), Tail: Offset(w.uvarint()), MaxBytes: w.uvarint()}
	case KindAcquireLock:
		c := AcquireLock{Name: LockName(w.string()), Holder: HolderID(w.string()), LeaseMs: w.varint()}
		copy(c.Key[:], w.take(16))
		return c
	case KindReleaseLock:
		return ReleaseLock{Name: LockName(w.string()), Epoch: Epoch(w.uvarint())}
	case KindLapseLock:
		return LapseLock{Name: LockName(w.string()), Epoch: Epoch(w.uvarint())}
	}
	return nil
}
