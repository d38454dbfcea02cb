package gateway

import (
	"context"

	"github.com/runlog/runlog/projection"
)

// prelude returns the events that bring a client that joins midway to where the run stands, and moves
// the cursor there. They carry no id: a client that reconnects before the first event with one
// joins anew. A run that ended is joined before its terminal event, which the client needs to see;
// one without events is joined at its start.
//
// What it returns counts against the budget of answers until free is called.
func (t *tail) prelude(ctx context.Context) (frames []byte, free func(), err error) {
	free, err = t.g.folding(ctx, func() ([]byte, error) {
		frames, err = t.buildPrelude(ctx)
		return frames, err
	})
	return frames, free, err
}

func (t *tail) buildPrelude(ctx context.Context) ([]byte, error) {
	run, err := t.g.reader.Run(ctx, t.sel.run)
	if err != nil {
		return nil, err
	}
	at := run.Tail
	if run.TerminalOffset != nil {
		at = *run.TerminalOffset
	}
	if t.sel.from = at; at == 0 {
		return nil, nil
	}
	transcript, _, err := t.g.reader.Fold(ctx, run.RunID, projection.KindTranscript, &at, *t.join)
	if err != nil {
		return nil, err
	}
	state, _, err := t.g.reader.Fold(ctx, run.RunID, projection.KindState, &at, *t.join)
	if err != nil {
		return nil, err
	}
	var frames []byte
	for _, raw := range projection.Connect(run.RunID, run.ThreadID, transcript, state, t.held) {
		frames = appendData(frames, raw)
	}
	return frames, nil
}
