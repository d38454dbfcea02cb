package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// fleet is a server that grants every run and renews it, until it is told that a run is lost.
type fleet struct {
	mu      sync.Mutex
	lost    map[event.RunID]bool
	largest int                 // runs in one request
	renewed map[event.RunID]int // together with others
	asked   chan struct{}       // holds a token after a renewal
}

func newFleet() *fleet {
	return &fleet{lost: map[event.RunID]bool{}, renewed: map[event.RunID]int{}, asked: make(chan struct{}, 1)}
}

func (f *fleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch kind := r.Method + " " + r.URL.Path; {
	case kind == "POST /v1/runs":
		var n client.NewRun
		json.NewDecoder(r.Body).Decode(&n)
		reply(http.StatusCreated, map[string]any{"runId": n.RunID, "threadId": "t", "epoch": 1,
			"lease": map[string]any{"holder": n.Holder, "leaseMs": n.LeaseMs, "state": "held"}})(w, r)
	case kind == "PUT /v1/leases":
		f.renewAll(w, r)
	case f.lost[event.RunID(strings.Split(r.URL.Path, "/")[3])]:
		refuse(http.StatusConflict, "fenced", map[string]any{"epoch": 1, "currentEpoch": 7})(w, r)
	default:
		reply(http.StatusOK, map[string]any{"epoch": 1, "expiresInMs": 300})(w, r)
	}
}

func (f *fleet) renewAll(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Runs []client.Held }
	json.NewDecoder(r.Body).Decode(&asked)
	answer := []client.Renewed{}
	for _, h := range asked.Runs {
		a := client.Renewed{RunID: h.RunID, OK: !f.lost[h.RunID]}
		if !a.OK {
			a.Code = "fenced"
		}
		answer = append(answer, a)
		f.renewed[h.RunID]++
	}
	f.largest = max(f.largest, len(asked.Runs))
	select {
	case f.asked <- struct{}{}:
	default:
	}
	reply(http.StatusOK, map[string]any{"runs": answer})(w, r)
}

// until waits for renewals until the fleet is as asked for.
func (f *fleet) until(t *testing.T, is func() bool) {
	t.Helper()
	for {
		f.mu.Lock()
		done := is()
		f.mu.Unlock()
		if done {
			return
		}
		select {
		case <-f.asked:
		case <-t.Context().Done():
			t.Fatal("it does not come to that")
		}
	}
}

// TestHandlesAreRenewedTogether: a holder's handles share their requests, which stay below a size;
// one that is lost is told of all that belongs to it, and the others go on; and nothing is left
// running after the last one.
func TestHandlesAreRenewedTogether(t *testing.T) {
	t.Parallel()
	const n = 600
	f := newFleet()
	c := newClient(t, serve(t, f.ServeHTTP))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	handles := make([]*client.Handle, n)
	for i := range handles {
		of := ctx
		if i < n/2 {
			of = t.Context()
		}
		var err error
		handles[i], err = c.Start(of, client.NewRun{RunID: event.RunID(fmt.Sprintf("r%d", i)), Holder: "h", LeaseMs: 1500})
		if err != nil {
			t.Fatal(err)
		}
	}
	all := func(from, to, times int) func() bool {
		return func() bool {
			for _, h := range handles[from:to] {
				if f.renewed[h.Run().RunID] < times {
					return false
				}
			}
			return true
		}
	}
	f.until(t, all(0, n, 2))
	f.mu.Lock()
	if f.largest <= 1 || f.largest > 500 {
		t.Errorf("%d runs in a request", f.largest)
	}
	f.lost["r7"] = true
	f.mu.Unlock()
	<-handles[7].Context().Done()
	var fenced *event.Fenced
	if why := context.Cause(handles[7].Context()); !errors.As(why, &fenced) || fenced.CurrentEpoch != 7 {
		t.Errorf("the lost one: %v", why)
	}
	cancel() // half of them leave by their context
	f.mu.Lock()
	clear(f.renewed)
	f.mu.Unlock()
	handles[7].Close() // one that left may still be told to
	f.until(t, func() bool { return all(0, 7, 2)() && all(8, n/2, 2)() })
	for i, h := range handles {
		if i < n/2 && i != 7 && h.Context().Err() != nil {
			t.Fatalf("%s: %v", h.Run().RunID, context.Cause(h.Context()))
		}
		h.Close()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.renewed["r7"] > 1 || f.renewed[handles[n-1].Run().RunID] > 1 {
		t.Error("handles that have left are renewed")
	}
}

// TestHoldersAreRenewedApart: what one holder has is not renewed in another's name.
func TestHoldersAreRenewedApart(t *testing.T) {
	t.Parallel()
	f := newFleet()
	holders := map[string][]event.RunID{}
	c := newClient(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/leases" {
			var asked struct {
				Holder string
				Runs   []client.Held
			}
			body := http.MaxBytesReader(w, r.Body, 1<<20)
			json.NewDecoder(body).Decode(&asked)
			f.mu.Lock()
			for _, h := range asked.Runs {
				holders[asked.Holder] = append(holders[asked.Holder], h.RunID)
				f.renewed[h.RunID]++
			}
			f.mu.Unlock()
			w.WriteHeader(http.StatusServiceUnavailable) // and a failure ends nothing
			select {
			case f.asked <- struct{}{}:
			default:
			}
			return
		}
		f.ServeHTTP(w, r)
	}))
	for _, id := range []event.RunID{"a1", "a2", "b1", "b2"} {
		h, err := c.Start(t.Context(), client.NewRun{RunID: id, Holder: event.HolderID(id[:1]), LeaseMs: 300})
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
	}
	f.until(t, func() bool {
		return f.renewed["a1"] > 2 && f.renewed["a2"] > 2 && f.renewed["b1"] > 2 && f.renewed["b2"] > 2
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	for holder, runs := range holders {
		for _, r := range runs {
			if string(r[:1]) != holder {
				t.Errorf("%s renewed %s", holder, r)
			}
		}
	}
}
