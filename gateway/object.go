package gateway

import (
	"bytes"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"github.com/tidwall/gjson"

	"github.com/runlog/runlog/event"
)

// maxDepth bounds how deep a request object may nest, and with it every recursion over it. What
// becomes part of an event is held to event.MaxDepth besides.
const maxDepth = 2 * event.MaxDepth

// object reads the members of a request's JSON object and keeps the first error, so that a handler
// checks once. Members that no handler asks for are ignored; null stands for an absent member.
type object struct {
	members map[string]gjson.Result
	err     error
}

// newObject reads a body that is empty or one JSON object.
func newObject(b []byte) (*object, error) {
	o := &object{members: map[string]gjson.Result{}}
	b = bytes.TrimSpace(b)
	switch {
	case len(b) == 0:
		return o, nil
	case !utf8.Valid(b):
		return nil, &inputError{"body", "", "is not valid UTF-8"}
	case b[0] != '{':
		return nil, &inputError{"body", "", "is not a JSON object"}
	case tooDeep(b):
		return nil, &inputError{"body", "", "nests deeper than " + itoa(maxDepth)}
	case !gjson.ValidBytes(b):
		return nil, &inputError{"body", "", "is not valid JSON"}
	}
	// The copy that Parse keeps is what raw members alias: they outlive the request's buffer.
	gjson.Parse(string(b)).ForEach(func(k, v gjson.Result) bool {
		o.members[k.Str] = v
		return true
	})
	return o, nil
}

// tooDeep counts brackets outside strings; it need not be right about what is not JSON.
func tooDeep(b []byte) bool {
	depth, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

func (o *object) fail(name, reason string) {
	if o.err == nil {
		o.err = &inputError{"body", name, reason}
	}
}

// get returns a member that is there and not null.
func (o *object) get(name string) (gjson.Result, bool) {
	v, ok := o.members[name]
	return v, ok && v.Type != gjson.Null
}

// id returns a member that is an id, or "".
func (o *object) id(name string) string {
	v, ok := o.get(name)
	if !ok {
		return ""
	}
	if v.Type != gjson.String {
		o.fail(name, "must be a string")
		return ""
	}
	if event.HalfSurrogate(v.Raw) {
		o.fail(name, halfReason)
	}
	if err := checkID("body", name, v.Str); err != nil && o.err == nil {
		o.err = err
	}
	return v.Str
}

// halfReason is why a string is refused that is no Unicode text.
const halfReason = "holds half of a surrogate pair"

// number returns a member that is a whole number between low and high, or nil.
func (o *object) number(name string, low, high int64) *int64 {
	v, ok := o.get(name)
	if !ok {
		return nil
	}
	n, whole := parseNumber(v.Raw)
	if v.Type != gjson.Number || !whole || int64(n) < low || int64(n) > high {
		o.fail(name, "must be a whole number between "+itoa(int(low))+" and "+itoa(int(high)))
		return nil
	}
	m := int64(n)
	return &m
}

// flag returns a member that is true or false, or absent.
func (o *object) flag(name string, absent bool) bool {
	v, ok := o.get(name)
	if !ok {
		return absent
	}
	if !v.IsBool() {
		o.fail(name, "must be true or false")
	}
	return v.Bool()
}

// oneOf returns a member that is one of two words, or absent.
func (o *object) oneOf(name, absent, first, second string) string {
	v, ok := o.get(name)
	if !ok {
		return absent
	}
	if v.Type != gjson.String || (v.Str != first && v.Str != second) {
		o.fail(name, "must be "+first+" or "+second)
	}
	return v.Str
}

// raw returns a member's JSON as it was sent, or nil.
func (o *object) raw(name string, is func(gjson.Result) bool, kind string) []byte {
	v, ok := o.get(name)
	if !ok {
		return nil
	}
	if !is(v) {
		o.fail(name, "must be "+kind)
		return nil
	}
	return []byte(v.Raw)
}

// bodyObject reads a request's body as an object.
func bodyObject(c *gin.Context) (*object, error) {
	b, err := readBody(c)
	if err != nil {
		return nil, err
	}
	defer b.free() // newObject copies
	return newObject(b.in)
}

// required returns a member that is an id and must be there.
func (o *object) required(name string) string {
	s := o.id(name)
	if s == "" {
		o.fail(name, "is missing")
	}
	return s
}

// natural returns a member that is a number without a sign, or nil.
func (o *object) natural(name string) *uint64 {
	n := (*uint64)(nil)
	if m := o.number(name, 0, int64(maxNumber)); m != nil {
		u := uint64(*m)
		n = &u
	}
	return n
}

// text returns a member that is a string of at most limit bytes, or "".
func (o *object) text(name string, limit int) string {
	v, ok := o.get(name)
	if !ok {
		return ""
	}
	if v.Type != gjson.String || len(v.Str) > limit {
		o.fail(name, "must be a string of at most "+itoa(limit)+" bytes")
		return ""
	}
	if event.HalfSurrogate(v.Raw) {
		o.fail(name, halfReason)
	}
	return v.Str
}
