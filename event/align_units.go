package event

import (
	"bytes"
	"unicode/utf8"
)

// Text is compared in UTF-16 units, because that is what a delta is cut into: a producer may send
// the halves of one character in two deltas. The normal form writes each unit by itself the way
// UTF-8 writes a code point of that number (CESU-8, Unicode Technical Report 26, lone halves
// allowed). So the forms of two strings joined are the form of the joined string, and whatever
// JSON escapes or does not escape looks the same.

// units returns the normal form of what the body of a JSON string denotes; it may alias body,
// which must be valid JSON.
func units(body []byte) []byte {
	if !rewritten(body) {
		return body
	}
	out := make([]byte, 0, len(body)+len(body)/2)
	for len(body) > 0 {
		var u [2]uint16
		n, two := unitsAt(body, &u)
		if n == 1 && body[0] < 0xf0 && body[0] != '\\' {
			out = append(out, body[0])
		} else {
			out = appendUnit(out, u[0])
			if two {
				out = appendUnit(out, u[1])
			}
		}
		body = body[n:]
	}
	return out
}

// rewritten reports whether the normal form of body differs from body.
func rewritten(body []byte) bool {
	if bytes.IndexByte(body, '\\') >= 0 {
		return true
	}
	for _, c := range body {
		if c >= 0xf0 {
			return true
		}
	}
	return false
}

// unitsAt reads what stands first in the body of a JSON string: one escape, one character outside
// the BMP, which is two units, or one byte that the normal form keeps (n is 1, u is not set).
func unitsAt(body []byte, u *[2]uint16) (n int, two bool) {
	switch c := body[0]; {
	case c == '\\' && len(body) >= 2:
		if body[1] != 'u' || len(body) < 6 {
			u[0] = uint16(Unescaped(body[1]))
			return 2, false
		}
		for _, d := range body[2:6] {
			u[0] = u[0]<<4 | uint16(hexDigit(d))
		}
		return 6, false
	case c >= 0xf0:
		r, size := utf8.DecodeRune(body)
		if r < 0x10000 { // not UTF-8: ParseEvent lets none in
			u[0] = uint16(r)
			return size, false
		}
		r -= 0x10000
		u[0], u[1] = uint16(0xd800+r>>10), uint16(0xdc00+r&0x3ff)
		return size, true
	}
	return 1, false
}

// Unescaped returns what a backslash and c, which is not u, stand for in a JSON string.
func Unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func hexDigit(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}

func appendUnit(out []byte, u uint16) []byte {
	switch {
	case u < 0x80:
		return append(out, byte(u))
	case u < 0x800:
		return append(out, 0xc0|byte(u>>6), 0x80|byte(u)&0xbf)
	}
	return append(out, 0xe0|byte(u>>12), 0x80|byte(u>>6)&0xbf, 0x80|byte(u)&0xbf)
}

func unitSize(u uint16) int {
	switch {
	case u < 0x80:
		return 1
	case u < 0x800:
		return 2
	}
	return 3
}

// afterUnits returns the body of a JSON string that denotes what body denotes after its first n
// bytes in normal form, which must end between two units. What it need not touch it keeps as
// written.
func afterUnits(body []byte, n int) []byte {
	for n > 0 && len(body) > 0 {
		var u [2]uint16
		size, two := unitsAt(body, &u)
		switch {
		case size == 1:
			n--
		case two && n == unitSize(u[0]):
			return append(appendEscape(nil, u[1]), body[size:]...)
		case two:
			n -= unitSize(u[0]) + unitSize(u[1])
		default:
			n -= unitSize(u[0])
		}
		body = body[size:]
	}
	return body
}

func appendEscape(out []byte, u uint16) []byte {
	const hex = "0123456789abcdef"
	return append(out, '\\', 'u', hex[u>>12], hex[u>>8&15], hex[u>>4&15], hex[u&15])
}
