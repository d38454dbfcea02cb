package gateway

import (
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// appendEvents is POST /v1/runs/{runId}/events, the path that most requests take. The body becomes
// one batch whose events keep the bytes they came in; nothing is decoded into Go values but what
// the state machine decides by.
func (g *Gateway) appendEvents(c *gin.Context) error {
	cmd := new(event.Append)
	if err := batchHeaders(c, &cmd.Batch); err != nil {
		return err
	}
	b, err := readBody(c)
	if err != nil {
		return err
	}
	if cmd.Events, err = event.ParseBody(b.in); err != nil {
		b.free()
		return err
	}
	if cmd.Producer != nil {
		cmd.BodyHash = event.HashBody(cmd.Events)
	}
	g.metrics.appendEvents.Observe(float64(len(cmd.Events)))
	res, err := g.node.Propose(c.Request.Context(), cmd)
	if err != nil {
		return err // b may still be read: not freed
	}
	defer b.free()
	g.setToken(c, res.Index)
	if res.Refusal != nil {
		return res.Refusal
	}
	b.out = appendAppended(b.out, &res.Appended, g.remainingAfter(&cmd.Batch, &res.Appended))
	return writeJSON(c, http.StatusOK, b.out)
}

// batchHeaders reads what the headers and the path say of a batch.
func batchHeaders(c *gin.Context, b *event.Batch) error {
	var err error
	if b.Run, err = runID(c); err != nil {
		return err
	}
	h := c.Request.Header
	epoch, err := numberHeader(h, "Run-Epoch")
	if err != nil {
		return err
	}
	expect, err := numberHeader(h, "Expected-Offset")
	if err != nil {
		return err
	}
	b.Epoch, b.Expect = (*event.Epoch)(epoch), (*event.Offset)(expect)
	b.Producer, err = producerHeaders(h)
	return err
}

// producerHeaders reads Durable Streams' three producer headers, which come together or not at all.
func producerHeaders(h http.Header) (*event.Producer, error) {
	id, hasID, err := header(h, "Producer-Id")
	if err != nil {
		return nil, err
	}
	epoch, err := numberHeader(h, "Producer-Epoch")
	if err != nil {
		return nil, err
	}
	seq, err := numberHeader(h, "Producer-Seq")
	if err != nil {
		return nil, err
	}
	if !hasID && epoch == nil && seq == nil {
		return nil, nil
	}
	for _, f := range [...]struct {
		name string
		here bool
	}{{"Producer-Id", hasID}, {"Producer-Epoch", epoch != nil}, {"Producer-Seq", seq != nil}} {
		if !f.here {
			return nil, &inputError{"header", f.name, "is missing; Producer-Id, Producer-Epoch and Producer-Seq come together"}
		}
	}
	if err := checkID("header", "Producer-Id", id); err != nil {
		return nil, err
	}
	return &event.Producer{ID: event.ProducerID(id), Epoch: *epoch, Seq: *seq}, nil
}

// remainingAfter is how long the lease lasts that an append renewed, in ms; -1: none, or not known here.
func (g *Gateway) remainingAfter(b *event.Batch, a *event.Appended) int64 {
	if g.leases == nil || b.Epoch == nil || a.Duplicate {
		return -1
	}
	left, ok := g.leases.LeaseRemaining(b.Run)
	if !ok {
		return -1
	}
	return left.Milliseconds()
}

// appendAppended appends the answer to an accepted append.
func appendAppended(dst []byte, a *event.Appended, expiresInMs int64) []byte {
	dst = append(dst, `{"firstOffset":`...)
	dst = appendOffset(dst, a.FirstOffset)
	dst = append(dst, `,"tail":`...)
	dst = appendOffset(dst, a.Tail)
	if a.Duplicate {
		dst = append(dst, `,"duplicate":true`...)
	} else {
		dst = append(dst, `,"duplicate":false`...)
	}
	if a.Forgotten {
		dst = append(dst, `,"forgotten":true`...)
	}
	if a.CancelRequested {
		dst = append(dst, `,"cancelRequested":true`...)
	}
	if expiresInMs >= 0 {
		dst = append(dst, `,"expiresInMs":`...)
		dst = strconv.AppendInt(dst, expiresInMs, 10)
	}
	return append(dst, '}')
}
