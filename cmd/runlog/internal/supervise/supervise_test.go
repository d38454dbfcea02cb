package supervise_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/runlog/runlog/cmd/runlog/internal/supervise"
)

// TestMain lets this test binary stand for the program that is supervised: it does what its first
// argument says.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case "node":
		node(os.Args[2])
	case "broken":
		fmt.Fprintln(os.Stderr, "level=ERROR msg=\"no such disk\"")
		os.Exit(3)
	default:
		os.Exit(m.Run())
	}
}

// node answers /readyz until it is told to end.
func node(addr string) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	fmt.Fprintln(os.Stderr, "level=INFO msg=serving")
	go http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	<-stop
	fmt.Fprintln(os.Stderr, "level=INFO msg=stopped")
}

// freeAddr returns an address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// reports collects what the group says.
type reports struct {
	mu    sync.Mutex
	lines []string
}

func (r *reports) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func (r *reports) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n")
}

func start(t *testing.T, mode string, n int) (*supervise.Group, []supervise.Node, *reports) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var nodes []supervise.Node
	for i := range n {
		id := fmt.Sprintf("n%d", i+1)
		nodes = append(nodes, supervise.Node{ID: id, HTTP: freeAddr(t), Dir: filepath.Join(t.TempDir(), id)})
	}
	r := &reports{}
	g, err := supervise.Start(supervise.Config{
		Program: self,
		Args:    func(n supervise.Node) []string { return []string{mode, n.HTTP} },
		Nodes:   nodes,
		Report:  r.add,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Stop() })
	return g, nodes, r
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func pid(t *testing.T, n supervise.Node) int {
	t.Helper()
	b, err := os.ReadFile(n.PIDPath())
	if err != nil {
		t.Fatal(err)
	}
	p, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestStop: a stop is clean, safe twice, and leaves no process and no pid file behind.
func TestStop(t *testing.T) {
	t.Parallel()
	g, nodes, r := start(t, "node", 2)
	if err := g.Ready(bounded(t)); err != nil {
		t.Fatal(err)
	}
	p := pid(t, nodes[0])
	for range 2 {
		if err := g.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(p, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d: %v", p, err)
	}
	if _, err := os.Stat(nodes[0].PIDPath()); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	log, err := os.ReadFile(nodes[0].LogPath())
	if err != nil || string(log) != "level=INFO msg=serving\nlevel=INFO msg=stopped\n" {
		t.Errorf("log %q, %v", log, err)
	}
	if r.String() != "" {
		t.Errorf("reports %s", r)
	}
}

// TestDeath: a child that dies by itself is reported and started again, with another process.
func TestDeath(t *testing.T) {
	t.Parallel()
	g, nodes, r := start(t, "node", 1)
	ctx := bounded(t)
	if err := g.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	first := pid(t, nodes[0])
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(r.String(), "n1 died (signal: killed), restarting") {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("reports %s", r)
		}
	}
	if err := g.NodeReady(ctx, "n1"); err != nil {
		t.Fatal(err)
	}
	if pid(t, nodes[0]) == first {
		t.Error("the same process")
	}
}

// TestKill: a node that the caller kills stays down until it is released, and is no news.
func TestKill(t *testing.T) {
	t.Parallel()
	g, nodes, r := start(t, "node", 1)
	ctx := bounded(t)
	if err := g.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		p := pid(t, nodes[0])
		if err := g.Kill(ctx, "n1"); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(p, 0); !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("process %d: %v", p, err)
		}
		if err := g.Kill(ctx, "n1"); err != nil {
			t.Fatalf("killing a dead node: %v", err)
		}
		if err := g.Restart("n1"); err != nil {
			t.Fatal(err)
		}
		if err := g.NodeReady(ctx, "n1"); err != nil {
			t.Fatal(err)
		}
	}
	if r.String() != "" {
		t.Errorf("reports %s", r)
	}
	if g.Kill(ctx, "n9") == nil || g.Restart("n9") == nil || g.NodeReady(ctx, "n9") == nil {
		t.Error("there is no n9")
	}
}

// TestBroken: waiting for a child that cannot start ends, with the reason that it logged.
func TestBroken(t *testing.T) {
	t.Parallel()
	g, _, r := start(t, "broken", 1)
	err := g.Ready(bounded(t))
	if err == nil || !strings.Contains(err.Error(), "no such disk") {
		t.Fatal(err)
	}
	if !strings.Contains(r.String(), "no such disk") || !strings.Contains(r.String(), "n1 died (exit status 3)") {
		t.Errorf("reports %s", r)
	}
	g.Stop()
}
