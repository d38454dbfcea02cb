package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/internal/agentrun"
)

var takeoverRuns = flag.Int("takeovers", 8, "how many runs TestTakeoverUnseen takes through the deaths of their hosts")

// history is what TestTakeoverUnseen went through.
type history struct {
	killed, paused, robbed, fenced, continued, replayed, again atomic.Int64
	nodesKilled, nodesPaused                                   atomic.Int64
}

// TestTakeoverUnseen: hosts are processes that are killed, or stopped and woken later, or robbed, at any
// event; nodes are killed and stopped meanwhile. Each run is finished by another process, which goes on or
// replays. Its projections are those of an uninterrupted run, one reader of the whole time saw every
// event once, and hosts that wake find themselves fenced (R3_1, R3_3, R3_4, R3_5, R3_7).
func TestTakeoverUnseen(t *testing.T) {
	c := Start(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cl, err := client.New(client.Config{Servers: c.URLs(), RetryFor: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var h history
	seed := rand.Uint64()
	var wg sync.WaitGroup
	slots := make(chan struct{}, 5)
	ctx, stop := context.WithCancel(t.Context())
	var faults sync.WaitGroup
	faults.Go(func() { disturb(ctx, c, &h) })
	for k := range *takeoverRuns {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r := &taken{t: t, c: cl, self: self, h: &h, agent: agent{Run: event.RunID(fmt.Sprint("run-", k)), Seed: seed + uint64(k), Servers: c.URLs()}}
			r.play()
		})
	}
	wg.Wait()
	stop()
	faults.Wait()
	t.Logf("%d runs (seed %d): hosts %d killed, %d paused, %d robbed; %d takeovers continued, %d replayed, with %d further attempts; %d woken hosts fenced; nodes %d killed, %d paused",
		*takeoverRuns, seed, h.killed.Load(), h.paused.Load(), h.robbed.Load(), h.continued.Load(), h.replayed.Load(), h.again.Load(), h.fenced.Load(),
		h.nodesKilled.Load(), h.nodesPaused.Load())
}

// disturb kills and pauses nodes, one at a time, until ctx ends.
func disturb(ctx context.Context, c *Cluster, h *history) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(rand.IntN(2500)) * time.Millisecond):
		}
		i := rand.IntN(3)
		if rand.IntN(3) == 0 {
			c.Signal(i, syscall.SIGSTOP)
			time.Sleep(time.Duration(200+rand.IntN(1500)) * time.Millisecond) // how long it is stopped
			c.Signal(i, syscall.SIGCONT)
			h.nodesPaused.Add(1)
			continue
		}
		c.Kill(i)
		c.Run(i)
		c.WaitReady(i)
		h.nodesKilled.Add(1)
	}
}

// taken is one run and the processes that host it.
type taken struct {
	agent
	t    *testing.T
	c    *client.Client
	self string
	h    *history

	mu   sync.Mutex
	seen []string
	news chan struct{} // closed and replaced whenever something was seen
	over bool
}

// process is one host.
type process struct {
	name     string
	cmd      *exec.Cmd
	out, err bytes.Buffer
	done     chan int // its exit code; -1: killed
}

func holder(k int, run event.RunID) event.HolderID {
	return event.HolderID(fmt.Sprintf("host %d of %s", k, run))
}

func (r *taken) spawn(k int, how string, steal *event.Epoch) *process {
	a := r.agent
	a.Holder, a.How, a.Steal = holder(k, r.Run), how, steal
	spec, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	p := &process{name: fmt.Sprintf("host %d (%s)", k, how), cmd: exec.Command(r.self), done: make(chan int, 1)}
	p.cmd.Env = append(os.Environ(), agentEnv+"="+string(spec))
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.SysProcAttr = dieWithParent()
	if err := p.cmd.Start(); err != nil {
		r.t.Error(err)
		p.done <- 1
		return p
	}
	go func() {
		_ = p.cmd.Wait() // the code says it
		p.done <- p.cmd.ProcessState.ExitCode()
	}()
	return p
}

// exit waits for a process, checks how it ended and returns that.
func (r *taken) exit(p *process, want ...int) int {
	select {
	case code := <-p.done:
		if !slices.Contains(want, code) {
			r.t.Errorf("%s: %s ended with %d, want one of %v: %s", r.Run, p.name, code, want, p.err.String())
		}
		return code
	case <-time.After(90 * time.Second):
		r.t.Errorf("%s: %s does not end", r.Run, p.name)
		_ = p.cmd.Process.Kill()
		return -1
	}
}

// play lets host after host go away, until one finishes.
func (r *taken) play() {
	want := r.events()
	r.news = make(chan struct{})
	p := r.spawn(0, "start", nil)
	var rg sync.WaitGroup
	rg.Go(r.read)
	exact, thief := true, false
	var sleepers []*process
	for k := 1; k < 5; k++ {
		kind := rand.IntN(3)
		if early := k > 1 && !thief && kind < 2 && rand.IntN(4) == 0; !early && !(r.holds(k-1) && r.reach(len(want))) {
			break // it was faster than we
		}
		if k > 2 && rand.IntN(2) == 0 {
			break
		}
		var steal *event.Epoch
		switch kind {
		case 0:
			r.h.killed.Add(1)
			_ = p.cmd.Process.Kill()
			r.exit(p, -1, exitFinished, exitNothing)
		case 1:
			r.h.paused.Add(1)
			_ = p.cmd.Process.Signal(syscall.SIGSTOP)
			sleepers = append(sleepers, p)
		case 2:
			run, err := r.c.Run(context.Background(), r.Run, client.View{Read: client.Read{Linearizable: true}})
			if err != nil {
				r.t.Errorf("%s: %v", r.Run, err)
			}
			r.h.robbed.Add(1)
			steal = &run.Epoch
			sleepers = append(sleepers, p)
		}
		how := []string{"continue", "replay", "recut", "without"}[rand.IntN(4)]
		if !exact && how == "continue" {
			how = "replay"
		}
		exact = exact && (how == "continue" || how == "replay")
		if how == "continue" {
			r.h.continued.Add(1)
		} else {
			r.h.replayed.Add(1)
		}
		p, thief = r.spawn(k, how, steal), steal != nil
	}
	defer func() {
		if r.t.Failed() {
			run, _ := r.c.Run(context.Background(), r.Run, client.View{})
			r.t.Logf("%s is at epoch %d, finished by %s %s", r.Run, run.Epoch, p.name, p.err.String())
		}
	}()
	ended := []int{exitLost} // how a host that was taken over from ends
	if r.exit(p, exitFinished, exitNothing) == exitNothing {
		ended = append(ended, exitFinished) // the one before had written the end when it went
	}
	if n, err := strconv.Atoi(strings.TrimSpace(p.out.String())); err == nil {
		r.h.again.Add(int64(n))
	}
	for _, s := range sleepers {
		_ = s.cmd.Process.Signal(syscall.SIGCONT)
		if r.exit(s, append(ended, exitNothing)...) == exitLost {
			r.h.fenced.Add(1)
		}
	}
	rg.Wait()
	r.check(want, exact)
}

// read follows the run from before it exists to its end.
func (r *taken) read() {
	defer r.saw("")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) { // poll
		if _, err := r.c.Run(context.Background(), r.Run, client.View{}); err == nil {
			break
		}
		if time.Now().After(deadline) {
			r.t.Errorf("%s never began", r.Run)
			return
		}
	}
	for rec, err := range r.c.Tail(context.Background(), r.Run, 0) {
		if err != nil {
			r.t.Errorf("%s: reader: %v", r.Run, err)
			return
		}
		r.saw(string(rec.Raw))
	}
}

// saw takes note of an event, or, without one, of the run's end.
func (r *taken) saw(raw string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if raw == "" {
		r.over = true
	} else {
		r.seen = append(r.seen, raw)
	}
	close(r.news)
	r.news = make(chan struct{})
}

// holds waits until a host has the lease; false: the run has ended.
func (r *taken) holds(k int) bool {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) { // poll
		run, err := r.c.Run(context.Background(), r.Run, client.View{Read: client.Read{Linearizable: true}})
		switch {
		case err == nil && run.Ended:
			return false
		case err == nil && run.Lease.Holder == holder(k, r.Run):
			return true
		}
	}
	r.t.Errorf("%s: host %d does not get the lease", r.Run, k)
	return false
}

// reach waits until some more of a run's n events were seen; false: the run is over.
func (r *taken) reach(n int) bool {
	r.mu.Lock()
	at := len(r.seen)
	r.mu.Unlock()
	n = at + rand.IntN(max(1, n-at-1))
	for {
		r.mu.Lock()
		seen, over, news := len(r.seen), r.over, r.news
		r.mu.Unlock()
		switch {
		case over:
			return false
		case seen > n:
			return true
		}
		<-news
	}
}

func (r *taken) check(want []event.Event, exact bool) {
	var stored []string
	for _, url := range r.Servers {
		stored = readAll(r.t, url, r.Run)
		if strings.Join(stored, "\n") != strings.Join(r.seen, "\n") {
			r.t.Errorf("%s: the reader saw\n%s\n%s has\n%s", r.Run, strings.Join(r.seen, "\n"), url, strings.Join(stored, "\n"))
		}
	}
	var got []event.Event
	for i, raw := range stored {
		e, err := event.ParseEvent([]byte(raw))
		if err != nil {
			r.t.Errorf("%s: %s: %v", r.Run, raw, err)
			return
		}
		if exact && (i >= len(want) || raw != string(want[i].Raw)) {
			r.t.Errorf("%s, event %d: %s is not what one host would have written", r.Run, i, raw)
		}
		got = append(got, e)
	}
	is, should := agentrun.Folds(got), agentrun.Folds(want)
	for i, name := range []string{"transcript", "tool history", "state"} {
		if agentrun.Canonical(is[i]) != agentrun.Canonical(should[i]) {
			r.t.Errorf("%s: the %s is\n%s\nnot\n%s", r.Run, name, is[i], should[i])
		}
	}
	if !agentrun.IsStrict(got) || exact && len(got) != len(want) {
		r.t.Errorf("%s has %d events, %d were said", r.Run, len(got), len(want))
	}
}
