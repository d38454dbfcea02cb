package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/cmd/runlog/internal/supervise"
	"github.com/runlog/runlog/event"
)

// demo is the stage: it starts hosts, follows one run at a time and shows both as they come. It
// belongs to one goroutine.
type demo struct {
	out    io.Writer
	gutter *gutter
	screen *screen
	dir    string
	nodes  []supervise.Node
	reader supervise.Node

	hosts []*demoHost
	news  chan news
	tail  <-chan arrival
	read  []event.Record
	ended bool
	died  time.Time     // of the run's first host
	took  time.Duration // from there to the run's end

	tails sync.WaitGroup
}

// news is what a host told, or with err how it ended.
type news struct {
	host *demoHost
	hostNews
	gone bool
}

// demoRun is a run of the demo.
type demoRun struct {
	id       event.RunID
	thread   event.ThreadID
	window   time.Duration
	next     bool
	takeOver bool
}

func (r demoRun) takenOver() demoRun {
	r.takeOver = true
	return r
}

func newDemo(t *terminal, dir string, nodes []supervise.Node) *demo {
	g := &gutter{w: t.out, colour: onTerminal(t.out)}
	return &demo{out: t.out, gutter: g, screen: newScreen(g), dir: dir, nodes: nodes, reader: readerOf(nodes), news: make(chan news, 64)}
}

// close kills the hosts that are left and waits for all.
func (d *demo) close() {
	for _, h := range d.hosts {
		_ = h.cmd.Process.Kill() // an error means that it is gone
	}
	for _, h := range d.hosts {
		<-h.over
	}
	d.tails.Wait()
}

// demoHost is a host process.
type demoHost struct {
	name   string
	cmd    *exec.Cmd
	did    map[string]hostNews
	silent bool
	gone   bool
	over   chan struct{} // closed when its output has been read and it was waited for
}

func (h *demoHost) has(did string) func() bool {
	return func() bool { _, ok := h.did[did]; return ok }
}

func (h *demoHost) signal(s syscall.Signal) error {
	if err := h.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", h.name, err)
	}
	return nil
}

// host starts a host of a run.
func (d *demo) host(ctx context.Context, name string, r demoRun) (*demoHost, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{
		"demo-host", "--server", urls(d.nodes, ","), "--run", string(r.id), "--thread", string(r.thread), "--holder", strings.ReplaceAll(name, " ", "-"),
		"--journal", filepath.Join(d.dir, string(r.id)+".ndjson"),
		fmt.Sprintf("--lease-ms=%d", demoLease.Milliseconds()), fmt.Sprintf("--takeover-ms=%d", r.window.Milliseconds()),
	}
	if r.takeOver {
		args = append(args, "--take-over")
	}
	if r.next {
		args = append(args, "--next")
	}
	h := &demoHost{name: name, cmd: exec.Command(self, args...), did: map[string]hostNews{}, over: make(chan struct{})}
	stdin, err := h.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var complaint strings.Builder
	h.cmd.Stderr = &complaint
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	d.hosts = append(d.hosts, h)
	go func() {
		defer close(h.over)
		defer stdin.Close()
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			var n hostNews
			if json.Unmarshal(lines.Bytes(), &n) == nil {
				d.tell(ctx, news{host: h, hostNews: n})
			}
		}
		_ = h.cmd.Wait() // what it complains of says more than its exit code
		d.tell(ctx, news{host: h, hostNews: hostNews{Why: strings.TrimSpace(complaint.String())}, gone: true})
	}()
	return h, nil
}

func (d *demo) tell(ctx context.Context, n news) {
	select {
	case d.news <- n:
	case <-ctx.Done():
	}
}

// follow reads a run from its beginning, through one Tail.
func (d *demo) follow(ctx context.Context, run event.RunID) error {
	cl, err := client.New(client.Config{Servers: []string{d.reader.URL()}, RetryFor: electionTime})
	if err != nil {
		return err
	}
	tail := make(chan arrival, 16)
	d.tail, d.read, d.ended, d.died = tail, nil, false, time.Time{}
	d.screen = newScreen(d.gutter)
	d.tails.Go(func() {
		defer close(tail)
		for rec, err := range cl.Tail(ctx, run, 0) {
			select {
			case tail <- arrival{rec, err}:
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

// untilEnd shows what comes until the followed run has ended.
func (d *demo) untilEnd(ctx context.Context) error {
	return d.until(ctx, "the run's end", func() bool { return d.ended })
}

// until shows what comes until done says yes.
func (d *demo) until(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, electionTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case a, open := <-d.tail:
			if !open {
				d.tail, d.ended = nil, true
				d.took = time.Since(d.died)
				d.screen.finish()
				continue
			}
			if a.err != nil {
				return a.err
			}
			if a.record.Offset != event.Offset(len(d.read)) {
				return fmt.Errorf("the reader got offset %d after %d events", a.record.Offset, len(d.read))
			}
			d.read = append(d.read, a.record)
			d.screen.show(a.record)
		case n := <-d.news:
			if err := d.hear(n); err != nil {
				return err
			}
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}

// hear shows what a host did.
func (d *demo) hear(n news) error {
	h := n.host
	if n.gone {
		h.gone = true
		if n.Why != "" {
			return errors.New(h.name + ": " + n.Why)
		}
		return nil
	}
	h.did[n.Did] = n.hostNews
	if h.silent {
		return nil
	}
	switch n.Did {
	case "holds":
		if d.died.IsZero() || d.ended {
			d.say(h.name, fmt.Sprintf("process %d, holds the run at epoch %d", h.cmd.Process.Pid, n.Epoch))
			break
		}
		d.say(h.name, fmt.Sprintf("process %d, sees the lease lapse after %.1f s and takes over at epoch %d", h.cmd.Process.Pid, time.Since(d.died).Seconds(), n.Epoch))
	case "replayed":
		d.say(h.name, fmt.Sprintf("replays the journal from its first byte: %s in the log already, %d appended; goes on", plural(n.Replay.Matched, "event"), n.Replay.Appended))
	case "refused":
		d.say(h.name, "is refused: "+n.Why)
	}
	return nil
}

// fate says what was done to a host.
func (d *demo) fate(h *demoHost, s syscall.Signal) {
	d.died = time.Now()
	how := "is killed (SIGKILL)"
	if s == syscall.SIGSTOP {
		how = "is paused (SIGSTOP)"
	}
	d.say(h.name, how+" while "+h.did["tool"].Why+" runs")
}
