package projection

import "bytes"

// The scanner walks JSON that was validated when it was appended. It trusts nothing all the
// same: on bytes that are not JSON it stops early and never reads out of range. It recurses
// nowhere.

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// stringEnd returns the index after the string that opens at b[i], or -1.
func stringEnd(b []byte, i int) int {
	for j := i + 1; j < len(b); {
		n := bytes.IndexByte(b[j:], '"')
		if n < 0 {
			return -1
		}
		j += n
		back := j
		for back > i+1 && b[back-1] == '\\' {
			back--
		}
		if (j-back)%2 == 0 {
			return j + 1
		}
		j++
	}
	return -1
}

// valueEnd returns the index after the value that starts at b[i], or -1.
func valueEnd(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return stringEnd(b, i)
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
	switch c {
	case ',', ']', '}', ' ', '\t', '\r', '\n', ':', '"', '{', '[':
		return true
	}
	return false
}

func bracketEnd(b []byte, i int) int {
	for open := 0; i < len(b); {
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
			continue
		}
		i++
	}
	return -1
}

// depthOf returns how many brackets are open at the deepest point of b.
func depthOf(b []byte) int {
	depth, deepest := 0, 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		case '"':
			end := stringEnd(b, i)
			if end < 0 {
				return deepest
			}
			i = end - 1
		}
	}
	return deepest
}

// object iterates over the members of an object, in order, repeated names included.
type object struct {
	b   []byte
	i   int
	bad bool
}

// members starts an iteration over raw; for anything but an object it yields nothing.
func members(raw []byte) object {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return object{bad: true}
	}
	return object{b: raw, i: i + 1}
}

// next returns the next member: its name without quotes, as written, and its value. After the
// last one, bad tells whether the object was cut short.
func (o *object) next() (name, value []byte, ok bool) {
	i := skipSpace(o.b, o.i)
	if i < len(o.b) && o.b[i] == ',' {
		i = skipSpace(o.b, i+1)
	}
	if i >= len(o.b) || o.b[i] != '"' {
		o.bad = o.bad || i >= len(o.b) || o.b[i] != '}'
		o.b, o.i = nil, 0
		return nil, nil, false
	}
	end := stringEnd(o.b, i)
	if end < 0 {
		return o.fail()
	}
	name = o.b[i+1 : end-1]
	i = skipSpace(o.b, end)
	if i >= len(o.b) || o.b[i] != ':' {
		return o.fail()
	}
	i = skipSpace(o.b, i+1)
	if end = valueEnd(o.b, i); end < 0 {
		return o.fail()
	}
	o.i = end
	return name, o.b[i:end], true
}

func (o *object) fail() (name, value []byte, ok bool) {
	*o = object{bad: true}
	return nil, nil, false
}

// array iterates over the elements of an array.
type array struct {
	b   []byte
	i   int
	bad bool
}

// elements starts an iteration over raw; for anything but an array it yields nothing.
func elements(raw []byte) array {
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '[' {
		return array{bad: true}
	}
	return array{b: raw, i: i + 1}
}

// next returns the next element; after the last one, bad tells whether the array was cut short.
func (a *array) next() (value []byte, ok bool) {
	i := skipSpace(a.b, a.i)
	if i < len(a.b) && a.b[i] == ',' {
		i = skipSpace(a.b, i+1)
	}
	if i >= len(a.b) || a.b[i] == ']' {
		a.bad = a.bad || i >= len(a.b)
		a.b, a.i = nil, 0
		return nil, false
	}
	end := valueEnd(a.b, i)
	if end < 0 {
		*a = array{bad: true}
		return nil, false
	}
	a.i = end
	return a.b[i:end], true
}

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }
func isArray(raw []byte) bool  { return len(raw) > 0 && raw[0] == '[' }
func isString(raw []byte) bool { return len(raw) > 1 && raw[0] == '"' }
func isNull(raw []byte) bool   { return string(raw) == "null" }

func isContainer(raw []byte) bool { return isObject(raw) || isArray(raw) }
