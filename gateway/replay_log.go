package gateway

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/runlog/runlog/event"
)

// storedLog reads a run for an alignment, piece by piece. What this node has not seen yet reads as
// the log's end: an append expects the tail where the reading ended.
type storedLog struct {
	reader Reader
	run    event.RunID
	page   []event.Record
}

// Record returns the record at an offset; see [event.Stored].
func (l *storedLog) Record(ctx context.Context, at event.Offset) (event.Record, bool, error) {
	if len(l.page) > 0 && at >= l.page[0].Offset && at <= l.page[len(l.page)-1].Offset {
		return l.page[at-l.page[0].Offset], true, nil
	}
	page, err := l.reader.Records(ctx, l.run, at, chunkRecords, chunkBytes)
	l.page = page.Records
	switch {
	case errors.Is(err, event.ErrRunNotFound), errors.Is(err, event.ErrOffsetOutOfRange):
		return event.Record{}, false, nil
	case err != nil || len(page.Records) == 0:
		return event.Record{}, false, err
	}
	return page.Records[0], true, nil
}

// ending turns a difference into run_ended where the log differs only in that the cluster has
// closed the run: the successor came too late, and nothing is wrong with its replay.
func (r *replay) ending(ctx context.Context, err error) error {
	var d *event.Diverged
	if !errors.As(err, &d) {
		return err
	}
	run, runErr := r.g.reader.Run(ctx, r.run)
	if runErr != nil || !run.Ended || run.Status != event.StatusLost && run.Status != event.StatusCancelled {
		return err
	}
	log := &storedLog{reader: r.g.reader, run: r.run}
	for at := d.Offset; at < run.Tail; at++ {
		rec, ok, readErr := log.Record(ctx, at)
		if readErr != nil || !ok || !closes(rec.Raw) {
			return err
		}
	}
	return &event.RunEnded{TerminalOffset: run.Tail - 1}
}

// closes reports whether an event is of the kinds by which the cluster ends a run.
func closes(raw []byte) bool {
	e, err := event.ParseEvent(raw)
	if err != nil {
		return false
	}
	switch e.Header.Type {
	case event.TypeTextMessageEnd, event.TypeReasoningMessageEnd, event.TypeReasoningEnd, event.TypeToolCallEnd,
		event.TypeStepFinished, event.TypeSubagentError, event.TypeRunError:
		return true
	case event.TypeRunFinished:
		return e.Header.Outcome == event.OutcomeCancelled
	case event.TypeToolCallResult:
		var f struct {
			Metadata struct {
				Interrupted bool `json:"interrupted"`
			} `json:"metadata"`
		}
		return json.Unmarshal(raw, &f) == nil && f.Metadata.Interrupted
	}
	return false
}
