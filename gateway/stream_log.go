package gateway

import (
	"context"
	"net/http"
	"strings"

	"github.com/runlog/runlog/event"
)

// streamLog is one stream of the Durable Streams protocol, whatever keeps it. Handlers and their
// answers are the same for all of them; what differs is what a request means to the log behind it.
//
// Errors are refusals, errors of Log and Reader, and *inputError for requests that only this kind of
// stream does not take.
type streamLog interface {
	// create makes the stream, or returns the one that is there and fits; created tells which. It
	// says so only when this very request made it.
	create(ctx context.Context, r *streamCreate) (s event.Stream, created bool, index uint64, err error)
	// append appends messages, closes the stream, or does both in one step.
	append(ctx context.Context, r *streamAppend) (res event.StreamResult, index uint64, err error)
	// delete deletes it.
	delete(ctx context.Context, h http.Header) (index uint64, err error)

	// head and read are of this node's own state, which the handlers have made sure is fresh.
	// read returns at least one message unless from is the tail.
	head(ctx context.Context) (event.Stream, error)
	read(ctx context.Context, from event.Offset, maxMessages, maxBytes int) (event.StreamPage, error)
	// touch notes that s was read.
	touch(ctx context.Context, s *event.Stream) error
	watch() Watch
}

// streamCreate is a PUT.
type streamCreate struct {
	contentType string // the media type alone; empty: none was named
	ttlSeconds  *int64
	expiresAt   *event.Time
	closed      bool
	fork        *streamFork // nil: none
	body        []byte
	header      http.Header
}

// streamFork is what a PUT says of where to branch off.
type streamFork struct {
	source event.StreamName
	at     *event.Offset // nil: the source's tail
	sub    uint64        // messages or bytes after at
}

// streamAppend is a POST.
type streamAppend struct {
	contentType string // the media type alone; empty with an empty body
	body        []byte // empty: only close
	close       bool
	seq         string // Stream-Seq; empty: none
	producer    *event.Producer
	header      http.Header
}

// messages splits the body into what it appends.
func (r *streamAppend) messages() ([][]byte, error) {
	m, err := splitBody(r.contentType, r.body)
	if err == nil && len(r.body) > 0 && len(m) == 0 {
		err = &inputError{"body", "", "is an empty array; an append holds at least one message"}
	}
	return m, err
}

// splitBody splits a body into messages: the elements of JSON, or the bytes as they are.
func splitBody(contentType string, body []byte) ([][]byte, error) {
	if len(body) == 0 {
		return nil, nil
	}
	if contentType == event.JSONContentType {
		return event.SplitMessages(body)
	}
	var m [][]byte
	for ; len(body) > event.MaxEventBytes; body = body[event.MaxEventBytes:] {
		m = append(m, body[:event.MaxEventBytes:event.MaxEventBytes])
	}
	return append(m, body), nil
}

// runStreams begins the names of the streams that are runs.
const runStreams = "runs/"

// streamLog returns the stream of that name.
func (g *Gateway) streamLog(name event.StreamName) (streamLog, error) {
	if id, ok := strings.CutPrefix(string(name), runStreams); ok && g.cfg.RunStreams != nil {
		return runStream{g: g, id: event.RunID(id)}, nil
	}
	if name == changesName && g.threads != nil {
		return changesStream{g}, nil
	}
	if name == changesName || strings.HasPrefix(string(name), runStreams) {
		return nil, errNoRoute
	}
	return plainStream{g, name}, nil
}
