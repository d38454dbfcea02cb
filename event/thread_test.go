package event

import (
	"errors"
	"math"
	"testing"
)

func TestThreadCursorRoundTrip(t *testing.T) {
	t.Parallel()
	for _, c := range []ThreadCursor{{}, {Ordinal: 3, Offset: 41}, {Ordinal: math.MaxUint64, Offset: math.MaxUint64}} {
		got, err := ParseThreadCursor(c.String())
		if err != nil || got != c {
			t.Errorf("cursor %s reads as %v, %v", c, got, err)
		}
	}
}

func TestThreadCursorRefusesOtherText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", ".", "1", "1.", ".1", "01.2", "1.02", "+1.2", "-1.2", " 1.2", "1.2.3", "1.18446744073709551616"} {
		if c, err := ParseThreadCursor(text); !errors.Is(err, ErrBadThreadCursor) {
			t.Errorf("%q reads as %v, %v", text, c, err)
		}
	}
}
