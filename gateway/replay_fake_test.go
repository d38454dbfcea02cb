package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/runlog/runlog/event"
)

// replayNode is a node with one run, r of thread t, whose appends a test can disturb.
type replayNode struct {
	Reader
	Cluster
	mu      sync.Mutex
	exists  bool
	epoch   event.Epoch
	records []event.Record
	walk    event.Progress
	used    map[event.IDHash]bool
	batches []int // events per accepted append
	sink    bool  // records keep no bytes
	// disturb, unless nil, decides an append's fate before it is applied: not at all with an error,
	// or applied and then answered with the error when apply is set.
	disturb func(n *replayNode, b *event.Batch) (apply bool, err error)
}

func (n *replayNode) Propose(_ context.Context, cmd event.Command) (event.Result, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := &cmd.(*event.Append).Batch
	if n.disturb != nil {
		apply, err := n.disturb(n, b)
		if err != nil {
			if apply {
				n.append(b)
			}
			return event.Result{}, err
		}
	}
	return n.append(b), nil
}

// append decides in the state machine's order.
func (n *replayNode) append(b *event.Batch) event.Result {
	tail := event.Offset(len(n.records))
	switch {
	case !n.exists && b.Events[0].Header.Type != event.TypeRunStarted:
		return event.Result{Refusal: &event.RunNotFound{}}
	case b.Epoch == nil && n.epoch > 0:
		return event.Result{Refusal: &event.EpochRequired{CurrentEpoch: n.epoch}}
	case b.Epoch != nil && *b.Epoch != n.epoch:
		return event.Result{Refusal: &event.Fenced{Epoch: *b.Epoch, CurrentEpoch: n.epoch}}
	case n.walk.Ended():
		return event.Result{Refusal: &event.RunEnded{TerminalOffset: tail - 1}}
	case b.Expect != nil && *b.Expect != tail:
		return event.Result{Refusal: &event.OffsetConflict{Expected: *b.Expect, Tail: tail}}
	}
	w := event.NewWalk(n.walk, event.Rules{Strict: true, Run: "r", Thread: "t", Used: func(h event.IDHash) bool { return n.used[h] }})
	for i := range b.Events {
		if reason := w.Take(&b.Events[i].Header); reason != "" {
			return event.Result{Refusal: &event.InvalidEvent{Index: i, Reason: reason}}
		}
	}
	n.exists, n.walk = true, w.Progress
	for _, h := range w.Added {
		n.used[h] = true
	}
	for _, e := range b.Events {
		rec := event.Record{Offset: event.Offset(len(n.records)), Epoch: n.epoch, Raw: e.Raw}
		if n.sink {
			rec.Raw = nil
		}
		n.records = append(n.records, rec)
	}
	n.batches = append(n.batches, len(b.Events))
	return event.Result{Appended: event.Appended{FirstOffset: tail, Tail: event.Offset(len(n.records))}, Index: uint64(len(n.batches))}
}

func (n *replayNode) ReadIndex(context.Context) error           { return nil }
func (n *replayNode) WaitApplied(context.Context, uint64) error { return nil }
func (n *replayNode) Ready() []Check                            { return nil }

func (n *replayNode) Run(context.Context, event.RunID) (event.Run, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.exists {
		return event.Run{}, event.ErrRunNotFound
	}
	run := event.Run{RunID: "r", ThreadID: "t", Epoch: n.epoch, Tail: event.Offset(len(n.records)), Status: event.StatusRunning}
	if n.walk.Ended() {
		run.Ended, run.Status = true, n.walk.End
		if strings.Contains(string(n.records[len(n.records)-1].Raw), event.CodeHostLost) {
			run.Status = event.StatusLost
		}
	}
	return run, nil
}

func (n *replayNode) Records(_ context.Context, _ event.RunID, from event.Offset, most, _ int) (event.Page, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	tail := event.Offset(len(n.records))
	switch {
	case !n.exists:
		return event.Page{}, event.ErrRunNotFound
	case from > tail:
		return event.Page{}, &event.OffsetOutOfRange{Offset: from, Tail: tail}
	}
	return event.Page{Records: n.records[from:min(tail, from+event.Offset(most))], Tail: tail}, nil
}

// log returns what is stored, one event a line.
func (n *replayNode) log() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var b strings.Builder
	for _, r := range n.records {
		b.Write(r.Raw)
		b.WriteByte('\n')
	}
	return b.String()
}

// replayTest is a gateway on a socket before a replayNode.
type replayTest struct {
	*testing.T
	node *replayNode
	gw   *Gateway
	url  string
	http *http.Client
}

// newReplayTest stores events, under epoch 3.
func newReplayTest(t *testing.T, stored ...string) *replayTest {
	t.Helper()
	n := &replayNode{epoch: 3, used: map[event.IDHash]bool{}}
	gw, err := New(Config{Log: n, Reader: n, Cluster: n})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(gw)
	srv.Config = NewServer(gw, nil)
	srv.Start()
	rt := &replayTest{t, n, gw, srv.URL, &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		gw.Drain()
		rt.http.CloseIdleConnections()
		srv.Close()
	})
	rt.store(stored...)
	return rt
}

func (t *replayTest) store(events ...string) {
	t.Helper()
	if len(events) == 0 {
		return
	}
	b := event.Batch{Epoch: &t.node.epoch}
	for _, raw := range events {
		e, err := event.ParseEvent([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		b.Events = append(b.Events, e)
	}
	if res := t.node.append(&b); res.Refusal != nil {
		t.Fatal(res.Refusal)
	}
	t.node.batches = nil
}

// open starts a request that reads body; headers alternate name and value.
func (t *replayTest) open(body io.Reader, headers ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "POST", t.url+"/v1/runs/r/replay", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Run-Epoch", "3")
	for i := 0; i+1 < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	resp, err := t.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// answer is what a test looks at of any answer.
type replayAnswered struct {
	Status int
	replayResult
	Code             string
	Offset           int
	Field            string
	Hint             string
	Index            int
	Stored, Replayed json.RawMessage
	Detail           string
	Through          *int
	Problem          json.RawMessage
}

// send replays a body and returns the answer.
func (t *replayTest) send(body string, headers ...string) replayAnswered {
	t.Helper()
	resp := t.open(strings.NewReader(body), headers...)
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var a replayAnswered
	if err := json.Unmarshal(b, &a); err != nil {
		t.Fatalf("%v: %d %s", err, resp.StatusCode, b)
	}
	a.Status = resp.StatusCode
	return a
}

// lines is an NDJSON answer under way.
type replayLines struct {
	t    *replayTest
	r    *bufio.Scanner
	resp *http.Response
}

func (t *replayTest) lines(body io.Reader) *replayLines {
	t.Helper()
	resp := t.open(body, "Accept", "application/x-ndjson")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("answered %s", resp.Status)
	}
	s := bufio.NewScanner(resp.Body)
	s.Buffer(nil, 4<<20)
	return &replayLines{t, s, resp}
}

// next returns the next line that says something; false at the end.
func (l *replayLines) next() (replayAnswered, bool) {
	l.t.Helper()
	for l.r.Scan() {
		if len(l.r.Bytes()) == 0 {
			continue
		}
		var a replayAnswered
		if err := json.Unmarshal(l.r.Bytes(), &a); err != nil {
			l.t.Fatalf("%v: %s", err, l.r.Bytes())
		}
		return a, true
	}
	if l.r.Err() != nil {
		l.t.Fatal(l.r.Err())
	}
	return replayAnswered{}, false
}

// until returns the first line that says that so many events are through.
func (l *replayLines) until(through int) replayAnswered {
	l.t.Helper()
	for {
		a, ok := l.next()
		if !ok || a.Through == nil {
			l.t.Fatalf("the answer ended before %d events were through: %+v, %s", through, a, a.Problem)
		}
		if *a.Through >= through {
			return a
		}
	}
}

// last returns the answer's last line.
func (l *replayLines) last() (a replayAnswered) {
	l.t.Helper()
	for next, ok := l.next(); ok; next, ok = l.next() {
		a = next
	}
	return a
}
