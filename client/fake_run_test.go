package client_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// fakeRun is a server that holds one leased run and writes down what it is asked. A fault, while
// set, answers instead of it.
type fakeRun struct {
	mu       sync.Mutex
	asked    []string // "POST /events 1/0 [bodies]"
	appends  int
	tail     int
	epoch    int
	cancel   bool
	faults   map[string]http.HandlerFunc // by method and last element of the path
	answered chan string                 // receives what asked does
}

func newFakeRun() *fakeRun {
	return &fakeRun{epoch: 1, tail: 1, faults: map[string]http.HandlerFunc{}, answered: make(chan string, 1000)}
}

// fault sets the answer to a kind of request; nil: the usual one.
func (f *fakeRun) fault(kind string, h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[kind] = h
}

func (f *fakeRun) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := r.Method + " " + r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	f.mu.Lock()
	fault := f.faults[kind]
	f.mu.Unlock()
	if kind == "POST replay" {
		if fault == nil {
			fault = f.replay
		}
		fault(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	line := fmt.Sprintf("%s %s/%s %s", kind, r.Header.Get("Run-Epoch"), r.Header.Get("Producer-Seq"), body)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, line)
	defer func() { f.answered <- line }()
	if fault != nil {
		fault(w, r)
		return
	}
	f.answer(w, r, kind, body)
}

func (f *fakeRun) answer(w http.ResponseWriter, r *http.Request, kind string, body []byte) {
	lease := map[string]any{"holder": "h1", "leaseMs": 300, "state": "held"}
	run := map[string]any{"runId": "r", "threadId": "t", "status": "running", "epoch": f.epoch, "tail": f.tail, "lease": lease,
		"open": map[string]any{"messages": []string{}, "toolCalls": []string{"c1"}}}
	switch kind {
	case "POST runs":
		run["created"] = true
		reply(http.StatusCreated, run)(w, r)
	case "GET r":
		reply(http.StatusOK, run)(w, r)
	case "POST lease":
		f.epoch++
		run["epoch"], run["expiresInMs"] = f.epoch, 300
		reply(http.StatusOK, run)(w, r)
	case "PUT lease":
		reply(http.StatusOK, map[string]any{"epoch": f.epoch, "expiresInMs": 300, "cancelRequested": f.cancel})(w, r)
	case "DELETE lease":
		w.WriteHeader(http.StatusNoContent)
	case "POST events":
		var events []json.RawMessage
		if err := json.Unmarshal(body, &events); err != nil {
			panic(err)
		}
		f.appends++
		f.tail += len(events)
		reply(http.StatusOK, map[string]any{"firstOffset": f.tail - len(events), "tail": f.tail, "cancelRequested": f.cancel})(w, r)
	default:
		panic(kind)
	}
}

// replay takes a whole stream, saying of each event that it is durable.
func (f *fakeRun) replay(w http.ResponseWriter, r *http.Request) {
	n := f.confirm(w, r, -1)
	fmt.Fprintf(w, `{"matched":%d,"skipped":1,"appended":2,"tail":%d}`+"\n", n-2, n)
}

// confirm reads up to limit events of a replay, all when negative, and says of each that it is durable.
func (f *fakeRun) confirm(w http.ResponseWriter, r *http.Request, limit int) int {
	c := http.NewResponseController(w)
	if err := c.EnableFullDuplex(); err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	c.Flush()
	lines := bufio.NewScanner(r.Body)
	n := 0
	for n != limit && lines.Scan() {
		n++
		f.answered <- "replay " + r.Header.Get("Run-Epoch") + " " + lines.Text()
		fmt.Fprintf(w, `{"through":%d,"appended":0,"tail":%d}`+"\n", n, n)
		c.Flush()
	}
	io.Copy(io.Discard, r.Body)
	return n
}

// writes returns the appends asked for so far.
func (f *fakeRun) writes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, a := range f.asked {
		if s, ok := strings.CutPrefix(a, "POST events "); ok {
			list = append(list, s)
		}
	}
	return list
}

// await waits until the server was asked for something that begins so.
func (f *fakeRun) await(t *testing.T, prefix string) string {
	t.Helper()
	for {
		select {
		case s := <-f.answered:
			if strings.HasPrefix(s, prefix) {
				return s
			}
		case <-t.Context().Done():
			t.Fatalf("the server is not asked for %q", prefix)
		}
	}
}

// text is an event of that text.
func text(s string) event.Event {
	return event.Event{Raw: fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":%q}`, s)}
}

// start returns a handle on f's run, through the servers in order.
func start(t *testing.T, servers ...string) *client.Handle {
	t.Helper()
	h, err := newClient(t, servers...).Start(t.Context(), client.NewRun{RunID: "r", ThreadID: "t", Holder: "h1", LeaseMs: 300})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}
