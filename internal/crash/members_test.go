package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// group is a cluster that changes while a test runs.
type group struct {
	t     *testing.T
	dir   string
	nodes []*Node
	cl    *client.Client
}

// found starts n nodes that found a cluster.
func found(t *testing.T, n int) *group {
	g := &group{t: t, dir: t.TempDir()}
	for i := range n {
		g.nodes = append(g.nodes, NewNode(t, g.dir, fmt.Sprintf("n%d", i+1)))
	}
	for _, n := range g.nodes {
		n.Serve("--bootstrap", g.bootstrap())
	}
	for _, n := range g.nodes {
		n.WaitReady()
	}
	g.connect()
	return g
}

func (g *group) bootstrap() string {
	var members []string
	for _, n := range g.nodes {
		members = append(members, n.Member())
	}
	return strings.Join(members, ",")
}

func (g *group) urls() string {
	var urls []string
	for _, n := range g.nodes {
		urls = append(urls, n.URL())
	}
	return strings.Join(urls, ",")
}

// connect makes the group's client one of its present nodes.
func (g *group) connect() {
	g.t.Helper()
	var err error
	if g.cl, err = client.New(client.Config{Servers: strings.Split(g.urls(), ","), RetryFor: time.Minute}); err != nil {
		g.t.Fatal(err)
	}
}

// run runs a command of the binary against the group, and fails unless it succeeds.
func (g *group) run(args ...string) string {
	g.t.Helper()
	out, err := Command(g.t, args...)
	if err != nil {
		g.t.Fatalf("runlog %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

// refused is run for what must fail.
func (g *group) refused(want string, args ...string) {
	g.t.Helper()
	if out, err := Command(g.t, args...); err == nil || !strings.Contains(out, want) {
		g.t.Errorf("runlog %s: %v: %s; want a refusal with %q", strings.Join(args, " "), err, out, want)
	}
}

// fill writes a run of n events.
func (g *group) fill(run event.RunID, n int) {
	g.t.Helper()
	raws := []event.Event{{Raw: []byte(`{"type":"RUN_STARTED"}`)}}
	for i := range n - 1 {
		raws = append(raws, event.Event{Raw: fmt.Appendf(nil, `{"type":"CUSTOM","name":"n","value":%d}`, i)})
	}
	if _, err := g.cl.Append(g.t.Context(), event.Batch{Run: run, Events: raws, Producer: &event.Producer{ID: "filler"}}); err != nil {
		g.t.Fatal(err)
	}
}

// holds checks that a node has all of a run.
func (g *group) holds(n *Node, run event.RunID, want int) {
	g.t.Helper()
	if got := readAll(g.t, n.URL(), run); len(got) != want {
		g.t.Errorf("%s holds %d events of %s, not %d", n.ID, len(got), run, want)
	}
}

// settled waits until the members are exactly these, all voters and caught up.
func (g *group) settled(ids ...string) {
	g.t.Helper()
	g.nodes[0].Eventually("the members are "+strings.Join(ids, ", "), func() bool {
		c, err := g.cl.Cluster(g.t.Context())
		if err != nil || c.Leader == "" || len(c.Nodes) != len(ids) {
			return false
		}
		for _, n := range c.Nodes {
			if !slices.Contains(ids, n.ID) || !n.Voter || n.Role != "leader" && n.Role != "follower" || n.Lag > 0 {
				return false
			}
		}
		return true
	})
}

// TestMembers grows a cluster from one node to three, takes it through what befalls members, and
// shrinks it again.
func TestMembers(t *testing.T) {
	t.Parallel()
	g := found(t, 1)
	g.fill("r1", 100)
	g.refused("last voter", "cluster", "remove", "n1", "--server", g.urls())
	for _, id := range []string{"n2", "n3"} {
		n := NewNode(t, g.dir, id)
		n.Serve("--join", g.urls())
		g.nodes = append(g.nodes, n)
		n.WaitReady()
	}
	g.connect()
	g.settled("n1", "n2", "n3")
	g.holds(g.nodes[2], "r1", 100)

	// Any node tells where all of them are.
	for _, n := range g.nodes {
		status := g.run("cluster", "status", "--server", n.URL())
		for _, m := range g.nodes {
			if !strings.Contains(status, m.HTTP) || !strings.Contains(status, m.Raft) {
				t.Errorf("%s does not tell of %s:\n%s", n.ID, m.ID, status)
			}
		}
	}

	// With n3 down n2 is needed.
	n2, n3 := g.nodes[1], g.nodes[2]
	n3.Kill()
	g.refused("fewer than a majority", "cluster", "remove", "n2", "--server", g.nodes[0].URL())

	// n3 lost its disk: neither the old way nor joining brings it back as it was.
	n3.Wipe()
	n3.Serve("--bootstrap", g.bootstrap())
	if code := n3.Exited(); code != 1 || !strings.Contains(n3.Log(), "another data directory") {
		t.Errorf("a wiped node: exit code %d\n%s", code, n3.Log())
	}
	n3.Wipe()
	n3.Serve("--join", g.nodes[0].URL())
	if code := n3.Exited(); code != 1 || !strings.Contains(n3.Log(), "another data directory") {
		t.Errorf("a wiped node that joins: exit code %d\n%s", code, n3.Log())
	}
	g.run("cluster", "remove", "n3", "--server", g.urls())
	n3.Wipe()
	n3.Serve("--join", g.nodes[0].URL())
	n3.WaitReady()
	g.settled("n1", "n2", "n3")
	g.fill("r2", 50)
	g.holds(n3, "r2", 50)

	// A node moves to other addresses.
	n2.Stop()
	n2.HTTP, n2.Raft = freeAddr(t), freeAddr(t)
	n2.Serve("--join", g.nodes[0].URL()+","+n3.URL())
	n2.WaitReady()
	g.connect()
	g.settled("n1", "n2", "n3")
	if status := g.run("cluster", "status", "--server", n3.URL()); !strings.Contains(status, n2.HTTP) || !strings.Contains(status, n2.Raft) {
		t.Errorf("n3 does not know where n2 moved:\n%s", status)
	}

	// A node of another cluster is refused, by what it asks to join.
	other := found(t, 1)
	other.nodes[0].Stop()
	other.nodes[0].Serve("--join", g.nodes[0].URL())
	if code := other.nodes[0].Exited(); code != 1 || !strings.Contains(other.nodes[0].Log(), "is of cluster") {
		t.Errorf("a node of another cluster: exit code %d\n%s", code, other.nodes[0].Log())
	}

	// The leader is removed: it hands over first.
	c, err := g.cl.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g.run("cluster", "remove", c.Leader, "--server", g.urls())
	g.nodes = slices.DeleteFunc(g.nodes, func(n *Node) bool {
		if n.ID == c.Leader {
			n.Stop()
		}
		return n.ID == c.Leader
	})
	g.connect()
	g.settled(g.nodes[0].ID, g.nodes[1].ID)
	g.refused("not a member", "cluster", "remove", c.Leader, "--server", g.urls())
	g.fill("r3", 10)
	for _, n := range g.nodes {
		g.holds(n, "r1", 100)
		g.holds(n, "r3", 10)
	}
}

// TestLostMajority destroys two disks of three, recovers the survivor, and grows again.
func TestLostMajority(t *testing.T) {
	t.Parallel()
	g := found(t, 3)
	g.fill("r1", 300)
	g.settled("n1", "n2", "n3")
	survivor, lost := g.nodes[0], g.nodes[1:]
	g.holds(survivor, "r1", 300)
	for _, n := range g.nodes {
		n.Kill()
	}
	for _, n := range lost {
		n.Wipe()
	}
	before := g.run("verify", survivor.Dir)
	g.run("cluster", "recover", "--id", "n1", "--data", survivor.Dir, "--raft", survivor.Raft, "--yes")
	survivor.Serve("--bootstrap", g.bootstrap())
	survivor.WaitReady()
	for _, n := range lost {
		n.Serve("--join", survivor.URL())
	}
	for _, n := range lost {
		n.WaitReady()
	}
	g.settled("n1", "n2", "n3")
	g.fill("r2", 20)
	for _, n := range g.nodes {
		g.holds(n, "r1", 300)
		g.holds(n, "r2", 20)
	}
	for _, n := range g.nodes {
		n.Stop()
		if after := g.run("verify", n.Dir); !strings.Contains(after, "2 runs, 320 events") {
			t.Errorf("%s after:\n%s\nn1 before:\n%s", n.ID, after, before)
		}
	}
}

// TestBackup backs up a cluster that is written to, restores it into a new one of three nodes, and
// shows that damaged backups are refused.
func TestBackup(t *testing.T) {
	t.Parallel()
	g := found(t, 1)
	for i := range 20 {
		g.fill(event.RunID(fmt.Sprintf("r%d", i)), 50)
	}
	file := filepath.Join(g.dir, "all.backup")
	described := g.run("backup", "-o", file, "--server", g.urls())
	verified := g.run("verify", file)
	_, hash, _ := strings.Cut(described, "state hash ")
	hash, _, _ = strings.Cut(hash, ",")
	if len(hash) != 16 || !strings.Contains(verified, "20 runs, 1000 events") || strings.Count(verified, hash) != 2 {
		t.Errorf("backup says\n%s\nverify says\n%s", described, verified)
	}

	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bad, dir := filepath.Join(g.dir, "bad.backup"), filepath.Join(g.dir, "refused")
	for _, at := range []int{4, 40, len(whole) / 2, len(whole) - 20, len(whole) - 1} {
		flipped := slices.Clone(whole)
		flipped[at] ^= 0x10
		for _, b := range [][]byte{flipped, whole[:at]} {
			if err := os.WriteFile(bad, b, 0o600); err != nil {
				t.Fatal(err)
			}
			g.refused("damaged", "verify", bad)
			g.refused("damaged", "restore", bad, "--id", "n1", "--data", dir, "--bootstrap", "n1=127.0.0.1:1@127.0.0.1:2")
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Fatalf("a damaged backup (%d of %d) left something behind: %v", at, len(whole), err)
			}
		}
	}

	r := &group{t: t, dir: t.TempDir()}
	for i := range 3 {
		r.nodes = append(r.nodes, NewNode(t, r.dir, fmt.Sprintf("m%d", i+1)))
	}
	for _, n := range r.nodes {
		out := r.run("restore", file, "--id", n.ID, "--data", n.Dir, "--bootstrap", r.bootstrap())
		if !strings.Contains(out, hash) {
			t.Errorf("restored: %s; the backup's hash is %s", out, hash)
		}
		r.refused("not empty", "restore", file, "--id", n.ID, "--data", n.Dir, "--bootstrap", r.bootstrap())
		if out := r.run("verify", n.Dir); !strings.Contains(out, hash) {
			t.Errorf("verified: %s; the backup's hash is %s", out, hash)
		}
	}
	for _, n := range r.nodes {
		n.Serve("--bootstrap", r.bootstrap())
	}
	for _, n := range r.nodes {
		n.WaitReady()
	}
	r.connect()
	r.settled("m1", "m2", "m3")
	old, err := g.cl.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c, err := r.cl.Cluster(t.Context()); err != nil || c.ClusterID == old.ClusterID {
		t.Errorf("the new cluster is %q, the old one %q: %v", c.ClusterID, old.ClusterID, err)
	}
	r.fill("new", 5)
	for _, n := range r.nodes {
		r.holds(n, "r7", 50)
		r.holds(n, "new", 5)
	}
}
