package projection

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/runlog/runlog/event"
)

// Ids are compared as the strings they denote, in WTF-8 (UTF-8 in which a lone surrogate half is
// written like any other code point), so that "\u0061" names what "a" names.

// absentID is the key of an id that was not given. JSON text cannot denote it: 0xff is no UTF-8.
const absentID = "\xff"

// keyOf returns the string that a JSON string denotes, or absentID for nil.
func keyOf(raw string) string {
	if len(raw) < 2 {
		return absentID
	}
	body := raw[1 : len(raw)-1]
	if strings.IndexByte(body, '\\') < 0 {
		return body
	}
	return string(unescape([]byte(body)))
}

// keyBytes is keyOf for bytes; its result may alias raw.
func keyBytes(raw []byte) []byte {
	if len(raw) < 2 {
		return absentKey
	}
	return nameBytes(raw[1 : len(raw)-1])
}

var absentKey = []byte(absentID)

// nameBytes returns what the body of a JSON string denotes; it may alias body.
func nameBytes(body []byte) []byte {
	if bytes.IndexByte(body, '\\') < 0 {
		return body
	}
	return unescape(body)
}

// unescape decodes the body of a JSON string into WTF-8.
func unescape(body []byte) []byte {
	out := make([]byte, 0, len(body))
	for i := 0; i < len(body); {
		c := body[i]
		if c != '\\' || i+1 >= len(body) {
			out = append(out, c)
			i++
			continue
		}
		if body[i+1] == 'u' {
			if u := hex4(body, i+2); u >= 0 {
				i += 6
				if u >= 0xd800 && u < 0xdc00 && i+1 < len(body) && body[i] == '\\' && body[i+1] == 'u' {
					if lo := hex4(body, i+2); lo >= 0xdc00 && lo < 0xe000 {
						u = 0x10000 + (u-0xd800)<<10 + (lo - 0xdc00)
						i += 6
					}
				}
				out = appendWTF8(out, u)
				continue
			}
		}
		out = append(out, event.Unescaped(body[i+1]))
		i += 2
	}
	return out
}

// hex4 reads four hex digits at b[i], or returns -1.
func hex4(b []byte, i int) int {
	if i+4 > len(b) {
		return -1
	}
	u := 0
	for _, c := range b[i : i+4] {
		switch {
		case c >= '0' && c <= '9':
			u = u<<4 + int(c-'0')
		case c >= 'a' && c <= 'f':
			u = u<<4 + int(c-'a') + 10
		case c >= 'A' && c <= 'F':
			u = u<<4 + int(c-'A') + 10
		default:
			return -1
		}
	}
	return u
}

func appendWTF8(out []byte, u int) []byte {
	if u >= 0xd800 && u < 0xe000 {
		return append(out, 0xe0|byte(u>>12), 0x80|byte(u>>6)&0xbf, 0x80|byte(u)&0xbf)
	}
	return utf8.AppendRune(out, rune(u))
}

// goString returns what a JSON string denotes as a Go string; lone surrogate halves, which
// UTF-8 cannot hold, become U+FFFD.
func goString(raw []byte) string {
	if !isString(raw) {
		return ""
	}
	return strings.ToValidUTF8(string(nameBytes(raw[1:len(raw)-1])), "\uFFFD")
}
