package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/runlog/runlog/event"
)

// Append writes events to the end of the run, all or none, at the handle's epoch. It is repeated
// over nodes and elections, and written once.
//
// An error is definite, and nothing was written, unless it is [ErrOutcomeUnknown]. Then the handle
// keeps the events and settles them before its next write: once that succeeds they are in the run,
// so they must not be appended again. While they cannot be settled, [ErrUnavailable] answers what is
// to follow them, of which nothing is written or kept. A terminal event ends the renewals.
func (h *Handle) Append(ctx context.Context, events ...event.Event) (Appended, error) {
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return Appended{}, fmt.Errorf("append to run %s: %w", h.run.RunID, err)
	}
	defer done()
	if err := h.settle(ctx); err != nil {
		return Appended{}, earlier(err)
	}
	return h.write(ctx, h.batch(events))
}

// Finished is what the end of a run says beside that it ended. The zero value is a plain success.
type Finished struct {
	// Outcome is AG-UI's: {"type":"success"}, or {"type":"interrupt",…} when the run waits for the
	// client.
	Outcome json.RawMessage `json:"outcome,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Usage   json.RawMessage `json:"usage,omitempty"`
}

// Cancelled answers [ErrCancelRequested].
var Cancelled = Finished{Outcome: json.RawMessage(`{"type":"cancelled"}`)}

// Finish ends the run with RUN_FINISHED. What the host has open it must have closed before. Called
// again after it succeeded, or after an unknown outcome that proves to be a success, it returns
// what it returned or would have.
func (h *Handle) Finish(ctx context.Context, f Finished) (Appended, error) {
	return h.finish(ctx, struct {
		Type     string         `json:"type"`
		ThreadID event.ThreadID `json:"threadId"`
		RunID    event.RunID    `json:"runId"`
		Finished
	}{"RUN_FINISHED", h.run.ThreadID, h.run.RunID, f})
}

// Fail ends the run with RUN_ERROR, otherwise as Finish.
func (h *Handle) Fail(ctx context.Context, e event.RunError) (Appended, error) {
	return h.finish(ctx, struct {
		Type string `json:"type"`
		event.RunError
	}{"RUN_ERROR", e})
}

func (h *Handle) finish(ctx context.Context, terminal any) (Appended, error) {
	raw, err := marshal(terminal)
	if err != nil {
		return Appended{}, fmt.Errorf("end run %s: %w", h.run.RunID, err)
	}
	ctx, done, err := h.begin(ctx)
	if err != nil {
		return Appended{}, fmt.Errorf("end run %s: %w", h.run.RunID, err)
	}
	defer done()
	if err := h.settle(ctx); err != nil {
		return Appended{}, err
	}
	if h.terminal != nil {
		return *h.terminal, nil
	}
	return h.write(ctx, h.batch([]event.Event{{Raw: raw}}))
}

// Replay sends the host's whole stream again from its first event, as [Client.Replay] does; Append
// goes on after it. Other writes of the handle wait until it is over.
func (h *Handle) Replay(ctx context.Context, source Source, progress func(ReplayProgress)) (ReplayResult, error) {
	if err := h.await(ctx); err != nil {
		return ReplayResult{}, fmt.Errorf("replay run %s: %w", h.run.RunID, err)
	}
	defer h.done()
	if err := h.settle(ctx); err != nil {
		return ReplayResult{}, earlier(err)
	}
	result, err := h.c.Replay(ctx, h.run.RunID, h.run.Epoch, source, func(p ReplayProgress) {
		h.asked(p.CancelRequested)
		if progress != nil {
			progress(p)
		}
	})
	h.asked(result.CancelRequested)
	h.learn(err)
	return result, err
}

// begin takes the turn to write, within the time that one call may take over all it does.
func (h *Handle) begin(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, h.c.retry)
	if err := h.await(ctx); err != nil {
		cancel()
		return nil, nil, err
	}
	return ctx, func() { h.done(); cancel() }, nil
}

func (h *Handle) await(ctx context.Context) error {
	select {
	case <-h.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: an earlier write is under way: %w", ErrUnavailable, context.Cause(ctx))
	}
}

func (h *Handle) done() { h.turn <- struct{}{} }

func (h *Handle) batch(events []event.Event) event.Batch {
	p := h.producer
	return event.Batch{Run: h.run.RunID, Epoch: &h.run.Epoch, Producer: &p, Events: events}
}

// settle finds out about a batch of unknown outcome by sending it again: it is written now, if it
// was not before.
func (h *Handle) settle(ctx context.Context) error {
	if h.unsettled == nil {
		return nil
	}
	if _, err := h.write(ctx, *h.unsettled); err != nil {
		return fmt.Errorf("settle an earlier write, before anything else is written: %w", err)
	}
	return nil
}

// earlier makes the error of an earlier write one about what was to follow it: of that, nothing was
// sent, whatever became of the earlier write.
func earlier(err error) error {
	var refusal event.Refusal
	if errors.As(err, &refusal) {
		return fmt.Errorf("settle an earlier write, before anything else is written: %w", refusal)
	}
	return fmt.Errorf("%w: %v", ErrUnavailable, err) // %v: not unknown
}

// write sends a batch and takes note of what became of it.
func (h *Handle) write(ctx context.Context, b event.Batch) (Appended, error) {
	first := h.unsettled == nil
	done, err := h.c.Append(ctx, b)
	switch {
	case err == nil:
		h.wrote(b, done)
	case refused(err):
		h.unsettled = nil
		h.learn(err)
		err = settled(h.run.RunID, err)
	case errors.Is(err, ErrOutcomeUnknown):
		h.unsettled = &b
	case !first:
		// This attempt wrote nothing; of the one before nothing more is known than was.
		err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return done, err
}

func (h *Handle) wrote(b event.Batch, done Appended) {
	h.producer.Seq++
	h.unsettled = nil
	h.asked(done.CancelRequested)
	for _, e := range b.Events {
		if e, err := event.ParseEvent(e.Raw); err == nil && e.Header.Type.Terminal() {
			h.terminal = &done
			h.over(context.Canceled)
		}
	}
}

func refused(err error) bool {
	var refusal event.Refusal
	return errors.As(err, &refusal)
}

// settled makes a refusal definite where it is. A duplicate is looked for right after the run and
// its epoch, so any later refusal proves that no earlier attempt was carried out.
func settled(run event.RunID, err error) error {
	var refusal event.Refusal
	if !errors.Is(err, ErrOutcomeUnknown) || !errors.As(err, &refusal) {
		return err
	}
	switch refusal.Code() {
	case event.CodeRunNotFound, event.CodeRunDeleted, event.CodeEpochRequired, event.CodeFenced:
		return err
	}
	return fmt.Errorf("append to run %s: %w", run, refusal)
}
