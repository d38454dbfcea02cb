package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// settles is how soon a call has its result or a named error, whatever is down.
const settles = 5 * time.Second

// TestR1 is one story in phases, each reported by its name (go test -v): a handle, made once, outlives the
// restart of a node, of the leader and of all nodes. It ends by itself: a phase that fails keeps the next
// ones from running, and none waits without a bound (R1_9).
func TestR1(t *testing.T) {
	c := Start(t)
	http.DefaultClient.CloseIdleConnections()
	before := runtime.NumGoroutine()
	web := &http.Client{Transport: &http.Transport{}}
	cl, err := client.New(client.Config{Servers: c.URLs(), HTTPClient: web})
	if err != nil {
		t.Fatal(err)
	}
	h, err := cl.Start(t.Context(), client.NewRun{RunID: "r", ThreadID: "t", Holder: "h", LeaseMs: 60_000})
	if err != nil {
		t.Fatal(err)
	}
	s := &restarts{c: c, web: web, cl: cl, h: h}
	for _, phase := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"R1_1 the handle works", s.write},
		{"R1_2 a node is restarted", func(t *testing.T) { s.restart(t, (s.leader(t)+1)%3) }},
		{"R1_2 the leader is restarted", func(t *testing.T) { s.restart(t, s.leader(t)) }},
		{"R1_2 R1_5 R1_6 all nodes are restarted", s.restartAll},
		{"R1_3 nothing succeeds on a dead binding", s.superseded},
		{"R1_4 everything is there, in pages", s.readBack},
		{"R1_7 a fresh run begins with the transcript", s.rehydrate},
		{"R1_5 nothing is left behind", func(t *testing.T) { s.leftOver(t, before) }},
	} {
		if !t.Run(phase.name, phase.run) {
			t.Fatalf("stopped after the phase %q", phase.name)
		}
	}
}

// restarts is what the phases share.
type restarts struct {
	c       *Cluster
	web     *http.Client
	cl      *client.Client
	h       *client.Handle
	written []string
}

// settle makes a call, which must not take longer than it may.
func settle(t *testing.T, what string, call func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settles)
	defer cancel()
	err := call(ctx)
	if ctx.Err() != nil {
		t.Fatalf("%s has not settled after %v: %v", what, settles, err)
	}
	return err
}

func (s *restarts) append(t *testing.T) error {
	raw := fmt.Sprintf(`{"type":"CUSTOM","name":"n","value":%d}`, len(s.written))
	err := settle(t, "an append", func(ctx context.Context) error {
		_, err := s.h.Append(ctx, event.Event{Raw: []byte(raw)})
		return err
	})
	if err == nil || errors.Is(err, client.ErrOutcomeUnknown) { // which the handle settles
		s.written = append(s.written, raw)
	}
	return err
}

func (s *restarts) write(t *testing.T) {
	if err := s.append(t); err != nil {
		t.Fatal(err)
	}
}

func (s *restarts) leader(t *testing.T) int {
	t.Helper()
	for range 100 {
		cluster, err := s.cl.Cluster(t.Context())
		if err == nil {
			for i := range 3 {
				if cluster.Leader == fmt.Sprintf("n%d", i+1) {
					return i
				}
			}
		}
		time.Sleep(50 * time.Millisecond) // poll
	}
	t.Fatal("no leader")
	return 0
}

func (s *restarts) restart(t *testing.T, i int) {
	s.c.Kill(i)
	s.write(t) // over the others
	s.c.Run(i)
	s.c.WaitReady(i)
	s.write(t)
}

// restartAll: without any node an append settles with an error that says what is known; after the restart the
// same handle, whose connections are all dead, works.
func (s *restarts) restartAll(t *testing.T) {
	for i := range 3 {
		s.c.Kill(i)
	}
	if err := s.append(t); !errors.Is(err, client.ErrUnavailable) && !errors.Is(err, client.ErrOutcomeUnknown) {
		t.Fatalf("without any node: %v", err)
	}
	for i := range 3 {
		s.c.Run(i)
	}
	for i := range 3 {
		s.c.WaitReady(i)
	}
	s.write(t)
}

// superseded: a second host takes over and can write at once; the first one can not, and knows.
func (s *restarts) superseded(t *testing.T) {
	old := s.h
	epoch := old.Epoch()
	err := settle(t, "a takeover", func(ctx context.Context) (err error) {
		s.h, err = s.cl.Takeover(context.WithoutCancel(ctx), "r", client.Takeover{Holder: "h2", LeaseMs: 60_000, Steal: &epoch})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.write(t)
	err = settle(t, "an append", func(ctx context.Context) error {
		_, err := old.Append(ctx, event.Event{Raw: []byte(`{"type":"CUSTOM","name":"zombie","value":1}`)})
		return err
	})
	if !errors.Is(err, event.ErrFenced) || !errors.Is(context.Cause(old.Context()), event.ErrFenced) {
		t.Errorf("the superseded handle: %v; its context: %v", err, context.Cause(old.Context()))
	}
	old.Close()
}

func (s *restarts) readBack(t *testing.T) {
	for _, url := range s.c.URLs() {
		one, err := client.New(client.Config{Servers: []string{url}, HTTPClient: s.web})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for page := (event.Page{}); !page.Ended; {
			page, err = one.Events(t.Context(), "r", client.EventsQuery{From: event.Offset(len(got)), Limit: 3, Read: client.Read{Linearizable: true}})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Records) == 0 {
				break
			}
			for _, r := range page.Records {
				got = append(got, string(r.Raw))
			}
		}
		if strings.Join(got[1:], "\n") != strings.Join(s.written, "\n") { // RUN_STARTED is the first
			t.Errorf("%s has\n%s\nwritten were\n%s", url, strings.Join(got[1:], "\n"), strings.Join(s.written, "\n"))
		}
	}
}

// rehydrate: what a run says is the next one's history.
func (s *restarts) rehydrate(t *testing.T) {
	say := func(h *client.Handle, events ...string) {
		t.Helper()
		for _, raw := range events {
			if _, err := h.Append(t.Context(), event.Event{Raw: []byte(raw)}); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
		}
		if _, err := h.Finish(t.Context(), client.Finished{}); err != nil {
			t.Fatal(err)
		}
		h.Close()
	}
	say(s.h, `{"type":"TEXT_MESSAGE_START","messageId":"m","role":"assistant"}`, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"hello"}`,
		`{"type":"TEXT_MESSAGE_END","messageId":"m"}`)
	was, err := s.cl.Transcript(t.Context(), "r", client.View{Read: client.Read{Linearizable: true}})
	if err != nil || len(was.Messages) == 0 {
		t.Fatalf("%d messages, %v", len(was.Messages), err)
	}
	var messages []string
	for _, m := range was.Messages {
		messages = append(messages, string(m.Raw))
	}
	no := false
	h, err := s.cl.Start(t.Context(), client.NewRun{RunID: "r2", ThreadID: "t", Holder: "h", Started: &no})
	if err != nil {
		t.Fatal(err)
	}
	say(h, `{"type":"RUN_STARTED","threadId":"t","runId":"r2","input":{"messages":[`+strings.Join(messages, ",")+`]}}`)
	is, err := s.cl.Transcript(t.Context(), "r2", client.View{Read: client.Read{Linearizable: true}})
	if err != nil || fmt.Sprint(is.Messages) != fmt.Sprint(was.Messages) {
		t.Errorf("the fresh run's transcript is %v, the old one's %v, error %v", is.Messages, was.Messages, err)
	}
}

// leftOver: the handles and calls left no goroutine.
func (s *restarts) leftOver(t *testing.T, before int) {
	s.h.Close()
	s.web.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections() // of the waiting for nodes
	for range 100 {
		if runtime.NumGoroutine() <= before+1 { // this phase's own
			return
		}
		time.Sleep(50 * time.Millisecond) // poll
	}
	buf := make([]byte, 1<<20)
	t.Errorf("%d goroutines, %d at first:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
}
