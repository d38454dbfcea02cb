package fsm

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// kindRun is the fold that [Machine.RunAt] uses. Its checkpoints are local; the number must stay stable.
const kindRun projection.Kind = 100

// newFold returns an empty fold of one run.
func (m *Machine) newFold(r *run, kind projection.Kind) projection.Fold {
	if kind == kindRun {
		return &runFold{run: r}
	}
	return projection.New(kind)
}

// RunAt returns the run as it stood when its tail was at. The metadata and the takeover window are
// today's: they are not events.
func (m *Machine) RunAt(ctx context.Context, id event.RunID, at event.Offset) (event.Run, error) {
	s, err := m.read(id)
	if err != nil {
		return event.Run{}, err
	}
	defer s.release()
	if at > s.run.tail {
		return event.Run{}, &event.OffsetOutOfRange{Offset: at, Tail: s.run.tail}
	}
	fold, err := m.foldRun(ctx, s, kindRun, at)
	if err != nil {
		return event.Run{}, m.noteDamage(s.orDeleted(m, err))
	}
	v := fold.(*runFold).view()
	return *v, m.noteDamage(s.orDeleted(m, s.addTerminal(ctx, v)))
}

// runFold folds a run's grammar: what was open and how it stood at an offset.
type runFold struct {
	run   *run // as it stands now
	state runFoldState
}

type runFoldState struct {
	Version  int
	Progress event.Progress
	Tail     event.Offset
	Epoch    event.Epoch
	Updated  event.Time
	Ended    event.Time
}

const runFoldVersion = 1

// Apply takes one record. What was accepted once is not judged again: the walk is lenient.
func (f *runFold) Apply(rec event.Record) {
	st := &f.state
	st.Tail, st.Epoch, st.Updated = rec.Offset+1, rec.Epoch, rec.Time
	e, err := event.ParseEvent(rec.Raw)
	if err != nil {
		return // it was parsed when it was accepted
	}
	w := event.NewWalk(st.Progress, event.Rules{})
	if w.Take(&e.Header) == "" {
		st.Progress = w.Progress
	}
	if st.Progress.Ended() {
		st.Ended = rec.Time
	}
}

func (f *runFold) view() *event.Run {
	now := *f.run
	st := &f.state
	p := st.Progress
	now.tail, now.open, now.epoch = st.Tail, p.Spans, st.Epoch
	now.updatedAt = max(st.Updated, now.startedAt)
	now.status = event.StatusRunning
	if p.Ended() {
		now.status, now.endedAt = f.run.status, st.Ended
	}
	return now.view()
}

// AppendJSON appends the run's JSON.
func (f *runFold) AppendJSON(dst []byte) []byte {
	b, err := json.Marshal(f.view())
	if err != nil {
		return append(dst, "null"...)
	}
	return append(dst, b...)
}

// Size estimates the size of the state.
func (f *runFold) Size() int { return 128 + 64*len(f.state.Progress.Spans) }

// MarshalBinary encodes the state for a checkpoint.
func (f *runFold) MarshalBinary() ([]byte, error) {
	f.state.Version = runFoldVersion
	return json.Marshal(f.state)
}

// UnmarshalBinary decodes what MarshalBinary encoded.
func (f *runFold) UnmarshalBinary(b []byte) error {
	if err := json.Unmarshal(b, &f.state); err != nil {
		return err
	}
	if f.state.Version != runFoldVersion {
		return fmt.Errorf("run fold version %d", f.state.Version)
	}
	return nil
}
