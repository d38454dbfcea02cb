package event

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// MaxIDBytes bounds the ids that callers choose: runs, threads, holders, producers.
const MaxIDBytes = 256

// RunID names a run: 1–256 bytes of UTF-8 without control characters, not "." or "..".
// A run id is never used twice, not even after its run was deleted.
type RunID string

// ThreadID names the conversation that a run belongs to; same form as a [RunID].
type ThreadID string

// HolderID names whoever holds a lease, usually one host process; same form as a [RunID].
type HolderID string

// ProducerID names an idempotent producer of a stream; same form as a [RunID].
type ProducerID string

// Offset is a dense position in a stream, from 0. An Offset stays below 2^53 so that
// JSON readers keep it exact. The tail of a stream is the offset its next event will get.
type Offset uint64

// MaxOffset is the largest offset that a request may name.
const MaxOffset Offset = 1<<53 - 1

// String returns the offset in decimal.
func (o Offset) String() string { return strconv.FormatUint(uint64(o), 10) }

// Epoch is the fencing token of a run: 0 while the run was never leased, then one more with
// each acquisition. See Gray & Cheriton, "Leases" (SOSP 1989), and Kleppmann's "How to do
// distributed locking" for why every write carries it.
type Epoch uint64

// Time is a moment in milliseconds since the Unix epoch, stamped by the leader and never
// decreasing along the log.
type Time int64

// IDError says why an id that a caller chose cannot be used.
type IDError struct {
	Field  string // where it stood: "runId", "holder", …
	Reason string
}

// Error names the field and the reason, never the id itself, which may hold control characters.
func (e *IDError) Error() string { return fmt.Sprintf("%s %s", e.Field, e.Reason) }

// CheckID returns nil if s may be used as an id, or an *[IDError] naming field.
func CheckID(field, s string) error {
	switch {
	case s == "":
		return &IDError{field, "is empty"}
	case len(s) > MaxIDBytes:
		return &IDError{field, fmt.Sprintf("has %d bytes; at most %d are allowed", len(s), MaxIDBytes)}
	case s == "." || s == "..":
		return &IDError{field, `must not be "." or ".."`}
	case !utf8.ValidString(s):
		return &IDError{field, "is not valid UTF-8"}
	}
	return checkControl(field, s)
}

// checkControl refuses control characters: they would break lines of logs and headers.
func checkControl(field, s string) error {
	for i, r := range s {
		if r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return &IDError{field, fmt.Sprintf("has a control character at byte %d", i)}
		}
	}
	return nil
}
