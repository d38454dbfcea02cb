package proptest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/runlog/runlog/client"
	"github.com/runlog/runlog/event"
)

// host is a process with connections of its own.
type host struct {
	*client.Client
	urls      []string
	transport *http.Transport
	life      context.Context // ends with the process
	end       context.CancelFunc

	mu    sync.Mutex
	awake chan struct{} // closed unless paused
	conns []net.Conn
	next  struct { // of the next request that it sends
		part float64 // how much of it leaves
		then func()  // what happens to the host at that moment; nil: nothing
	}
}

var errDead = errors.New("the host is dead")

func (s *story) host() *host {
	h := &host{urls: s.c.URLs(), awake: make(chan struct{})}
	h.life, h.end = context.WithCancel(context.Background())
	close(h.awake)
	h.transport = &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := s.c.Dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.life.Err() != nil {
			c.Close()
			return nil, errDead
		}
		h.conns = append(h.conns, c)
		return &hostConn{c, h}, nil
	}}
	cl, err := client.New(client.Config{Servers: h.urls, HTTPClient: &http.Client{Transport: h}, RetryFor: time.Minute})
	if err != nil {
		panic(err)
	}
	h.Client = cl
	return h
}

// hostConn lets something happen to its host in the middle of a request.
type hostConn struct {
	net.Conn
	h *host
}

// Write sends what the host still sends.
func (c *hostConn) Write(p []byte) (int, error) {
	c.h.mu.Lock()
	next := c.h.next
	c.h.next.then = nil
	c.h.mu.Unlock()
	if next.then == nil {
		return c.Conn.Write(p)
	}
	_, err := c.Conn.Write(p[:int(float64(len(p))*next.part)])
	next.then()
	return len(p), err
}

// RoundTrip holds a paused host's requests, and the answers to them, back until it wakes, and loses
// a dead one's.
func (h *host) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := h.running(r.Context()); err != nil {
		return nil, err
	}
	resp, err := h.transport.RoundTrip(r)
	if gone := h.running(r.Context()); gone != nil && err == nil {
		resp.Body.Close()
		return nil, gone
	}
	return resp, err
}

func (h *host) running(ctx context.Context) error {
	h.mu.Lock()
	awake := h.awake
	h.mu.Unlock()
	select {
	case <-awake:
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.life.Err() != nil {
		return errDead
	}
	return nil
}

func (h *host) pause() (wake func()) {
	gate := make(chan struct{})
	h.mu.Lock()
	h.awake = gate
	h.mu.Unlock()
	return sync.OnceFunc(func() { close(gate) })
}

// die breaks all connections, with whatever is under way on them.
func (h *host) die() {
	h.end()
	h.mu.Lock()
	conns := h.conns
	h.conns = nil
	h.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
	h.transport.CloseIdleConnections()
}

// in lets something happen when a part of the next request has left.
func (h *host) in(part float64, then func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next.part, h.next.then = part, then
}

// Ways to go.

// departure is what became of a host. wake lets it try again; it must find itself fenced.
type departure struct {
	steal bool // it works on, and is robbed
	at    time.Time
	wake  func()
}

// away lets a host die, pause, give up or be robbed, at times with a write under way; the log ends
// at pos, if that is known.
func (s *story) away(p *host, h *client.Handle, pos int, abandoned bool) departure {
	if s.open != nil {
		return s.awayReplaying(p, h)
	}
	kind := s.rnd.IntN(6)
	if abandoned {
		kind = s.rnd.IntN(4)
	}
	if kind > 1 && kind < 4 && (pos < 0 || pos >= len(s.run)) {
		kind -= 2
	}
	now := time.Now()
	switch kind {
	case 0:
		p.die()
		return departure{at: now, wake: func() {}}
	case 1:
		resume := p.pause()
		return departure{at: now, wake: func() { resume(); s.zombie(p, h) }}
	case 2, 3:
		return s.awayWriting(p, h, pos, kind == 2)
	case 4:
		if err := h.Release(context.Background(), ptr[int64](60_000)); err != nil {
			s.t.Errorf("%s: release: %v", s.id, err)
		}
		return departure{at: now.Add(-takeoverLease), wake: func() { s.zombie(p, h) }}
	}
	return departure{at: now.Add(-takeoverLease), steal: true, wake: func() { s.zombie(p, h) }}
}

// awayWriting lets a host die or pause with an append under way: before it left, in the middle of it,
// or before its answer came.
func (s *story) awayWriting(p *host, h *client.Handle, pos int, dies bool) departure {
	takeovers.writing.Add(1)
	gone := make(chan time.Time, 1)
	resume := func() {}
	p.in([]float64{0, 0.5, 1, 1}[s.rnd.IntN(4)], func() {
		if dies {
			p.die()
		} else {
			resume = p.pause()
		}
		gone <- time.Now()
	})
	n := min(len(s.run)-pos, 1+s.rnd.IntN(3))
	done := make(chan error, 1)
	go func() {
		_, err := h.Append(p.life, s.run[pos:pos+n]...)
		done <- err
	}()
	at := <-gone
	if dies {
		<-done // whatever it is, nobody hears it
		return departure{at: at, wake: func() {}}
	}
	return departure{at: at, wake: func() {
		resume()
		err := <-done
		if err != nil && !errors.Is(err, client.ErrOutcomeUnknown) && !errors.Is(err, client.ErrUnavailable) && !lost(err) {
			s.t.Errorf("%s: what a host was writing when it paused: %v", s.id, err)
		}
		s.zombie(p, h)
	}}
}

// awayReplaying lets a host die, pause or be robbed while its replay is open.
func (s *story) awayReplaying(p *host, h *client.Handle) departure {
	o := s.open
	s.open = nil
	now := time.Now()
	kind := s.rnd.IntN(3)
	if kind == 0 {
		p.die()
		<-o.done
		return departure{at: now, wake: func() {}}
	}
	resume := func() {}
	if kind == 1 {
		resume = p.pause()
	} else {
		now = now.Add(-takeoverLease)
	}
	return departure{at: now, steal: kind == 2, wake: func() {
		resume()
		<-o.spoken
		o.journal.add(`{"type":"STEP_STARTED","stepName":"zombie"}`)
		o.journal.finish()
		if err := <-o.done; !lost(err) && !errors.Is(err, event.ErrDiverged) { // what the successor said may stand there
			s.t.Errorf("%s: a replay that was open when its host was taken over from: %v", s.id, err)
		}
		s.zombie(p, h)
	}}
}

// lost reports whether an error says that the run is not the host's any more.
func lost(err error) bool {
	return errors.Is(err, event.ErrFenced) || errors.Is(err, event.ErrRunEnded)
}

// zombie lets a host that was taken over from, or whose run has ended, try everything (R3_7).
func (s *story) zombie(p *host, h *client.Handle) {
	ctx := context.Background()
	custom := event.Event{Raw: []byte(`{"type":"CUSTOM","name":"zombie","value":1}`)}
	epoch := h.Epoch()
	replayed := ""
	for _, e := range s.run[:1+s.rnd.IntN(len(s.run))] {
		replayed += string(e.Raw) + "\n"
	}
	tries := map[string]func() error{
		"append": func() error { _, err := h.Append(ctx, custom); return err },
		"end":    func() error { _, err := h.Finish(ctx, client.Finished{}); return err },
		"fail":   func() error { _, err := h.Fail(ctx, event.RunError{Message: "zombie"}); return err },
		"renew":  func() error { _, err := p.Renew(ctx, s.id, epoch, 0); return err },
		"patch":  func() error { return p.patch(s.id, epoch) },
		"repeat with old headers": func() error {
			_, err := p.Append(ctx, event.Batch{Run: s.id, Epoch: &epoch, Events: []event.Event{custom},
				Producer: &event.Producer{ID: event.ProducerID(h.Run().Lease.Holder), Epoch: uint64(epoch)}})
			return err
		},
		"replay": func() error {
			_, err := p.Replay(ctx, s.id, epoch, func() (io.ReadCloser, error) {
				return io.NopCloser(strings.NewReader(replayed + string(custom.Raw) + "\n")), nil
			}, nil)
			return err
		},
		"release": func() error { return p.Release(ctx, s.id, epoch, ptr[int64](0)) },
	}
	var names []string
	for name := range tries {
		names = append(names, name)
	}
	slices.Sort(names)
	s.rnd.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if epoch == s.last && !s.lost {
		return // it had written the end when it went away
	}
	for _, name := range names[:4] {
		if epoch == s.last && (name == "release" || name == "patch" || name == "replay" || strings.HasPrefix(name, "repeat")) {
			continue // nobody took over: these write no event, and anybody may patch
		}
		err := tries[name]()
		if !lost(err) {
			s.t.Errorf("%s: the host of epoch %d, woken, tried to %s and was told %v", s.id, epoch, name, err)
		}
	}
	select {
	case <-h.Context().Done():
	case <-time.After(takeoverLease): // its renewals tell it
		s.t.Errorf("%s: the host of epoch %d does not know that it lost the run", s.id, epoch)
	}
	takeovers.fenced.Add(1)
}

// patch changes the run's metadata at an epoch, on whichever node takes it.
func (h *host) patch(id event.RunID, epoch event.Epoch) error {
	for attempt := 0; ; attempt++ {
		req, err := http.NewRequest(http.MethodPatch, h.urls[attempt%3]+"/v1/runs/"+string(id), bytes.NewReader([]byte(`{"metadata":{"zombie":true}}`)))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Run-Epoch", strconv.FormatUint(uint64(epoch), 10))
		resp, err := (&http.Client{Transport: h, Timeout: 15 * time.Second}).Do(req)
		if err == nil {
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch {
			case resp.StatusCode == http.StatusOK:
				return nil
			case strings.Contains(string(body), `"fenced"`):
				return event.ErrFenced
			case resp.StatusCode < 500:
				return errors.New(string(body))
			}
		}
		if attempt > 100 {
			return errors.New("no node takes a patch")
		}
		time.Sleep(100 * time.Millisecond)
	}
}
