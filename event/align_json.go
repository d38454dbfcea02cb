package event

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// member is one member of a JSON object: its name without quotes, as written, and its value.
// Both are parts of the object, which was valid when it was parsed.
type member struct {
	name, value []byte
	at          int // of the value in the object
}

// membersOf lists an object's members; of several of one name the last counts, as in JSON.parse.
// For anything but an object the list is empty.
func membersOf(raw []byte) []member {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return nil
	}
	list := make([]member, 0, 8)
	for i = skipSpace(raw, i+1); i < len(raw) && raw[i] == '"'; {
		end := stringEnd(raw, i)
		if end < 0 {
			return list
		}
		name := units(raw[i+1 : end])
		i = skipSpace(raw, skipSpace(raw, end+1)+1) // past the colon
		if end = anyValueEnd(raw, i); end < 0 {
			return list
		}
		list = putMember(list, member{name, raw[i:end], i})
		if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return list
}

func putMember(list []member, m member) []member {
	for i := range list {
		if bytes.Equal(list[i].name, m.name) {
			list[i] = m
			return list
		}
	}
	return append(list, m)
}

// anyValueEnd returns the index after the value that starts at b[i], or -1.
func anyValueEnd(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return stringEnd(b, i) + 1
	case '{', '[':
		return bracketEnd(b, i)
	}
	start := i
	for i < len(b) && !endsScalar(b[i]) {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func endsScalar(c byte) bool {
	return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\t' || c == '\n' || c == '\r'
}

// elementsOf lists an array's elements.
func elementsOf(raw []byte) [][]byte {
	var list [][]byte
	for i := skipSpace(raw, 1); i < len(raw) && raw[i] != ']'; {
		end := anyValueEnd(raw, i)
		if end < 0 {
			return list
		}
		list = append(list, raw[i:end])
		if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return list
}

func find(list []member, name string) *member {
	for i := range list {
		if string(list[i].name) == name {
			return &list[i]
		}
	}
	return nil
}

// valueOf returns a member's JSON, or nil. A path of two names looks into the member.
func valueOf(list []member, path string) []byte {
	name, inner, nested := strings.Cut(path, ".")
	m := find(list, name)
	switch {
	case m == nil:
		return nil
	case nested:
		return valueOf(membersOf(m.value), inner)
	}
	return m.value
}

// bodyOf returns what stands between the quotes of a JSON string; nil for anything else.
func bodyOf(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' {
		return nil
	}
	return value[1 : len(value)-1]
}

// textOf returns what a JSON string denotes, in the normal form of [units].
func textOf(value []byte) string { return string(units(bodyOf(value))) }

// sameJSON reports whether two values denote the same: objects without regard to the order of
// their members, strings by their UTF-16 units, numbers by their exact decimal value, so that 1
// and 1.0 are the same (they come from one program through two serialisers) and integers beyond
// 2^53 that differ are not. An absent value, nil, is the same as itself only.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if a == nil || b == nil {
		return false
	}
	return bytes.Equal(appendNormal(nil, a), appendNormal(nil, b))
}

// appendNormal appends a form of a value that is the same for values that denote the same, and
// that no two others share: strings carry their length. Values nest no deeper than MaxDepth.
func appendNormal(dst, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	switch value[0] {
	case '{':
		list := membersOf(value)
		slices.SortFunc(list, func(a, b member) int { return bytes.Compare(a.name, b.name) })
		dst = append(dst, '{')
		for _, m := range list {
			dst = appendNormal(appendText(dst, m.name), m.value)
		}
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		for _, e := range elementsOf(value) {
			dst = appendNormal(dst, e)
		}
		return append(dst, ']')
	case '"':
		return appendText(dst, units(bodyOf(value)))
	case 't', 'f', 'n':
		return append(append(dst, value...), ';')
	}
	return append(appendDecimal(dst, string(value)), ';')
}

func appendText(dst, s []byte) []byte {
	dst = strconv.AppendInt(append(dst, '"'), int64(len(s)), 10)
	return append(append(dst, ':'), s...)
}

// appendDecimal appends a number as sign, significant digits and power of ten. Powers that no
// program means are kept as written.
func appendDecimal(dst []byte, s string) []byte {
	rest, negative := strings.CutPrefix(s, "-")
	mantissa, exponent := rest, 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		n, err := strconv.Atoi(rest[i+1:])
		if err != nil || n > 1<<30 || n < -1<<30 {
			return append(append(dst, '?'), s...)
		}
		mantissa, exponent = rest[:i], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= len(fraction)
	digits := strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	if short == "" {
		return append(dst, '0') // -0 too: JSON.stringify(-0) is "0"
	}
	exponent += len(digits) - len(short)
	if negative {
		dst = append(dst, '-')
	}
	dst = append(append(dst, short...), 'e')
	return strconv.AppendInt(dst, int64(exponent), 10)
}
