package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/runlog/runlog/event"
)

// ErrCancelRequested is why a [Handle]'s context ends when somebody asked for the run's end: the
// host should stop its work, close what it has open and [Handle.Finish] with [Cancelled]. When it
// does not in time, the cluster ends the run.
var ErrCancelRequested = errors.New("the run's end was asked for")

// ErrReleased is why a Handle's context ends when the host itself gave the run up.
var ErrReleased = errors.New("the run was given up by its host")

// Handle is a host's hold on a run: the lease, renewed in the background together with those of the
// client's other handles of the same holder, and the place from which
// the host writes. Get one with [Client.Start] or [Client.Takeover], and Close it.
//
// A handle is bound to no connection and to no node. One made before a restart of any of them, or
// of all, works after it; each call settles within Config.RetryFor, with its result or with an
// error that says whether the events were written.
//
// Its methods may be called from any goroutine; writes go out one after the other, in the order of
// the calls.
type Handle struct {
	c   *Client
	run event.Run

	// ctx is the run's, as a request's is in net/http: it outlives every call.
	ctx    context.Context
	cancel context.CancelCauseFunc

	renewer *renewer    // shared with the client's other handles of this holder
	unwatch func() bool // stops waiting for the end of the context that the handle was made with

	turn chan struct{} // holds a token while nobody writes
	// What follows belongs to the holder of turn.
	producer  event.Producer
	unsettled *event.Batch // written perhaps; settled before anything else is
	terminal  *Appended    // set once this handle wrote the run's end
}

// Start creates a run, held by n.Holder, which is required, and renews its lease until the run
// ends, the handle is released or closed, or ctx is done. When the run exists already in that
// thread it is acquired at a new epoch: Handle.Run tells where its log stands.
//
// Refusals: those of [Client.CreateRun].
func (c *Client) Start(ctx context.Context, n NewRun) (*Handle, error) {
	if n.Holder == "" {
		return nil, errors.New("start run: a holder is required")
	}
	asked := time.Now()
	run, err := c.CreateRun(ctx, n)
	if err != nil {
		return nil, err
	}
	return c.hold(ctx, run.Run, asked), nil
}

// Takeover is how a run's lease is taken over.
type Takeover struct {
	Holder event.HolderID // required
	// LeaseMs is the lease's term; 0: the server's default.
	LeaseMs int64
	// Wait is how long to wait for another's live lease to end. 0: not at all.
	Wait time.Duration
	// Steal takes even a live lease, from the holder whose epoch this is; nil: none.
	Steal *event.Epoch
}

// Takeover acquires an open run at a new epoch, which fences whoever held it, and returns a handle
// as [Client.Start] does. Handle.Run tells the tail, from which the host may go on by appending
// what comes next, and what is open there; or it sends its whole stream again with
// [Handle.Replay].
//
// Refusals: [event.ErrLeaseHeld] when another's lease outlived the wait, [event.ErrRunEnded] when
// there is nothing left to take over, [event.ErrRunNotFound], [event.ErrRunDeleted];
// [event.ErrFenced] when t.Steal names an epoch that has passed.
func (c *Client) Takeover(ctx context.Context, id event.RunID, t Takeover) (*Handle, error) {
	if t.Holder == "" {
		return nil, fmt.Errorf("take over run %s: a holder is required", id)
	}
	// The thread is asked for first: once the lease is held, nothing may go wrong any more.
	run, err := c.Run(ctx, id, View{})
	if err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	asked := time.Now()
	run, err = c.takeLease(ctx, run, t)
	if err != nil {
		return nil, fmt.Errorf("take over run %s: %w", id, err)
	}
	return c.hold(ctx, run, asked), nil
}

// hold makes the handle of a lease that was asked for at that time.
func (c *Client) hold(ctx context.Context, run event.Run, asked time.Time) *Handle {
	h := &Handle{c: c, run: run, turn: make(chan struct{}, 1)}
	h.turn <- struct{}{}
	// A holder's epoch is one handle's: sequence numbers begin anew with it, and however often a
	// host comes back it stays one of the run's producers.
	h.producer = event.Producer{ID: event.ProducerID(run.Lease.Holder), Epoch: uint64(run.Epoch)}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	c.join(ctx, h, asked)
	return h
}

func (h *Handle) term() time.Duration {
	return time.Duration(h.run.Lease.LeaseMs) * time.Millisecond
}

// Run is the run as it was when the handle acquired it: with its thread, its epoch, the tail and
// what was open there.
func (h *Handle) Run() event.Run { return h.run }

// Epoch is the epoch at which the handle writes.
func (h *Handle) Epoch() event.Epoch { return h.run.Epoch }

// Context is what the agent's work should run under. It descends from the one that the handle was
// made with and ends as soon as the handle learns that the work should stop; context.Cause tells
// why: [ErrCancelRequested]; a *[event.Fenced], when somebody took the run over; a
// *[event.RunEnded], when the cluster ended it; [ErrReleased], and nothing but context.Canceled
// after the host's own end. Writing is possible, where it is at all, under any other context.
func (h *Handle) Context() context.Context { return h.ctx }

// Close ends the renewals. It gives nothing up: an open run's lease lapses when its term is over. The
// last handle that a client has of a holder waits for the goroutine that makes the renewals of all of
// them. It may be called twice, and after any other end.
func (h *Handle) Close() {
	h.over(context.Canceled)
	h.renewer.wait()
}

// over ends the work and the renewals.
func (h *Handle) over(why error) {
	h.cancel(why)
	h.unwatch()
	h.renewer.leave(h)
}

// Release gives the run up for a successor, in time for a planned stop: the run stays open for
// takeoverMs, or, when that is nil, for the larger of its own window and a minute. It waits for a
// write under way and settles one whose outcome is unknown first.
func (h *Handle) Release(ctx context.Context, takeoverMs *int64) error {
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return fmt.Errorf("release run %s: %w", h.run.RunID, err)
	}
	defer done()
	if err := h.settle(ctx); err != nil {
		return fmt.Errorf("release run %s: %w", h.run.RunID, err)
	}
	if err := h.c.Release(ctx, h.run.RunID, h.run.Epoch, takeoverMs); err != nil {
		h.learn(err)
		return err
	}
	h.over(ErrReleased)
	return nil
}

// asked ends the work, though not the hold, when somebody asked for the run's end.
func (h *Handle) asked(cancel bool) {
	if cancel {
		h.cancel(ErrCancelRequested)
	}
}

// learn ends the work when an error says that the run is no longer this handle's.
func (h *Handle) learn(err error) {
	var fenced *event.Fenced
	var ended *event.RunEnded
	switch {
	case errors.As(err, &fenced):
		h.over(fenced)
	case errors.As(err, &ended):
		h.over(ended)
	case errors.Is(err, event.ErrRunDeleted):
		h.over(event.ErrRunDeleted)
	}
}
