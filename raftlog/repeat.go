package raftlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/runlog/runlog/event"
)

// repeatable reports whether cmd may be proposed again although an earlier proposal of it may
// still take effect, before or after the repeat:
//
//   - an append with producer headers: the state machine answers a repeated sequence number with
//     what its first write answered;
//   - an append with an expected offset and events: of two with the same expectation at most one
//     is written, whichever comes first;
//   - the creation of a run with an idempotency key, likewise; without one and without a holder a second
//     creation changes nothing;
//   - the acquisition of a lease or a lock with an idempotency key, likewise;
//   - the creation of a stream with such a key, an append to one with producer headers, a subscription, likewise;
//   - a deletion, a revival, a release, a cancel, a close, a touch: the second one changes nothing.
//
// Not: an append without either (written twice), an acquisition without a key (takes two epochs,
// and the second may be refused because of the first), a metadata patch (would undo what another patch
// did in between), a verdict about a lease (the next leader judges for itself).
func repeatable(cmd event.Command) bool {
	switch c := cmd.(type) {
	case *event.Append:
		return c.Producer != nil || (c.Expect != nil && len(c.Events) > 0)
	case event.CreateRun:
		return c.Key != (event.IdempotencyKey{}) || c.Holder == ""
	case event.AcquireLease:
		return c.Key != (event.IdempotencyKey{})
	case event.AcquireLock:
		return c.Key != (event.IdempotencyKey{})
	case *event.Subscribe:
		return c.Key != (event.IdempotencyKey{})
	case *event.CreateStream:
		return c.Key != (event.IdempotencyKey{})
	case *event.AppendStream:
		return c.Producer != nil || len(c.Messages) == 0
	case *event.OpenRunStream:
		return c.Key != (event.IdempotencyKey{}) || c.Holder == ""
	case *event.AppendRunStream:
		return c.Producer != nil
	case event.DeleteRun, event.ReviveLease, event.ReleaseLease, event.ReleaseLock, event.CancelRun, event.DeleteStream, event.TouchStream,
		event.Unsubscribe, *event.LinkStreams:
		return true
	}
	return false
}

// settle decides what the answer to a repeat says about the request as a whole: an earlier attempt
// in doubt may have been written, so that a refusal of the repeat need not mean that nothing was.
func (h *hold) settle(ctx context.Context, r event.Result) (event.Result, error) {
	switch c := h.cmd.(type) {
	case *event.Append:
		return h.settleAppend(ctx, &c.Batch, r)
	case event.CreateRun:
		if r.Refusal == nil && (r.Created || c.Key != (event.IdempotencyKey{})) {
			return r, nil
		}
		// The run exists, and the first attempt may have made it; or it was refused
		// because of what the first attempt made.
		return event.Result{}, h.giveUp(r.Refusal)
	case event.DeleteRun:
		if errors.Is(r.Refusal, event.ErrRunDeleted) {
			return event.Result{Index: r.Index}, nil
		}
	case event.AcquireLease, event.AcquireLock:
		// The first attempt may have been granted, and superseded since.
		if errors.Is(r.Refusal, event.ErrFenced) || errors.Is(r.Refusal, event.ErrLeaseHeld) {
			return event.Result{}, h.giveUp(r.Refusal)
		}
	case event.ReleaseLease, event.ReleaseLock:
		// Somebody else has it, or nobody: it is no longer held at this epoch, which was asked for.
		if errors.Is(r.Refusal, event.ErrFenced) {
			return event.Result{Index: r.Index}, nil
		}
	case event.DeleteStream:
		if errors.Is(r.Refusal, event.ErrStreamNotFound) || errors.Is(r.Refusal, event.ErrStreamGone) {
			return event.Result{Index: r.Index}, nil
		}
	case *event.CreateStream, *event.AppendStream:
		// What the first attempt did may be gone again, with the stream.
		if errors.Is(r.Refusal, event.ErrStreamNotFound) || errors.Is(r.Refusal, event.ErrStreamGone) || errors.Is(r.Refusal, event.ErrStreamExists) {
			return event.Result{}, h.giveUp(r.Refusal)
		}
	case *event.OpenRunStream, *event.AppendRunStream:
		if r.Refusal != nil { // perhaps because of what the first attempt did
			return event.Result{}, h.giveUp(r.Refusal)
		}
	case event.CancelRun:
		if errors.Is(r.Refusal, event.ErrRunEnded) {
			return event.Result{}, h.giveUp(r.Refusal) // perhaps by this very cancel
		}
	}
	return r, nil
}

func (h *hold) settleAppend(ctx context.Context, b *event.Batch, r event.Result) (event.Result, error) {
	switch {
	case r.Refusal == nil:
		return r, nil
	case errors.Is(r.Refusal, event.ErrRunNotFound):
		return r, nil // nothing was ever written to it
	case b.Producer != nil && !beforeDuplicates(r.Refusal):
		return r, nil // known not to be a duplicate, hence never written
	case b.Expect != nil && len(b.Events) > 0 && !errors.Is(r.Refusal, event.ErrRunDeleted):
		return h.compare(ctx, b, r)
	}
	return event.Result{}, h.giveUp(r.Refusal)
}

// beforeDuplicates reports whether the state machine refuses for this reason before it looks
// whether the append is a duplicate.
func beforeDuplicates(r event.Refusal) bool {
	for _, e := range []error{event.ErrRunDeleted, event.ErrEpochRequired, event.ErrFenced, event.ErrProducerFenced} {
		if errors.Is(r, e) {
			return true
		}
	}
	return false
}

// compare looks whether the batch stands where it was to be written. If it does, an earlier attempt
// wrote it, and the refusal is answered as that attempt would have been; if something else or nothing stands
// there, the refusal holds.
func (h *hold) compare(ctx context.Context, b *event.Batch, r event.Result) (event.Result, error) {
	ours, err := h.stands(ctx, b, r.Index)
	switch {
	case err != nil:
		return event.Result{}, h.giveUp(err)
	case !ours:
		return r, nil
	}
	return event.Result{Index: r.Index, Appended: event.Appended{
		FirstOffset: *b.Expect, Tail: *b.Expect + event.Offset(len(b.Events)), Duplicate: true,
	}}, nil
}

func (h *hold) stands(ctx context.Context, b *event.Batch, index uint64) (bool, error) {
	if err := h.n.state.WaitApplied(ctx, index); err != nil {
		return false, err
	}
	for i := 0; i < len(b.Events); {
		page, err := h.n.state.Records(ctx, b.Run, *b.Expect+event.Offset(i), len(b.Events)-i, event.MaxBatchBytes)
		if errors.Is(err, event.ErrOffsetOutOfRange) || (err == nil && len(page.Records) == 0) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("compare run %s at %d: %w", b.Run, *b.Expect, err)
		}
		for _, rec := range page.Records {
			if !bytes.Equal(rec.Raw, b.Events[i].Raw) || (b.Epoch != nil && rec.Epoch != *b.Epoch) {
				return false, nil
			}
			i++
		}
	}
	return true, nil
}
