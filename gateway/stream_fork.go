package gateway

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/runlog/runlog/event"
)

// forkHeaders reads where a PUT branches off; nil: it makes no fork.
func forkHeaders(h streamHeader) (*streamFork, error) {
	path, forks, err := h.text("Stream-Forked-From")
	if err != nil {
		return nil, err
	}
	at, hasAt, err := h.text("Stream-Fork-Offset")
	if err != nil {
		return nil, err
	}
	sub, hasSub, err := h.text("Stream-Fork-Sub-Offset")
	if err != nil {
		return nil, err
	}
	if !forks {
		if hasSub {
			return nil, &inputError{"header", "Stream-Fork-Sub-Offset", "needs Stream-Forked-From"}
		}
		return nil, nil
	}
	f := new(streamFork)
	if f.source, err = streamPath(path); err != nil {
		return nil, err
	}
	if hasAt {
		o, ok := parseStreamOffset(at)
		if !ok {
			return nil, &inputError{"header", "Stream-Fork-Offset", "is not an offset that a stream returned"}
		}
		f.at = &o
	}
	if hasSub {
		n, ok := parseNumber(sub)
		if !ok || len(sub) > 1 && sub[0] == '0' {
			return nil, &inputError{"header", "Stream-Fork-Sub-Offset", numberReason}
		}
		if n > 0 && f.at == nil {
			return nil, &inputError{"header", "Stream-Fork-Sub-Offset", "needs Stream-Fork-Offset"}
		}
		f.sub = n
	}
	return f, nil
}

// streamPath returns the name of the stream that a path, or a URL, leads to.
func streamPath(path string) (event.StreamName, error) {
	u, err := url.Parse(path)
	if err == nil {
		for _, prefix := range streamPrefixes {
			if rest, ok := strings.CutPrefix(u.Path, prefix); ok {
				return event.StreamName(rest), checkStreamName("header", "Stream-Forked-From", rest)
			}
		}
	}
	return "", &inputError{"header", "Stream-Forked-From", "is not the path of a stream"}
}

// beyondAll is an offset that no source reaches: Apply refuses to branch off there.
const beyondAll = event.MaxOffset

// branch works out where a fork leaves its source: the command's part, the source's content type,
// and, when the fork divides a message of bytes, what is the fork's of that message.
//
// It decides nothing. What it cannot find here Apply refuses, unless the fork is there already.
func (g *Gateway) branch(ctx context.Context, f *streamFork) (fork *event.Fork, contentType string, prefix []byte, err error) {
	fork = &event.Fork{Source: f.source, At: f.at, Requested: f.at, Sub: f.sub}
	if id, ok := strings.CutPrefix(string(f.source), runStreams); ok {
		fork.Source, fork.OfRun, contentType = event.StreamName(id), true, event.JSONContentType
	} else {
		if err := g.freshen(ctx); err != nil {
			return nil, "", nil, err
		}
		s, err := g.streams.Stream(ctx, f.source)
		switch {
		case errors.Is(err, event.ErrStreamNotFound), errors.Is(err, event.ErrStreamGone):
			fork.Generation = "-" // nobody's: if there is a source by then, this is done again
			return fork, "", nil, nil
		case err != nil:
			return nil, "", nil, err
		}
		fork.Generation, contentType = s.Generation, s.ContentType
	}
	switch {
	case f.sub == 0:
	case contentType == event.JSONContentType:
		at := min(*f.at+event.Offset(f.sub), beyondAll)
		fork.At = &at
	default:
		prefix, err = g.divide(ctx, fork)
	}
	return fork, contentType, prefix, err
}

// divide finds the message that holds the byte at f.Sub after f.Requested. It sets f.At to it and
// returns the part of it before that byte.
func (g *Gateway) divide(ctx context.Context, f *event.Fork) ([]byte, error) {
	at, left := *f.Requested, f.Sub
	f.At = &at
	for left > 0 {
		page, err := g.streams.Messages(ctx, f.Source, at, chunkRecords, chunkBytes)
		switch {
		case errors.Is(err, event.ErrOffsetOutOfRange), err == nil && len(page.Messages) == 0:
			at = beyondAll
			return nil, nil
		case errors.Is(err, event.ErrStreamNotFound), errors.Is(err, event.ErrStreamGone):
			return nil, nil // Apply says so, or asks again
		case err != nil:
			return nil, err
		case page.Generation != f.Generation:
			return nil, nil
		}
		for i := range page.Messages {
			raw := page.Messages[i].Raw
			if left < uint64(len(raw)) {
				return raw[:left:left], nil
			}
			left -= uint64(len(raw))
			at++
			if left == 0 {
				break
			}
		}
	}
	return nil, nil
}
