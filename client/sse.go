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

// next returns the next event of a stream whose ids are offsets.
func (f *frames) next() (rec event.Record, err error) {
	id, raw, err := f.frame()
	if err != nil {
		return rec, err
	}
	n, err := strconv.ParseUint(id, 10, 64)
	if err != nil {
		return rec, errFrame
	}
	return event.Record{Offset: event.Offset(n), Raw: raw}, nil
}

// frame returns the next event's id and data. A frame that the stream's end cut short is none: the
// next connection sends it whole. The error is io.EOF at the end.
func (f *frames) frame() (id string, raw []byte, err error) {
	for f.s.Scan() {
		line := f.s.Bytes()
		if len(line) == 0 {
			switch {
			case raw == nil:
				continue // the blank line after retry: or a comment
			case id == "":
				return "", nil, errFrame
			}
			return id, raw, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			id = string(value)
		case "data":
			if raw != nil {
				raw = append(raw, '\n')
			}
			raw = append(raw, value...)
		}
	}
	if err := f.s.Err(); err != nil {
		return "", nil, err
	}
	return "", nil, io.EOF
}
