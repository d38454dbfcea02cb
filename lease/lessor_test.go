package lease

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/runlog/runlog/event"
)

const second = time.Second

func window(ms int64) *int64 { return &ms }

// held is a run with a lease of 10 s and no window.
func held(run event.RunID) event.LeaseView {
	return event.LeaseView{
		Run: run, Epoch: 1, Tail: 4, Holder: "h", LeaseMs: 10_000, State: event.LeaseStateHeld,
		TakeoverMs: window(0), Renewed: true,
	}
}

func with(v event.LeaseView, change func(*event.LeaseView)) event.LeaseView {
	change(&v)
	return v
}

func released(v *event.LeaseView) { v.State, v.Renewed = event.LeaseStateReleased, false }
func lapsed(v *event.LeaseView)   { v.State, v.Renewed = event.LeaseStateLapsed, false }
func cancelled(v *event.LeaseView) {
	v.CancelRequested, v.CancelWithinMs, v.Renewed = true, 3000, false
}
func appended(v *event.LeaseView) { v.Tail++ }

func windowOf(ms *int64) func(*event.LeaseView) {
	return func(v *event.LeaseView) { v.TakeoverMs = ms }
}

// step is one thing that happens to a Lessor; after it, exactly want is due.
type step struct {
	pass    time.Duration // sound time
	gap     time.Duration // time that does not count
	changed []event.LeaseView
	renew   int64 // ms; 0: no renewal
	answer  event.Command
	want    []event.Command
}

var (
	lapse   = event.LapseLease{Run: "r", Epoch: 1, Tail: 4}
	expire  = event.ExpireRun{Run: "r", Epoch: 1, Tail: 4}
	enforce = event.EnforceCancel{Run: "r", Epoch: 1, Tail: 4}
)

func views(v ...event.LeaseView) []event.LeaseView    { return v }
func verdicts(c ...event.Command) []event.Command     { return c }
func pass(d time.Duration, c ...event.Command) step   { return step{pass: d, want: c} }
func sees(v event.LeaseView, c ...event.Command) step { return step{changed: views(v), want: c} }

func TestVerdicts(t *testing.T) {
	t.Parallel()
	r := held("r")
	lock := event.LeaseView{Run: "r", Lock: true, Epoch: 1, LeaseMs: 5000, State: event.LeaseStateHeld, Renewed: true}
	for name, steps := range map[string][]step{
		"window 0: ends as soon as the lease lapsed": {sees(r), pass(10*second - 1), pass(1, expire), pass(second)},
		"a window: lapses, then ends": {
			sees(with(r, windowOf(window(5000)))), pass(10*second - 1), pass(1, lapse),
			{changed: views(with(with(r, windowOf(window(5000))), lapsed)), answer: lapse}, pass(5*second - 1), pass(1, expire),
		},
		"no window: lapses and never ends": {
			sees(with(r, windowOf(nil))), pass(10*second, lapse),
			{changed: views(with(with(r, windowOf(nil)), lapsed)), answer: lapse}, pass(time.Hour),
		},
		"an append renews": {sees(r), pass(9 * second), sees(with(r, appended)), pass(10*second - 1),
			pass(1, event.ExpireRun{Run: "r", Epoch: 1, Tail: 5})},
		"a change that is no renewal does not": {sees(r), pass(9 * second),
			sees(with(r, func(v *event.LeaseView) { v.Renewed = false })), pass(second, expire)},
		"a renewal renews":                       {sees(r), pass(9 * second), {renew: 10_000}, pass(10*second - 1), pass(1, expire)},
		"a renewal may shorten":                  {sees(r), {renew: 1000}, pass(second, expire)},
		"an append does not shorten":             {sees(r), {renew: 60_000}, sees(with(r, appended)), pass(59 * second)},
		"gaps are added":                         {sees(r), {gap: time.Hour}, pass(10*second - 1), {gap: second}, pass(1, expire)},
		"gaps are added to windows":              {sees(with(with(r, released), windowOf(window(1000)))), {gap: time.Hour}, pass(second, expire)},
		"an acquisition is a new lease":          {sees(r), pass(9 * second), sees(with(r, func(v *event.LeaseView) { v.Epoch++ })), pass(9 * second)},
		"a released run has its window":          {sees(r), pass(9 * second), sees(with(with(r, released), windowOf(window(2000)))), pass(2*second - 1), pass(1, expire)},
		"a released run with window 0 ends":      {sees(r), sees(with(r, released), expire)},
		"released, never ending":                 {sees(with(with(r, windowOf(nil)), released)), pass(time.Hour)},
		"never leased, with a window":            {sees(event.LeaseView{Run: "r", TakeoverMs: window(2000)}), pass(2*second - 1), pass(1, event.ExpireRun{Run: "r"})},
		"never leased, appends change nothing":   {sees(event.LeaseView{Run: "r", TakeoverMs: window(2000)}), pass(second), sees(event.LeaseView{Run: "r", Tail: 1, TakeoverMs: window(2000), Renewed: true}), pass(second, event.ExpireRun{Run: "r", Tail: 1})},
		"ended":                                  {sees(r), sees(with(r, func(v *event.LeaseView) { v.Ended = true })), pass(time.Hour)},
		"a cancel is enforced after withinMs":    {sees(r), sees(with(r, cancelled)), pass(3*second - 1), pass(1, enforce)},
		"a renewal does not put a cancel off":    {sees(r), sees(with(r, cancelled)), pass(2 * second), {renew: 60_000}, pass(second, enforce)},
		"a cancel seen again is not a new one":   {sees(with(r, cancelled)), pass(2 * second), sees(with(r, cancelled)), pass(second, enforce)},
		"cancelled and lapsed":                   {sees(with(r, func(v *event.LeaseView) { cancelled(v); v.CancelWithinMs = 60_000 })), pass(10*second, enforce)},
		"cancelled and nobody holds the lease":   {sees(with(with(r, windowOf(window(9000))), lapsed)), sees(with(with(with(r, windowOf(window(9000))), lapsed), cancelled), enforce)},
		"a lapsed holder revives by an append":   {sees(with(with(r, windowOf(window(5000))), lapsed)), pass(4 * second), sees(with(with(r, windowOf(window(5000))), appended)), pass(10*second, event.LapseLease{Run: "r", Epoch: 1, Tail: 5})},
		"a lapsed holder's renewal holds an end": {sees(with(with(r, windowOf(window(5000))), lapsed)), pass(4 * second), {renew: 10_000}, pass(10*second - 1), pass(1, expire)},
		"a lock lapses":                          {sees(lock), pass(5*second - 1), pass(1, event.LapseLock{Name: "r", Epoch: 1})},
		"a free lock is forgotten":               {sees(lock), sees(event.LeaseView{Run: "r", Lock: true, Ended: true}), pass(time.Hour)},
		"a lock and a run of one name":           {sees(lock), sees(r), pass(5*second, event.LapseLock{Name: "r", Epoch: 1}), pass(5*second, expire)},
		"a stale verdict, after an append": {
			sees(r), pass(10*second, expire), {changed: views(with(r, appended)), answer: expire}, pass(10*second - 1),
			pass(1, event.ExpireRun{Run: "r", Epoch: 1, Tail: 5}),
		},
		"an append while it is judged: not judged again before the answer": {
			sees(r), pass(10*second, expire), sees(with(r, appended)), pass(20 * second),
			{answer: expire, want: verdicts(event.ExpireRun{Run: "r", Epoch: 1, Tail: 5})},
		},
		"an unanswered question is put again": {sees(r), pass(10*second, expire), pass(time.Hour), {answer: expire}, pass(second - 1), pass(1, expire)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := New(Config{})
			for i, s := range steps {
				l.Advance(s.pass, true)
				l.Advance(s.gap, false)
				l.Changed(s.changed)
				if s.answer != nil {
					l.Answered(s.answer, second)
				}
				if s.renew != 0 {
					if _, err := l.Renew("r", 1, s.renew); err != nil {
						t.Fatalf("step %d: %v", i, err)
					}
				}
				if got := l.Due(100); !reflect.DeepEqual(got, s.want) {
					t.Fatalf("step %d: due %v, want %v", i, got, s.want)
				}
			}
		})
	}
}

func TestRestartGivesFullTerms(t *testing.T) {
	t.Parallel()
	short := with(held("short"), func(v *event.LeaseView) { v.LeaseMs = 100 })
	long := held("long")
	open := with(with(held("window"), released), windowOf(window(0)))
	asked := with(with(held("asked"), cancelled), func(v *event.LeaseView) { v.CancelWithinMs = 0 })
	ended := with(held("ended"), func(v *event.LeaseView) { v.Ended = true })
	l := New(Config{})
	l.Restart(views(held("gone")))
	l.Advance(9*second, true)
	l.Restart(views(short, long, open, asked, ended))
	if l.Len() != 4 {
		t.Errorf("%d items", l.Len())
	}
	for _, c := range []struct {
		pass time.Duration
		n    int
	}{{2*second - 1, 0}, {1, 3}, {8*second - 1, 0}, {1, 1}, {time.Hour, 0}} {
		l.Advance(c.pass, true)
		if due := l.Due(100); len(due) != c.n {
			t.Errorf("after %v: due %v, want %d", c.pass, due, c.n)
		}
	}
}

func TestRenewals(t *testing.T) {
	t.Parallel()
	l := New(Config{})
	l.Changed(views(held("r"), with(held("lapsed"), lapsed), with(held("released"), released),
		with(held("asked"), cancelled), event.LeaseView{Run: "never", TakeoverMs: window(1000)},
		with(held("late"), func(v *event.LeaseView) { v.LeaseMs = 1 })))
	l.Changed(views(with(with(held("lapsed"), lapsed), windowOf(window(60_000)))))
	l.Advance(2*time.Millisecond, true)
	if due := l.Due(1); len(due) != 1 { // one of two: "late" or "released"
		t.Fatalf("due %v", due)
	}
	l.Due(10)
	for name, c := range map[string]struct {
		run   event.RunID
		epoch event.Epoch
		ms    int64
		want  Renewal
		err   error
	}{
		"own term":              {"r", 1, 0, Renewal{Left: 10 * second}, nil},
		"another term":          {"r", 1, 3000, Renewal{Left: 3 * second}, nil},
		"longer than the log's": {"r", 1, 20_000, Renewal{Left: 20 * second, Write: true}, nil},
		"lapsed":                {"lapsed", 1, 0, Renewal{Left: 10 * second, Write: true}, nil},
		"to be cancelled":       {"asked", 1, 0, Renewal{Left: 10 * second, CancelRequested: true}, nil},
		"unknown":               {"x", 1, 0, Renewal{}, event.ErrRunNotFound},
		"old epoch":             {"r", 0, 0, Renewal{}, event.ErrFenced},
		"future epoch":          {"r", 2, 0, Renewal{}, event.ErrFenced},
		"never leased":          {"never", 0, 0, Renewal{}, event.ErrFenced},
		"given up":              {"released", 1, 0, Renewal{}, event.ErrFenced},
		"judged":                {"late", 1, 0, Renewal{}, ErrJudged},
	} {
		got, err := l.Renew(c.run, c.epoch, c.ms)
		if got != c.want || !errors.Is(err, c.err) || (err != nil) != (c.err != nil) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestLocksAreNotRevivedAndRemain(t *testing.T) {
	t.Parallel()
	l := New(Config{})
	v := event.LeaseView{Run: "k", Lock: true, Epoch: 7, LeaseMs: 4000, State: event.LeaseStateHeld}
	l.Changed(views(v, held("r")))
	l.Advance(second, true)
	if left, ok := l.RemainingLock("k"); left != 3*second || !ok {
		t.Errorf("lock: %v, %v", left, ok)
	}
	if left, ok := l.Remaining("r"); left != 9*second || !ok {
		t.Errorf("run: %v, %v", left, ok)
	}
	if _, err := l.RenewLock("k", 7, 0); err != nil {
		t.Error(err)
	}
	if left, _ := l.RemainingLock("k"); left != 4*second {
		t.Errorf("renewed: %v", left)
	}
	if _, err := l.RenewLock("k", 6, 0); !errors.Is(err, event.ErrFenced) {
		t.Errorf("old epoch: %v", err)
	}
	if _, err := l.Renew("k", 7, 0); !errors.Is(err, event.ErrRunNotFound) {
		t.Errorf("a lock is not a run: %v", err)
	}
	v.Ended = true
	l.Changed(views(v, with(held("r"), lapsed)))
	if _, ok := l.RemainingLock("k"); ok {
		t.Error("a free lock remains")
	}
	if _, ok := l.Remaining("r"); ok {
		t.Error("a lapsed lease remains")
	}
	if l.Pending("k") || l.Pending("x") {
		t.Error("pending without a verdict")
	}
}

func TestDueIsLimitedAndOrdered(t *testing.T) {
	t.Parallel()
	l := New(Config{})
	for i := range 10 {
		l.Changed(views(with(held(event.RunID(fmt.Sprint(i))), func(v *event.LeaseView) { v.LeaseMs = int64(1000 * (10 - i)) })))
	}
	l.Advance(time.Hour, true)
	first, rest := l.Due(3), l.Due(100)
	if len(first) != 3 || len(rest) != 7 || first[0].(event.ExpireRun).Run != "9" || rest[6].(event.ExpireRun).Run != "0" {
		t.Errorf("%v, then %v", first, rest)
	}
	if !l.Pending("9") {
		t.Error("a verdict handed out is not pending")
	}
}

func TestTermsBeginAfterTimeNotYetJudged(t *testing.T) {
	t.Parallel()
	l := New(Config{})
	l.Changed(views(held("a"), held("b")))
	l.Passed(second)
	l.Changed(views(with(held("a"), appended)))
	if _, err := l.Renew("b", 1, 10_000); err != nil {
		t.Fatal(err)
	}
	for _, run := range []event.RunID{"a", "b"} {
		if left, _ := l.Remaining(run); left != 10*second {
			t.Errorf("%s: %v", run, left)
		}
	}
	l.Advance(second, true)
	l.Advance(10*second-1, true)
	if due := l.Due(9); due != nil {
		t.Errorf("too early: %v", due)
	}
	l.Advance(1, true)
	if due := l.Due(9); len(due) != 2 {
		t.Errorf("due %v", due)
	}
}

// BenchmarkRenew is what ten thousand leases renewed every 5 s cost: 2,000 renewals a second.
func BenchmarkRenew(b *testing.B) {
	const n = 10_000
	l := New(Config{})
	runs := make([]event.RunID, n)
	for i := range runs {
		runs[i] = event.RunID(fmt.Sprintf("run-%d", i))
		l.Changed(views(held(runs[i])))
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Renew(runs[i%n], 1, 10_000); err != nil {
			b.Fatal(err)
		}
		if i++; i%100 == 0 { // 50 ms of renewals
			l.Advance(50*time.Millisecond, true)
			if due := l.Due(64); due != nil {
				b.Fatal("due")
			}
		}
	}
}

// A sign of life lengthens a lease or a window by a term from now, never shortens one, and counts for nothing
// from anybody but the holder.
func TestHeard(t *testing.T) {
	t.Parallel()
	r := with(held("r"), windowOf(window(5000)))
	for name, c := range map[string]struct {
		view  event.LeaseView
		epoch event.Epoch
		after time.Duration // when the holder is heard
		want  time.Duration // when the next verdict is due
	}{
		"held":                   {r, 1, 9 * second, 19 * second},
		"another epoch":          {r, 2, 9 * second, 10 * second},
		"lapsed":                 {with(r, lapsed), 1, 4 * second, 14 * second},
		"released":               {with(r, released), 1, 4 * second, 5 * second},
		"a longer lease already": {with(r, func(v *event.LeaseView) { v.LeaseMs = 60_000 }), 1, 0, 60 * second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := New(Config{})
			l.Changed(views(c.view))
			l.Advance(c.after, true)
			l.Heard("r", c.epoch)
			l.Heard("nobody", 1)
			l.Advance(c.want-c.after-1, true)
			if due := l.Due(9); len(due) != 0 {
				t.Fatalf("too early: %+v", due)
			}
			if l.Advance(1, true); len(l.Due(9)) != 1 {
				t.Error("nothing is due")
			}
		})
	}
}

// Without a moment of sound time what is due is the cancel of a run that nobody holds, and only that.
func TestDueAnyway(t *testing.T) {
	t.Parallel()
	l := New(Config{})
	l.Advance(second, true)
	cancelledLater := with(with(held("held"), cancelled), windowOf(window(0)))
	gone := with(with(with(held("r"), lapsed), cancelled), windowOf(window(60_000)))
	l.Changed(views(held("other"), cancelledLater, gone))
	if due := l.DueAnyway(9); !reflect.DeepEqual(due, verdicts(enforce)) {
		t.Errorf("%+v", due)
	}
	if due := l.DueAnyway(9); len(due) != 0 {
		t.Errorf("twice: %+v", due)
	}
}
