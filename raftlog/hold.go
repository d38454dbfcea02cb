package raftlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/runlog/runlog/event"
)

// Propose carries cmd to the leader, wherever that is, waits until it is committed and applied
// there, and returns the state machine's answer. A refusal is an answer, in Result.Refusal.
//
// Without a leader, or when leadership changes, the proposal is held and repeated, up to
// Config.HoldFor or ctx, but never so that it could take effect twice. Errors, for errors.Is:
// [ErrUnavailable], [ErrOverloaded], [ErrUpgrading] and [ErrClosed]: nothing was written, nor will be.
// [ErrOutcomeUnknown]: it may have been written, or may yet be. Ending ctx takes a proposal back only
// while it has not been sent.
//
// The caller must not change what cmd points to before Propose returns. Commands proposed one after
// the other are applied in that order; of concurrent ones nothing is said.
func (n *Node) Propose(ctx context.Context, cmd event.Command) (event.Result, error) {
	encoded := event.AppendCommand(make([]byte, 0, sizeHint(cmd)), cmd)
	if err := n.admission.enter(1, len(encoded)); err != nil {
		n.lessor.turnedAway(encoded)
		n.metrics.outcome("overloaded")
		return event.Result{}, err
	}
	defer n.admission.leave(1, len(encoded))
	n.metrics.pending.Inc()
	defer n.metrics.pending.Dec()

	h := hold{n: n, cmd: cmd, encoded: encoded, deadline: time.NewTimer(n.cfg.HoldFor)}
	defer h.deadline.Stop()
	r, err := h.run(ctx)
	n.metrics.outcome(outcomeName(r, err))
	return r, err
}

// sizeHint estimates the encoded size, from above for common appends.
func sizeHint(cmd event.Command) int {
	c, ok := cmd.(*event.Append)
	if !ok {
		return 512
	}
	size := 128 + len(c.Run)
	for i := range c.Events {
		size += len(c.Events[i].Raw) + 128
	}
	return size
}

func outcomeName(r event.Result, err error) string {
	switch {
	case err == nil && r.Refusal != nil:
		return "refused"
	case err == nil:
		return "done"
	case errors.Is(err, ErrOutcomeUnknown):
		return "unknown"
	case errors.Is(err, ErrOverloaded):
		return "overloaded"
	}
	return "unavailable"
}

// hold is one proposal on its way through leader changes.
type hold struct {
	n        *Node
	cmd      event.Command
	encoded  []byte
	deadline *time.Timer
	// doubt: an earlier attempt may have been written, or may yet be.
	doubt bool
	held  bool // counted as held
}

func (h *hold) run(ctx context.Context) (event.Result, error) {
	for {
		changed := h.n.leadership.C()
		if !h.n.routed() {
			if err := h.wait(ctx, changed); err != nil {
				return event.Result{}, err
			}
			continue
		}
		tickets, err := h.n.queue.add(make([]ticket, 0, 1), false, h.encoded)
		if err != nil {
			return event.Result{}, h.giveUp(err)
		}
		select {
		case <-tickets[0].group.done:
		case <-ctx.Done():
			return event.Result{}, h.leave(tickets[0], context.Cause(ctx))
		case <-h.deadline.C:
			return event.Result{}, h.leave(tickets[0], nil)
		}
		o := tickets[0].outcome()
		switch {
		case o.err == nil && h.doubt:
			return h.settle(ctx, o.result)
		case o.err == nil:
			return o.result, nil
		case (errors.Is(o.err, ErrOverloaded) || errors.Is(o.err, ErrUpgrading)) && !h.doubt:
			return event.Result{}, o.err
		case errors.Is(o.err, ErrOutcomeUnknown):
			h.doubt = true
			if !repeatable(h.cmd) {
				return event.Result{}, o.err
			}
		}
		if err := h.wait(ctx, changed); err != nil {
			return event.Result{}, err
		}
	}
}

// routed reports whether a group sent now would have somewhere to go.
func (n *Node) routed() bool {
	if n.tenure.Load() != nil {
		return true
	}
	leader, id := n.raft.LeaderWithID()
	return leader != "" && id != n.id
}

// wait waits for a change of leadership, or a little while, since a node learns late that another
// one is ready.
func (h *hold) wait(ctx context.Context, changed <-chan struct{}) error {
	if !h.held {
		h.held = true
		h.n.metrics.held.Inc()
	}
	retry := time.NewTimer(retryEvery)
	defer retry.Stop()
	select {
	case <-changed:
		return nil
	case <-retry.C:
		return nil
	case <-h.n.closing:
		return h.giveUp(ErrClosed)
	case <-ctx.Done():
		return h.giveUp(context.Cause(ctx))
	case <-h.deadline.C:
		return h.giveUp(nil)
	}
}

// leave gives up waiting for a ticket.
func (h *hold) leave(t ticket, cause error) error {
	if !h.n.queue.withdraw(t) {
		h.doubt = true
	}
	return h.giveUp(cause)
}

// giveUp says truthfully what is known when no answer came; cause may be nil.
func (h *hold) giveUp(cause error) error {
	err := ErrUnavailable
	if h.doubt {
		err = ErrOutcomeUnknown
	}
	if cause != nil {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}
