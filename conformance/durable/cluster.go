package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const nodes = 3

// cluster is three processes of the binary on this machine. Its methods may be called from any
// goroutine.
type cluster struct {
	bin   string
	dir   string
	flags []string // more flags for each node
	http  [nodes]string
	raft  [nodes]string

	mu    sync.Mutex
	procs [nodes]*exec.Cmd // nil while down
}

// newCluster lays a cluster out below dir, on ports that nobody listens on now.
func newCluster(bin, dir string, flags ...string) (*cluster, error) {
	c := &cluster{bin: bin, dir: dir, flags: flags}
	for i := range nodes {
		for _, addr := range []*string{&c.http[i], &c.raft[i]} {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			defer l.Close() // when all have been found, so that no port is found twice
			*addr = l.Addr().String()
		}
	}
	return c, nil
}

// urls returns the nodes' base URLs.
func (c *cluster) urls() []string {
	urls := make([]string, nodes)
	for i, a := range c.http {
		urls[i] = "http://" + a
	}
	return urls
}

// start starts node i on what its disk holds.
func (c *cluster) start(i int) error {
	members := make([]string, nodes)
	for k := range nodes {
		members[k] = fmt.Sprintf("n%d=%s@%s", k+1, c.raft[k], c.http[k])
	}
	id := fmt.Sprintf("n%d", i+1)
	log, err := os.OpenFile(c.logPath(i), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := append([]string{"serve", "--id", id, "--data", filepath.Join(c.dir, id), "--http", c.http[i], "--raft", c.raft[i],
		"--bootstrap", strings.Join(members, ",")}, c.flags...)
	cmd := exec.Command(c.bin, args...)
	cmd.Stdout, cmd.Stderr = log, log
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.procs[i] != nil {
		return fmt.Errorf("%s is running", id)
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.procs[i] = cmd
	return nil
}

func (c *cluster) logPath(i int) string { return filepath.Join(c.dir, fmt.Sprintf("n%d.log", i+1)) }

// kill ends node i as a power cut would and returns once it is gone.
func (c *cluster) kill(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cmd := c.procs[i]; cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // says "signal: killed"
		c.procs[i] = nil
	}
}

// startAll starts every node and waits until all are ready.
func (c *cluster) startAll(ctx context.Context) error {
	for i := range nodes {
		if err := c.start(i); err != nil {
			return err
		}
	}
	for i := range nodes {
		if err := c.ready(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) killAll() {
	for i := range nodes {
		c.kill(i)
	}
}

// ready waits until node i says that it can serve.
func (c *cluster) ready(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, fmt.Errorf("n%d was not ready within a minute", i+1))
	defer cancel()
	for {
		if err := get(ctx, "http://"+c.http[i]+"/readyz", nil); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; its log ends:\n%s", context.Cause(ctx), c.logEnd(i))
		case <-time.After(20 * time.Millisecond): // poll
		}
	}
}

func (c *cluster) logEnd(i int) string {
	b, err := os.ReadFile(c.logPath(i))
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// leader returns which node leads, and waits through an election.
func (c *cluster) leader(ctx context.Context) (int, error) {
	for {
		for i := range nodes {
			var s struct{ Leader string }
			if err := get(ctx, "http://"+c.http[i]+"/v1/cluster", &s); err != nil {
				continue
			}
			for k := range nodes {
				if s.Leader == fmt.Sprintf("n%d", k+1) {
					return k, nil
				}
			}
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("nobody leads: %w", context.Cause(ctx))
		case <-time.After(20 * time.Millisecond): // poll
		}
	}
}

// get fetches a URL that answers 200 and decodes what it answers into v, unless that is nil.
func get(ctx context.Context, url string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	if v == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(v)
}
