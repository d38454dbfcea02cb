package event

import (
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// A run that is written through Durable Streams may hold records instead of bare events: the wire
// format of TanStack AI's durable delivery, {"v":1,"seq":n,"chunk":{…}}, with one AG-UI event as the
// chunk. Its log keeps the records byte for byte; what reads events slices the chunk out of them.

// MaxRecordSeq is the largest number of a record: what a JavaScript reader counts exactly.
const MaxRecordSeq = 1<<53 - 1

// WrapBytes bounds what [Wrap] adds to an event.
const WrapBytes = 48

// Wrap appends the record that carries an event at sequence number seq. Replayed logs must give the
// same bytes, so its form must stay stable.
func Wrap(dst []byte, seq uint64, event []byte) []byte {
	dst = strconv.AppendUint(append(dst, `{"v":1,"seq":`...), seq, 10)
	return append(append(append(dst, `,"chunk":`...), event...), '}')
}

// Unwrap returns a record's number and the slice of raw that holds its event; ok is false when raw
// is no record. The JSON must be valid.
func Unwrap(raw []byte) (seq uint64, event []byte, ok bool) {
	var version, number []byte
	seen := 0
	complete := eachMember(raw, func(key, value []byte) bool {
		var into *[]byte
		switch string(key) {
		case "v":
			into = &version
		case "seq":
			into = &number
		case "chunk":
			into = &event
		default:
			return true
		}
		*into = value
		seen++
		return true
	})
	if !complete || seen != 3 || event == nil || event[0] != '{' || string(version) != "1" {
		return 0, nil, false
	}
	seq, err := strconv.ParseUint(string(number), 10, 53)
	return seq, event, err == nil
}

// eachMember calls f with the members of a valid JSON object, keys without their quotes and with
// their escapes. It reports whether raw was an object and f always true.
func eachMember(raw []byte, f func(key, value []byte) bool) bool {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return false
	}
	for i = skipSpace(raw, i+1); i < len(raw) && raw[i] == '"'; {
		end := stringEnd(raw, i)
		if end < 0 {
			return false
		}
		key := raw[i+1 : end]
		start := skipSpace(raw, skipSpace(raw, end+1)+1) // a colon between
		if i = anyValueEnd(raw, start); i <= start || !f(key, raw[start:i:i]) {
			return false
		}
		if i = skipSpace(raw, i); i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return i < len(raw) && raw[i] == '}'
}

// ParseMessages reads the JSON messages of an append to a run through Durable Streams: all of them bare
// events, or all of them records, of which seqs are the numbers; nil for bare events.
// The error is an *[InvalidEvent].
func ParseMessages(messages [][]byte) (events []Event, seqs []uint64, err error) {
	events = make([]Event, len(messages))
	for i, m := range messages {
		seq, chunk, record := Unwrap(m)
		if i > 0 && record != (seqs != nil) {
			return nil, nil, &InvalidEvent{i, "bare events and records do not mix"}
		}
		if !record {
			chunk = m
		} else {
			seqs = append(seqs, seq)
		}
		switch {
		case record && (!utf8.Valid(m) || !gjson.ValidBytes(m) || depth(m) > MaxDepth):
			return nil, nil, &InvalidEvent{i, "the record is not valid JSON, or nests too deep"}
		case len(m) > MaxEventBytes:
			return nil, nil, &InvalidEvent{i, fmt.Sprintf("the message has %d bytes; at most %d are allowed", len(m), MaxEventBytes)}
		}
		if events[i], err = ParseEvent(chunk); err != nil {
			return nil, nil, &InvalidEvent{i, err.Error()}
		}
		events[i].Raw = m
	}
	return events, seqs, nil
}
