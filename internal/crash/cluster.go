package crash

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Cluster is three processes of the binary. Its methods may be called from any goroutine, but one
// node's only from one at a time.
type Cluster struct {
	t     testing.TB
	bin   string
	dir   string
	flags []string
	http  [3]string
	raft  [3]string

	mu    sync.Mutex
	procs [3]*exec.Cmd // nil while dead
}

var built struct {
	once sync.Once
	path string
	err  error
}

// Build compiles the binary once per test process and returns its path.
func Build(t testing.TB) string {
	t.Helper()
	built.once.Do(func() {
		dir, err := os.MkdirTemp("", "runlog-crash-")
		if err != nil {
			built.err = err
			return
		}
		built.path = filepath.Join(dir, "runlog")
		out, err := exec.Command("go", "build", "-o", built.path, "github.com/runlog/runlog/cmd/runlog").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("%w: %s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.path
}

// Start starts three nodes on fresh directories and waits until all are ready. They are killed
// when the test ends. flags are added to each node's command line.
func Start(t testing.TB, flags ...string) *Cluster {
	t.Helper()
	c := &Cluster{t: t, bin: Build(t), dir: t.TempDir(), flags: flags}
	for i := range 3 {
		c.http[i], c.raft[i] = freeAddr(t), freeAddr(t)
	}
	t.Cleanup(func() {
		for i := range 3 {
			c.Kill(i)
		}
	})
	for i := range 3 {
		c.Run(i)
	}
	for i := range 3 {
		c.WaitReady(i)
	}
	return c
}

// freeAddr returns a loopback address that nobody listens on just now.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// URLs returns the nodes' base URLs.
func (c *Cluster) URLs() []string {
	var urls []string
	for _, a := range c.http {
		urls = append(urls, "http://"+a)
	}
	return urls
}

// Run starts node i on what its disk holds.
func (c *Cluster) Run(i int) {
	c.t.Helper()
	var members []string
	for k := range 3 {
		members = append(members, fmt.Sprintf("n%d=%s@%s", k+1, c.raft[k], c.http[k]))
	}
	id := fmt.Sprintf("n%d", i+1)
	log, err := os.OpenFile(filepath.Join(c.dir, id+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		c.t.Fatal(err)
	}
	defer log.Close()
	args := append([]string{"serve", "--id", id, "--data", filepath.Join(c.dir, id), "--http", c.http[i], "--raft", c.raft[i],
		"--bootstrap", strings.Join(members, ",")}, c.flags...)
	cmd := exec.Command(c.bin, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.procs[i] = cmd
}

// Kill sends SIGKILL to node i and waits until it is gone.
func (c *Cluster) Kill(i int) {
	c.mu.Lock()
	cmd := c.procs[i]
	c.procs[i] = nil
	c.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says "signal: killed"
	}
}

// Signal sends a signal to node i.
func (c *Cluster) Signal(i int, sig syscall.Signal) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.procs[i] != nil {
		if err := c.procs[i].Process.Signal(sig); err != nil {
			c.t.Errorf("signal n%d: %v", i+1, err)
		}
	}
}

// WaitReady waits until node i says that it is ready.
func (c *Cluster) WaitReady(i int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.http[i]+"/readyz", nil)
		if err != nil {
			c.t.Fatal(err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ctx.Done():
			c.t.Fatalf("n%d is not ready after a minute; its log ends:\n%s", i+1, c.logTail(i))
		case <-time.After(20 * time.Millisecond): // poll
		}
	}
}

func (c *Cluster) logTail(i int) string {
	b, err := os.ReadFile(filepath.Join(c.dir, fmt.Sprintf("n%d.log", i+1)))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}
