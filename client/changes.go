package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"

	"github.com/runlog/runlog/event"
)

// PlacedChange is a change and its place in the stream of changes.
type PlacedChange struct {
	Offset event.Offset
	event.Change
}

// ChangesFrom says where in the stream of changes to begin.
type ChangesFrom struct {
	Offset event.Offset // the first that is wanted
	// Oldest begins with the oldest that is kept, Tail with the next that comes; Offset is then not read.
	Oldest, Tail bool
}

// Changes follows what happens to runs, all of them: every change once, in order, those that are
// kept (24 hours) and those that come. It reconnects by itself, like [Client.Tail].
//
// The sequence ends when ctx is done, with its error; when no server has answered for
// Config.RetryFor ([ErrUnavailable]); with a [*Problem] of code changes_gone when what is asked for
// is no longer kept: list the runs, then begin at the tail.
func (c *Client) Changes(ctx context.Context, from ChangesFrom) iter.Seq2[PlacedChange, error] {
	return func(yield func(PlacedChange, error) bool) {
		t := &changesTail{c: c, next: from.Offset}
		err := t.locate(ctx, from)
		if err == nil {
			f := &follower{c: c, request: t.request, read: func(f *frames) (end, error) { return t.read(f, yield) }, place: func() string { return t.next.String() }}
			err = f.follow(ctx)
		}
		if err != nil {
			yield(PlacedChange{}, fmt.Errorf("changes at %d: %w", t.next, err))
		}
	}
}

// ChangesTail returns the offset that the next change will get. Read it before a listing and follow
// from it: nothing that the listing does not show is missed.
func (c *Client) ChangesTail(ctx context.Context) (event.Offset, error) {
	t := &changesTail{c: c}
	err := t.locate(ctx, ChangesFrom{Tail: true})
	return t.next, err
}

// changesTail is one Changes under way.
type changesTail struct {
	c    *Client
	next event.Offset
}

// locate finds the first offset, so that a connection that breaks before the first change does not
// begin elsewhere.
func (t *changesTail) locate(ctx context.Context, from ChangesFrom) error {
	if !from.Oldest && !from.Tail {
		return nil
	}
	var page struct{ First, Tail event.Offset }
	if err := t.c.get(ctx, "/v1/changes", url.Values{"from": {"tail"}, "consistency": {"linearizable"}}, &page); err != nil {
		return err
	}
	if t.next = page.Tail; from.Oldest {
		t.next = page.First
	}
	return nil
}

func (t *changesTail) request(ctx context.Context, at uint32) (*http.Request, error) {
	r := streamCall("/v1/changes")
	r.query.Set("from", t.next.String())
	return t.c.request(ctx, at, r)
}

func (t *changesTail) read(f *frames, yield func(PlacedChange, error) bool) (end, error) {
	for {
		rec, err := f.next()
		switch {
		case errors.Is(err, io.EOF):
			return endLost, errors.New("the server ended the stream")
		case err != nil:
			return endLost, err
		case rec.Offset < t.next:
			continue
		case rec.Offset > t.next:
			return endLost, fmt.Errorf("the server sent change %d instead of %d", rec.Offset, t.next)
		}
		change := PlacedChange{Offset: rec.Offset}
		if err := json.Unmarshal(rec.Raw, &change.Change); err != nil {
			return endLost, errFrame
		}
		t.next++
		if !yield(change, nil) {
			return endStopped, nil
		}
	}
}
