package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// streamHeader reads the headers of a request of the protocol.
type streamHeader struct{ http.Header }

func (h streamHeader) text(name string) (value string, present bool, err error) {
	return header(h.Header, name)
}

// closes reports whether the request closes the stream. Anything but "true" counts as not sent.
func (h streamHeader) closes() bool { return strings.EqualFold(h.Get("Stream-Closed"), "true") }

// mediaType returns the Content-Type in lower case and without parameters; "" when it is none.
func (h streamHeader) mediaType() string {
	m, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	m = strings.ToLower(strings.TrimSpace(m))
	kind, sub, ok := strings.Cut(m, "/")
	if !ok || !isToken(kind) || !isToken(sub) || len(m) > event.MaxIDBytes {
		return ""
	}
	return m
}

// isToken reports whether s is a token of HTTP (RFC 9110, 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// lifetime reads Stream-TTL and Stream-Expires-At, of which there may be one.
func (h streamHeader) lifetime() (ttlSeconds *int64, expiresAt *event.Time, err error) {
	ttl, hasTTL, err := h.text("Stream-Ttl")
	if err != nil {
		return nil, nil, err
	}
	at, hasAt, err := h.text("Stream-Expires-At")
	switch {
	case err != nil:
		return nil, nil, err
	case hasTTL && hasAt:
		return nil, nil, &inputError{"header", "Stream-TTL", "cannot be given together with Stream-Expires-At"}
	case hasTTL:
		n, ok := parseNumber(ttl)
		if !ok || len(ttl) > 1 && ttl[0] == '0' {
			return nil, nil, &inputError{"header", "Stream-TTL", "must be a number of seconds without a sign or leading zeros"}
		}
		seconds := int64(n)
		return &seconds, nil, nil
	case hasAt:
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return nil, nil, &inputError{"header", "Stream-Expires-At", "is not a time as RFC 3339 writes it"}
		}
		ms := event.Time(t.UnixMilli())
		return nil, &ms, nil
	}
	return nil, nil, nil
}

// maxStreamSeqBytes bounds a Stream-Seq, which the stream keeps.
const maxStreamSeqBytes = 256

func (h streamHeader) seq() (string, error) {
	s, _, err := h.text("Stream-Seq")
	if err == nil && len(s) > maxStreamSeqBytes {
		err = &inputError{"header", "Stream-Seq", "has more than 256 bytes"}
	}
	return s, err
}

// streamPrefixes begin the paths of streams.
var streamPrefixes = [...]string{"/v1/stream/", tanstackPrefix}

// tanstackPrefix is where TanStack AI's adapter asks for streams.
const tanstackPrefix = "/streams/"

// streamName returns the name in a request's path, where "/" may be sent as it is or as %2F.
func streamName(c *gin.Context) (event.StreamName, error) {
	s, err := url.PathUnescape(strings.TrimPrefix(c.Param("name"), "/"))
	if err != nil {
		return "", &inputError{"path", "name", "is not percent-encoded correctly"}
	}
	return event.StreamName(s), checkStreamName("path", "name", s)
}

func checkStreamName(in, name, s string) error {
	if err := event.CheckStreamName(s); err != nil {
		reason, _ := strings.CutPrefix(err.Error(), "stream name ")
		return &inputError{in, name, reason}
	}
	return nil
}

// location is the stream's URL as the client knows it.
func location(r *http.Request) string {
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if p := r.Header.Get("X-Forwarded-Proto"); p == "http" || p == "https" {
		scheme = p
	}
	if f := r.Header.Get("X-Forwarded-Host"); f != "" && !strings.ContainsAny(f, "/?#@, \\") {
		host = f
	}
	return scheme + "://" + host + r.URL.EscapedPath()
}
