package event

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errShort is the one error of the readers below: the bytes end before the value does.
var errShort = errors.New("cut short")

func appendBytes[T ~string | ~[]byte](dst []byte, b T) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// wire reads values off the front of a byte slice. After the first failure every read returns
// zero and err stays set, so that a decoder checks once, at its end.
type wire struct {
	b   []byte
	err error
}

func (w *wire) fail() {
	if w.err == nil {
		w.err = errShort
	}
	w.b = nil
}

func (w *wire) byte() byte {
	if len(w.b) < 1 {
		w.fail()
		return 0
	}
	v := w.b[0]
	w.b = w.b[1:]
	return v
}

func (w *wire) uvarint() uint64 {
	v, n := binary.Uvarint(w.b)
	if n <= 0 {
		w.fail()
		return 0
	}
	w.b = w.b[n:]
	return v
}

func (w *wire) varint() int64 {
	v, n := binary.Varint(w.b)
	if n <= 0 {
		w.fail()
		return 0
	}
	w.b = w.b[n:]
	return v
}

func (w *wire) uint64() uint64 {
	if len(w.b) < 8 {
		w.fail()
		return 0
	}
	v := binary.BigEndian.Uint64(w.b)
	w.b = w.b[8:]
	return v
}

// take returns the next n bytes, aliasing the input.
func (w *wire) take(n uint64) []byte {
	if n > uint64(len(w.b)) {
		w.fail()
		return nil
	}
	v := w.b[:n:n]
	w.b = w.b[n:]
	return v
}

func (w *wire) bytes() []byte  { return w.take(w.uvarint()) }
func (w *wire) string() string { return string(w.bytes()) }

// count reads the length of a list whose elements take at least min bytes each, so that a
// damaged length cannot make a decoder allocate more than its input could hold.
func (w *wire) count(min uint64) int {
	n := w.uvarint()
	if n > uint64(len(w.b))/min {
		w.fail()
		return 0
	}
	return int(n)
}

// done returns the first error, or one saying that what was left over.
func (w *wire) done(what string) error {
	if w.err != nil {
		return fmt.Errorf("%s: %w", what, w.err)
	}
	if len(w.b) > 0 {
		return fmt.Errorf("%s: %d bytes too many", what, len(w.b))
	}
	return nil
}
