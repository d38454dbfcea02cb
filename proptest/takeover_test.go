package proptest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/internal/agentrun"
	"github.com/runlog/runlog/internal/testcluster"
)

// takeoverLease is longer than any one fault, plus a client's way to another node: a host that lives renews.
const takeoverLease = 12 * time.Second

// takeovers counts what the schedules of this process went through.
var takeovers struct{ runs, continued, replayed, open, writing, stolen, fenced, lost atomic.Int64 }

// TestTakeoverUnseen: three whole nodes in virtual time, hosts that are the real client over the real
// gateway. Hosts die or pause at any event and in the middle of any request, give up, are robbed, and are
// taken over, or not; nodes are cut off, die, stall and hand over. Promise 1: a run's projections are
// those of one host. Promise 2: a reader of the whole time sees the log once. Promise 3: a fenced host
// writes nothing. Promise 4: a run whose host is gone can be taken over, or ends, once, as soon as its
// lease is over; one whose host lives does neither (R1_3, R1_5, R2_2, R2_4, R2_6,
// R2_7, R2_9, R2_11, R3_1, R3_3, R3_4, R3_5, R3_6, R3_7).
func TestTakeoverUnseen(t *testing.T) {
	for seed := range uint64(*schedules) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { takeoverSchedule(t, seed) })
		})
	}
	n := &takeovers
	t.Logf("%d schedules, %d runs: %d takeovers continued, %d replayed, %d of them open at the next takeover; %d hosts gone amid an append, %d robbed; %d zombies fenced, %d runs ended by the cluster",
		*schedules, n.runs.Load(), n.continued.Load(), n.replayed.Load(), n.open.Load(), n.writing.Load(), n.stolen.Load(), n.fenced.Load(), n.lost.Load())
}

func takeoverSchedule(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 11))
	w := newWeather()
	c := testcluster.Start(t, w.adjust)
	w.c = c
	defer c.Close()
	var wg sync.WaitGroup
	for k := range 6 {
		s := &story{t: t, c: c, weather: w, id: event.RunID(fmt.Sprint("run-", k)), rnd: rand.New(rand.NewPCG(rnd.Uint64(), 3))}
		wg.Go(s.play)
	}
	ctx, stop := context.WithCancel(t.Context())
	var faults sync.WaitGroup
	faults.Go(func() { w.blow(ctx, rnd) })
	faults.Go(func() { w.observe(ctx) })
	wg.Wait()
	stop()
	faults.Wait()
	checkSameStateSoon(t, c)
}

// checkSameStateSoon compares the nodes at one index, which they reach when no election is under way
// any more.
func checkSameStateSoon(t *testing.T, c *testcluster.Cluster) {
	for range 60 {
		if err := c.Settle(t.Context()); err != nil {
			t.Error(err)
			return
		}
		at := map[uint64]bool{}
		for i := range 3 {
			at[c.Node(i).State.Applied()] = true
		}
		if len(at) == 1 {
			break
		}
		time.Sleep(time.Second)
	}
	checkSameState(t, c)
}

// story is one run and its hosts.
type story struct {
	t       *testing.T
	c       *testcluster.Cluster
	weather *weather
	id      event.RunID
	rnd     *rand.Rand
	run     []event.Event // what one undisturbed host would have written

	exact   bool        // the log is a prefix of run, byte for byte
	written int         // events of run that a host was told are in the log
	open    *openReplay // of the present host
	last    event.Epoch // of the present host
	lost    bool        // the cluster ended the run
}

// openReplay is a replay that goes on as its host goes away.
type openReplay struct {
	journal *journal
	spoken  chan struct{} // closed when the agent has said all
	done    chan error
}

// play lives through a run and checks it.
func (s *story) play() {
	s.run, s.exact = agentrun.Ending(s.rnd, s.id), true
	takeovers.runs.Add(1)
	ctx, stop := context.WithCancel(context.Background())
	first := s.host()
	defer first.die()
	abandoned := s.rnd.IntN(4) == 0
	window := int64(60_000)
	if abandoned {
		window = 0
	}
	no := false
	h, err := first.Start(ctx, client.NewRun{RunID: s.id, ThreadID: event.ThreadID("t-" + s.id), Holder: event.HolderID(fmt.Sprint("h0 of ", s.id)), Started: &no,
		LeaseMs: takeoverLease.Milliseconds(), TakeoverMs: &window})
	if err != nil {
		stop()
		s.t.Errorf("%s: %v", s.id, err)
		return
	}
	defer h.Close()
	reader := s.host()
	defer reader.die()
	var seen []string
	var rg sync.WaitGroup
	defer rg.Wait()
	defer stop() // before waiting for a reader of a run that a failure left open
	rg.Go(func() {
		for rec, err := range reader.Tail(ctx, s.id, 0) {
			if err != nil {
				if ctx.Err() == nil {
					s.t.Errorf("%s: reader: %v", s.id, err)
				}
				return
			}
			seen = append(seen, string(rec.Raw))
		}
	})
	var zombies []func()
	for k := 1; ; k++ {
		s.last = h.Epoch()
		cut := len(s.run)
		if abandoned || k < 4 && s.rnd.IntN(4) > 0 {
			cut = s.rnd.IntN(len(s.run))
		}
		pos, err := s.work(first, h, k > 1, cut)
		if err != nil {
			s.t.Errorf("%s: host %d: %v", s.id, k-1, err)
			return
		}
		if cut == len(s.run) {
			break
		}
		gone := s.away(first, h, pos, abandoned)
		zombies = append(zombies, gone.wake)
		if abandoned {
			rg.Wait()
			s.lost = len(seen) > 0 && seen[len(seen)-1] != string(s.run[len(s.run)-1].Raw)
			s.inTime("ended", gone)
			break
		}
		next := s.host()
		defer next.die()
		taken, err := s.takeover(ctx, next, k, gone)
		if errors.Is(err, event.ErrRunEnded) {
			break // the last host had the end under way
		}
		if err != nil {
			s.t.Errorf("%s: takeover %d: %v", s.id, k, err)
			return
		}
		defer taken.Close()
		s.last = taken.Epoch()
		if s.rnd.IntN(2) == 0 {
			gone.wake() // before the successor has written
			zombies = zombies[:len(zombies)-1]
		}
		first, h = next, taken
	}
	rg.Wait()
	for _, wake := range zombies {
		wake()
	}
	s.check(seen)
}

// takeover takes the run over, by force or once its lease is over.
func (s *story) takeover(ctx context.Context, next *host, k int, gone departure) (*client.Handle, error) {
	t := client.Takeover{Holder: event.HolderID(fmt.Sprintf("h%d of %s", k, s.id)), LeaseMs: takeoverLease.Milliseconds(), Wait: 10 * time.Minute}
	if gone.steal {
		takeovers.stolen.Add(1)
		t.Steal = &s.last
	}
	h, err := next.Takeover(ctx, s.id, t)
	s.inTime("taken over", gone)
	return h, err
}

// inTime checks that the lease of a host that is gone did not last longer than it may.
func (s *story) inTime(what string, gone departure) {
	now := time.Now()
	if most, leaders := s.weather.bound(gone.at, now, takeoverLease); now.Sub(gone.at) > most {
		s.t.Errorf("%s: %s %v after its host was gone; %v are allowed after %d changes of leader", s.id, what, now.Sub(gone.at), most, leaders)
	}
}

// lives checks, until it is told to stop, that a host that lives keeps its lease (R2_2).
func (s *story) lives(epoch event.Epoch) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(time.Second) {
			for i := range 3 {
				n := s.c.Node(i)
				if n == nil {
					continue
				}
				r, err := n.State.Run(ctx, s.id)
				if err == nil && r.Epoch == epoch && (r.Lease.State != event.LeaseStateHeld || r.Status == event.StatusLost) {
					s.t.Errorf("%s: its host lives, and the lease is %s, the run %s", s.id, r.Lease.State, r.Status)
					return
				}
			}
		}
	})
	return func() { cancel(); done.Wait() }
}

// work writes up to cut: what comes next, or by a replay from the first event. It returns where the
// log ends in the run, or -1 when that cannot be said.
func (s *story) work(p *host, h *client.Handle, successor bool, cut int) (pos int, err error) {
	defer s.lives(h.Epoch())()
	if successor && (!s.exact || s.rnd.IntN(3) > 0) {
		takeovers.replayed.Add(1)
		return s.replay(p, h, cut)
	}
	if successor {
		takeovers.continued.Add(1)
	}
	at := int(h.Run().Tail)
	for at < cut {
		if s.rnd.IntN(20) == 0 {
			time.Sleep(40 * time.Second) // a silent tool; the lease is renewed
		}
		time.Sleep(time.Duration(s.rnd.IntN(400)) * time.Millisecond)
		n := min(cut-at, 1+s.rnd.IntN(3))
		kept, acked, err := s.append(h, s.run[at:at+n], at+n < len(s.run))
		switch {
		case err != nil:
			return 0, fmt.Errorf("append %d of %d: %w", at, len(s.run), err)
		case !kept:
			continue
		}
		if at += n; acked {
			s.written = at
		}
	}
	if cut < len(s.run) && s.rnd.IntN(6) == 0 {
		time.Sleep(40 * time.Second) // and at times it is then that the host goes (R3_6)
	}
	return at, nil
}

// append appends, in some cases for so short a time that the outcome may be unknown; kept says that
// the handle has the events, which it settles with the next append.
func (s *story) append(h *client.Handle, events []event.Event, mayGiveUp bool) (kept, acked bool, err error) {
	ctx := context.Background()
	brief := mayGiveUp && s.rnd.IntN(8) == 0
	if brief {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(s.rnd.IntN(20))*time.Millisecond)
		defer cancel()
	}
	_, err = h.Append(ctx, events...)
	switch {
	case brief && errors.Is(err, client.ErrOutcomeUnknown):
		return true, false, nil
	case brief && errors.Is(err, client.ErrUnavailable):
		return false, false, nil
	}
	return true, true, err
}

// replay says the run again up to cut, all at once or as it comes. One that comes may be open still when
// its host goes away.
func (s *story) replay(p *host, h *client.Handle, cut int) (pos int, err error) {
	said := s.run[:cut]
	switch s.rnd.IntN(3) {
	case 0:
		said, s.exact = agentrun.Recut(s.rnd, said), false
	case 1:
		said, s.exact = agentrun.WithoutLive(said), false
	}
	j := newJournal()
	pauses, all := make([]time.Duration, len(said)), time.Second
	for i := range said {
		if s.rnd.IntN(4) == 0 {
			pauses[i] = time.Duration(s.rnd.IntN(1500)) * time.Millisecond
			all += pauses[i]
		}
	}
	spoken := make(chan struct{})
	go func() {
		defer close(spoken)
		for i, e := range said {
			time.Sleep(pauses[i])
			j.add(string(e.Raw))
		}
	}()
	if cut < len(s.run) && s.rnd.IntN(2) == 0 {
		takeovers.open.Add(1)
		s.open = &openReplay{j, spoken, make(chan error, 1)}
		go func(o *openReplay) {
			_, err := h.Replay(p.life, j.open, nil)
			o.done <- err
		}(s.open)
		time.Sleep(time.Duration(s.rnd.Int64N(int64(all))))
		return -1, nil
	}
	go func() { <-spoken; j.finish() }()
	result, err := h.Replay(context.Background(), j.open, nil)
	if s.exact && int(result.Tail) == cut {
		return cut, err
	}
	return -1, err
}
