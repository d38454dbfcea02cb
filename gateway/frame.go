package gateway

import (
	"bytes"
	"strconv"

	"github.com/runlog/runlog/event"
)

// framer appends one record in the form that a reader asked for.
type framer func(dst []byte, r *event.Record) []byte

// appendSSE appends a server-sent event (WHATWG HTML, "Server-sent events") without a name: stock
// clients hand only those to their message handler.
func appendSSE(dst []byte, r *event.Record) []byte {
	dst = append(dst, "id: "...)
	dst = appendOffset(dst, r.Offset)
	return appendData(append(dst, '\n'), r.Raw)
}

// appendData appends the data line of a server-sent event and its end.
func appendData(dst, raw []byte) []byte {
	dst = append(dst, "data: "...)
	return append(appendOneLine(dst, raw), "\n\n"...)
}

// appendNDJSON appends the raw event as a line.
func appendNDJSON(dst []byte, r *event.Record) []byte {
	return append(appendOneLine(dst, r.Raw), '\n')
}

// appendEnvelopeLine appends the envelope as a line.
func appendEnvelopeLine(dst []byte, r *event.Record) []byte {
	at := len(dst)
	dst = appendEnvelope(dst, r)
	flatten(dst[at:])
	return append(dst, '\n')
}

// appendEnvelope appends the event with its place in the run, the raw event byte for byte.
func appendEnvelope(dst []byte, r *event.Record) []byte {
	dst = append(dst, `{"offset":`...)
	dst = appendOffset(dst, r.Offset)
	dst = append(dst, `,"epoch":`...)
	dst = strconv.AppendUint(dst, uint64(r.Epoch), 10)
	dst = append(dst, `,"time":`...)
	dst = strconv.AppendInt(dst, int64(r.Time), 10)
	dst = append(dst, `,"event":`...)
	return append(append(dst, r.Raw...), '}')
}

func appendOneLine(dst, raw []byte) []byte {
	at := len(dst)
	dst = append(dst, raw...)
	flatten(dst[at:])
	return dst
}

// flatten turns line breaks into spaces. In valid JSON they stand between tokens only, so the
// value stays the same.
func flatten(b []byte) {
	for _, c := range [...]byte{'\n', '\r'} {
		rest := b
		for i := bytes.IndexByte(rest, c); i >= 0; i = bytes.IndexByte(rest, c) {
			rest[i] = ' '
			rest = rest[i+1:]
		}
	}
}
