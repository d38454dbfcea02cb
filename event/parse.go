package event

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// MaxDepth bounds how deep an event's JSON may nest, so that no reader's recursion is unbounded.
const MaxDepth = 256

// SyntaxError says why bytes are not an event.
type SyntaxError struct{ Reason string }

// Error returns the reason.
func (e *SyntaxError) Error() string { return e.Reason }

// ParseEvent checks that raw is one JSON object with a "type" string, and reads its [Header].
// The event keeps raw itself, not a copy. Any error is a *[SyntaxError].
func ParseEvent(raw []byte) (Event, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) > MaxEventBytes {
		return Event{}, &SyntaxError{fmt.Sprintf("the event has %d bytes; at most %d are allowed", len(raw), MaxEventBytes)}
	}
	if !utf8.Valid(raw) {
		return Event{}, &SyntaxError{"the event is not valid UTF-8"}
	}
	if len(raw) == 0 || raw[0] != '{' {
		return Event{}, &SyntaxError{"the event is not a JSON object"}
	}
	if d := depth(raw); d > MaxDepth {
		return Event{}, &SyntaxError{fmt.Sprintf("the event nests deeper than %d", MaxDepth)}
	}
	if !gjson.ValidBytes(raw) {
		return Event{}, &SyntaxError{"the event is not valid JSON"}
	}
	h, err := parseHeader(raw)
	if err != nil {
		return Event{}, err
	}
	return Event{Raw: raw, Header: h}, nil
}

// ParseBody reads the body of an append: a JSON array of events, one event, or NDJSON; its
// first byte and what follows the first value tell which. Errors are *[InvalidEvent], naming
// the event, or *[TooLarge]; an empty body or array is an *InvalidEvent at 0.
func ParseBody(body []byte) ([]Event, error) {
	b := bytes.TrimSpace(body)
	if len(b) == 0 {
		return nil, &InvalidEvent{0, "the body holds no event"}
	}
	if b[0] == '[' {
		return parseArray(b)
	}
	return parseValues(b)
}

var errBatchEvents = &TooLarge{"events in the batch", MaxBatchEvents}

// parseArray splits [v,v,…] without parsing the values twice.
func parseArray(b []byte) ([]Event, error) {
	var events []Event
	i := skipSpace(b, 1)
	if i < len(b) && b[i] == ']' {
		return nil, &InvalidEvent{0, "the array holds no event"}
	}
	for {
		end, err := valueEnd(b, i)
		if err != nil {
			return nil, &InvalidEvent{len(events), err.Error()}
		}
		if events, err = appendEvent(events, b[i:end]); err != nil {
			return nil, err
		}
		i = skipSpace(b, end)
		switch {
		case i >= len(b):
			return nil, &InvalidEvent{len(events) - 1, "the array ends without ]"}
		case b[i] == ',':
			i = skipSpace(b, i+1)
		case b[i] == ']':
			if skipSpace(b, i+1) != len(b) {
				return nil, &InvalidEvent{len(events) - 1, "something follows the array"}
			}
			return events, nil
		default:
			return nil, &InvalidEvent{len(events) - 1, "no comma or ] follows the event"}
		}
	}
}

// parseValues splits values that follow one another, white space between them: one event, or
// NDJSON (and, being lenient about it, pretty-printed events one after the other).
func parseValues(b []byte) ([]Event, error) {
	var events []Event
	for i := 0; i < len(b); {
		end, err := valueEnd(b, i)
		if err != nil {
			return nil, &InvalidEvent{len(events), err.Error()}
		}
		if events, err = appendEvent(events, b[i:end]); err != nil {
			return nil, err
		}
		i = skipSpace(b, end)
	}
	return events, nil
}

func appendEvent(events []Event, raw []byte) ([]Event, error) {
	if len(events) == MaxBatchEvents {
		return nil, errBatchEvents
	}
	e, err := ParseEvent(raw)
	if err != nil {
		return nil, &InvalidEvent{len(events), err.Error()}
	}
	return append(events, e), nil
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

var (
	errNotObject = errors.New("the event is not a JSON object")
	errCutShort  = errors.New("the event is cut short")
)

// valueEnd returns the index after the object that starts at b[i]. It only matches brackets
// outside strings; ParseEvent checks the rest.
func valueEnd(b []byte, i int) (int, error) {
	if i >= len(b) || b[i] != '{' {
		return 0, errNotObject
	}
	if end := bracketEnd(b, i); end >= 0 {
		return end, nil
	}
	return 0, errCutShort
}

// bracketEnd returns the index after the bracket that closes the one at b[i], or -1.
func bracketEnd(b []byte, i int) int {
	for open := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			open++
		case '}', ']':
			if open--; open == 0 {
				return i + 1
			}
		case '"':
			if i = stringEnd(b, i); i < 0 {
				return -1
			}
		}
	}
	return -1
}

// stringEnd returns the index of the quote that closes the string opening at b[i], or -1.
func stringEnd(b []byte, i int) int {
	for i++; i < len(b); i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		back := 0
		for b[i-1-back] == '\\' {
			back++ // stops at the opening quote at the latest
		}
		if back%2 == 0 {
			return i
		}
	}
	return -1
}

func depth(b []byte) int {
	d, deepest := 0, 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			d++
			deepest = max(deepest, d)
		case '}', ']':
			d--
		case '"':
			if i = stringEnd(b, i); i < 0 {
				return deepest
			}
		}
	}
	return deepest
}
