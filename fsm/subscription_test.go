package fsm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/runlog/runlog/event"
)

func genSubscriptionCommand(t *rapid.T) event.Command {
	id := event.SubscriptionID(rapid.SampledFrom([]string{"u1", "u2"}).Draw(t, "subscription"))
	generation := rapid.Uint64Range(0, 3).Draw(t, "generation")
	switch rapid.IntRange(0, 7).Draw(t, "subscription kind") {
	case 0, 1, 2:
		c := &event.Subscribe{ID: id, Keys: event.SigningKeys{Seed: [32]byte{1}}}
		c.Config = event.SubscriptionConfig{Type: event.SubscriptionPullWake, Pattern: "*", WakeStream: "s4", LeaseMs: 1000}
		if rapid.Bool().Draw(t, "webhook") {
			c.Config = event.SubscriptionConfig{Type: event.SubscriptionWebhook, Streams: []event.StreamName{"s1", "s4"}, URL: "http://h", LeaseMs: 1000}
		}
		return c
	case 3:
		return event.Unsubscribe{ID: id}
	case 4:
		return &event.LinkStreams{ID: id, Add: []event.StreamName{"s2"}, Remove: []event.StreamName{"s1"}}
	case 5:
		return event.ClaimWake{ID: id, Worker: "w"}
	case 6:
		return &event.AckWake{ID: id, Generation: generation, WakeID: fmt.Sprintf("w_%x_%x", rapid.IntRange(2, 9).Draw(t, "index"), generation), Done: true}
	}
	return event.LapseWake{ID: id, Generation: generation}
}

func message(s string) [][]byte { return [][]byte{[]byte(s)} }

func (m *machine) subscription(t tb, id event.SubscriptionID) event.Subscription {
	t.Helper()
	s, err := m.Subscription(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPullWake: appends wake once, a claim is exclusive, an acknowledged wake is over, what came in
// the meantime brings the next one about, and nobody of an old generation can do anything.
func TestPullWake(t *testing.T) {
	t.Parallel()
	m := open(t, "")
	defer m.close(t)
	config := event.SubscriptionConfig{Type: event.SubscriptionPullWake, Pattern: "events/**", WakeStream: "events/wake", LeaseMs: 1000}
	text := func(name event.StreamName, s string) event.Command {
		return &event.AppendStream{Name: name, ContentType: "text/plain", Messages: message(s)}
	}
	m.do(t, event.LeaderStart{Term: 1},
		&event.CreateStream{Name: "events/wake", ContentType: event.JSONContentType},
		&event.CreateStream{Name: "events/old", ContentType: "text/plain", Messages: message("before")},
		&event.Subscribe{ID: "u", Config: config},
		&event.CreateStream{Name: "events/a/b", ContentType: "text/plain", Messages: message("one")},
		text("events/a/b", "two"), text("events/old", "after"),
	)
	page, err := m.Messages(t.Context(), "events/wake", 0, 10, 1<<20)
	if err != nil || len(page.Messages) != 1 || !strings.Contains(string(page.Messages[0].Raw), `"stream":"events/a/b","generation":1`) {
		t.Fatalf("%v, %v", page, err)
	}
	if r := m.do(t, &event.AckWake{ID: "u", Generation: 1, WakeID: "other"})[0]; !errors.Is(r.Refusal, event.ErrWakeFenced) {
		t.Fatalf("%+v", r)
	}
	r := m.do(t, event.ClaimWake{ID: "u", Worker: "w1"}, event.ClaimWake{ID: "u", Worker: "w2"})
	if r[0].Refusal != nil || !errors.Is(r[1].Refusal, event.ErrWakeClaimed) {
		t.Fatalf("%+v", r)
	}
	woken := r[0].Subscription
	if len(woken.Streams) != 2 || woken.Streams[0] != (event.SubscribedStream{Name: "events/a/b", Tail: 2}) ||
		woken.Streams[1] != (event.SubscribedStream{Name: "events/old", Acked: 1, Tail: 2}) {
		t.Fatalf("%+v", woken.Streams)
	}
	ack := func(done bool, acks ...event.Ack) event.Result {
		return m.do(t, &event.AckWake{ID: "u", Generation: woken.Generation, WakeID: woken.WakeID, Acks: acks, Done: done})[0]
	}
	for _, bad := range []event.Ack{{Stream: "none", Offset: 1}, {Stream: "events/a/b", Offset: 3}, {Stream: "events/old", Offset: 0}} {
		if r := ack(false, event.Ack{Stream: "events/a/b", Offset: 1}, bad); !errors.Is(r.Refusal, event.ErrBadAck) {
			t.Fatalf("%+v: %+v", bad, r)
		}
	}
	if s := m.subscription(t, "u"); s.Streams[0].Acked != 0 {
		t.Fatal("half of a refused acknowledgement was taken")
	}
	if r := ack(true, event.Ack{Stream: "events/a/b", Offset: 2}); r.Refusal != nil || !r.NextWake || r.Subscription.Generation != 2 {
		t.Fatalf("%+v", r)
	}
	if r := ack(true); !errors.Is(r.Refusal, event.ErrWakeFenced) {
		t.Fatalf("the old generation went on: %+v", r)
	}
	woken = m.do(t, event.ClaimWake{ID: "u", Worker: "w2"})[0].Subscription
	if r := ack(true, event.Ack{Stream: "events/old", Offset: 2}); r.Refusal != nil || r.NextWake || r.Subscription.WakeID != "" {
		t.Fatalf("%+v", r)
	}
	if r := m.do(t, event.ClaimWake{ID: "u", Worker: "w1"})[0]; !errors.Is(r.Refusal, event.ErrNothingPending) {
		t.Fatalf("%+v", r)
	}
}

// TestWakeLapses: a consumer whose lease ran out by the log's clock loses its wake, not a moment
// earlier, and the next one begins.
func TestWakeLapses(t *testing.T) {
	t.Parallel()
	m := open(t, "")
	defer m.close(t)
	config := event.SubscriptionConfig{Type: event.SubscriptionWebhook, Streams: []event.StreamName{"a"}, URL: "https://h", LeaseMs: 1000}
	m.Apply(lawEntry(1, 5000, event.LeaderStart{Term: 1}))
	m.Apply(lawEntry(2, 5000, &event.CreateStream{Name: "a", ContentType: "text/plain"}))
	m.Apply(lawEntry(3, 5000, &event.Subscribe{ID: "u", Config: config}))
	m.Apply(lawEntry(4, 5000, &event.AppendStream{Name: "a", ContentType: "text/plain", Messages: message("one")}))
	if w := m.WokenWebhooks(); len(w) != 1 || w[0].Generation != 1 {
		t.Fatalf("%+v", w)
	}
	for i, now := range []event.Time{5999, 6000} {
		r := m.Apply(lawEntry(uint64(5+i), now, event.LapseWake{ID: "u", Generation: 1})).([]event.Result)[0]
		if stale := errors.Is(r.Refusal, event.ErrStaleVerdict); stale != (now < 6000) {
			t.Fatalf("at %d: %+v", now, r)
		}
	}
	if w := m.WokenWebhooks(); len(w) != 1 || w[0].Generation != 2 {
		t.Fatalf("%+v", w)
	}
}

func TestMatchSegments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"a/*", "a/b", true}, {"a/*", "a", false}, {"a/*", "a/b/c", false}, {"**", "a/b", true}, {"a/**", "a", true},
		{"a/**/z", "a/z", true}, {"a/**/z", "a/b/c/z", true}, {"a/**/z", "a/b/c", false}, {"*", "a", true}, {"a", "a", true}, {"a", "b", false},
	} {
		if got := matchSegments(segments(c.pattern), segments(c.name)); got != c.want {
			t.Errorf("%s with %s: %v", c.pattern, c.name, got)
		}
	}
}

// TestEntryFitsTheFlush: whatever subscriptions make an entry write, what [event.Cost] allows into one
// entry fits the transaction that flushes it.
func TestEntryFitsTheFlush(t *testing.T) {
	t.Parallel()
	m := open(t, t.TempDir())
	defer m.close(t)
	long := strings.Repeat("d", event.MaxSubscriptionBytes-100)
	for i := range event.MaxSubscriptions {
		cfg := event.SubscriptionConfig{Type: event.SubscriptionWebhook, Pattern: "**", URL: "https://h", LeaseMs: 1000, Description: long}
		if r := m.do(t, &event.Subscribe{ID: event.SubscriptionID(fmt.Sprint("u", i)), Config: cfg})[0]; r.Refusal != nil {
			t.Fatal(r.Refusal)
		}
	}
	m.flushNow(t)
	var commands []event.Command
	for i, cost := 0, 0; ; i++ {
		name := event.StreamName(fmt.Sprintf("%d%s", i, strings.Repeat("n", event.MaxStreamNameBytes-8)))
		c := &event.CreateStream{Name: name, ContentType: "text/plain", Messages: message("one")}
		if cost += event.Cost(event.AppendCommand(nil, c)); cost > event.MaxEntryCost {
			break
		}
		commands = append(commands, c)
	}
	for _, r := range m.do(t, commands...) {
		if r.Refusal != nil {
			t.Fatal(r.Refusal)
		}
	}
	if w := m.WokenWebhooks(); len(w) != event.MaxSubscriptions || len(w[0].Streams) != len(commands) {
		t.Fatalf("%d woken, %d streams, %d commands", len(w), len(w[0].Streams), len(commands))
	}
	m.mu.RLock()
	bytes := m.active.bytes
	m.mu.RUnlock()
	if bytes > event.MaxEntryCost+1<<20 {
		t.Errorf("an entry of %d commands writes %d bytes", len(commands), bytes)
	}
	m.flushNow(t)
}
