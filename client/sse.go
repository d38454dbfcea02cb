package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/runlog/runlog/event"
)

// maxFrameBytes bounds a line of a stream: an event, which has at most [event.MaxEventBytes], and
// what stands around it.
const maxFrameBytes = event.MaxEventBytes + 4096

var errFrame = errors.New("the stream is not a runlog event stream")

// frames reads a server-sent event stream (WHATWG HTML, "Server-sent events") as runlog writes it:
// one id and one data line per event, LF line ends, comments between.
type frames struct {
	s *bufio.Scanner
}

func newFrames(r io.Reader) *frames {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 16<<10), maxFrameBytes)
	return &frames{s}
}

// next returns the next event. A frame that the stream's end cut short is none: the next
// connection sends it whole. The error is io.EOF at the end.
func (f *frames) next() (event.Record, error) {
	var rec event.Record
	hasID := false
	for f.s.Scan() {
		line := f.s.Bytes()
		if len(line) == 0 {
			if rec.Raw == nil {
				continue // the blank line after retry: or a comment
			}
			if !hasID {
				return rec, errFrame
			}
			return rec, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			n, err := strconv.ParseUint(string(value), 10, 64)
			if err != nil {
				return rec, errFrame
			}
			rec.Offset, hasID = event.Offset(n), true
		case "data":
			if rec.Raw != nil {
				rec.Raw = append(rec.Raw, '\n')
			}
			rec.Raw = append(rec.Raw, value...)
		}
	}
	if err := f.s.Err(); err != nil {
		return rec, err
	}
	return rec, io.EOF
}
