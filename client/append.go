package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/runlog/runlog/event"
)

// Appended answers an append that was written, now or by an earlier attempt.
type Appended struct {
	FirstOffset event.Offset `json:"firstOffset"`
	Tail        event.Offset `json:"tail"`
	// Duplicate: an earlier request wrote it; the offsets are those of that write.
	Duplicate       bool   `json:"duplicate"`
	CancelRequested bool   `json:"cancelRequested"`
	ExpiresInMs     *int64 `json:"expiresInMs"` // what is left of the lease
	Token           Token  `json:"-"`
}

// Append writes a batch to the end of its run: all of it or nothing. Of each event only Raw is
// used; it is sent byte for byte.
//
// With Batch.Producer or Batch.Expect set, the append is repeated until its outcome is known, and
// written once. Without either, an attempt whose outcome is unknown returns [ErrOutcomeUnknown].
// Cancelling ctx does not undo an append that is under way.
func (c *Client) Append(ctx context.Context, b event.Batch) (Appended, error) {
	r := &call{
		method:     http.MethodPost,
		path:       runPath(b.Run, "/events"),
		header:     batchHeader(b),
		body:       batchBody(b.Events),
		repeatable: b.Producer != nil || b.Expect != nil,
	}
	a, err := c.do(ctx, r)
	if err != nil {
		if done, ok := c.resolve(ctx, b, err); ok {
			return done, nil
		}
		return Appended{}, fmt.Errorf("append to run %s: %w", b.Run, err)
	}
	var done Appended
	if err := decode(a, &done); err != nil {
		return Appended{}, fmt.Errorf("append to run %s: %w", b.Run, err)
	}
	done.Token = Token(a.header.Get(tokenHeader))
	return done, nil
}

func batchHeader(b event.Batch) http.Header {
	h := http.Header{}
	if b.Epoch != nil {
		h.Set("Run-Epoch", strconv.FormatUint(uint64(*b.Epoch), 10))
	}
	if b.Expect != nil {
		h.Set("Expected-Offset", b.Expect.String())
	}
	if p := b.Producer; p != nil {
		h.Set("Producer-Id", string(p.ID))
		h.Set("Producer-Epoch", strconv.FormatUint(p.Epoch, 10))
		h.Set("Producer-Seq", strconv.FormatUint(p.Seq, 10))
	}
	return h
}

// batchBody joins events into a JSON array, which unlike NDJSON lets an event hold line breaks.
func batchBody(events []event.Event) []byte {
	n := 2
	for _, e := range events {
		n += len(e.Raw) + 1
	}
	body := append(make([]byte, 0, n), '[')
	for i, e := range events {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, e.Raw...)
	}
	return append(body, ']')
}

// resolve finds out about an append with an expected offset that was refused after an attempt of
// unknown outcome: that attempt may be the very reason for the refusal. What stands at the expected
// offsets tells, by its bytes and its epoch.
func (c *Client) resolve(ctx context.Context, b event.Batch, err error) (Appended, bool) {
	var refusal event.Refusal
	if b.Expect == nil || !errors.Is(err, ErrOutcomeUnknown) || !errors.As(err, &refusal) {
		return Appended{}, false
	}
	page, err := c.Events(ctx, b.Run, EventsQuery{From: *b.Expect, Limit: len(b.Events), Read: Read{Linearizable: true}})
	if err != nil || len(page.Records) != len(b.Events) {
		return Appended{}, false
	}
	for i, rec := range page.Records {
		if !bytes.Equal(rec.Raw, bytes.TrimSpace(b.Events[i].Raw)) || b.Epoch != nil && rec.Epoch != *b.Epoch {
			return Appended{}, false
		}
	}
	return Appended{FirstOffset: *b.Expect, Tail: *b.Expect + event.Offset(len(b.Events)), Duplicate: true}, true
}
