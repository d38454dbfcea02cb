package event

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A Raft log entry, all integers big endian or varint:
//
//	field     type      meaning
//	version   uint8     1
//	crc       uint32    CRC-32C of everything after it
//	time      uint64    log time, ms since the epoch
//	count     uvarint   commands that follow
//	per command:
//	  kind    uint8     Kind
//	  length  uvarint   bytes of the body
//	  body              see command_codec.go
//
// The checksum is there because neither bbolt nor a flipped bit on the way would be noticed
// otherwise. The format must stay decodable for ever: old logs are replayed.
const entryVersion = 1

const entryHeaderBytes = 1 + 4 + 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendEntry appends the encoding of e to dst.
func AppendEntry(dst []byte, e Entry) []byte {
	start := len(dst)
	dst = AppendEntryHeader(dst, len(e.Commands))
	for _, c := range e.Commands {
		dst = AppendCommand(dst, c)
	}
	SealEntry(dst[start:], e.Time)
	return dst
}

// AppendEntryHeader begins an entry of count commands, for a caller that then appends commands
// encoded earlier by [AppendCommand] and calls [SealEntry].
func AppendEntryHeader(dst []byte, count int) []byte {
	dst = append(dst, entryVersion, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	return binary.AppendUvarint(dst, uint64(count))
}

// SealEntry writes the time and the checksum into an entry begun by [AppendEntryHeader].
func SealEntry(entry []byte, t Time) {
	binary.BigEndian.PutUint64(entry[5:], uint64(t))
	binary.BigEndian.PutUint32(entry[1:], crc32.Checksum(entry[5:], castagnoli))
}

// CheckEntry verifies an entry's version and checksum without decoding it. The log store calls it
// before an entry is stored or sent.
func CheckEntry(b []byte) error {
	if len(b) < entryHeaderBytes {
		return fmt.Errorf("entry of %d bytes: %w", len(b), errShort)
	}
	if b[0] != entryVersion {
		return fmt.Errorf("entry version %d is not known; this build knows %d", b[0], entryVersion)
	}
	if got, want := crc32.Checksum(b[5:], castagnoli), binary.BigEndian.Uint32(b[1:]); got != want {
		return fmt.Errorf("entry checksum is %08x, stored %08x", got, want)
	}
	return nil
}

// DecodeEntry decodes what [AppendEntry] wrote. Byte slices of the result alias b. An error
// means damage or a newer build's entry: the node must stop, never skip it.
func DecodeEntry(b []byte) (Entry, error) {
	if err := CheckEntry(b); err != nil {
		return Entry{}, err
	}
	w := wire{b: b[5:]}
	e := Entry{Time: Time(w.uint64())}
	n := w.count(2)
	e.Commands = make([]Command, 0, n)
	for range n {
		c, err := w.command()
		if err != nil {
			return Entry{}, fmt.Errorf("command %d: %w", len(e.Commands), err)
		}
		e.Commands = append(e.Commands, c)
	}
	return e, w.done("entry")
}
