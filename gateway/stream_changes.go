package gateway

import (
	"context"
	"net/http"

	"github.com/runlog/runlog/event"
)

// changesStream is what happens to runs as a Durable Stream that only the cluster writes. Its oldest
// messages go after a day; an offset among those is refused, and a read from the start begins at
// the oldest that is kept.
type changesStream struct{ g *Gateway }

// changesName is the name of the stream of changes.
const changesName event.StreamName = "_runs"

// trimmed is a streamLog whose oldest messages go.
type trimmed interface {
	first(ctx context.Context) (event.Offset, error)
}

func (s changesStream) first(ctx context.Context) (event.Offset, error) {
	first, _, err := s.g.changesBounds(ctx)
	return first, err
}

func (s changesStream) create(context.Context, *streamCreate) (event.Stream, bool, uint64, error) {
	return event.Stream{}, false, 0, errNoMethod
}

func (s changesStream) append(context.Context, *streamAppend) (event.StreamResult, uint64, error) {
	return event.StreamResult{}, 0, errNoMethod
}

func (s changesStream) delete(context.Context, http.Header) (uint64, error) { return 0, errNoMethod }

func (s changesStream) head(ctx context.Context) (event.Stream, error) {
	_, tail, err := s.g.changesBounds(ctx)
	return event.Stream{Name: changesName, Generation: event.Generation(changesName), ContentType: event.JSONContentType, Tail: tail}, err
}

func (s changesStream) read(ctx context.Context, from event.Offset, maxMessages, maxBytes int) (event.StreamPage, error) {
	changes, err := s.g.readChanges(ctx, from, min(maxMessages, maxPageChanges))
	if err != nil {
		return event.StreamPage{}, err
	}
	page := event.StreamPage{Tail: changes.Tail, Generation: event.Generation(changesName)}
	for i := range changes.Changes {
		raw, err := marshal(&changes.Changes[i])
		if err != nil {
			return page, err
		}
		page.Messages = append(page.Messages, event.Record{Offset: from + event.Offset(i), Time: changes.Changes[i].Time, Raw: raw})
		if maxBytes -= len(raw); maxBytes <= 0 {
			break
		}
	}
	return page, nil
}

func (s changesStream) touch(context.Context, *event.Stream) error { return nil }

func (s changesStream) watch() Watch { return s.g.threads.WatchChanges() }
