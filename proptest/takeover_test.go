package proptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/internal/agentrun"
	"github.com/runlog/runlog/internal/testcluster"
	"github.com/runlog/runlog/raftlog"
)

// takeoverLease is longer than any one fault, plus a client's way to another node: a host that lives renews.
const takeoverLease = 12 * time.Second

// takeovers counts what the schedules of this process went through.
var takeovers struct{ runs, continued, replayed, fenced, lost atomic.Int64 }

// TestTakeoverUnseen: three whole nodes in virtual time, hosts that are the real client over the real
// gateway. Hosts die or pause at any event and are taken over, or not; nodes are cut off, die,
// stall and hand over. Promise 1: a run's projections are those of one host. Promise 2: a reader of
// the whole time sees the log once. Promise 3: a fenced host writes nothing. Promise 4: a run
// whose host is gone ends once, one whose host lives does not (R2.2, R2.6, R3.1–R3.7).
func TestTakeoverUnseen(t *testing.T) {
	for seed := range uint64(*schedules) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { takeoverSchedule(t, seed) })
		})
	}
	t.Logf("%d schedules, %d runs: %d takeovers continued, %d replayed, %d zombies fenced, %d runs ended by the cluster", *schedules, takeovers.runs.Load(),
		takeovers.continued.Load(), takeovers.replayed.Load(), takeovers.fenced.Load(), takeovers.lost.Load())
}

func takeoverSchedule(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 11))
	stalls := map[string]*stall{"n1": {}, "n2": {}, "n3": {}}
	c := testcluster.Start(t, func(cfg *raftlog.Config) {
		s := stalls[cfg.NodeID]
		cfg.LogStore = raftlog.LogStoreBolt
		cfg.WrapLogStore = func(l raft.LogStore) raft.LogStore { return stalling{l, s} }
	})
	defer c.Close()
	var wg sync.WaitGroup
	for k := range 6 {
		s := &story{t: t, c: c, id: event.RunID(fmt.Sprint("run-", k)), rnd: rand.New(rand.NewPCG(rnd.Uint64(), 3))}
		wg.Go(s.play)
	}
	ctx, stop := context.WithCancel(t.Context())
	var faults sync.WaitGroup
	faults.Go(func() { disturb(ctx, c, stalls, rnd) })
	wg.Wait()
	stop()
	faults.Wait()
	time.Sleep(30 * time.Second) // an election may be under way, whose entries would come between two nodes' answers
	if err := c.Settle(t.Context()); err != nil {
		t.Error(err)
		return
	}
	checkSameState(t, c)
}

// stall is a disk that can be made to hang.
type stall struct {
	mu    sync.Mutex
	until time.Time
}

func (s *stall) hang(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(d)
}

type stalling struct {
	raft.LogStore
	s *stall
}

// StoreLogs waits while the disk hangs.
func (l stalling) StoreLogs(logs []*raft.Log) error {
	l.s.mu.Lock()
	wait := time.Until(l.s.until)
	l.s.mu.Unlock()
	time.Sleep(wait)
	return l.LogStore.StoreLogs(logs)
}

// disturb does one thing after the other to the nodes until ctx ends.
func disturb(ctx context.Context, c *testcluster.Cluster, stalls map[string]*stall, rnd *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rnd.IntN(15_000)) * time.Millisecond)
		i := rnd.IntN(3)
		d := time.Duration(rnd.IntN(3000)) * time.Millisecond
		switch rnd.IntN(4) {
		case 0:
			c.Isolate(i)
			time.Sleep(d)
			c.Heal(i)
		case 1:
			c.Stop(i)
			time.Sleep(d)
			c.Open(i)
		case 2:
			_ = c.Node(i).TransferLeadership(ctx)
		case 3:
			stalls[fmt.Sprintf("n%d", i+1)].hang(d)
		}
	}
}

// story is one run and its hosts.
type story struct {
	t   *testing.T
	c   *testcluster.Cluster
	id  event.RunID
	rnd *rand.Rand
	run []event.Event // what one undisturbed host would have written

	exact   bool // the log is a prefix of run, byte for byte
	written int  // events of run that a host was told are in the log
}

// host is a process with connections of its own.
type host struct {
	*client.Client
	transport *http.Transport
	mu        sync.Mutex
	awake     chan struct{} // closed unless paused
	dead      bool
}

// RoundTrip holds a paused host's requests back until it wakes, and loses a dead one's.
func (h *host) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	awake := h.awake
	h.mu.Unlock()
	select {
	case <-awake:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	h.mu.Lock()
	dead := h.dead
	h.mu.Unlock()
	if dead {
		return nil, errors.New("the host is dead")
	}
	return h.transport.RoundTrip(r)
}

func (s *story) host() *host {
	h := &host{transport: &http.Transport{DialContext: s.c.Dial}, awake: make(chan struct{})}
	close(h.awake)
	cl, err := client.New(client.Config{Servers: s.c.URLs(), HTTPClient: &http.Client{Transport: h}, RetryFor: time.Minute})
	if err != nil {
		panic(err)
	}
	h.Client = cl
	return h
}

func (h *host) pause() (wake func()) {
	gate := make(chan struct{})
	h.mu.Lock()
	h.awake = gate
	h.mu.Unlock()
	return func() { close(gate) }
}

func (h *host) die() {
	h.mu.Lock()
	h.dead = true
	h.mu.Unlock()
}

// generated returns a run that ends, with the story's ids.
func (s *story) generated() []event.Event {
	for {
		run := agentrun.Generate(s.rnd)
		last := run[len(run)-1].Header.Type
		if last != event.TypeRunFinished && last != event.TypeRunError || !agentrun.IsStrict(run) {
			continue
		}
		for i := range run {
			raw := strings.NewReplacer(`"runId":"r"`, `"runId":"`+string(s.id)+`"`, `"threadId":"t"`, `"threadId":"t-`+string(s.id)+`"`).Replace(string(run[i].Raw))
			e, err := event.ParseEvent([]byte(raw))
			if err != nil {
				panic(err)
			}
			run[i] = e
		}
		return run
	}
}

// play lives through a run and checks it.
func (s *story) play() {
	s.run, s.exact = s.generated(), true
	takeovers.runs.Add(1)
	ctx, stop := context.WithCancel(context.Background())
	first := s.host()
	defer first.transport.CloseIdleConnections()
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
	defer reader.transport.CloseIdleConnections()
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
		cut := len(s.run)
		if abandoned || k < 4 && s.rnd.IntN(4) > 0 {
			cut = s.rnd.IntN(len(s.run))
		}
		if cut == 0 && abandoned {
			cut = 1
		}

		if err := s.work(h, k > 1, cut); err != nil {
			s.t.Errorf("%s: host %d: %v", s.id, k-1, err)
			return
		}
		if cut == len(s.run) {
			break
		}
		zombies = append(zombies, s.away(first, h, k))
		if abandoned {
			break
		}
		next := s.host()
		defer next.transport.CloseIdleConnections()
		taken, err := s.takeover(ctx, next, k)
		if err != nil {
			s.t.Errorf("%s: takeover %d: %v", s.id, k, err)
			return
		}
		defer taken.Close()
		if s.rnd.IntN(2) == 0 {
			zombies[len(zombies)-1]() // wakes before the successor has written
			zombies[len(zombies)-1] = func() {}
		}
		first, h = next, taken
	}
	rg.Wait()
	for _, wake := range zombies {
		wake()
	}
	s.check(seen, abandoned)
}

// takeover waits for the lease as often as it must: each new leader gives every lease a full term.
func (s *story) takeover(ctx context.Context, next *host, k int) (*client.Handle, error) {
	for attempt := 0; ; attempt++ {
		h, err := next.Takeover(ctx, s.id, client.Takeover{Holder: event.HolderID(fmt.Sprintf("h%d of %s", k, s.id)),
			LeaseMs: takeoverLease.Milliseconds(), Wait: 30 * time.Second})
		if !errors.Is(err, event.ErrLeaseHeld) || attempt == 20 {
			return h, err
		}
	}
}

// work writes up to cut: what comes next, or by a replay from the first event.
func (s *story) work(h *client.Handle, successor bool, cut int) error {
	ctx := context.Background()
	at := int(h.Run().Tail)
	if successor && (!s.exact || s.rnd.IntN(3) > 0) {
		takeovers.replayed.Add(1)
		return s.replay(h, cut)
	}
	if successor {
		takeovers.continued.Add(1)
	}
	for at < cut {
		if s.rnd.IntN(20) == 0 {
			time.Sleep(40 * time.Second) // a silent tool; the lease is renewed (R2.2)
		}
		time.Sleep(time.Duration(s.rnd.IntN(400)) * time.Millisecond)
		n := min(cut-at, 1+s.rnd.IntN(3))
		if _, err := h.Append(ctx, s.run[at:at+n]...); err != nil {
			return fmt.Errorf("append %d of %d: %w", at, len(s.run), err)
		}
		at += n
		s.written = at
	}
	return nil
}

func (s *story) replay(h *client.Handle, cut int) error {
	said := s.run[:cut]
	switch s.rnd.IntN(3) {
	case 0:
		said, s.exact = agentrun.Recut(s.rnd, said), false
	case 1:
		said, s.exact = agentrun.WithoutLive(said), false
	}
	var lines strings.Builder
	for _, e := range said {
		lines.Write(e.Raw)
		lines.WriteByte('\n')
	}
	_, err := h.Replay(context.Background(), func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(lines.String())), nil
	}, nil)
	return err
}

// away lets a host die, or pause; the answer wakes it: it must find itself fenced.
func (s *story) away(p *host, h *client.Handle, k int) (wake func()) {
	if s.rnd.IntN(2) == 0 {
		p.die()
		return func() {}
	}
	resume := p.pause()
	return func() {
		resume()
		e, _ := event.ParseEvent([]byte(`{"type":"CUSTOM","name":"zombie","value":1}`))
		_, err := h.Append(context.Background(), e)
		if !errors.Is(err, event.ErrFenced) && !errors.Is(err, event.ErrRunEnded) {
			s.t.Errorf("%s: host %d, woken, was told %v", s.id, k-1, err)
			return
		}
		takeovers.fenced.Add(1)
	}
}

// check reads the run from a node and compares it with the uninterrupted one.
func (s *story) check(seen []string, abandoned bool) {
	reader := s.host()
	defer reader.transport.CloseIdleConnections()
	var got []event.Event
	var epoch event.Epoch
	terminals := 0
	for rec, err := range reader.Tail(context.Background(), s.id, 0) {
		if err != nil {
			s.t.Errorf("%s: %v", s.id, err)
			return
		}
		e, err := event.ParseEvent(rec.Raw)
		if err != nil {
			s.t.Errorf("%s: %s: %v", s.id, rec.Raw, err)
			return
		}
		if rec.Epoch < epoch {
			s.t.Errorf("%s: epoch %d wrote %s after epoch %d", s.id, rec.Epoch, rec.Raw, epoch)
		}
		epoch = rec.Epoch
		if isTerminal(string(rec.Raw)) {
			terminals++
		}
		got = append(got, e)
	}
	raws := strings.Split(strings.TrimSuffix(linesOf(got), "\n"), "\n")
	if strings.Join(seen, "\n") != strings.Join(raws, "\n") {
		s.t.Errorf("%s: the reader saw\n%s\nstored is\n%s", s.id, strings.Join(seen, "\n"), strings.Join(raws, "\n"))
	}
	if terminals != 1 || !isTerminal(raws[len(raws)-1]) {
		s.t.Errorf("%s: %d terminals in\n%s", s.id, terminals, linesOf(got))
	}
	switch {
	case abandoned:
		s.checkLost(got)
	case s.exact && linesOf(got) != linesOf(s.run):
		s.t.Errorf("%s is\n%s\nnot\n%s", s.id, linesOf(got), linesOf(s.run))
	default:
		s.checkFolds(got)
	}
}

// checkLost: what the host had written is there, and one end of the cluster's after it, after which
// nothing is open.
func (s *story) checkLost(got []event.Event) {
	all := linesOf(got)
	n := 0
	for n < len(got) && n < len(s.run) && string(got[n].Raw) == string(s.run[n].Raw) {
		n++
	}
	if n < s.written || strings.Count(all, `"code":"host_lost"`) != 1 || !agentrun.IsStrict(got) {
		s.t.Errorf("%s did not end well:\n%s", s.id, all)
	}
	for _, e := range got[n:] {
		if e.Header.Type == event.TypeToolCallResult && strings.Count(linesOf(got[n:]), `"toolCallId":"`+e.Header.ID+`","`) > 2 {
			s.t.Errorf("%s: call %s was interrupted more than once:\n%s", s.id, e.Header.ID, all)
		}
	}
	takeovers.lost.Add(1)
}

func (s *story) checkFolds(got []event.Event) {
	is, want := agentrun.Folds(got), agentrun.Folds(s.run)
	for i, name := range []string{"transcript", "tool history", "state"} {
		if canonical(is[i]) != canonical(want[i]) {
			s.t.Errorf("%s: the %s is\n%s\nnot\n%s", s.id, name, is[i], want[i])
		}
	}
}

func linesOf(events []event.Event) string {
	var b strings.Builder
	for _, e := range events {
		b.Write(e.Raw)
		b.WriteByte('\n')
	}
	return b.String()
}
