package gateway

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// maxNumber bounds every number in a header, path or query: JSON readers keep it exact.
const maxNumber = uint64(event.MaxOffset)

const numberReason = "must be a decimal number without a sign, at most 9007199254740991"

// parseNumber reads a decimal number without a sign, at most 2^53-1.
func parseNumber(s string) (uint64, bool) {
	if s == "" || len(s) > 20 {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		d := uint64(s[i]) - '0'
		if d > 9 || n > maxNumber/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, n <= maxNumber
}

// header returns a header's only value; name must be in canonical form.
func header(h http.Header, name string) (value string, present bool, err error) {
	switch v := h[name]; len(v) {
	case 0:
		return "", false, nil
	case 1:
		return v[0], true, nil
	}
	return "", false, &inputError{"header", name, "was sent more than once"}
}

// numberHeader returns a header's number, or nil when it was not sent.
func numberHeader(h http.Header, name string) (*uint64, error) {
	s, present, err := header(h, name)
	if err != nil || !present {
		return nil, err
	}
	n, ok := parseNumber(s)
	if !ok {
		return nil, &inputError{"header", name, numberReason}
	}
	return &n, nil
}

// pathID returns the id in a path segment. Gin hands the segment over as it was sent.
func pathID(c *gin.Context, name string) (string, error) {
	s := c.Param(name)
	if strings.IndexByte(s, '%') >= 0 {
		var err error
		if s, err = url.PathUnescape(s); err != nil {
			return "", &inputError{"path", name, "is not percent-encoded correctly"}
		}
	}
	return s, checkID("path", name, s)
}

func runID(c *gin.Context) (event.RunID, error) {
	s, err := pathID(c, "runId")
	return event.RunID(s), err
}

func checkID(in, name, s string) error {
	if err := event.CheckID(name, s); err != nil {
		reason, _ := strings.CutPrefix(err.Error(), name+" ")
		return &inputError{in, name, reason}
	}
	return nil
}

// query reads parameters of the query string and keeps the first error, so that a handler checks
// once. Parameters that no handler asks for are ignored.
type query struct {
	values url.Values
	err    error
}

func newQuery(r *http.Request) *query {
	v, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: v}
	if err != nil {
		q.err = &inputError{"query", "", "is not percent-encoded correctly"}
	}
	return q
}

func (q *query) fail(name, reason string) {
	if q.err == nil {
		q.err = &inputError{"query", name, reason}
	}
}

func (q *query) has(name string) bool { return len(q.values[name]) > 0 }

// text returns a parameter's only value, or "" when it is absent.
func (q *query) text(name string) string {
	switch v := q.values[name]; len(v) {
	case 0:
		return ""
	case 1:
		return v[0]
	}
	q.fail(name, "was given more than once")
	return ""
}

// number returns a parameter's number, or nil when it is absent.
func (q *query) number(name string) *uint64 {
	if !q.has(name) {
		return nil
	}
	n, ok := parseNumber(q.text(name))
	if !ok {
		q.fail(name, numberReason)
	}
	return &n
}

func (q *query) offset(name string) *event.Offset { return (*event.Offset)(q.number(name)) }

// count returns a number between low and high, or absent when it is not there.
func (q *query) count(name string, absent, low, high int) int {
	n := q.number(name)
	if n == nil {
		return absent
	}
	if *n < uint64(low) || *n > uint64(high) {
		q.fail(name, "must be between "+itoa(low)+" and "+itoa(high))
		return absent
	}
	return int(*n)
}

func (q *query) flag(name string, absent bool) bool {
	return q.oneOf(name, map[bool]string{true: "true", false: "false"}[absent], "true", "false") == "true"
}

// oneOf returns a parameter that must be one of some words, or absent when it is not there.
func (q *query) oneOf(name, absent string, words ...string) string {
	if !q.has(name) {
		return absent
	}
	s := q.text(name)
	if !slices.Contains(words, s) {
		q.fail(name, "must be one of "+strings.Join(words, ", "))
	}
	return s
}

// id returns a parameter that is an id, or "" when it is absent.
func (q *query) id(name string) string {
	if !q.has(name) {
		return ""
	}
	s := q.text(name)
	if err := checkID("query", name, s); err != nil && q.err == nil {
		q.err = err
	}
	return s
}
