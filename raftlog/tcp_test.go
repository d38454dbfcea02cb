package raftlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/runlog/runlog/event"
)

func TestOverTCP(t *testing.T) {
	t.Parallel()
	fakes := []*fakeState{}
	nodes := tcpCluster(t, LogStoreWAL, func() State {
		fakes = append(fakes, openFake(&fakeDisk{}))
		return fakes[len(fakes)-1]
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for i, n := range nodes {
		for k := range 30 {
			wg.Go(func() {
				if r, err := n.Propose(ctx, appendOf("r", fmt.Sprintf(`{"n":%d,"k":%d}`, i, k))); err != nil || r.Refusal != nil {
					t.Errorf("propose: %+v, %v", r, err)
				}
			})
		}
	}
	wg.Wait()
	for _, n := range nodes {
		if err := n.ReadIndex(ctx); err != nil {
			t.Error(err)
		}
	}
	for i, f := range fakes {
		if got := len(f.raws("r")); got != 90 {
			t.Errorf("node %d holds %d events", i, got)
		}
	}
	// The leader goes; what is proposed meanwhile is held.
	done := make(chan error, 1)
	go func() { done <- nodes[0].Close() }()
	if r, err := nodes[1].Propose(ctx, producing(appendOf("r", `{"last":1}`), "p", 0)); err != nil || r.Appended.Tail != 91 {
		t.Errorf("while the leader closes: %+v, %v", r, err)
	}
	if err := <-done; err != nil {
		t.Errorf("close: %v", err)
	}
	if err := nodes[0].Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// Whatever somebody else sends to the port, the connection ends, and Close does not wait for it.
func TestTCPStrangers(t *testing.T) {
	t.Parallel()
	n, err := listenTCP("127.0.0.1:0", handshake{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	addr := n.listener.Addr().String()
	if got := string(n.Raft().LocalAddr()); got != addr {
		t.Errorf("local address %s, listening on %s", got, addr)
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the port answered HTTP")
	}
	silent, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	peer, err := n.DialPeer(t.Context(), raft.ServerAddress(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	served, err := n.Peers().Accept()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, served)
		served.Close()
	}()
	if err := errors.Join(n.Close(), n.Close()); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := n.Peers().Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after close: %v", err)
	}
}

func TestSingleNodeAndItsMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	addr := freeAddr(t)
	open := func() (*Node, *fakeState) {
		s := openFake(&fakeDisk{})
		n, err := Open(Config{
			NodeID: "one", Dir: filepath.Join(t.TempDir(), "one"), RaftAddr: addr, State: s, Registerer: reg,
			Bootstrap: []Member{{ID: "one", Raft: addr}}, Fatal: func(err error) { t.Error(err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		return n, s
	}
	for range 2 { // closing frees port and metrics
		n, _ := open()
		for i := range 3 {
			if _, err := n.Propose(t.Context(), appendOf("r", `{}`)); err != nil {
				t.Fatal(i, err)
			}
		}
		if _, err := n.Propose(t.Context(), expecting(appendOf("r", `{}`), 9)); err != nil {
			t.Fatal(err)
		}
		if got := counter(t, reg, "runlog_raftlog_proposals_total", "refused"); got != 1 {
			t.Errorf("%v refused", got)
		}
		if got := counter(t, reg, "runlog_raftlog_proposals_total", "done"); got < 3 || got > 4 { // the node itself enters the roster
			t.Errorf("%v done", got)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func counter(t *testing.T, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no %s{%s}", name, label)
	return 0
}

func TestWhoIsAdmitted(t *testing.T) {
	t.Parallel()
	state := openFake(&fakeDisk{})
	state.img.ClusterID = "1"
	state.img.Roster.Members = []event.ClusterMember{{ID: "b", DirID: "disk"}}
	n := &Node{state: state, cfg: Config{NodeID: "a"}}
	for _, c := range []struct {
		greeting Greeting
		admitted bool
	}{
		{Greeting{NodeID: "c"}, true},
		{Greeting{NodeID: "c", ClusterID: "1"}, true},
		{Greeting{NodeID: "c", ClusterID: "2"}, false},
		{Greeting{NodeID: "b", DirID: "disk", ClusterID: "1"}, true},
		{Greeting{NodeID: "b", DirID: "another"}, false},
		{Greeting{NodeID: "b", DirID: "another", ClusterID: "1"}, false},
	} {
		if err := n.admits(&c.greeting); (err == nil) != c.admitted {
			t.Errorf("%+v: %v", c.greeting, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	good := Config{NodeID: "a", Dir: "d", RaftAddr: "x:1", State: openFake(&fakeDisk{}), Fatal: func(error) {}}
	if c, err := good.withDefaults(); err != nil || c.HoldFor != 10*time.Second || c.ElectionTimeout != 500*time.Millisecond {
		t.Errorf("%+v, %v", c, err)
	}
	if err := raft.ValidateConfig(mustDefaults(t, good).raftConfig()); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no id":             func(c *Config) { c.NodeID = "" },
		"no directory":      func(c *Config) { c.Dir = "" },
		"no address":        func(c *Config) { c.RaftAddr = "" },
		"no state":          func(c *Config) { c.State = nil },
		"no fatal":          func(c *Config) { c.Fatal = nil },
		"unknown log store": func(c *Config) { c.LogStore = "sqlite" },
		"not a member":      func(c *Config) { c.Bootstrap = []Member{{ID: "b", Raft: "x:1"}} },
		"twice a member":    func(c *Config) { c.Bootstrap = []Member{{ID: "a", Raft: "x:1"}, {ID: "a", Raft: "x:2"}} },
		"no member address": func(c *Config) { c.Bootstrap = []Member{{ID: "a"}} },
	} {
		c := good
		spoil(&c)
		if _, err := c.withDefaults(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func mustDefaults(t *testing.T, c Config) Config {
	t.Helper()
	c, err := c.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A group is answered command by command, whatever became of each.
func TestAnswersTravel(t *testing.T) {
	t.Parallel()
	for _, o := range []outcome{
		{result: event.Result{Index: 7, Appended: event.Appended{FirstOffset: 3, Tail: 4}}},
		{result: event.Result{Index: 8, Refusal: &event.Fenced{Epoch: 1, CurrentEpoch: 2}}},
		{err: errNotAppended}, {err: ErrOutcomeUnknown}, {err: ErrOverloaded},
	} {
		got := decodeAnswer(encodeAnswer(o))
		if !errors.Is(got.err, o.err) || fmt.Sprint(got.result.Refusal) != fmt.Sprint(o.result.Refusal) || got.result.Appended != o.result.Appended || got.result.Index != o.result.Index {
			t.Errorf("%+v became %+v", o, got)
		}
	}
	for _, b := range [][]byte{nil, {9}, {fateDone}, {fateDone, 1, 2}} {
		if got := decodeAnswer(b); !errors.Is(got.err, ErrOutcomeUnknown) {
			t.Errorf("%v became %+v", b, got)
		}
	}
}
