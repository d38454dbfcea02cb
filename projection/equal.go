package projection

import "strconv"

// equal compares two values as JavaScript does after JSON.parse: numbers as float64, strings by
// what they denote, objects without regard to order.
func equal(a, b *node) bool {
	a.open()
	b.open()
	switch {
	case a.obj != nil || b.obj != nil:
		if a.obj == nil || b.obj == nil || len(a.obj.index) != len(b.obj.index) {
			return false
		}
		for _, m := range a.obj.members {
			if m.dead {
				continue
			}
			if other := b.obj.get(m.key); other == nil || !equal(m.value, other) {
				return false
			}
		}
		return true
	case a.isArray || b.isArray:
		if a.isArray != b.isArray || len(a.arr) != len(b.arr) {
			return false
		}
		for i := range a.arr {
			if !equal(a.arr[i], b.arr[i]) {
				return false
			}
		}
		return true
	case isString(a.raw) || isString(b.raw):
		return isString(a.raw) && isString(b.raw) && string(keyBytes(a.raw)) == string(keyBytes(b.raw))
	}
	x, errX := number(a.raw)
	y, errY := number(b.raw)
	if errX == nil && errY == nil {
		return x == y
	}
	return string(a.raw) == string(b.raw)
}

// number reads a JSON number as JavaScript does; one out of range reads as infinite.
func number(raw []byte) (float64, error) {
	if len(raw) == 0 || (raw[0] != '-' && (raw[0] < '0' || raw[0] > '9')) {
		return 0, strconv.ErrSyntax
	}
	x, err := strconv.ParseFloat(string(raw), 64)
	if ne, ok := err.(*strconv.NumError); ok && ne.Err == strconv.ErrRange {
		err = nil
	}
	return x, err
}

const hexDigits = "0123456789abcdef"

// quote writes WTF-8 as a JSON string; lone surrogate halves are escaped.
func quote(s string) string {
	b := append(make([]byte, 0, len(s)+2), '"')
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c == 0xed && i+2 < len(s) && s[i+1] >= 0xa0:
			u := 0xd000 | int(s[i+1]&0x3f)<<6 | int(s[i+2]&0x3f)
			b = append(b, '\\', 'u', hexDigits[u>>12], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
			i += 2
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}
