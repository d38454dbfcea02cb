package projection

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// value is JSON read by a parser that shares nothing with the package: strings as UTF-16 units,
// lone halves kept; numbers as their text.
type value struct {
	kind   byte // '{' '[' '"' '0' or the literal's first letter
	text   string
	elems  []value
	fields map[string]value
}

type valueParser struct {
	t  testing.TB
	in []byte
	i  int
}

func parseValue(t testing.TB, raw []byte) value {
	t.Helper()
	p := valueParser{t: t, in: raw}
	v := p.value()
	if p.space(); p.i != len(raw) {
		t.Fatalf("something follows the value: %q", raw[p.i:])
	}
	return v
}

func (p *valueParser) fail(what string) {
	p.t.Helper()
	p.t.Fatalf("%s at byte %d of %.2000s", what, p.i, p.in)
}

func (p *valueParser) space() {
	for p.i < len(p.in) && (p.in[p.i] <= ' ') {
		p.i++
	}
}

func (p *valueParser) peek() byte {
	if p.space(); p.i >= len(p.in) {
		p.fail("unexpected end")
	}
	return p.in[p.i]
}

func (p *valueParser) value() value {
	switch c := p.peek(); c {
	case '{':
		v := value{kind: '{', fields: map[string]value{}}
		p.list('}', func() {
			name := p.str()
			if p.peek() != ':' {
				p.fail("no colon")
			}
			p.i++
			v.fields[name] = p.value()
		})
		return v
	case '[':
		v := value{kind: '['}
		p.list(']', func() { v.elems = append(v.elems, p.value()) })
		return v
	case '"':
		return value{kind: '"', text: p.str()}
	}
	start := p.i
	for p.i < len(p.in) && p.in[p.i] > ' ' && p.in[p.i] != ',' && p.in[p.i] != ']' && p.in[p.i] != '}' {
		p.i++
	}
	text := string(p.in[start:p.i])
	switch text {
	case "true", "false", "null":
		return value{kind: text[0]}
	}
	if _, err := strconv.ParseFloat(text, 64); text == "" || (err != nil && !isRange(err)) {
		p.fail("no value")
	}
	return value{kind: '0', text: text}
}

func (p *valueParser) list(end byte, item func()) {
	p.i++
	for n := 0; p.peek() != end; n++ {
		if n > 0 {
			if p.peek() != ',' {
				p.fail("no comma")
			}
			p.i++
			p.space()
		}
		item()
	}
	p.i++
}

// str returns the string's UTF-16 units, each as two bytes.
func (p *valueParser) str() string {
	if p.peek() != '"' {
		p.fail("no string")
	}
	var units []uint16
	for p.i++; ; {
		if p.i >= len(p.in) {
			p.fail("unterminated string")
		}
		switch c := p.in[p.i]; {
		case c == '"':
			p.i++
			out := make([]byte, 0, 2*len(units))
			for _, u := range units {
				out = append(out, byte(u>>8), byte(u))
			}
			return string(out)
		case c < 0x20:
			p.fail("control character")
		case c == '\\' && p.i+1 < len(p.in) && p.in[p.i+1] == 'u':
			u, err := strconv.ParseUint(string(p.in[p.i+2:min(p.i+6, len(p.in))]), 16, 16)
			if err != nil {
				p.fail("bad escape")
			}
			units = append(units, uint16(u))
			p.i += 6
		case c == '\\':
			s, err := strconv.Unquote(`"` + string(p.in[p.i:p.i+2]) + `"`)
			if p.in[p.i+1] == '/' {
				s, err = "/", nil
			}
			if err != nil {
				p.fail("bad escape")
			}
			units = append(units, uint16(s[0]))
			p.i += 2
		default:
			r, n := utf8.DecodeRune(p.in[p.i:])
			if r == utf8.RuneError && n == 1 {
				p.fail("invalid UTF-8")
			}
			units = utf16.AppendRune(units, r)
			p.i += n
		}
	}
}

// differ returns where got and want differ, or "". Numbers are compared as text, or, with
// asJavaScript, as what JavaScript makes of them.
func differ(got, want value, asJavaScript bool) string {
	if got.kind != want.kind {
		return fmt.Sprintf(": kind %c, want %c", got.kind, want.kind)
	}
	switch got.kind {
	case '{':
		for name, w := range want.fields {
			g, ok := got.fields[name]
			if !ok {
				return "." + plain(name) + ": missing"
			}
			if d := differ(g, w, asJavaScript); d != "" {
				return "." + plain(name) + d
			}
		}
		for name := range got.fields {
			if _, ok := want.fields[name]; !ok {
				return "." + plain(name) + ": not wanted"
			}
		}
	case '[':
		for i := range min(len(got.elems), len(want.elems)) {
			if d := differ(got.elems[i], want.elems[i], asJavaScript); d != "" {
				return fmt.Sprintf("[%d]%s", i, d)
			}
		}
		if len(got.elems) != len(want.elems) {
			return fmt.Sprintf(": %d elements, want %d", len(got.elems), len(want.elems))
		}
	case '0':
		if asJavaScript {
			g, _ := strconv.ParseFloat(got.text, 64)
			w, _ := strconv.ParseFloat(want.text, 64)
			if g == w {
				return ""
			}
		}
		fallthrough
	default:
		if got.text != want.text {
			return fmt.Sprintf(": %q, want %q", plain(got.text), plain(want.text))
		}
	}
	return ""
}

func plain(units string) string {
	if len(units)%2 != 0 {
		return units
	}
	var u []uint16
	for i := 0; i < len(units); i += 2 {
		u = append(u, uint16(units[i])<<8|uint16(units[i+1]))
	}
	return string(utf16.Decode(u))
}

func sameJSON(t testing.TB, what string, got, want []byte, asJavaScript bool) {
	t.Helper()
	if d := differ(parseValue(t, got), parseValue(t, want), asJavaScript); d != "" {
		t.Errorf("%s%s\n got %.3000s\nwant %.3000s", what, d, got, want)
	}
}

func isRange(err error) bool { return errors.Is(err, strconv.ErrRange) }
