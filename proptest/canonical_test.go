package proptest

import (
	"encoding/json"
	"strings"
)

// canonical writes JSON with sorted members and one way to escape; numbers keep their digits.
func canonical(s string) string {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return s
	}
	return string(b)
}
