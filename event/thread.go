package event

import (
	"errors"
	"strconv"
	"strings"
)

// ErrBadThreadCursor says that a cursor of a thread is not <ordinal>.<offset>.
var ErrBadThreadCursor = errors.New("not a cursor of a thread: <ordinal>.<offset>")

// Ordinal numbers a thread's runs in order of creation, dense from 0. A deleted run keeps its number.
type Ordinal uint64

// ThreadCursor is a place in a thread: everything of the runs before Ordinal and the first Offset
// events of that run have been seen. The zero value is the thread's beginning.
type ThreadCursor struct {
	Ordinal Ordinal
	Offset  Offset
}

// String returns the cursor as clients see it: <ordinal>.<offset>, both decimal.
func (c ThreadCursor) String() string {
	return strconv.FormatUint(uint64(c.Ordinal), 10) + "." + strconv.FormatUint(uint64(c.Offset), 10)
}

// ParseThreadCursor reads what [ThreadCursor.String] wrote, and nothing else: signs, spaces and
// leading zeros are [ErrBadThreadCursor].
func ParseThreadCursor(text string) (ThreadCursor, error) {
	run, offset, ok := strings.Cut(text, ".")
	n, err := strconv.ParseUint(run, 10, 64)
	o, err2 := strconv.ParseUint(offset, 10, 64)
	c := ThreadCursor{Ordinal(n), Offset(o)}
	if !ok || err != nil || err2 != nil || c.String() != text {
		return ThreadCursor{}, ErrBadThreadCursor
	}
	return c, nil
}
