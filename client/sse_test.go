package client

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
)

// TestFrames: comments, fields of no interest and missing spaces do not matter; a frame that is cut
// short is none.
func TestFrames(t *testing.T) {
	t.Parallel()
	f := newFrames(strings.NewReader("retry: 1000\n\n: heartbeat\n\nid: 3\ndata: {}\n\n:\n\nevent: x\nid:4\ndata:{\"a\":\"b: c\"}\n\nid: 5\ndata: {"))
	for _, want := range []struct {
		offset event.Offset
		raw    string
	}{{3, "{}"}, {4, `{"a":"b: c"}`}} {
		rec, err := f.next()
		if err != nil || rec.Offset != want.offset || string(rec.Raw) != want.raw {
			t.Fatalf("%d %s %v, want %v", rec.Offset, rec.Raw, err, want)
		}
	}
	if _, err := f.next(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
}

// TestFramesLong: an event may be as long as an event may be.
func TestFramesLong(t *testing.T) {
	t.Parallel()
	raw := strings.Repeat("x", event.MaxEventBytes)
	rec, err := newFrames(strings.NewReader("id: 0\ndata: " + raw + "\n\n")).next()
	if err != nil || string(rec.Raw) != raw {
		t.Fatalf("%d bytes, %v", len(rec.Raw), err)
	}
}

// TestFramesForeign: a stream that is not ours is an error, not silence.
func TestFramesForeign(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"data: {}\n\n", "id: x\ndata: {}\n\n", "id: -1\ndata: {}\n\n"} {
		if _, err := newFrames(strings.NewReader(s)).next(); !errors.Is(err, errFrame) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

// FuzzFrames: no input makes the reader fail otherwise than with an error, or go on for ever.
func FuzzFrames(f *testing.F) {
	f.Add("retry: 1000\n\nid: 3\ndata: {}\n\n")
	f.Add(":\n\n\n\ndata\nid\n\n")
	f.Fuzz(func(t *testing.T, s string) {
		frames := newFrames(strings.NewReader(s))
		for n := 0; ; n++ {
			if _, err := frames.next(); err != nil {
				return
			}
			if n > len(s) {
				t.Fatal("more frames than bytes")
			}
		}
	})
}
