package gateway

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// tokenPrefix makes a token recognisable, so that anything else in its place is refused.
const tokenPrefix = "t"

// setToken tells the client how to read its own write on any node. A token is opaque to clients; it
// is the log index that the write was applied at.
func (g *Gateway) setToken(c *gin.Context, index uint64) {
	if index > 0 {
		c.Writer.Header()[tokenHeader] = []string{formatToken(index)}
	}
}

const tokenHeader = "Runlog-Token"

func formatToken(index uint64) string {
	var buf [16]byte
	return string(strconv.AppendUint(append(buf[:0], tokenPrefix...), index, 36))
}

func parseToken(s string) (index uint64, ok bool) {
	digits, found := strings.CutPrefix(s, tokenPrefix)
	if !found || digits == "" || digits[0] == '+' || digits[0] == '-' {
		return 0, false
	}
	index, err := strconv.ParseUint(digits, 36, 64)
	return index, err == nil
}

// freshness is how much of the log a read must see.
type freshness struct {
	linearizable bool          // everything acknowledged before the read
	index        uint64        // the write that a token names; 0: none
	offset       *event.Offset // the run's tail must have reached it
}

func (q *query) freshness() freshness {
	f := freshness{
		linearizable: q.oneOf("consistency", "local", "local", "linearizable") == "linearizable",
		offset:       q.offset("minOffset"),
	}
	if q.has("minToken") {
		var ok bool
		if f.index, ok = parseToken(q.text("minToken")); !ok {
			q.fail("minToken", "is not a token that a write returned")
		}
	}
	return f
}

// settle waits until this node's state is as fresh as f asks for, at most ReadWait.
func (g *Gateway) settle(ctx context.Context, id event.RunID, f freshness) error {
	if f == (freshness{}) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, g.cfg.ReadWait, errUnavailable)
	defer cancel()
	if f.linearizable {
		if err := g.node.ReadIndex(ctx); err != nil {
			return behind(ctx, err)
		}
	}
	if f.index > 0 {
		if err := g.node.WaitApplied(ctx, f.index); err != nil {
			return behind(ctx, err)
		}
	}
	if f.offset != nil && id != "" {
		return g.waitTail(ctx, id, *f.offset)
	}
	return nil
}

// waitTail waits until the run's tail has reached offset. A node that has everything and still
// lacks it proves that the offset does not exist.
func (g *Gateway) waitTail(ctx context.Context, id event.RunID, offset event.Offset) error {
	return g.prove(ctx, func() error {
		run, err := g.reader.Run(ctx, id)
		if err == nil && run.Tail < offset {
			return &event.OffsetOutOfRange{Offset: offset, Tail: run.Tail}
		}
		return err
	})
}

// prove repeats a read whose answer a node that lags may give wrongly, once a read index has shown
// that this node has everything.
func (g *Gateway) prove(ctx context.Context, read func() error) error {
	err := read()
	if !errors.Is(err, event.ErrRunNotFound) && !errors.Is(err, event.ErrOffsetOutOfRange) {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, g.cfg.ReadWait, errUnavailable)
	defer cancel()
	if err := g.node.ReadIndex(ctx); err != nil {
		return behind(ctx, err)
	}
	return read()
}

// behind names the reason of a wait that failed: the bound of the wait, not the client, ended it.
func behind(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errUnavailable) {
		return fmt.Errorf("%w: %w", errUnavailable, err)
	}
	return err
}
