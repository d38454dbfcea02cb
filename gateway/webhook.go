package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/runlog/runlog/event"
)

// Bounds of webhook deliveries.
const (
	maxDeliveries  = 16 // under way at once
	maxRetryDelay  = time.Minute
	maxHookAnswer  = 64 << 10
	webhookLookout = time.Second // how often the leader looks even when nothing woke it
)

// webhooks posts the wakes of webhook subscriptions while this node leads. A new leader posts those
// that are not over again: a receiver sees each wake at least once, with its generation.
type webhooks struct {
	g      *Gateway
	log    *slog.Logger
	client *http.Client

	mu      sync.Mutex
	tries   map[event.SubscriptionID]*delivery
	running int
}

// delivery is how far one subscription's present wake has come.
type delivery struct {
	wakeID  string
	posted  bool // it got through: the consumer's turn
	busy    bool
	failed  int // attempts in a row
	earlier time.Time
}

// DeliverWebhooks posts wakes until ctx is done, and then waits for the posts under way.
func (g *Gateway) DeliverWebhooks(ctx context.Context) {
	if g.cfg.Subscriptions == nil {
		return
	}
	w := &webhooks{g: g, log: g.log, client: g.cfg.WebhookTargets.client(), tries: make(map[event.SubscriptionID]*delivery)}
	watch := g.cfg.Subscriptions.WatchSubscriptions()
	defer watch.Close()
	again := make(chan struct{}, 1)
	var posts sync.WaitGroup
	defer posts.Wait()
	tick := time.NewTicker(webhookLookout)
	defer tick.Stop()
	for {
		changed := watch.C()
		for _, s := range w.due() {
			posts.Go(func() {
				w.post(ctx, s)
				select {
				case again <- struct{}{}:
				default:
				}
			})
		}
		select {
		case <-changed:
		case <-again:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// due returns the subscriptions to post to now, and forgets what is over.
func (w *webhooks) due() (due []event.Subscription) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.g.cfg.Subscriptions.Leads() {
		clear(w.tries)
		return nil
	}
	now := time.Now()
	known := make(map[event.SubscriptionID]*delivery)
	for _, s := range w.g.cfg.Subscriptions.WokenWebhooks() {
		d := w.tries[s.ID]
		switch {
		case d == nil:
			d = &delivery{wakeID: s.WakeID}
		case d.wakeID != s.WakeID && !d.busy: // the failures count on: it is the same receiver
			*d = delivery{wakeID: s.WakeID, failed: d.failed, earlier: d.earlier}
		}
		known[s.ID] = d
		if d.posted || d.busy || now.Before(d.earlier) || w.running == maxDeliveries {
			continue
		}
		d.busy = true
		w.running++
		due = append(due, s)
	}
	w.tries = known
	return due
}

// wakeNotice is what is posted.
type wakeNotice struct {
	Subscription event.SubscriptionID `json:"subscription_id"`
	WakeID       string               `json:"wake_id"`
	Generation   uint64               `json:"generation"`
	Streams      []subscribedView     `json:"streams"`
	CallbackURL  string               `json:"callback_url"`
	Token        string               `json:"callback_token"`
}

// post posts one wake and takes note of how that went.
func (w *webhooks) post(ctx context.Context, s event.Subscription) {
	done, err := w.send(ctx, s)
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	w.running--
	d := w.tries[s.ID]
	if d != nil {
		d.busy, d.posted = false, err == nil
		if err == nil {
			d.failed, d.earlier = 0, time.Time{}
		} else {
			d.failed++
			d.earlier = time.Now().Add(retryDelay(d.failed))
		}
	}
	w.mu.Unlock()
	if err != nil {
		w.log.Warn("a webhook was not delivered", "subscription", s.ID, "generation", s.Generation, "error", err)
	}
	if s.Failing != (err != nil) {
		w.propose(ctx, event.NoteWebhook{ID: s.ID, Failing: err != nil})
	}
	if done {
		ack := &event.AckWake{ID: s.ID, Generation: s.Generation, WakeID: s.WakeID, Done: true}
		for _, l := range s.Streams {
			ack.Acks = append(ack.Acks, event.Ack{Stream: l.Name, Offset: max(l.Tail, l.Acked)})
		}
		w.propose(ctx, ack)
	}
}

// retryDelay grows with the attempts that failed, give or take a fifth.
func retryDelay(failed int) time.Duration {
	d := min(time.Second<<min(failed-1, 10), maxRetryDelay)
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

func (w *webhooks) propose(ctx context.Context, cmd event.Command) {
	res, err := w.g.node.Propose(ctx, cmd)
	switch {
	case err != nil && ctx.Err() == nil:
		w.log.Warn("a webhook's answer was not recorded", "error", err)
	case res.Refusal != nil:
		w.log.Info("a webhook's answer came too late", "reason", res.Refusal)
	}
}

// send posts and reads the answer: {"done":true} says that everything in it was processed.
func (w *webhooks) send(ctx context.Context, s event.Subscription) (done bool, err error) {
	if err := w.g.cfg.WebhookTargets.checkURL(s.Config.URL); err != nil {
		return false, err // allowed when it was made, by another configuration
	}
	keys, ok := w.g.cfg.Subscriptions.SigningKeys()
	if !ok {
		return false, fmt.Errorf("the signing keys are missing")
	}
	notice := wakeNotice{
		Subscription: s.ID, WakeID: s.WakeID, Generation: s.Generation,
		CallbackURL: s.Base + "/v1/stream/" + controlPrefix + "/subscriptions/" + url.PathEscape(string(s.ID)) + "/callback",
		Token:       wakeToken(keys, s.ID, s.Generation, time.Now()),
	}
	for i := range s.Streams {
		notice.Streams = append(notice.Streams, subscribedOf(&s.Streams[i]))
	}
	body, err := json.Marshal(notice)
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Config.URL, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Signature", newSigner(keys).sign(body, time.Now()))
	res, err := w.client.Do(req)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return false, fmt.Errorf("the receiver answered %d", res.StatusCode)
	}
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxHookAnswer))
	if err != nil {
		return false, nil // it was delivered; whether it is done a callback may still say
	}
	var said struct {
		Done bool `json:"done"`
	}
	return json.Unmarshal(answer, &said) == nil && said.Done, nil
}
