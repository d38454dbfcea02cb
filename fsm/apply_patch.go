package fsm

import (
	"errors"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// patchRun merges a JSON merge patch (RFC 7396) into the run's metadata.
func (a *applier) patchRun(c *event.PatchRun) (event.Result, error) {
	r, err := a.m.find(c.Run)
	switch {
	case errors.Is(err, event.ErrRunNotFound), errors.Is(err, event.ErrRunDeleted):
		return refuse(err), nil
	case err != nil:
		return event.Result{}, err
	}
	if c.Epoch != nil && *c.Epoch != r.epoch {
		return refuse(&event.Fenced{Epoch: *c.Epoch, CurrentEpoch: r.epoch}), nil
	}
	merged, err := projection.MergePatch(r.metadata, c.Patch)
	if err != nil {
		// The gateway has checked the patch; this answers one that reached the log otherwise.
		return refuse(&event.InvalidEvent{Reason: "metadata is not a JSON merge patch"}), nil
	}
	if len(merged) > event.MaxMetadataBytes {
		return refuse(&event.TooLarge{What: "metadata bytes", Limit: event.MaxMetadataBytes}), nil
	}
	r = a.writable(r)
	a.setMetadata(r, merged)
	r.updatedAt = a.now
	a.effectRun(r)
	return event.Result{Run: r.view()}, nil
}
