package event

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// The bits of a result's first byte; what follows stands in their order. Results travel only
// between nodes of one cluster, from the leader to the node that forwarded a command.
const (
	resultRefused = 1 << iota
	resultAppended
	resultDuplicate
	resultForgotten
	resultCancel
	resultCreated
	resultRun
	resultLock
)

// What may follow the parts that the first byte names: one of these, and what it says.
const (
	resultStream       = 1
	resultSubscription = 2
)

// AppendResult appends the encoding of r to dst.
func AppendResult(dst []byte, r Result) []byte {
	var mask byte
	for _, f := range [...]struct {
		bit byte
		set bool
	}{
		{resultRefused, r.Refusal != nil}, {resultAppended, r.Appended != (Appended{})},
		{resultDuplicate, r.Appended.Duplicate}, {resultForgotten, r.Appended.Forgotten},
		{resultCancel, r.Appended.CancelRequested}, {resultCreated, r.Created}, {resultRun, r.Run != nil},
		{resultLock, r.LockEpoch != 0},
	} {
		if f.set {
			mask |= f.bit
		}
	}
	dst = append(dst, mask)
	dst = binary.AppendUvarint(dst, r.Index)
	if mask&resultRefused != 0 {
		dst = appendBytes(dst, r.Refusal.Code())
		dst = appendBytes(dst, mustJSON(r.Refusal))
	}
	if mask&resultAppended != 0 {
		dst = binary.AppendUvarint(dst, uint64(r.Appended.FirstOffset))
		dst = binary.AppendUvarint(dst, uint64(r.Appended.Tail))
	}
	if mask&resultRun != 0 {
		dst = appendBytes(dst, mustJSON(r.Run))
	}
	if mask&resultLock != 0 {
		dst = binary.AppendUvarint(dst, uint64(r.LockEpoch))
	}
	switch {
	case r.Stream != nil:
		dst = appendStreamResult(append(dst, resultStream), r.Stream)
	case r.Subscription != nil:
		dst = appendFlag(append(dst, resultSubscription), r.NextWake)
		dst = appendBytes(dst, mustJSON(r.Subscription))
	}
	return dst
}

// DecodeResult decodes what [AppendResult] wrote.
func DecodeResult(b []byte) (Result, error) {
	w := wire{b: b}
	mask := w.byte()
	r := Result{Index: w.uvarint(), Created: mask&resultCreated != 0}
	if mask&resultRefused != 0 {
		code, fields := w.string(), w.bytes()
		if w.err == nil {
			var err error
			if r.Refusal, err = DecodeRefusal(code, fields); err != nil {
				return Result{}, err
			}
		}
	}
	if mask&resultAppended != 0 {
		r.Appended = Appended{
			FirstOffset: Offset(w.uvarint()), Tail: Offset(w.uvarint()),
			Duplicate: mask&resultDuplicate != 0, Forgotten: mask&resultForgotten != 0,
			CancelRequested: mask&resultCancel != 0,
		}
	}
	if mask&resultRun != 0 {
		r.Run = new(Run)
		if raw := w.bytes(); w.err == nil {
			if err := json.Unmarshal(raw, r.Run); err != nil {
				return Result{}, fmt.Errorf("result's run: %w", err)
			}
		}
	}
	if mask&resultLock != 0 {
		r.LockEpoch = Epoch(w.uvarint())
	}
	if len(w.b) > 0 {
		switch w.byte() {
		case resultStream:
			r.Stream = w.streamResult()
		case resultSubscription:
			r.NextWake = w.byte() != 0
			r.Subscription = new(Subscription)
			if raw := w.bytes(); w.err == nil {
				if err := json.Unmarshal(raw, r.Subscription); err != nil {
					return Result{}, fmt.Errorf("result's subscription: %w", err)
				}
			}
		default:
			w.fail()
		}
	}
	return r, w.done("result")
}

// mustJSON encodes a value of this package, which cannot fail.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("event: encode %T: %v", v, err))
	}
	return b
}
