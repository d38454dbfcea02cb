package projection

import (
	"encoding/binary"
	"errors"
)

// Checkpoint decoding errors. Either way the caller folds again from the first record.
var (
	// ErrVersion: the bytes are another kind's, or another version's.
	ErrVersion = errors.New("projection: unknown checkpoint kind or version")
	// ErrCorrupt: the bytes are damaged.
	ErrCorrupt = errors.New("projection: damaged checkpoint")
)

// encoder writes a checkpoint: kind (1 byte), version (1 byte), then unsigned varints, and byte
// strings preceded by their length.
type encoder struct{ out []byte }

func newEncoder(kind Kind, version byte, size int) *encoder {
	return &encoder{append(make([]byte, 0, size+16), byte(kind), version)}
}

func (e *encoder) uint(v uint64)   { e.out = binary.AppendUvarint(e.out, v) }
func (e *encoder) byte(v byte)     { e.out = append(e.out, v) }
func (e *encoder) bytes(v []byte)  { e.uint(uint64(len(v))); e.out = append(e.out, v...) }
func (e *encoder) string(v string) { e.uint(uint64(len(v))); e.out = append(e.out, v...) }

func (e *encoder) bool(v bool) {
	if v {
		e.byte(1)
	} else {
		e.byte(0)
	}
}

// decoder reads what encoder wrote. After the first damage it returns zeros; end tells.
type decoder struct {
	in  []byte
	bad bool
}

func newDecoder(kind Kind, version byte, data []byte) (*decoder, error) {
	if len(data) < 2 || data[0] != byte(kind) || data[1] != version {
		return nil, ErrVersion
	}
	return &decoder{in: data[2:]}, nil
}

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.in)
	if n <= 0 {
		d.in, d.bad = nil, true
		return 0
	}
	d.in = d.in[n:]
	return v
}

func (d *decoder) byte() byte {
	if len(d.in) == 0 {
		d.bad = true
		return 0
	}
	v := d.in[0]
	d.in = d.in[1:]
	return v
}

func (d *decoder) bool() bool { return d.byte() == 1 }

// bytes returns a part of the input, not a copy.
func (d *decoder) bytes() []byte {
	n := d.uint()
	if n > uint64(len(d.in)) {
		d.in, d.bad = nil, true
		return nil
	}
	v := d.in[:n:n]
	d.in = d.in[n:]
	return v
}

func (d *decoder) copy() []byte   { return append([]byte(nil), d.bytes()...) }
func (d *decoder) string() string { return string(d.bytes()) }

// count reads how many things follow, each at least one byte long.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.in)) {
		d.in, d.bad = nil, true
		return 0
	}
	return int(n)
}

// raw reads a JSON string that may be absent.
func (d *decoder) raw() string {
	s := d.string()
	if s != "" && !isString([]byte(s)) {
		d.bad = true
		return ""
	}
	return s
}

func (d *decoder) end() error {
	if d.bad || len(d.in) > 0 {
		return ErrCorrupt
	}
	return nil
}
