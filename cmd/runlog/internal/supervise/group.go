package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Node is one child process: a `runlog serve` on this machine.
type Node struct {
	ID   string
	HTTP string // address it serves on
	Raft string // address it talks to the other nodes on
	Dir  string // its data; also its log, node.log, and its process id, node.pid
}

// URL is where the node's HTTP is.
func (n Node) URL() string { return "http://" + n.HTTP }

// PIDPath is the file that holds the process id of the node, while it runs.
func (n Node) PIDPath() string { return filepath.Join(n.Dir, "node.pid") }

// LogPath is the file that the node's log goes to.
func (n Node) LogPath() string { return filepath.Join(n.Dir, "node.log") }

// Config says what to run. All fields are required unless they say otherwise.
type Config struct {
	Program string              // path of the executable
	Args    func(Node) []string // its arguments for a node
	Nodes   []Node
	// Report is told, in one line each, what a person watching should know: errors that a child
	// logs, deaths, restarts. It may be called from several goroutines. nil: nobody is told.
	Report func(string)
	// StopTimeout is how long Stop waits for a clean end before it kills. 0: 15 s.
	StopTimeout time.Duration
}

// Group is a set of running children. Its methods may be called from any goroutine.
type Group struct {
	children []*child
	cancel   context.CancelFunc
	wait     sync.WaitGroup
	timeout  time.Duration
	stop     sync.Once
	stopErr  error
}

// Start makes the directories and starts every node. The caller must call Stop.
func Start(cfg Config) (*Group, error) {
	if cfg.Report == nil {
		cfg.Report = func(string) {}
	}
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = 15 * time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	g := &Group{cancel: cancel, timeout: cfg.StopTimeout}
	for _, n := range cfg.Nodes {
		if err := os.MkdirAll(n.Dir, 0o755); err != nil {
			g.Stop()
			return nil, err
		}
		log, err := os.OpenFile(n.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			g.Stop()
			return nil, err
		}
		c := newChild(n, cfg, log)
		g.children = append(g.children, c)
		g.wait.Go(func() {
			defer log.Close()
			c.run(ctx)
		})
	}
	return g, nil
}

// Stop asks every child to end, waits, and kills what has not ended in time. It returns what did
// not end cleanly; a second call returns the same.
func (g *Group) Stop() error {
	g.stop.Do(func() {
		g.cancel()
		g.each(func(c *child) { c.stop(syscall.SIGTERM) })
		kill := time.AfterFunc(g.timeout, func() {
			g.each(func(c *child) { c.stop(syscall.SIGKILL) })
		})
		g.wait.Wait()
		kill.Stop()
		for _, c := range g.children {
			if c.lastErr != nil {
				g.stopErr = errors.Join(g.stopErr, fmt.Errorf("node %s: %w", c.node.ID, c.lastErr))
			}
		}
	})
	return g.stopErr
}

func (g *Group) each(f func(*child)) {
	for _, c := range g.children {
		f(c)
	}
}

// Kill ends a node as a power cut would (SIGKILL: no handler runs) and keeps it down until
// [Group.Restart]. It returns once the process is gone.
func (g *Group) Kill(ctx context.Context, id string) error {
	c, err := g.child(id)
	if err != nil {
		return err
	}
	return c.kill(ctx)
}

// Restart starts a node that was killed, on the same data.
func (g *Group) Restart(id string) error {
	c, err := g.child(id)
	if err != nil {
		return err
	}
	c.release()
	return nil
}

func (g *Group) child(id string) (*child, error) {
	for _, c := range g.children {
		if c.node.ID == id {
			return c, nil
		}
	}
	return nil, fmt.Errorf("there is no node %q", id)
}
