package agentrun

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Units reads the body of a JSON string, one unit at a time, as RFC 8259 describes it.
func Units(body string) []uint16 {
	var out []uint16
	for len(body) > 0 {
		r, size := utf8.DecodeRuneInString(body)
		if r != '\\' {
			out = utf16.AppendRune(out, r)
			body = body[size:]
			continue
		}
		if body[1] == 'u' {
			n, err := strconv.ParseUint(body[2:6], 16, 16)
			if err != nil {
				panic(err)
			}
			out, body = append(out, uint16(n)), body[6:]
			continue
		}
		out = append(out, uint16(strings.NewReplacer("b", "\b", "f", "\f", "n", "\n", "r", "\r", "t", "\t").Replace(body[1:2])[0]))
		body = body[2:]
	}
	return out
}

// EncodeUnits writes units as the body of a JSON string, escaping at random what need not be.
func EncodeUnits(r *rand.Rand, units []uint16) string {
	var b strings.Builder
	for i := 0; i < len(units); i++ {
		u := units[i]
		pair := i+1 < len(units) && utf16.DecodeRune(rune(u), rune(units[i+1])) != utf8.RuneError
		switch {
		case pair && r.IntN(2) == 0:
			b.WriteRune(utf16.DecodeRune(rune(u), rune(units[i+1])))
			i++
		case u < 0x20 || u == '"' || u == '\\' || utf16.IsSurrogate(rune(u)) || r.IntN(4) == 0:
			b.WriteString(`\u` + strings.ToUpper(strconv.FormatUint(0x10000|uint64(u), 16))[1:])
		default:
			b.WriteRune(rune(u))
		}
	}
	return b.String()
}
