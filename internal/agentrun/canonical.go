package agentrun

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Canonical writes JSON with sorted members and one way to escape; numbers keep their digits, and
// halves of surrogate pairs stay what they are.
func Canonical(s string) string {
	d := json.NewDecoder(strings.NewReader(ascii(s)))
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

// ascii spells out what encoding/json might replace: each UTF-16 unit beyond ASCII in a string becomes
// a backslash and its number, as text.
func ascii(s string) string {
	var b strings.Builder
	for {
		before, after, ok := strings.Cut(s, `"`)
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		end := 0
		for end < len(after) && after[end] != '"' {
			if after[end] == '\\' {
				end++
			}
			end++
		}
		b.WriteByte('"')
		for _, u := range Units(after[:end]) {
			switch {
			case u < 0x20 || u == '"' || u == '\\':
				fmt.Fprintf(&b, `\u%04x`, u)
			case u < 0x80:
				b.WriteByte(byte(u))
			default:
				fmt.Fprintf(&b, `\\%04x`, u)
			}
		}
		b.WriteByte('"')
		s = after[end+1:]
	}
}
