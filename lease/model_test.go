package lease

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/runlog/runlog/event"
)

// modelRun is one run as a naive lessor sees it: what is left of each term, counted down.
type modelRun struct {
	view                             event.LeaseView
	leaseLeft, windowLeft, askedLeft time.Duration
	pending                          event.Command
	moved                            bool // something was applied while pending
	wait                             time.Duration
}

type model struct {
	l    *Lessor
	runs map[event.RunID]*modelRun
}

func (m *model) pass(d time.Duration) {
	for _, r := range m.runs {
		r.leaseLeft -= d
		r.windowLeft -= d
		r.askedLeft -= d
		r.wait -= d
	}
}

// apply tells both that a run changed; renewed and fresh say what the change means.
func (m *model) apply(r *modelRun, fresh, renewed bool) {
	r.view.Renewed = renewed
	m.l.Changed([]event.LeaseView{r.view})
	r.wait = 0
	r.moved = r.pending != nil
	if r.view.State == event.LeaseStateHeld {
		full := ms(r.view.LeaseMs)
		if fresh {
			r.leaseLeft = full
		} else if renewed {
			r.leaseLeft = max(r.leaseLeft, full)
		}
	} else if fresh && r.view.TakeoverMs != nil {
		r.windowLeft = ms(*r.view.TakeoverMs)
	}
}

// due is what a scan over all runs finds.
func (m *model) due() []event.Command {
	var due []event.Command
	for id, r := range m.runs {
		v := &r.view
		isHeld, window := v.State == event.LeaseStateHeld, v.TakeoverMs
		if r.pending != nil || r.wait > 0 {
			continue
		}
		switch {
		case v.CancelRequested:
			if !isHeld || r.leaseLeft <= 0 || r.askedLeft <= 0 {
				due = append(due, event.EnforceCancel{Run: id, Epoch: v.Epoch, Tail: v.Tail})
			}
		case isHeld && r.leaseLeft <= 0 && (window == nil || *window > 0):
			due = append(due, event.LapseLease{Run: id, Epoch: v.Epoch, Tail: v.Tail})
		case isHeld && r.leaseLeft <= 0, !isHeld && window != nil && r.windowLeft <= 0:
			due = append(due, event.ExpireRun{Run: id, Epoch: v.Epoch, Tail: v.Tail})
		}
	}
	return due
}

func (m *model) pick(t *rapid.T) *modelRun {
	ids := make([]event.RunID, 0, len(m.runs))
	for id := range m.runs {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		t.Skip("no runs")
	}
	slices.Sort(ids)
	return m.runs[rapid.SampledFrom(ids).Draw(t, "run")]
}

var (
	terms   = rapid.SampledFrom([]int64{100, 1000, 1500, 5000})
	windows = rapid.SampledFrom([]*int64{nil, window(0), window(500), window(4000)})
	passing = rapid.SampledFrom([]time.Duration{0, 50 * time.Millisecond, 400 * time.Millisecond, second, 3 * second})
)

func order(a, b event.Command) int {
	return compare(fmt.Sprintf("%T %v", a, a), fmt.Sprintf("%T %v", b, b))
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// settle checks what is due and marks it as under way.
func (m *model) settle(t *rapid.T) {
	want, got := m.due(), m.l.Due(1000)
	slices.SortFunc(want, order)
	slices.SortFunc(got, order)
	if !slices.Equal(want, got) {
		t.Fatalf("due %v, want %v", got, want)
	}
	for _, c := range got {
		m.runs[nameOf(c).id].pending = c
	}
	for id, r := range m.runs {
		left, ok := m.l.Remaining(id)
		if isHeld := r.view.State == event.LeaseStateHeld; ok != isHeld || (ok && left != max(r.leaseLeft, 0)) {
			t.Fatalf("run %s: %v remains (%v), want %v", id, left, ok, r.leaseLeft)
		}
	}
	if m.l.Len() != len(m.runs) {
		t.Fatalf("%d items, want %d", m.l.Len(), len(m.runs))
	}
}

// judge answers a pending verdict as the state machine would, or loses it.
func (m *model) judge(t *rapid.T) {
	r := m.pick(t)
	if r.pending == nil {
		t.Skip("nothing pending")
	}
	verdict, lost := r.pending, rapid.Bool().Draw(t, "lost")
	valid := false
	switch c := verdict.(type) {
	case event.LapseLease:
		if valid = !lost && c.Epoch == r.view.Epoch && c.Tail == r.view.Tail && r.view.State == event.LeaseStateHeld; valid {
			r.view.State = event.LeaseStateLapsed
			m.apply(r, true, false)
		}
	case event.ExpireRun:
		valid = !lost && c.Epoch == r.view.Epoch && c.Tail == r.view.Tail
	case event.EnforceCancel:
		valid = !lost && c.Epoch == r.view.Epoch && c.Tail == r.view.Tail && r.view.CancelRequested
	}
	if _, lapse := verdict.(event.LapseLease); valid && !lapse {
		r.view.Ended = true
		m.l.Changed([]event.LeaseView{r.view})
		delete(m.runs, r.view.Run)
	}
	m.l.Answered(verdict, second)
	r.pending = nil
	if !r.moved {
		r.wait = second
	}
	r.moved = false
}

func (m *model) renew(t *rapid.T) {
	r := m.pick(t)
	epoch := r.view.Epoch - event.Epoch(rapid.SampledFrom([]uint64{0, 0, 0, 1}).Draw(t, "older"))
	term := terms.Draw(t, "term")
	got, err := m.l.Renew(r.view.Run, epoch, term)
	isHeld, isLapsed := r.view.State == event.LeaseStateHeld, r.view.State == event.LeaseStateLapsed
	switch {
	case epoch != r.view.Epoch || (!isHeld && !isLapsed):
		if !errors.Is(err, event.ErrFenced) {
			t.Fatalf("renewal of %+v at %d: %v", r.view, epoch, err)
		}
		return
	case r.pending != nil:
		if !errors.Is(err, ErrJudged) {
			t.Fatalf("renewal while judged: %v", err)
		}
		return
	case isHeld:
		r.leaseLeft = ms(term)
	default:
		r.windowLeft = max(r.windowLeft, ms(term))
	}
	want := Renewal{Left: ms(term), CancelRequested: r.view.CancelRequested, Write: isLapsed || term > r.view.LeaseMs}
	if err != nil || got != want {
		t.Fatalf("renewed %+v: %+v, %v; want %+v", r.view, got, err, want)
	}
}

// The Lessor finds what a scan over counters finds, whatever happens in whatever order.
func TestLessorAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{l: New(Config{}), runs: map[event.RunID]*modelRun{}}
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				id := event.RunID(rapid.StringMatching("[a-f]").Draw(t, "run"))
				if m.runs[id] != nil {
					t.Skip("exists")
				}
				r := &modelRun{view: event.LeaseView{Run: id, TakeoverMs: windows.Draw(t, "window")}}
				if rapid.Bool().Draw(t, "leased") {
					r.view.Epoch, r.view.State, r.view.LeaseMs = 1, event.LeaseStateHeld, terms.Draw(t, "term")
				}
				m.runs[id] = r
				m.apply(r, true, true)
			},
			"append": func(t *rapid.T) {
				r := m.pick(t)
				r.view.Tail++
				revived := r.view.State == event.LeaseStateLapsed
				if revived {
					r.view.State = event.LeaseStateHeld
				}
				m.apply(r, revived, true)
			},
			"acquire": func(t *rapid.T) {
				r := m.pick(t)
				r.view.Epoch, r.view.State, r.view.LeaseMs = r.view.Epoch+1, event.LeaseStateHeld, terms.Draw(t, "term")
				m.apply(r, true, true)
			},
			"release": func(t *rapid.T) {
				r := m.pick(t)
				if r.view.Epoch == 0 || r.view.State == event.LeaseStateReleased {
					t.Skip("nothing to release")
				}
				r.view.State, r.view.TakeoverMs = event.LeaseStateReleased, windows.Draw(t, "window")
				m.apply(r, true, false)
			},
			"cancel": func(t *rapid.T) {
				r := m.pick(t)
				if r.view.CancelRequested {
					t.Skip("asked already")
				}
				r.view.CancelRequested, r.view.CancelWithinMs = true, terms.Draw(t, "within")
				r.askedLeft = ms(r.view.CancelWithinMs)
				m.apply(r, false, false)
			},
			"end": func(t *rapid.T) {
				r := m.pick(t)
				r.view.Ended = true
				m.l.Changed([]event.LeaseView{r.view})
				delete(m.runs, r.view.Run)
			},
			"pass": func(t *rapid.T) {
				d := passing.Draw(t, "time")
				m.l.Advance(d, true)
				m.pass(d)
			},
			"gap":   func(t *rapid.T) { m.l.Advance(passing.Draw(t, "time"), false) },
			"renew": m.renew,
			"judge": m.judge,
			"restart": func(t *rapid.T) {
				var all []event.LeaseView
				for _, r := range m.runs {
					all = append(all, r.view)
					r.leaseLeft = max(ms(r.view.LeaseMs), 2*second)
					if r.view.TakeoverMs != nil {
						r.windowLeft = max(ms(*r.view.TakeoverMs), 2*second)
					}
					r.askedLeft = max(ms(r.view.CancelWithinMs), 2*second)
					r.pending, r.moved, r.wait = nil, false, 0
				}
				m.l.Restart(all)
			},
			"": m.settle,
		})
	})
}
