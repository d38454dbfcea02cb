package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/raftlog"
)

// leaseNode is a node that leads, with runs whose leases last until a test says otherwise.
type leaseNode struct {
	Reader
	Cluster
	mu      sync.Mutex
	runs    map[event.RunID]*event.Run
	locks   map[event.LockName]event.LeaseView
	keys    map[event.IdempotencyKey]event.Epoch
	changed map[event.RunID]chan struct{}
	asked   []event.Command
	err     error // of Propose and Renew
	left    time.Duration
}

func newLeaseNode() *leaseNode {
	return &leaseNode{
		runs: map[event.RunID]*event.Run{}, locks: map[event.LockName]event.LeaseView{}, left: 900 * time.Millisecond,
		keys: map[event.IdempotencyKey]event.Epoch{}, changed: map[event.RunID]chan struct{}{},
	}
}

// add makes an open run that h holds at epoch 1.
func (n *leaseNode) add(id event.RunID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs[id] = &event.Run{
		RunID: id, ThreadID: "t", Status: event.StatusRunning, Epoch: 1, Tail: 3, Open: &event.Open{Messages: []string{"m"}, ToolCalls: []string{}},
		Lease: &event.Lease{Holder: "h", LeaseMs: 1000, State: event.LeaseStateHeld},
	}
}

// change changes a run and wakes who watches it.
func (n *leaseNode) change(id event.RunID, f func(*event.Run)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n.runs[id])
	n.wake(id)
}

func (n *leaseNode) wake(id event.RunID) {
	if c := n.changed[id]; c != nil {
		close(c)
		delete(n.changed, id)
	}
}

func (n *leaseNode) Propose(_ context.Context, cmd event.Command) (event.Result, error) {
	cmd, err := event.DecodeCommand(event.AppendCommand(nil, cmd))
	if err != nil {
		return event.Result{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, cmd)
	if n.err != nil {
		return event.Result{}, n.err
	}
	res := n.apply(cmd)
	res.Index = uint64(len(n.asked))
	return res, nil
}

func refuseWith(r event.Refusal) event.Result { return event.Result{Refusal: r} }

func (n *leaseNode) apply(cmd event.Command) event.Result {
	switch c := cmd.(type) {
	case event.AcquireLease:
		return n.acquire(&c)
	case event.ReleaseLease:
		r, refusal := n.find(c.Run, &c.Epoch)
		if refusal != nil {
			return refuseWith(refusal)
		}
		r.Lease.State = event.LeaseStateReleased
		n.wake(c.Run)
		v := *r
		return event.Result{Run: &v}
	case event.CancelRun:
		r, refusal := n.find(c.Run, nil)
		if refusal != nil {
			return refuseWith(refusal)
		}
		r.CancelRequested = true
		v := *r
		return event.Result{Run: &v}
	case event.AcquireLock:
		if l, ok := n.locks[c.Name]; ok && l.Holder != c.Holder {
			return refuseWith(&event.LeaseHeld{Holder: l.Holder})
		}
		epoch := n.locks[c.Name].Epoch + 1
		n.locks[c.Name] = event.LeaseView{Run: event.RunID(c.Name), Lock: true, Epoch: epoch, Holder: c.Holder, LeaseMs: c.LeaseMs}
		return event.Result{LockEpoch: epoch}
	case event.ReleaseLock:
		if l, ok := n.locks[c.Name]; !ok || l.Epoch != c.Epoch {
			return refuseWith(&event.Fenced{Epoch: c.Epoch})
		}
		delete(n.locks, c.Name)
		n.wake("\x00" + event.RunID(c.Name))
		return event.Result{}
	case *event.Append:
		if _, refusal := n.find(c.Run, c.Epoch); refusal != nil {
			return refuseWith(refusal)
		}
		return event.Result{Appended: event.Appended{FirstOffset: 3, Tail: 4, CancelRequested: n.runs[c.Run].CancelRequested}}
	}
	panic("no rule")
}

func (n *leaseNode) find(id event.RunID, epoch *event.Epoch) (*event.Run, event.Refusal) {
	r := n.runs[id]
	switch {
	case r == nil:
		return nil, &event.RunNotFound{}
	case epoch != nil && *epoch != r.Epoch:
		return nil, &event.Fenced{Epoch: *epoch, CurrentEpoch: r.Epoch}
	case r.Ended:
		return nil, &event.RunEnded{TerminalOffset: r.Tail - 1}
	}
	return r, nil
}

func (n *leaseNode) acquire(c *event.AcquireLease) event.Result {
	r, refusal := n.find(c.Run, nil)
	switch {
	case refusal != nil:
		return refuseWith(refusal)
	case n.keys[c.Key] == r.Epoch:
	case c.IfEpoch != nil && *c.IfEpoch != r.Epoch:
		return refuseWith(&event.Fenced{Epoch: *c.IfEpoch, CurrentEpoch: r.Epoch})
	case r.Lease.State == event.LeaseStateHeld && r.Lease.Holder != c.Holder && !c.Steal:
		return refuseWith(&event.LeaseHeld{Holder: r.Lease.Holder})
	default:
		r.Epoch++
		r.Lease = &event.Lease{Holder: c.Holder, LeaseMs: c.LeaseMs, State: event.LeaseStateHeld}
		n.keys[c.Key] = r.Epoch
	}
	v := *r
	return event.Result{Run: &v}
}

func (n *leaseNode) ReadIndex(context.Context) error           { return nil }
func (n *leaseNode) WaitApplied(context.Context, uint64) error { return nil }

func (n *leaseNode) Run(_ context.Context, id event.RunID) (event.Run, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.runs[id]
	if r == nil {
		return event.Run{}, event.ErrRunNotFound
	}
	v := *r
	if v.Lease != nil {
		l := *v.Lease
		v.Lease = &l
	}
	return v, nil
}

func (n *leaseNode) Renew(_ context.Context, renewals []raftlog.Renewal) ([]raftlog.RenewResult, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return nil, n.err
	}
	results := make([]raftlog.RenewResult, len(renewals))
	for i, r := range renewals {
		ms := r.LeaseMs
		if ms == 0 {
			ms = 1000
		}
		if r.Lock {
			if l, ok := n.locks[event.LockName(r.Run)]; !ok || l.Epoch != r.Epoch {
				results[i].Refusal = &event.Fenced{Epoch: r.Epoch}
				continue
			}
			results[i].ExpiresInMs = ms
			continue
		}
		run, refusal := n.find(r.Run, &r.Epoch)
		if refusal != nil {
			results[i].Refusal = refusal
			continue
		}
		results[i] = raftlog.RenewResult{ExpiresInMs: ms, CancelRequested: run.CancelRequested}
	}
	return results, nil
}

func (n *leaseNode) LeaseRemaining(event.RunID) (time.Duration, bool) { return n.left, n.left > 0 }
func (n *leaseNode) LockRemaining(event.LockName) (time.Duration, bool) {
	return n.left, n.left > 0
}

func (n *leaseNode) HolderRuns(holder event.HolderID) (views []event.LeaseView, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id, r := range n.runs {
		if r.Lease.Holder == holder && r.Lease.State == event.LeaseStateHeld && !r.Ended {
			views = append(views, event.LeaseView{Run: id, Epoch: r.Epoch})
		}
	}
	return views, nil
}

func (n *leaseNode) Lock(name event.LockName) (event.LeaseView, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v, ok := n.locks[name]
	return v, ok
}

func (n *leaseNode) WatchLock(name event.LockName) Watch { return n.Watch("\x00" + event.RunID(name)) }

func (n *leaseNode) Watch(id event.RunID) Watch { return leaseWatch{n, id} }

type leaseWatch struct {
	n  *leaseNode
	id event.RunID
}

func (w leaseWatch) C() <-chan struct{} {
	w.n.mu.Lock()
	defer w.n.mu.Unlock()
	if w.n.changed[w.id] == nil {
		w.n.changed[w.id] = make(chan struct{})
	}
	return w.n.changed[w.id]
}

func (leaseWatch) Close() {}

// leasing is a gateway over a leaseNode.
type leasing struct {
	*leaseNode
	t testing.TB
	g *Gateway
}

func startLeasing(t testing.TB) *leasing {
	t.Helper()
	n := newLeaseNode()
	g, err := New(Config{Log: n, Reader: n, Cluster: n, Leases: n})
	if err != nil {
		t.Fatal(err)
	}
	n.add("r")
	return &leasing{n, t, g}
}

// want sends a request and checks its status and members of its answer ("name": JSON).
func (l *leasing) want(status int, method, path, body, headers string, members ...string) {
	l.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	l.g.ServeHTTP(w, r)
	if w.Code != status {
		l.t.Errorf("%s %s %s: %d %s, want %d", method, path, body, w.Code, w.Body, status)
		return
	}
	if status == http.StatusNoContent {
		return
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		l.t.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
	}
	for i := 0; i < len(members); i += 2 {
		if string(got[members[i]]) != members[i+1] {
			l.t.Errorf("%s %s %s: %s is %s, want %s", method, path, body, members[i], got[members[i]], members[i+1])
		}
	}
}
