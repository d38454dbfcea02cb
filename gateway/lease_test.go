package gateway

import (
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/raftlog"
)

const lease = "/v1/runs/r/lease"

func TestAcquire(t *testing.T) {
	t.Parallel()
	l := startLeasing(t)
	l.want(409, "POST", lease, `{"holder":"g"}`, "", "code", `"lease_held"`, "holder", `"h"`, "expiresInMs", "900")
	l.want(200, "POST", lease, `{"holder":"h","leaseMs":1000}`, "", "epoch", "2", "tail", "3", "expiresInMs", "900",
		"open", `{"messages":["m"],"toolCalls":[]}`)
	l.want(409, "POST", lease, `{"holder":"g","ifEpoch":1,"steal":true}`, "", "code", `"fenced"`, "currentEpoch", "2")
	for range 2 {
		l.want(200, "POST", lease, `{"holder":"g","ifEpoch":2,"steal":true}`, "Idempotency-Key: k", "epoch", "3")
	}
	l.want(404, "POST", "/v1/runs/x/lease", `{"holder":"g"}`, "", "code", `"run_not_found"`)
	l.left = 0
	l.want(200, "POST", lease, `{"holder":"g","leaseMs":5000}`, "", "expiresInMs", "5000")
	l.change("r", func(r *event.Run) { r.Ended = true })
	l.want(409, "POST", lease, `{"holder":"g"}`, "", "code", `"run_ended"`, "terminalOffset", "2")
	l.err = raftlog.ErrOutcomeUnknown
	l.want(504, "POST", lease, `{"holder":"g"}`, "", "code", `"outcome_unknown"`)
}

func TestLeaseInput(t *testing.T) {
	t.Parallel()
	l := startLeasing(t)
	for _, c := range [][4]string{
		{"POST", lease, `{}`, ""}, {"POST", lease, `{"holder":7}`, ""}, {"POST", lease, `{"holder":"."}`, ""},
		{"POST", lease, `{"holder":"h","leaseMs":999}`, ""}, {"POST", lease, `{"holder":"h","leaseMs":600001}`, ""},
		{"POST", lease, `{"holder":"h","waitMs":-1}`, ""}, {"POST", lease, `{"holder":"h","waitMs":60001}`, ""},
		{"POST", lease, `{"holder":"h","steal":true}`, ""}, {"POST", lease, `{"holder":"h","ifEpoch":"1"}`, ""},
		{"POST", lease, `[]`, ""}, {"POST", lease, `{"holder":"h"}`, "Idempotency-Key: ."},
		{"PUT", lease, `{}`, ""}, {"PUT", lease, `{"leaseMs":1}`, "Run-Epoch: 1"}, {"PUT", lease, `{}`, "Run-Epoch: x"},
		{"DELETE", lease, "", ""}, {"DELETE", lease + "?takeoverMs=86400001", "", "Run-Epoch: 1"}, {"DELETE", lease + "?takeoverMs=x", "", "Run-Epoch: 1"},
		{"PUT", "/v1/leases", `{"runs":[]}`, ""}, {"PUT", "/v1/leases", `{"holder":"h"}`, ""},
		{"PUT", "/v1/leases", `{"holder":"h","runs":[{"runId":"r"}]}`, ""}, {"PUT", "/v1/leases", `{"holder":"h","runs":[{"runId":"","epoch":1}]}`, ""},
		{"DELETE", "/v1/leases", `{}`, ""}, {"DELETE", "/v1/leases", `{"holder":"h","takeoverMs":1.5}`, ""},
		{"POST", "/v1/runs/r/cancel", `{"withinMs":600001}`, ""}, {"POST", "/v1/runs/r/cancel", `{"reason":1}`, ""},
		{"POST", "/v1/runs/r/cancel", `{"reason":"` + strings.Repeat("x", 1025) + `"}`, ""},
		{"POST", "/v1/locks/k", `{}`, ""}, {"PUT", "/v1/locks/k", `{}`, ""}, {"DELETE", "/v1/locks/k", "", ""},
		{"POST", "/v1/locks/%01", `{"holder":"h"}`, ""},
	} {
		l.want(400, c[0], c[1], c[2], c[3], "code", `"bad_request"`)
	}
	if len(l.asked) != 0 {
		t.Errorf("proposed %v", l.asked)
	}
}

func TestRenewAndRelease(t *testing.T) {
	t.Parallel()
	l := startLeasing(t)
	l.want(200, "PUT", lease, "", "Run-Epoch: 1", "epoch", "1", "expiresInMs", "1000", "cancelRequested", "false")
	l.want(200, "PUT", lease, `{"leaseMs":2000}`, "Run-Epoch: 1", "expiresInMs", "2000")
	l.want(409, "PUT", lease, `{}`, "Run-Epoch: 2", "code", `"fenced"`, "epoch", "2", "currentEpoch", "1")
	l.add("s")
	l.want(200, "PUT", "/v1/leases", `{"holder":"h","leaseMs":2000,"runs":[{"runId":"r","epoch":1},{"runId":"s","epoch":9},{"runId":"x","epoch":1}]}`, "",
		"runs", `[{"runId":"r","ok":true,"expiresInMs":2000},{"runId":"s","ok":false,"code":"fenced"},{"runId":"x","ok":false,"code":"run_not_found"}]`)
	l.want(200, "PUT", "/v1/leases", `{"holder":"h","runs":[]}`, "", "runs", "[]")
	l.want(409, "DELETE", lease, "", "Run-Epoch: 2", "code", `"fenced"`)
	l.want(204, "DELETE", lease+"?takeoverMs=0", "", "Run-Epoch: 1")
	if c := l.asked[len(l.asked)-1].(event.ReleaseLease); c.TakeoverMs == nil || *c.TakeoverMs != 0 {
		t.Errorf("%+v", c)
	}
	l.err = raftlog.ErrUnavailable
	l.want(503, "PUT", lease, "", "Run-Epoch: 1", "code", `"unavailable"`)
}

func TestReleaseAllOfAHolder(t *testing.T) {
	t.Parallel()
	l := startLeasing(t)
	l.add("s")
	l.add("theirs")
	l.change("theirs", func(r *event.Run) { r.Lease.Holder = "g" })
	w := httptest.NewRecorder()
	l.g.ServeHTTP(w, httptest.NewRequest("DELETE", "/v1/leases", strings.NewReader(`{"holder":"h","takeoverMs":7}`)))
	got := w.Body.String()
	if w.Code != 200 || strings.Count(got, `"runId"`) != 2 || strings.Count(got, `"state":"released"`) != 2 || strings.Contains(got, "theirs") ||
		strings.Contains(got, `"open"`) || w.Header().Get("Runlog-Token") == "" {
		t.Errorf("%d %s %v", w.Code, got, w.Header())
	}
	for _, c := range l.asked {
		if r := c.(event.ReleaseLease); r.TakeoverMs == nil || *r.TakeoverMs != 7 {
			t.Errorf("%+v", r)
		}
	}
	l.want(200, "DELETE", "/v1/leases", `{"holder":"h"}`, "", "runs", "[]")
	l.err = raftlog.ErrUnavailable
	l.want(503, "DELETE", "/v1/leases", `{"holder":"g"}`, "")
}

func TestWaitForALease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := startLeasing(t)
		l.want(409, "POST", lease, `{"holder":"g","waitMs":20}`, "", "code", `"lease_held"`)
		go l.want(200, "POST", lease, `{"holder":"g","waitMs":60000}`, "", "epoch", "2")
		synctest.Wait()
		for range 5 { // the holder writes: looked at, not proposed
			l.change("r", func(r *event.Run) { r.Tail++ })
			synctest.Wait()
		}
		if n := len(l.asked); n != 2 {
			t.Errorf("%d proposals while the lease is held", n)
		}
		l.change("r", func(r *event.Run) { r.Lease.State = event.LeaseStateLapsed })
		synctest.Wait()
		if n := len(l.asked); n != 3 || l.runs["r"].Lease.Holder != "g" {
			t.Errorf("%d proposals, %+v", n, l.runs["r"].Lease)
		}
		go l.want(409, "POST", lease, `{"holder":"h","waitMs":60000}`, "", "code", `"lease_held"`)
		synctest.Wait()
		l.g.Drain()
		synctest.Wait()
	})
}

func TestCancelAndWhatAppendsSay(t *testing.T) {
	t.Parallel()
	l := startLeasing(t)
	const events = "/v1/runs/r/events"
	l.want(200, "POST", events, `{"type":"CUSTOM","name":"n","value":1}`, "Run-Epoch: 1", "expiresInMs", "900", "cancelRequested", "")
	l.want(202, "POST", "/v1/runs/r/cancel", `{"reason":"stop","withinMs":5}`, "", "runId", `"r"`, "cancelRequested", "true")
	if c := l.asked[len(l.asked)-1].(event.CancelRun); c != (event.CancelRun{Run: "r", Reason: "stop", WithinMs: 5}) {
		t.Errorf("%+v", c)
	}
	l.want(200, "POST", events, `{"type":"CUSTOM","name":"n","value":1}`, "Run-Epoch: 1", "cancelRequested", "true")
	l.want(200, "PUT", lease, "", "Run-Epoch: 1", "cancelRequested", "true")
	l.want(202, "POST", "/v1/runs/r/cancel", "", "")
	if c := l.asked[len(l.asked)-1].(event.CancelRun); c.WithinMs != defaultWithinMs {
		t.Errorf("%+v", c)
	}
	l.left = 0
	l.want(200, "POST", events, `{"type":"CUSTOM","name":"n","value":1}`, "Run-Epoch: 1", "expiresInMs", "")
	l.change("r", func(r *event.Run) { r.Ended = true })
	l.want(409, "POST", "/v1/runs/r/cancel", "", "", "code", `"run_ended"`)
	l.want(404, "POST", "/v1/runs/x/cancel", "", "", "code", `"run_not_found"`)
}

func TestRunSaysWhatRemains(t *testing.T) {
	t.Parallel()
	l := startLeasing(t)
	l.want(200, "GET", "/v1/runs/r", "", "", "lease", `{"holder":"h","leaseMs":1000,"state":"held","expiresInMs":900}`)
	l.change("r", func(r *event.Run) { r.Lease.State = event.LeaseStateLapsed })
	l.want(200, "GET", "/v1/runs/r", "", "", "lease", `{"holder":"h","leaseMs":1000,"state":"lapsed"}`)
}

func TestLocks(t *testing.T) {
	t.Parallel()
	l := startLeasing(t)
	l.want(200, "POST", "/v1/locks/k", `{"holder":"h","leaseMs":1000}`, "", "epoch", "1", "expiresInMs", "900")
	l.want(409, "POST", "/v1/locks/k", `{"holder":"g"}`, "", "code", `"lease_held"`, "holder", `"h"`, "expiresInMs", "900")
	l.want(200, "PUT", "/v1/locks/k", `{}`, "Run-Epoch: 1", "epoch", "1", "expiresInMs", "1000", "cancelRequested", "")
	l.want(409, "PUT", "/v1/locks/k", `{}`, "Run-Epoch: 2", "code", `"fenced"`)
	l.want(409, "DELETE", "/v1/locks/k", "", "Run-Epoch: 2", "code", `"fenced"`)
	var done sync.WaitGroup
	done.Go(func() { l.want(200, "POST", "/v1/locks/k", `{"holder":"g","waitMs":60000}`, "", "epoch", "1") })
	l.want(204, "DELETE", "/v1/locks/k", "", "Run-Epoch: 1")
	done.Wait()
}

func TestWithoutLeasesTheirRoutesAreNotServed(t *testing.T) {
	t.Parallel()
	n := newLeaseNode()
	g, err := New(Config{Log: n, Reader: n, Cluster: n})
	if err != nil {
		t.Fatal(err)
	}
	l := &leasing{n, t, g}
	l.add("r")
	l.want(404, "PUT", "/v1/leases", `{"holder":"h","runs":[]}`, "", "code", `"not_found"`)
	l.want(200, "GET", "/v1/runs/r", "", "", "lease", `{"holder":"h","leaseMs":1000,"state":"held"}`)
}
