package gateway

import (
	"encoding/json"
	"strconv"

	"github.com/runlog/runlog/event"
)

// Header values that are set without allocating.
var (
	contentTypeJSON    = []string{"application/json"}
	contentTypeProblem = []string{"application/problem+json"}
	contentTypeNDJSON  = []string{"application/x-ndjson"}
	contentTypeSSE     = []string{"text/event-stream"}
)

func itoa(n int) string { return strconv.Itoa(n) }

// appendString appends s as a JSON string.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= 0x7f {
			b, err := json.Marshal(s)
			if err != nil { // a string always has an encoding
				return append(dst, `""`...)
			}
			return append(dst, b...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

func appendOffset(dst []byte, o event.Offset) []byte {
	return strconv.AppendUint(dst, uint64(o), 10)
}
