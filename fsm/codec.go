package fsm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrDamaged says that stored state cannot be trusted: a checksum does not match, or something
// that must exist is missing. The node must stop; see [Config.Fatal].
var ErrDamaged = errors.New("stored state is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal appends the CRC-32C of key and value, so that a value found under another key is
// noticed as well as a flipped bit.
func seal(key, value []byte) []byte {
	crc := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
	return binary.BigEndian.AppendUint32(value, crc)
}

// unseal checks and strips what seal appended.
func unseal(key, sealed []byte) ([]byte, error) {
	if len(sealed) < 4 {
		return nil, fmt.Errorf("%w: value of %d bytes under %q", ErrDamaged, len(sealed), key)
	}
	value := sealed[:len(sealed)-4]
	crc := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
	if crc != binary.BigEndian.Uint32(sealed[len(value):]) {
		return nil, fmt.Errorf("%w: bad checksum under %q", ErrDamaged, key)
	}
	return value, nil
}

// enc builds a stored value; dec reads one back. A dec that runs short stays failed.
type enc struct{ b []byte }

func (e *enc) u8(v byte)      { e.b = append(e.b, v) }
func (e *enc) uv(v uint64)    { e.b = binary.AppendUvarint(e.b, v) }
func (e *enc) iv(v int64)     { e.b = binary.AppendVarint(e.b, v) }
func (e *enc) u64(v uint64)   { e.b = binary.BigEndian.AppendUint64(e.b, v) }
func (e *enc) raw(v []byte)   { e.b = append(e.b, v...) }
func (e *enc) str(v string)   { e.uv(uint64(len(v))); e.b = append(e.b, v...) }
func (e *enc) flag(v bool)    { e.u8(map[bool]byte{true: 1}[v]) }
func (e *enc) optIv(v *int64) { e.flag(v != nil); e.iv(deref(v)) }
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

type dec struct {
	b   []byte
	bad bool
}

func (d *dec) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *dec) u8() byte {
	if v := d.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (d *dec) uv() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *dec) iv() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *dec) u64() uint64 {
	if v := d.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (d *dec) bytes() []byte { return d.take(d.uv()) }
func (d *dec) str() string   { return string(d.bytes()) }
func (d *dec) flag() bool    { return d.u8() != 0 }

func (d *dec) optIv() *int64 {
	set, v := d.flag(), d.iv()
	if !set {
		return nil
	}
	return &v
}

// done reports anything but an exact fit as damage.
func (d *dec) done(what string) error {
	if d.bad || len(d.b) > 0 {
		return fmt.Errorf("%w: %s does not decode", ErrDamaged, what)
	}
	return nil
}
