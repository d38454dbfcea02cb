package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/runlog/runlog/event"
)

// plainStream is a stream that is nothing but a stream.
type plainStream struct {
	g    *Gateway
	name event.StreamName
}

// propose carries a command to the leader; a refusal is an error here.
func (s plainStream) propose(ctx context.Context, c event.Command) (event.Result, error) {
	r, err := s.g.node.Propose(ctx, c)
	if err == nil && r.Refusal != nil {
		err = r.Refusal
	}
	return r, err
}

// maxForkAttempts bounds how often a fork is worked out anew because its source was replaced meanwhile.
const maxForkAttempts = 5

func (s plainStream) create(ctx context.Context, r *streamCreate) (event.Stream, bool, uint64, error) {
	c := &event.CreateStream{
		Name: s.name, ContentType: r.contentType, TTLSeconds: r.ttlSeconds, ExpiresAt: r.expiresAt, Closed: r.closed,
	}
	// A fresh key: the log carries a repeated attempt of this request, and of no other, to the same answer.
	_, _ = rand.Read(c.Key[:]) // never fails
	var res event.Result
	var err error
	for range maxForkAttempts {
		if err := s.fill(ctx, c, r); err != nil {
			return event.Stream{}, false, 0, err
		}
		res, err = s.propose(ctx, c)
		if !errors.Is(err, event.ErrStaleVerdict) {
			break
		}
	}
	if err != nil {
		return event.Stream{}, false, res.Index, err
	}
	return res.Stream.Stream, res.Created, res.Index, nil
}

// fill works out the fork and the messages of a creation.
func (s plainStream) fill(ctx context.Context, c *event.CreateStream, r *streamCreate) (err error) {
	contentType, prefix := r.contentType, []byte(nil)
	if r.fork != nil {
		var from string
		if c.Fork, from, prefix, err = s.g.branch(ctx, r.fork); err != nil {
			return err
		}
		if contentType == "" {
			contentType = from
		}
	}
	if c.Messages, err = splitBody(contentType, r.body); err != nil {
		return err
	}
	if len(prefix) > 0 {
		if len(prefix)+len(r.body) > maxStreamBody {
			return &event.TooLarge{What: "bytes in the body and of the message that the fork divides", Limit: maxStreamBody}
		}
		c.Messages = append([][]byte{prefix}, c.Messages...)
	}
	return nil
}

func (s plainStream) append(ctx context.Context, r *streamAppend) (event.StreamResult, uint64, error) {
	messages, err := r.messages()
	if err != nil {
		return event.StreamResult{}, 0, err
	}
	res, err := s.propose(ctx, &event.AppendStream{
		Name: s.name, ContentType: r.contentType, Messages: messages, Close: r.close, Seq: r.seq, Producer: r.producer,
	})
	if err != nil {
		return event.StreamResult{}, res.Index, err
	}
	return *res.Stream, res.Index, nil
}

func (s plainStream) delete(ctx context.Context, _ http.Header) (uint64, error) {
	res, err := s.propose(ctx, event.DeleteStream{Name: s.name})
	return res.Index, err
}

func (s plainStream) head(ctx context.Context) (event.Stream, error) {
	return s.g.streams.Stream(ctx, s.name)
}

func (s plainStream) read(ctx context.Context, from event.Offset, maxMessages, maxBytes int) (event.StreamPage, error) {
	return s.g.streams.Messages(ctx, s.name, from, maxMessages, maxBytes)
}

// touch keeps a stream with a TTL alive. So that reading stays cheap the log hears of a reader only
// when a noticeable part of the TTL has gone by since it last did.
func (s plainStream) touch(ctx context.Context, v *event.Stream) error {
	if v.TTLSeconds == nil || v.IdleMs < min(*v.TTLSeconds*1000/8, 1000) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.g.cfg.ReadWait, errUnavailable)
	defer cancel()
	if _, err := s.propose(ctx, event.TouchStream{Name: s.name, Generation: v.Generation}); err != nil {
		return behind(ctx, err)
	}
	return nil
}

func (s plainStream) watch() Watch { return s.g.streams.WatchStream(s.name) }
