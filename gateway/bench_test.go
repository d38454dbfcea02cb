package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/runlog/runlog/event"
)

// instantLog accepts everything at once, so that only the gateway's part is measured.
type instantLog struct{ *fakeNode }

func (instantLog) Propose(_ context.Context, cmd event.Command) (event.Result, error) {
	n := len(cmd.(*event.Append).Events)
	return event.Result{Appended: event.Appended{FirstOffset: 1, Tail: event.Offset(1 + n)}, Index: 123456}, nil
}

// discard is a ResponseWriter that keeps nothing.
type discard struct {
	h      http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(s int)           { d.status = s }

type rewind struct{ *bytes.Reader }

func (rewind) Close() error { return nil }

// BenchmarkAppendHandler is one POST from routing to the written answer, without net/http's part.
func BenchmarkAppendHandler(b *testing.B) {
	for _, batch := range []int{1, 10} {
		for _, producer := range []bool{false, true} {
			b.Run(fmt.Sprintf("batch=%d/producer=%v", batch, producer), func(b *testing.B) {
				n := newFake()
				gw, err := New(Config{Log: instantLog{n}, Reader: n, Cluster: n})
				if err != nil {
					b.Fatal(err)
				}
				one := `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m-0123456789","delta":"` + strings.Repeat("x", 180) + `"}` + "\n"
				body := []byte(strings.Repeat(one, batch))
				req, err := http.NewRequest("POST", "/v1/runs/01J000000000000000000000/events", nil)
				if err != nil {
					b.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				if producer {
					req.Header.Set("Run-Epoch", "1")
					req.Header.Set("Producer-Id", "host-1")
					req.Header.Set("Producer-Epoch", "1")
					req.Header.Set("Producer-Seq", "17")
				}
				req.ContentLength = int64(len(body))
				r := rewind{bytes.NewReader(body)}
				w := &discard{h: http.Header{}}
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := r.Seek(0, io.SeekStart); err != nil {
						b.Fatal(err)
					}
					clear(w.h)
					req.Body = r
					gw.ServeHTTP(w, req)
				}
				if w.status != 200 {
					b.Fatal(w.status)
				}
			})
		}
	}
}

// BenchmarkFrame is what a tail does to a record besides reading and sending it.
func BenchmarkFrame(b *testing.B) {
	rec := event.Record{Offset: 123456, Raw: []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"` + strings.Repeat("x", 240) + `"}`)}
	buf := make([]byte, 0, 1024)
	b.SetBytes(int64(len(rec.Raw)))
	b.ReportAllocs()
	for b.Loop() {
		buf = appendSSE(buf[:0], &rec)
	}
}
