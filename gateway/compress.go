package gateway

import (
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzhttp"
)

// compress returns next with its JSON answers compressed by gzip or zstd where the client asks.
func compress(next http.Handler) (http.Handler, error) {
	wrap, err := gzhttp.NewWrapper(
		gzhttp.EnableZstd(true),
		gzhttp.ContentTypes([]string{"application/json", "application/problem+json"}),
		gzhttp.SuffixETag("-c"), // another representation needs another strong ETag
	)
	if err != nil {
		return nil, err
	}
	return wrap(next), nil
}

// wantsCompression keeps compression, which costs a wrapper and a buffer per request, from where
// it is of no use: answers to writes are tiny, and a stream must not wait in a compressor.
func wantsCompression(r *http.Request) bool {
	if r.Method != http.MethodGet || len(r.Header["Accept-Encoding"]) == 0 {
		return false
	}
	for _, a := range r.Header["Accept"] {
		if strings.Contains(a, "event-stream") || strings.Contains(a, "ndjson") {
			return false
		}
	}
	if strings.Contains(r.URL.RawQuery, "live=sse") {
		return false
	}
	return r.URL.Path != "/metrics" // promhttp compresses by itself
}
