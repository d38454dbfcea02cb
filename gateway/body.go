package gateway

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// body is a request's body, and room for its answer, in memory that is used again.
type body struct {
	in  []byte
	out []byte
}

// keptBodyBytes bounds the memory that an idle buffer may keep: most appends are far smaller than
// the largest.
const keptBodyBytes = 64 << 10

var bodies = sync.Pool{New: func() any { return &body{in: make([]byte, 0, 4<<10), out: make([]byte, 0, 256)} }}

// free gives the buffers back. It must not be called while anything may still read them: after an
// error of [Log.Propose] they are left to the garbage collector.
func (b *body) free() {
	if cap(b.in) <= keptBodyBytes {
		b.in, b.out = b.in[:0], b.out[:0]
		bodies.Put(b)
	}
}

// readBody reads a body of at most [event.MaxBatchBytes].
func readBody(c *gin.Context) (*body, error) { return readBodyUpTo(c, event.MaxBatchBytes) }

// readBodyUpTo reads a body of at most limit bytes.
func readBodyUpTo(c *gin.Context, limit int64) (*body, error) {
	r := c.Request
	if e := r.Header["Content-Encoding"]; len(e) > 0 && e[0] != "identity" {
		return nil, errEncoding
	}
	b := bodies.Get().(*body)
	if err := b.read(c, limit); err != nil {
		b.free()
		if errors.As(err, new(*http.MaxBytesError)) {
			swallow(c.Request)
		}
		return nil, bodyError(err)
	}
	return b, nil
}

func (b *body) read(c *gin.Context, limit int64) error {
	r := c.Request
	if r.ContentLength == 0 || r.Body == nil {
		return nil
	}
	// The server closes the connection after MaxBytesReader's error; it must be told through its
	// own ResponseWriter, which Gin wraps.
	limited := http.MaxBytesReader(unwrap(c.Writer), r.Body, limit)
	if r.ContentLength > limit {
		return &http.MaxBytesError{Limit: limit}
	}
	if n := int(r.ContentLength); n >= cap(b.in) {
		b.in = make([]byte, 0, n+1)
	}
	for {
		n, err := limited.Read(b.in[len(b.in):cap(b.in)])
		b.in = b.in[:len(b.in)+n]
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, b.outlive(c))
		}
		if len(b.in) == cap(b.in) {
			b.in = append(b.in, 0)[:len(b.in)]
		}
	}
}

// swallowedBytes bounds what is read of a body that is too large.
const swallowedBytes = 16 << 20

// swallow reads on in a body that is refused for its size. A client that is still sending when its
// connection is closed may lose the answer to the reset that follows (RFC 9112, 9.6), and would then
// send the same again. A client that asks before it sends needs none of this.
func swallow(r *http.Request) {
	if r.Header["Expect"] == nil {
		_, _ = io.CopyN(io.Discard, r.Body, swallowedBytes)
	}
}

// outlive lifts the server's read deadline, which is for reading the request, when a body was
// large enough to have used much of it: the deadline would cancel the request while its write waits.
func (b *body) outlive(c *gin.Context) error {
	if c.Request.ContentLength >= 0 && len(b.in) < keptBodyBytes {
		return nil
	}
	return ignoreUnsupported(http.NewResponseController(c.Writer).SetReadDeadline(time.Time{}))
}

// ignoreUnsupported forgives response writers without deadlines, such as those of tests.
func ignoreUnsupported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// unwrap returns the server's own ResponseWriter.
func unwrap(w http.ResponseWriter) http.ResponseWriter {
	for {
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = u.Unwrap()
	}
}
