package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/runlog/runlog/cmd/runlog/internal/supervise"
	"github.com/runlog/runlog/event"
)

// demoCmd shows what becomes of a run whose host dies: on a cluster of its own, with hosts that are
// processes of their own.
type demoCmd struct {
	NoTakeover bool `help:"Nobody takes over: the cluster ends the run, and the next turn can start."`
}

// Windows of the demo's runs.
const (
	demoLease  = 1500 * time.Millisecond
	demoWindow = 10 * time.Second
	// intoTool is how long a tool has been running when its host dies.
	intoTool = 600 * time.Millisecond
)

// Run shows the story and returns an error unless all of it is true.
func (c *demoCmd) Run(ctx context.Context, t *terminal) error {
	dir, err := os.MkdirTemp("", "runlog-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	nodes := localNodes(filepath.Join(dir, "nodes"), 1, 1)
	if err := anyPorts(nodes); err != nil {
		return err
	}
	group, err := startGroup(nodes, nil)
	if err != nil {
		return err
	}
	defer group.Stop()
	if err := ready(ctx, group); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	d := newDemo(t, dir, nodes)
	defer d.close()
	defer cancel() // before close, which waits
	fmt.Fprintf(t.out, "Three nodes are up. Lines behind %s are what a reader sees, live, on %s.\n", d.gutter.mark(), d.reader.ID)
	tell := d.takenOver
	if c.NoTakeover {
		tell = d.nobodyTakesOver
	}
	if err := tell(ctx); err != nil {
		return err
	}
	return group.Stop()
}

// takenOver: a host is killed and another finishes; then a host is paused and wakes too late.
func (d *demo) takenOver(ctx context.Context) error {
	plain, err := d.host(ctx, "host 0", demoRun{id: "undisturbed", thread: "undisturbed", window: demoWindow})
	if err != nil {
		return err
	}
	plain.silent = true
	killed := demoRun{id: "killed", thread: "t-killed", window: demoWindow}
	d.heading("A host is killed in the middle of a tool call")
	if _, err := d.succession(ctx, killed, "host A", "host B", syscall.SIGKILL); err != nil {
		return err
	}
	if err := d.until(ctx, "the undisturbed run's end", plain.has("finished")); err != nil {
		return err
	}
	if err := d.compare(ctx, killed.id, "undisturbed"); err != nil {
		return err
	}

	paused := demoRun{id: "paused", thread: "t-paused", window: demoWindow}
	d.heading("A host is paused, and wakes when another has finished its run")
	c, err := d.succession(ctx, paused, "host C", "host D", syscall.SIGSTOP)
	if err != nil {
		return err
	}
	if err := c.signal(syscall.SIGCONT); err != nil {
		return err
	}
	d.say(c.name, "wakes (SIGCONT) and sends its tool's result")
	if err := d.until(ctx, "the refusal of the paused host", c.has("refused")); err != nil {
		return err
	}
	return d.same(ctx, paused.id, "undisturbed")
}

// succession plays a run whose first host is signalled in the middle of its tool, and whose second
// finishes it. It returns the first.
func (d *demo) succession(ctx context.Context, r demoRun, first, second string, fate syscall.Signal) (*demoHost, error) {
	a, err := d.untilTool(ctx, r, first)
	if err != nil {
		return nil, err
	}
	if err := a.signal(fate); err != nil {
		return nil, err
	}
	d.fate(a, fate)
	if _, err := d.host(ctx, second, r.takenOver()); err != nil {
		return nil, err
	}
	return a, d.untilEnd(ctx)
}

// untilTool starts a host and follows its run until its tool has been at work for a while.
func (d *demo) untilTool(ctx context.Context, r demoRun, name string) (*demoHost, error) {
	a, err := d.host(ctx, name, r)
	if err != nil {
		return nil, err
	}
	if err := d.until(ctx, name+" to hold its run", a.has("holds")); err != nil {
		return nil, err
	}
	if err := d.follow(ctx, r.id); err != nil {
		return nil, err
	}
	if err := d.until(ctx, name+" to call its tool", a.has("tool")); err != nil {
		return nil, err
	}
	since := time.Now()
	return a, d.until(ctx, "the tool", func() bool { return time.Since(since) > intoTool })
}

// nobodyTakesOver: a host is killed, the cluster ends its run, and the thread goes on.
func (d *demo) nobodyTakesOver(ctx context.Context) error {
	r := demoRun{id: "killed", thread: "talk"}
	d.heading("A host is killed in the middle of a tool call, and nobody takes over")
	a, err := d.untilTool(ctx, r, "host A")
	if err != nil {
		return err
	}
	if err := a.signal(syscall.SIGKILL); err != nil {
		return err
	}
	d.fate(a, syscall.SIGKILL)
	if err := d.untilEnd(ctx); err != nil {
		return err
	}
	if err := d.lost(ctx, r.id); err != nil {
		return err
	}
	d.heading("The next turn of the same thread")
	next := demoRun{id: "next", thread: "talk", next: true}
	b, err := d.host(ctx, "host B", next)
	if err != nil {
		return err
	}
	if err := d.until(ctx, "host B to hold its run", b.has("holds")); err != nil {
		return err
	}
	if err := d.follow(ctx, next.id); err != nil {
		return err
	}
	if err := d.untilEnd(ctx); err != nil {
		return err
	}
	return d.status(ctx, next.id, event.StatusCompleted)
}

// readerOf is the node that is read: not the one that hosts talk to first.
func readerOf(nodes []supervise.Node) supervise.Node { return nodes[1] }
