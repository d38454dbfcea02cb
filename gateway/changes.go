package gateway

import (
	"context"
	"fmt"

	"github.com/runlog/runlog/event"
)

// changesGone says that the changes asked for are no longer kept.
type changesGone struct {
	From  event.Offset `json:"from"`
	First event.Offset `json:"first"` // the oldest kept
	Tail  event.Offset `json:"tail"`
}

// Error says what is kept.
func (e *changesGone) Error() string {
	return fmt.Sprintf("change %d is no longer kept; the oldest is %d", e.From, e.First)
}

// readChanges reads the stream of changes from an offset on, from this node's state: a [*changesGone]
// when that is no longer kept, an [*event.OffsetOutOfRange] when it is beyond the tail as far as this
// node knows. It is the one reader under every protocol that serves the stream.
func (g *Gateway) readChanges(ctx context.Context, from event.Offset, limit int) (event.ChangePage, error) {
	page, err := g.threads.Changes(ctx, from, limit)
	switch {
	case err != nil:
		return page, err
	case from < page.First:
		return page, &changesGone{from, page.First, page.Tail}
	case from > page.Tail:
		return page, &event.OffsetOutOfRange{Offset: from, Tail: page.Tail}
	}
	return page, nil
}

// changesBounds returns the oldest offset kept and the tail.
func (g *Gateway) changesBounds(ctx context.Context) (first, tail event.Offset, err error) {
	page, err := g.threads.Changes(ctx, 0, 1)
	return page.First, page.Tail, err
}
