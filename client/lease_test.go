package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// script answers each request with the next of its answers, the last one for ever, and keeps what was asked.
type script struct {
	mu      sync.Mutex
	answers []http.HandlerFunc
	asked   []string
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.asked = append(s.asked, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Method, r.RequestURI, r.Header.Get("Run-Epoch"), body)))
	h := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	s.mu.Unlock()
	h(w, r)
}

func (s *script) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[len(s.asked)-1]
}

func heldBy(h string) http.HandlerFunc {
	return refuse(http.StatusConflict, event.CodeLeaseHeld, map[string]any{"holder": h})
}

var leaseGranted = reply(http.StatusOK, map[string]any{"epoch": 2, "tail": 5, "expiresInMs": 900, "open": map[string]any{"messages": []string{"m"}, "toolCalls": []string{}}})

func TestLeaseCalls(t *testing.T) {
	t.Parallel()
	window, one := int64(7), event.Epoch(1)
	fenced := refuse(http.StatusConflict, event.CodeFenced, map[string]any{"epoch": 1, "currentEpoch": 2})
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		call   func(context.Context, *client.Client) (any, error)
		asked  string
		want   string
		err    error
	}{
		"acquire": {leaseGranted, func(ctx context.Context, c *client.Client) (any, error) {
			return c.Acquire(ctx, "r/1", client.Acquisition{Holder: "h", LeaseMs: 900, IfEpoch: &one, Steal: true})
		}, `POST /v1/runs/r%2F1/lease  {"holder":"h","leaseMs":900,"ifEpoch":1,"steal":true}`, "{Epoch:2 ExpiresInMs:900 Tail:5", nil},
		"acquire, held": {heldBy("g"), func(ctx context.Context, c *client.Client) (any, error) {
			return c.Acquire(ctx, "r", client.Acquisition{Holder: "h"})
		}, `POST /v1/runs/r/lease  {"holder":"h"}`, "", event.ErrLeaseHeld},
		"renew": {reply(200, map[string]any{"epoch": 1, "expiresInMs": 5, "cancelRequested": true}), func(ctx context.Context, c *client.Client) (any, error) {
			return c.Renew(ctx, "r", 1, 0)
		}, `PUT /v1/runs/r/lease 1 {}`, "{Epoch:1 ExpiresInMs:5 Tail:0 Open:<nil> CancelRequested:true}", nil},
		"renew, fenced": {fenced, func(ctx context.Context, c *client.Client) (any, error) { return c.Renew(ctx, "r", 1, 2000) },
			`PUT /v1/runs/r/lease 1 {"leaseMs":2000}`, "", event.ErrFenced},
		"release": {reply(204, nil), func(ctx context.Context, c *client.Client) (any, error) {
			return nil, c.Release(ctx, "r", 3, &window)
		}, `DELETE /v1/runs/r/lease?takeoverMs=7 3`, "<nil>", nil},
		"release, fenced": {fenced, func(ctx context.Context, c *client.Client) (any, error) { return nil, c.Release(ctx, "r", 1, nil) },
			`DELETE /v1/runs/r/lease 1`, "", event.ErrFenced},
		"renew all": {reply(200, map[string]any{"runs": []map[string]any{{"runId": "a", "ok": true, "expiresInMs": 9}, {"runId": "b", "ok": false, "code": "fenced"}}}),
			func(ctx context.Context, c *client.Client) (any, error) {
				return c.RenewAll(ctx, "h", 2000, []client.Held{{RunID: "a", Epoch: 1}, {RunID: "b", Epoch: 2}})
			}, `PUT /v1/leases  {"holder":"h","leaseMs":2000,"runs":[{"runId":"a","epoch":1},{"runId":"b","epoch":2}]}`,
			"[{RunID:a OK:true Code: ExpiresInMs:9 CancelRequested:false} {RunID:b OK:false Code:fenced ExpiresInMs:0 CancelRequested:false}]", nil},
		"renew none": {reply(200, map[string]any{"runs": []any{}}), func(ctx context.Context, c *client.Client) (any, error) {
			return c.RenewAll(ctx, "h", 0, nil)
		}, `PUT /v1/leases  {"holder":"h","runs":[]}`, "[]", nil},
		"release all": {reply(200, map[string]any{"runs": []map[string]any{{"runId": "a"}}}), func(ctx context.Context, c *client.Client) (any, error) {
			runs, err := c.ReleaseAll(ctx, "h", &window)
			return len(runs), err
		}, `DELETE /v1/leases  {"holder":"h","takeoverMs":7}`, "1", nil},
		"cancel": {reply(202, map[string]any{"runId": "r", "cancelRequested": true}), func(ctx context.Context, c *client.Client) (any, error) {
			run, err := c.Cancel(ctx, "r", "stop", 2*time.Second)
			return run.CancelRequested, err
		}, `POST /v1/runs/r/cancel  {"reason":"stop","withinMs":2000}`, "true", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{answers: []http.HandlerFunc{hangUp, c.answer}}
			got, err := c.call(t.Context(), newClient(t, deadServer(t), serve(t, s.ServeHTTP)))
			if !errors.Is(err, c.err) || (c.err == nil && err != nil) {
				t.Fatal(err)
			}
			if text := fmt.Sprintf("%+v", got); c.err == nil && !strings.HasPrefix(text, c.want) {
				t.Errorf("got %s, want %s", text, c.want)
			}
			if len(s.asked) != 2 || s.asked[0] != s.asked[1] || s.last() != c.asked {
				t.Errorf("asked %q, want %q twice", s.asked, c.asked)
			}
		})
	}
}

func TestAcquireWaits(t *testing.T) {
	t.Parallel()
	s := &script{answers: []http.HandlerFunc{heldBy("g"), heldBy("g"), leaseGranted}}
	c := newClient(t, serve(t, s.ServeHTTP))
	got, err := c.Acquire(t.Context(), "r", client.Acquisition{Holder: "h", Wait: time.Minute})
	if err != nil || got.Epoch != 2 || len(s.asked) != 3 || !strings.Contains(s.asked[0], `"waitMs":500`) {
		t.Errorf("%+v, %v, asked %q", got, err, s.asked)
	}
}

var lockGranted = reply(http.StatusOK, map[string]any{"epoch": 4, "expiresInMs": 60})

func TestLockIsRenewedAndGivenUp(t *testing.T) {
	t.Parallel()
	renewals := make(chan struct{}, 100)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			renewals <- struct{}{}
		}
		lockGranted(w, r)
	})
	c := newClient(t, deadServer(t), s)
	l, err := c.Lock(t.Context(), "k", client.Acquisition{Holder: "h", LeaseMs: 60_000})
	if err != nil || l.Epoch() != 4 {
		t.Fatal(l, err)
	}
	if err := l.Unlock(t.Context()); err != nil || !errors.Is(context.Cause(l.Context()), context.Canceled) {
		t.Error(err, context.Cause(l.Context()))
	}
	if l, err = c.Lock(t.Context(), "k", client.Acquisition{Holder: "h"}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		<-renewals
	}
	if l.Context().Err() != nil {
		t.Error(context.Cause(l.Context()))
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLostLockEndsItsContext(t *testing.T) {
	t.Parallel()
	fenced := refuse(http.StatusConflict, event.CodeFenced, map[string]any{"epoch": 4, "currentEpoch": 5})
	for name, c := range map[string]struct {
		then http.HandlerFunc
		why  error
	}{
		"fenced":      {fenced, event.ErrFenced},
		"unavailable": {refuse(http.StatusServiceUnavailable, "unavailable", nil), client.ErrLockLapsed},
		"hangs up":    {hangUp, client.ErrLockLapsed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &script{answers: []http.HandlerFunc{lockGranted, c.then}}
			cl := newClient(t, serve(t, s.ServeHTTP))
			l, err := cl.Lock(t.Context(), "k", client.Acquisition{Holder: "h"})
			if err != nil {
				t.Fatal(err)
			}
			<-l.Context().Done()
			if err := context.Cause(l.Context()); !errors.Is(err, c.why) {
				t.Error(err)
			}
			if err := l.Unlock(t.Context()); name == "fenced" && err != nil {
				t.Errorf("giving up a lost lock: %v", err)
			}
		})
	}
	_, err := newClient(t, serve(t, heldBy("g"))).Lock(t.Context(), "k", client.Acquisition{Holder: "h"})
	if !errors.Is(err, event.ErrLeaseHeld) {
		t.Error(err)
	}
}

// A host that runs many agents renews them all in one request.
func ExampleClient_RenewAll() {
	c, stop := cluster(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"runs":[{"runId":"run-1","ok":true,"expiresInMs":15000},{"runId":"run-2","ok":false,"code":"fenced"}]}`)
	})
	defer stop()

	runs, err := c.RenewAll(context.Background(), "host-7", 15_000, []client.Held{{RunID: "run-1", Epoch: 1}, {RunID: "run-2", Epoch: 3}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range runs {
		if r.OK {
			r.Code = "renewed"
		}
		fmt.Printf("%s: %s\n", r.RunID, r.Code)
	}
	// Output:
	// run-1: renewed
	// run-2: fenced
}

// A host that is told to stop gives its runs up, so that others may take them over at once.
func ExampleClient_ReleaseAll() {
	c, stop := cluster(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"runs":[{"runId":"run-1","lease":{"holder":"host-7","leaseMs":15000,"state":"released"}}]}`)
	})
	defer stop()

	runs, err := c.ReleaseAll(context.Background(), "host-7", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range runs {
		fmt.Println(r.RunID, r.Lease.State)
	}
	// Output: run-1 released
}

// Of many schedulers one does the work, and its writes carry a token that grows.
func ExampleClient_Lock() {
	c, stop := cluster(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		io.WriteString(w, `{"epoch":12,"expiresInMs":15000}`)
	})
	defer stop()

	lock, err := c.Lock(context.Background(), "scheduler", client.Acquisition{Holder: "host-7", Wait: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lock.Unlock(context.Background())
	fmt.Println("working with token", lock.Epoch(), lock.Context().Err())
	// Output: working with token 12 <nil>
}
