package gateway

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/runlog/runlog/event"
)

// Offsets of streams are opaque to their readers, who may only compare them: decimal, with so many
// digits that the order of bytes is the order of offsets.
const streamOffsetDigits = 20

func appendStreamOffset(dst []byte, o event.Offset) []byte {
	var buf [20]byte
	digits := strconv.AppendUint(buf[:0], uint64(o), 10)
	dst = append(dst, "00000000000000000000"[:streamOffsetDigits-len(digits)]...)
	return append(dst, digits...)
}

func formatStreamOffset(o event.Offset) string { return string(appendStreamOffset(nil, o)) }

// parseStreamOffset reads an offset that a stream returned. Two numbers with "_" between are the
// reference servers' form; of those only the beginning of a stream means something here, and any
// other is beyond every tail.
func parseStreamOffset(s string) (event.Offset, bool) {
	if first, second, pair := strings.Cut(s, "_"); pair {
		if !isDigits(first) || !isDigits(second) {
			return 0, false
		}
		if strings.Trim(s, "0_") == "" {
			return 0, true
		}
		return beyondAll, true
	}
	n, ok := parseNumber(s)
	return event.Offset(n), ok
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// cursor makes the cursors of one live answer. Caches collapse readers by it, so it only ever grows,
// and never repeats the one a reader came with.
type cursor struct{ last uint64 }

// The protocol's: intervals of time since an epoch, and jitter of up to an hour past a reader's own.
const (
	cursorInterval = 20 * time.Second
	cursorJitter   = 3600
)

var cursorEpoch = time.Date(2024, 10, 9, 0, 0, 0, 0, time.UTC)

// newCursor follows the cursor that the reader sent; what is none counts as not sent.
func newCursor(sent string, now time.Time) cursor {
	c := cursor{intervalOf(now)}
	if n, ok := parseNumber(sent); ok && n >= c.last {
		seconds := 1 + rand.Uint64N(cursorJitter)
		c.last = n + max(1, seconds/uint64(cursorInterval/time.Second))
	}
	return c
}

func intervalOf(now time.Time) uint64 { return uint64(max(0, now.Sub(cursorEpoch)/cursorInterval)) }

// next returns the present cursor.
func (c *cursor) next(now time.Time) string {
	c.last = max(c.last, intervalOf(now))
	return strconv.FormatUint(c.last, 10)
}
