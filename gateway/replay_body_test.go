package gateway

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/runlog/runlog/event"
)

// readAll splits a body.
func readAll(r io.Reader) (events []event.Event, err error) {
	s := &eventStream{r: r}
	for {
		p := s.piece()
		events = append(events, p.events...)
		if p.end {
			return events, nil
		}
		if p.err != nil {
			return events, p.err
		}
	}
}

// checkStream requires that a body is split as an append's would be, however it arrives.
func checkStream(t *testing.T, body []byte) {
	want, wantErr := event.ParseBody(body)
	if errors.Is(wantErr, event.ErrTooLarge) {
		return // an append takes fewer
	}
	for _, r := range []io.Reader{bytes.NewReader(body), iotest.OneByteReader(bytes.NewReader(body)), iotest.DataErrReader(bytes.NewReader(body))} {
		got, err := readAll(r)
		if wantErr != nil {
			if err == nil && len(got) > 0 {
				t.Fatalf("%q: %d events, an append says %v", body, len(got), wantErr)
			}
			continue
		}
		if err != nil || len(got) != len(want) {
			t.Fatalf("%q: %d events, %v; want %d", body, len(got), err, len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i].Raw, want[i].Raw) {
				t.Fatalf("%q: event %d is %q", body, i, got[i].Raw)
			}
		}
	}
}

var streams = []string{
	"", "[]", " [ ] ", "{", "[", "]", "[,]", "null", `{"type":"A"}`, `[{"type":"A"}]`, `{"type":"A"}` + "\n\r\t " + `{"type":"B"}`, `{"type":"A"}{"type":"B"}`,
	`[{"type":"A"},{"type":"B"}]`, `[{"type":"A"}{"type":"B"}]`, `[{"type":"A"},]`, `[{"type":"A"}] x`, `{"type":"A"},{"type":"B"}`, `[[{"type":"A"}]]`,
	`{"type":"A","x":"}\"]\\"}` + `{"type":"B","y":[{"z":"{["}]}`, `{"type":"A"`, `{"type":"A"}]`, "{\"type\":\"\xff\"}", `{"type":"A}`, `[{"type":"A"},,{"type":"B"}]`,
}

func TestEventStream(t *testing.T) {
	t.Parallel()
	for _, s := range streams {
		checkStream(t, []byte(s))
	}
	if _, err := readAll(iotest.ErrReader(errors.New("gone"))); err == nil || strings.Contains(err.Error(), "gone") {
		t.Fatalf("got %v", err)
	}
}

// FuzzEventStream: a stream is split as a body is.
func FuzzEventStream(f *testing.F) {
	for _, s := range streams {
		f.Add([]byte(s))
	}
	f.Fuzz(checkStream)
}
