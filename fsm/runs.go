package fsm

import (
	"context"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/projection"
)

// Run returns the run of that name as it stands.
func (m *Machine) Run(ctx context.Context, id event.RunID) (event.Run, error) {
	s, err := m.read(id)
	if err != nil {
		return event.Run{}, err
	}
	defer s.release()
	v := s.run.view()
	return *v, m.noteDamage(s.orDeleted(m, s.addTerminal(ctx, v)))
}

// addTerminal fills in what the terminal event says.
func (s *snapshotRead) addTerminal(ctx context.Context, v *event.Run) error {
	if !v.Ended {
		return nil
	}
	rec, err := s.record(ctx, s.run.terminal)
	if err != nil {
		return err
	}
	fillTerminal(v, rec.Raw)
	return nil
}

func fillTerminal(v *event.Run, raw []byte) {
	v.Error, v.Outcome, v.Usage, v.Result = projection.Terminal(raw)
}

// ThreadRuns returns the thread's runs in order of creation.
func (m *Machine) ThreadRuns(ctx context.Context, thread event.ThreadID) ([]event.RunID, error) {
	var ids []event.RunID
	err := m.eachRun(ctx, event.RunQuery{ThreadID: thread, Ascending: true}, func(r *run) bool {
		if r.thread == thread {
			ids = append(ids, r.id)
		}
		return true
	})
	return ids, m.noteDamage(err)
}

// eachRun calls f with the runs that may match the query, in its order.
func (m *Machine) eachRun(ctx context.Context, q event.RunQuery, f func(*run) bool) error {
	l, err := m.newLister(&q, streamID{}, nil)
	if err != nil {
		return err
	}
	defer l.close()
	return l.each(ctx, f)
}
