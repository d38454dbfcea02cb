package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/fsm"
	"github.com/runlog/runlog/raftlog"
)

// machineNode is a node of one: a real state machine that applies each command at once, and a lessor
// that renews whatever is at its epoch and judges nothing.
type machineNode struct {
	m    *fsm.Machine
	left time.Duration // what LeaseRemaining says; 0: unknown
}

// machineReader is the state machine as Reader.
type machineReader struct{ *fsm.Machine }

func (r machineReader) Watch(id event.RunID) Watch { return r.Machine.Watch(id) }

// machineThreads is the state machine as Threads.
type machineThreads struct{ *fsm.Machine }

func (t machineThreads) WatchThread(id event.ThreadID) Watch { return t.Machine.WatchThread(id) }
func (t machineThreads) WatchChanges() Watch                 { return t.Machine.WatchChanges() }

func (n *machineNode) Propose(_ context.Context, c event.Command) (event.Result, error) {
	index := n.m.Applied() + 1
	entry := event.AppendEntry(nil, event.Entry{Time: event.Time(index), Commands: []event.Command{c}})
	return n.m.Apply(&raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: entry}).([]event.Result)[0], nil
}

func (n *machineNode) ReadIndex(context.Context) error { return nil }
func (n *machineNode) WaitApplied(ctx context.Context, index uint64) error {
	return n.m.WaitApplied(ctx, index)
}

func (n *machineNode) Renew(ctx context.Context, renewals []raftlog.Renewal) ([]raftlog.RenewResult, error) {
	results := make([]raftlog.RenewResult, len(renewals))
	for i, r := range renewals {
		var epoch event.Epoch
		if r.Lock {
			v, _ := n.m.Lock(event.LockName(r.Run))
			epoch = v.Epoch
		} else if run, err := n.m.Run(ctx, r.Run); err != nil {
			results[i].Refusal = err.(event.Refusal)
			continue
		} else {
			epoch, results[i].CancelRequested = run.Epoch, run.CancelRequested
		}
		if results[i].ExpiresInMs = r.LeaseMs; epoch != r.Epoch {
			results[i].Refusal = &event.Fenced{Epoch: r.Epoch, CurrentEpoch: epoch}
		}
	}
	return results, nil
}

func (n *machineNode) LeaseRemaining(event.RunID) (time.Duration, bool)   { return n.left, n.left > 0 }
func (n *machineNode) LockRemaining(event.LockName) (time.Duration, bool) { return n.left, n.left > 0 }
func (n *machineNode) HolderRuns(h event.HolderID) ([]event.LeaseView, error) {
	return n.m.HolderRuns(h)
}
func (n *machineNode) Lock(name event.LockName) (event.LeaseView, bool) { return n.m.Lock(name) }
func (n *machineNode) WatchLock(name event.LockName) Watch              { return n.m.WatchLock(name) }

// startMachine serves a gateway over a machineNode.
func startMachine(t testing.TB) (*harness, *machineNode) {
	t.Helper()
	m, err := fsm.Open(fsm.Config{InMemory: true, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	n := &machineNode{m: m}
	gw, err := New(Config{Log: n, Reader: machineReader{m}, Leases: n, Threads: machineThreads{m}, Cluster: newFake(), Streams: machineStreams{m}, RunStreams: m})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(gw)
	t.Cleanup(func() {
		gw.Drain()
		srv.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return &harness{t, nil, gw, srv, &http.Client{Transport: &http.Transport{DisableCompression: true}}}, n
}

const (
	leasePath = "/v1/runs/r/lease"
	eventPath = "/v1/runs/r/events"
)

func TestLeaseLifeOverHTTP(t *testing.T) {
	t.Parallel()
	h, n := startMachine(t)
	h.must(201, "POST", "/v1/runs", `{"runId":"r","takeoverMs":60000}`)
	first := h.must(200, "POST", leasePath, `{"holder":"a","leaseMs":2000}`, "Idempotency-Key", "k")
	again := h.must(200, "POST", leasePath, `{"holder":"a","leaseMs":2000}`, "Idempotency-Key", "k")
	if string(first.body) != string(again.body) || first.json(t, "epoch") != 1.0 || first.json(t, "tail") != 1.0 {
		t.Fatalf("%s, repeated %s", first, again)
	}
	n.left = 700 * time.Millisecond
	if r := h.problem(409, "lease_held", "POST", leasePath, `{"holder":"b"}`); r.json(t, "expiresInMs") != 700.0 || r.json(t, "holder") != "a" {
		t.Fatalf("%s", r)
	}
	h.problem(428, "epoch_required", "POST", eventPath, custom(1))
	h.must(200, "POST", eventPath, custom(1), "Run-Epoch", "1")
	h.problem(400, "bad_request", "PUT", leasePath, "")
	h.problem(409, "fenced", "PUT", leasePath, "", "Run-Epoch", "2")
	if r := h.must(200, "PUT", leasePath, `{"leaseMs":3000}`, "Run-Epoch", "1"); r.json(t, "expiresInMs") != 3000.0 || r.json(t, "cancelRequested") != false {
		t.Fatalf("%s", r)
	}
	h.problem(400, "bad_request", "POST", leasePath, `{"holder":"b","steal":true}`)
	h.problem(409, "fenced", "POST", leasePath, `{"holder":"b","steal":true,"ifEpoch":7}`)
	h.must(200, "POST", leasePath, `{"holder":"b","steal":true,"ifEpoch":1}`)
	for _, w := range [][3]string{{"POST", eventPath, custom(2)}, {"PUT", leasePath, ""}, {"DELETE", leasePath, ""}, {"PATCH", "/v1/runs/r", `{"metadata":{}}`}} {
		h.problem(409, "fenced", w[0], w[1], w[2], "Run-Epoch", "1")
	}
	h.must(204, "DELETE", leasePath+"?takeoverMs=5", "", "Run-Epoch", "2")
	h.problem(400, "bad_request", "DELETE", leasePath+"?takeoverMs=-5", "", "Run-Epoch", "2")
}

// TestLeaseWait: an acquisition that waits is granted as soon as the lease is given up, and refused
// when the wait is over.
func TestLeaseWait(t *testing.T) {
	t.Parallel()
	h, _ := startMachine(t)
	h.must(201, "POST", "/v1/runs", `{"runId":"r","holder":"a"}`)
	h.problem(409, "lease_held", "POST", leasePath, `{"holder":"b","waitMs":1}`)
	granted := make(chan reply)
	go func() { granted <- h.do("POST", leasePath, `{"holder":"b","waitMs":60000}`) }()
	h.must(204, "DELETE", leasePath, "", "Run-Epoch", "1")
	if r := <-granted; r.status != 200 || r.json(t, "epoch") != 2.0 {
		t.Fatalf("%s", r)
	}
	h.must(200, "POST", "/v1/locks/l", `{"holder":"a"}`)
	go func() { granted <- h.do("POST", "/v1/locks/l", `{"holder":"b","waitMs":60000}`) }()
	h.must(204, "DELETE", "/v1/locks/l", "", "Run-Epoch", "1")
	if r := <-granted; r.status != 200 || r.json(t, "epoch") != 2.0 {
		t.Fatalf("%s", r)
	}
}

func TestManyLeases(t *testing.T) {
	t.Parallel()
	h, _ := startMachine(t)
	for _, id := range []string{"a", "b", "c"} {
		h.must(201, "POST", "/v1/runs", `{"runId":"`+id+`","holder":"h"}`)
	}
	h.must(202, "POST", "/v1/runs/b/cancel", "{}")
	r := h.must(200, "PUT", "/v1/leases", `{"holder":"h","leaseMs":2000,"runs":[{"runId":"a","epoch":1},{"runId":"b","epoch":1},{"runId":"c","epoch":9},{"runId":"none","epoch":1}]}`)
	want := `{"runs":[{"runId":"a","ok":true,"expiresInMs":2000},{"runId":"b","ok":true,"expiresInMs":2000,"cancelRequested":true},{"runId":"c","ok":false,"code":"fenced"},{"runId":"none","ok":false,"code":"run_not_found"}]}`
	if strings.TrimSpace(string(r.body)) != want {
		t.Fatalf("got %s\nwant %s", r.body, want)
	}
	for _, bad := range []string{`{}`, `{"runs":7}`, `{"runs":[7]}`, `{"runs":[{"runId":"a"}]}`, `{"runs":[{"runId":"a","epoch":-1}]}`, `{"runs":[{"runId":"","epoch":1}]}`} {
		h.problem(400, "bad_request", "PUT", "/v1/leases", bad)
	}
	if r := h.must(200, "DELETE", "/v1/leases", `{"holder":"h","takeoverMs":0}`); strings.Count(string(r.body), `"state":"released"`) != 3 {
		t.Fatalf("%s", r)
	}
	if r := h.must(200, "DELETE", "/v1/leases", `{"holder":"h"}`); strings.TrimSpace(string(r.body)) != `{"runs":[]}` {
		t.Fatalf("%s", r)
	}
}

func TestCancelOverHTTP(t *testing.T) {
	t.Parallel()
	h, _ := startMachine(t)
	h.must(201, "POST", "/v1/runs", `{"runId":"r","holder":"a"}`)
	if r := h.must(202, "POST", "/v1/runs/r/cancel", `{"reason":"the user left","withinMs":50}`); r.json(t, "cancelRequested") != true {
		t.Fatalf("%s", r)
	}
	if r := h.must(200, "POST", eventPath, custom(1), "Run-Epoch", "1"); r.json(t, "cancelRequested") != true {
		t.Fatalf("the holder is not told: %s", r)
	}
	h.must(200, "POST", eventPath, `{"type":"RUN_FINISHED","outcome":{"type":"cancelled"}}`, "Run-Epoch", "1")
	h.problem(409, "run_ended", "POST", "/v1/runs/r/cancel", "")
	h.problem(400, "bad_request", "POST", "/v1/runs/r/cancel", `{"withinMs":"soon"}`)
	h.problem(404, "run_not_found", "POST", "/v1/runs/none/cancel", "")
}

// leases covers the operations about leases for [TestOpenAPIConformance].
func (c *conformance) leases() {
	h, _ := startMachine(c.h.t)
	defer func(was *harness) { c.h = was }(c.h)
	c.h = h
	c.check(201, "POST", "/v1/runs", `{"runId":"r"}`)
	c.check(200, "POST", leasePath, `{"holder":"a","leaseMs":2000,"waitMs":0,"ifEpoch":0,"steal":false}`, "Idempotency-Key", "k")
	c.check(200, "PUT", leasePath, `{"leaseMs":2000}`, "Run-Epoch", "1")
	c.check(200, "POST", "/v1/runs/r/replay", `[{"type":"RUN_STARTED","threadId":"r","runId":"r"},{"type":"RAW","event":1}]`, "Run-Epoch", "1")
	c.check(409, "POST", "/v1/runs/r/replay", `[{"type":"RUN_STARTED","threadId":"other","runId":"r"}]`, "Run-Epoch", "1")
	c.check(202, "POST", "/v1/runs/r/cancel", `{"reason":"x","withinMs":1}`)
	c.check(200, "PUT", "/v1/leases", `{"holder":"a","leaseMs":2000,"runs":[{"runId":"r","epoch":1},{"runId":"none","epoch":1}]}`)
	c.check(204, "DELETE", leasePath+"?takeoverMs=1000", "", "Run-Epoch", "1")
	c.check(200, "DELETE", "/v1/leases", `{"holder":"a"}`)
	c.check(200, "POST", "/v1/locks/l", `{"holder":"a","leaseMs":2000}`)
	c.check(409, "POST", "/v1/locks/l", `{"holder":"b"}`)
	c.check(200, "PUT", "/v1/locks/l", `{"leaseMs":2000}`, "Run-Epoch", "1")
	c.check(204, "DELETE", "/v1/locks/l", "", "Run-Epoch", "1")
}
