package crash

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Node is one process of the binary with a command line of its own, for clusters that change. Its
// methods may be called from one goroutine at a time.
type Node struct {
	ID, Dir, HTTP, Raft string

	t   testing.TB
	log string
	cmd *exec.Cmd // nil while it is down
}

// NewNode lays out a node below dir, on addresses that nobody listens on. It is killed when the test ends.
func NewNode(t testing.TB, dir, id string) *Node {
	t.Helper()
	n := &Node{t: t, ID: id, Dir: filepath.Join(dir, id), HTTP: freeAddr(t), Raft: freeAddr(t), log: filepath.Join(dir, id+".log")}
	t.Cleanup(n.Kill)
	return n
}

// URL returns the node's base URL.
func (n *Node) URL() string { return "http://" + n.HTTP }

// Member is the node as a --bootstrap list names it.
func (n *Node) Member() string { return n.ID + "=" + n.Raft + "@" + n.HTTP }

// Serve starts the node on what its disk holds; args are added to its command line.
func (n *Node) Serve(args ...string) {
	n.t.Helper()
	log, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		n.t.Fatal(err)
	}
	defer log.Close()
	n.cmd = exec.Command(Build(n.t), append([]string{"serve", "--id", n.ID, "--data", n.Dir, "--http", n.HTTP, "--raft", n.Raft}, args...)...)
	n.cmd.Stdout, n.cmd.Stderr = log, log
	n.cmd.SysProcAttr = dieWithParent()
	if err := n.cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
}

// Kill ends the node with SIGKILL.
func (n *Node) Kill() {
	if n.cmd != nil {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait() // says "signal: killed"
		n.cmd = nil
	}
}

// Stop ends the node with SIGTERM and waits for it.
func (n *Node) Stop() {
	n.t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Fatal(err)
	}
	if err := n.cmd.Wait(); err != nil {
		n.t.Errorf("%s stopped: %v\n%s", n.ID, err, n.Log())
	}
	n.cmd = nil
}

// Exited waits until the node has ended by itself and returns its exit code.
func (n *Node) Exited() int {
	_ = n.cmd.Wait() // the exit code says it
	code := n.cmd.ProcessState.ExitCode()
	n.cmd = nil
	return code
}

// Wipe destroys the disk.
func (n *Node) Wipe() {
	n.t.Helper()
	if err := os.RemoveAll(n.Dir); err != nil {
		n.t.Fatal(err)
	}
}

// WaitReady waits until the node says that it is ready.
func (n *Node) WaitReady() {
	n.t.Helper()
	n.Eventually("is ready", func() bool {
		resp, err := http.Get(n.URL() + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// Eventually polls until something holds, for a minute.
func (n *Node) Eventually(what string, holds func() bool) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !holds() {
		select {
		case <-ctx.Done():
			n.t.Fatalf("%s: not within a minute: %s; its log ends:\n%s", n.ID, what, n.Log())
		case <-time.After(20 * time.Millisecond): // poll
		}
	}
}

// Log returns the end of what the node logged.
func (n *Node) Log() string {
	b, err := os.ReadFile(n.log)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4000):])
}

// Command runs the binary to its end and returns what it printed.
func Command(t testing.TB, args ...string) (output string, err error) {
	t.Helper()
	b, err := exec.Command(Build(t), args...).CombinedOutput()
	return strings.TrimSpace(string(b)), err
}
