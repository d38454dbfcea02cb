package supervise

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// How long a child that died waits for its restart: doubling from the first to the last, and from
// the beginning again once it has lived for steady.
const (
	firstDelay = 200 * time.Millisecond
	lastDelay  = 5 * time.Second
	steady     = 10 * time.Second
)

// child keeps one process running.
type child struct {
	node   Node
	cfg    Config
	output *nodeLog

	mu       sync.Mutex
	cmd      *exec.Cmd     // nil while no process runs
	gone     chan struct{} // closed when the present process is gone
	held     bool          // killed, not to be restarted
	stopping bool
	deaths   int // by itself, since it was last ready
	wake     chan struct{}

	// lastErr is how the last process ended; read it only after run has returned.
	lastErr error
}

func newChild(n Node, cfg Config, log io.Writer) *child {
	return &child{
		node:   n,
		cfg:    cfg,
		output: &nodeLog{file: log, report: func(line string) { cfg.Report(n.ID + ": " + line) }},
		wake:   make(chan struct{}, 1),
	}
}

// run starts the process again and again until ctx is done.
//
// Linux sends a child its parent-death signal when the thread that started it ends, not the
// process (prctl(2), PR_SET_PDEATHSIG), so the goroutine keeps its thread for as long as it runs.
func (c *child) run(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	delay := firstDelay
	for ctx.Err() == nil {
		began := time.Now()
		cmd, err := c.start()
		if cmd != nil {
			err = cmd.Wait()
		}
		held, stopping := c.ended(cmd != nil)
		if time.Since(began) > steady {
			delay = firstDelay
		}
		switch {
		case stopping:
			c.lastErr = err
			return
		case held:
			c.idle(ctx, -1)
			delay = firstDelay
		default:
			c.cfg.Report(fmt.Sprintf("%s died (%s), restarting in %s", c.node.ID, how(err), delay))
			c.idle(ctx, delay)
			delay = min(2*delay, lastDelay)
		}
	}
}

func how(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// start starts a process, unless the child is to stay down.
func (c *child) start() (*exec.Cmd, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held || c.stopping {
		return nil, nil
	}
	cmd := exec.Command(c.cfg.Program, c.cfg.Args(c.node)...)
	cmd.Stdout, cmd.Stderr = c.output, c.output
	cmd.SysProcAttr = childAttr()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.cmd, c.gone = cmd, make(chan struct{})
	// For people: `kill -9 $(cat n2/node.pid)`. The supervisor itself does not read it.
	if err := os.WriteFile(c.node.PIDPath(), fmt.Appendf(nil, "%d\n", cmd.Process.Pid), 0o644); err != nil {
		c.cfg.Report(fmt.Sprintf("%s: %v", c.node.ID, err))
	}
	return cmd, nil
}

// ended notes that there is no process, and returns what that is due to. Whoever waits for it sees
// it gone only after that, so that a Restart which follows a Kill finds a killed child.
func (c *child) ended(ran bool) (held, stopping bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.held && !c.stopping {
		c.deaths++
	}
	c.cmd = nil
	os.Remove(c.node.PIDPath())
	if ran {
		close(c.gone)
	}
	return c.held, c.stopping
}

// idle waits for d, or without end when d is negative, for release or for ctx.
func (c *child) idle(ctx context.Context, d time.Duration) {
	var timer <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
	case <-c.wake:
	case <-ctx.Done():
	}
}

// stop signals the process and lets it stay down.
func (c *child) stop(sig os.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	if c.cmd != nil {
		c.cmd.Process.Signal(sig) // an error means that it is gone
	}
}

// kill kills the process and waits until it is gone.
func (c *child) kill(ctx context.Context) error {
	c.mu.Lock()
	c.held = true
	select {
	case <-c.wake: // a release that was not seen yet
	default:
	}
	cmd, gone := c.cmd, c.gone
	if cmd != nil {
		cmd.Process.Signal(syscall.SIGKILL)
	}
	c.mu.Unlock()
	if cmd == nil {
		return nil
	}
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// release lets a killed child start again.
func (c *child) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// alive forgets earlier deaths.
func (c *child) alive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaths = 0
}

// hopeless returns an error when the child keeps dying.
func (c *child) hopeless() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deaths < 3 {
		return nil
	}
	return fmt.Errorf("node %s does not start; the end of %s:\n%s", c.node.ID, c.node.LogPath(), strings.Join(c.output.last(), "\n"))
}
