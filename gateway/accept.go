package gateway

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// form is how events are sent.
type form int

const (
	formJSON form = iota
	formNDJSON
	formSSE
)

var forms = map[string]form{
	"application/json":     formJSON,
	"application/*":        formJSON,
	"*/*":                  formJSON,
	"application/x-ndjson": formNDJSON,
	"application/ndjson":   formNDJSON,
	"text/event-stream":    formSSE,
}

// acceptedForm chooses by the Accept header: the form of the highest quality, the first of several;
// JSON where nothing known is asked for.
func acceptedForm(h http.Header) form {
	best, quality := formJSON, 0.0
	for _, line := range h["Accept"] {
		for part := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(part, ";")
			f, known := forms[strings.ToLower(strings.TrimSpace(name))]
			if q := acceptQuality(params); known && q > quality {
				best, quality = f, q
			}
		}
	}
	return best
}

func acceptQuality(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		if v, ok := strings.CutPrefix(strings.TrimSpace(p), "q="); ok {
			q, err := strconv.ParseFloat(v, 64)
			if err != nil || q < 0 || q > 1 {
				return 0
			}
			return q
		}
	}
	return 1
}

// escapeSegment percent-encodes an id for a path.
func escapeSegment(id string) string { return url.PathEscape(id) }
