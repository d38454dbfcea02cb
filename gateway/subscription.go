package gateway

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

// Subscriptions are a node's subscriptions of the Durable Streams protocol's reserved control routes,
// as the gateway needs them. It may lag behind what is committed.
type Subscriptions interface {
	// Subscription fails with event.ErrSubscriptionNotFound.
	Subscription(ctx context.Context, id event.SubscriptionID) (event.Subscription, error)
	// WokenWebhooks are the webhook subscriptions whose consumer is to be woken, or was.
	WokenWebhooks() []event.Subscription
	WatchSubscriptions() Watch
	// SigningKeys are the cluster's; ok is false before the first subscription.
	SigningKeys() (keys event.SigningKeys, ok bool)
	// Leads reports whether this node is the leader, which delivers webhooks.
	Leads() bool
}

// controlPrefix is the first segment of names that are no streams: the protocol's control routes.
const controlPrefix = "__ds"

// isControl reports whether a stream's name is a control route.
func isControl(name event.StreamName) bool {
	return name == controlPrefix || strings.HasPrefix(string(name), controlPrefix+"/")
}

// control answers the control routes: the keys that webhooks are signed with, and subscriptions.
// Their errors have the protocol's form, {"error":{"code","message"}}, not that of problems.
func (g *Gateway) control(c *gin.Context) error {
	err := g.controlled(c)
	if e := controlErrorOf(err); e != nil {
		return writeValue(c, controlStatuses[e.code], e.problem())
	}
	return err
}

func (g *Gateway) controlled(c *gin.Context) error {
	if g.cfg.Subscriptions == nil {
		return errNoRoute
	}
	raw := strings.TrimPrefix(strings.TrimPrefix(c.Param("name"), "/"), controlPrefix+"/")
	switch parts := strings.SplitN(raw, "/", 4); {
	case raw == "jwks.json" && c.Request.Method == http.MethodGet:
		return g.getSigningKeys(c)
	case len(parts) >= 2 && parts[0] == "subscriptions":
		id, err := url.PathUnescape(parts[1])
		if err != nil || event.CheckID("subscription", id) != nil {
			return badControl("the subscription's id cannot be used")
		}
		return g.subscription(c, event.SubscriptionID(id), parts[2:])
	}
	return errNoRoute
}

// subscription answers one subscription's routes; path is what follows its id.
func (g *Gateway) subscription(c *gin.Context, id event.SubscriptionID, path []string) error {
	method := c.Request.Method
	switch action := strings.Join(path, "/"); {
	case action == "" && method == http.MethodPut:
		return g.subscribe(c, id)
	case action == "" && method == http.MethodGet:
		return g.getSubscription(c, id)
	case action == "" && method == http.MethodDelete:
		return g.done(c, event.Unsubscribe{ID: id})
	case action == "streams" && method == http.MethodPost:
		return g.addStreams(c, id)
	case len(path) == 2 && path[0] == "streams" && method == http.MethodDelete:
		name, err := url.PathUnescape(path[1])
		if err != nil {
			return badControl("the stream's name is not percent-encoded correctly")
		}
		return g.done(c, &event.LinkStreams{ID: id, Remove: []event.StreamName{relative(name)}})
	case action == "claim" && method == http.MethodPost:
		return g.claimWake(c, id)
	case (action == "ack" || action == "callback") && method == http.MethodPost:
		return g.ackWake(c, id, action)
	case action == "release" && method == http.MethodPost:
		return g.releaseWake(c, id)
	case action == "" || action == "streams" || action == "claim" || action == "ack" || action == "callback" || action == "release":
		return errNoMethod
	}
	return errNoRoute
}

// done proposes a command that answers nothing.
func (g *Gateway) done(c *gin.Context, cmd event.Command) error {
	if _, err := g.propose(c, cmd); err != nil {
		return err
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

func (g *Gateway) subscribe(c *gin.Context, id event.SubscriptionID) error {
	cfg, err := g.readSubscription(c)
	if err != nil {
		return err
	}
	cmd := &event.Subscribe{ID: id, Config: cfg, Base: baseURL(c.Request)}
	for _, b := range [][]byte{cmd.Keys.Seed[:], cmd.Keys.Token[:], cmd.Key[:]} {
		_, _ = rand.Read(b) // never fails: crypto/rand
	}
	res, err := g.propose(c, cmd)
	if err != nil {
		return err
	}
	if err := g.settle(c.Request.Context(), "", freshness{index: res.Index}); err != nil {
		return err
	}
	status := http.StatusOK
	if res.Created {
		status = http.StatusCreated
	}
	return g.showSubscription(c, status, res.Subscription)
}

func (g *Gateway) getSubscription(c *gin.Context, id event.SubscriptionID) error {
	s, err := g.freshSubscription(c, id)
	if err != nil {
		return err
	}
	return g.showSubscription(c, http.StatusOK, &s)
}

// freshSubscription reads a subscription as of now.
func (g *Gateway) freshSubscription(c *gin.Context, id event.SubscriptionID) (event.Subscription, error) {
	if err := g.freshen(c.Request.Context()); err != nil {
		return event.Subscription{}, err
	}
	return g.cfg.Subscriptions.Subscription(c.Request.Context(), id)
}

func (g *Gateway) addStreams(c *gin.Context, id event.SubscriptionID) error {
	o, err := bodyObject(c)
	if err != nil {
		return badControl(err.Error())
	}
	names, err := streamList(o)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return badControl("streams must name at least one stream")
	}
	return g.done(c, &event.LinkStreams{ID: id, Add: names})
}

// showSubscription answers with a subscription.
func (g *Gateway) showSubscription(c *gin.Context, status int, s *event.Subscription) error {
	v := subscriptionView{
		ID: s.ID, SubscriptionID: s.ID, Type: s.Config.Type, Pattern: s.Config.Pattern, WakeStream: s.Config.WakeStream,
		LeaseMs: s.Config.LeaseMs, Description: s.Config.Description, CreatedAt: time.UnixMilli(int64(s.CreatedAt)).UTC().Format(time.RFC3339Nano), Status: "active", Streams: []subscribedView{},
	}
	if s.Failing {
		v.Status = "failed"
	}
	if keys, ok := g.cfg.Subscriptions.SigningKeys(); ok && s.Config.Type == event.SubscriptionWebhook {
		v.Webhook = &webhookView{URL: s.Config.URL, Signing: signingView{Alg: "ed25519", KeyID: newSigner(keys).keyID, JWKS: baseURL(c.Request) + "/v1/stream/" + controlPrefix + "/jwks.json"}}
	}
	for i := range s.Streams {
		v.Streams = append(v.Streams, subscribedOf(&s.Streams[i]))
	}
	return writeValue(c, status, v)
}

// subscriptionView is a subscription's JSON. The names are the protocol's.
type subscriptionView struct {
	ID             event.SubscriptionID   `json:"id"`
	SubscriptionID event.SubscriptionID   `json:"subscription_id"`
	Type           event.SubscriptionType `json:"type"`
	Pattern        string                 `json:"pattern,omitempty"`
	Streams        []subscribedView       `json:"streams"`
	Webhook        *webhookView           `json:"webhook,omitempty"`
	WakeStream     event.StreamName       `json:"wake_stream,omitempty"`
	LeaseMs        int64                  `json:"lease_ttl_ms"`
	CreatedAt      string                 `json:"created_at"` // RFC 3339
	Status         string                 `json:"status"`
	Description    string                 `json:"description,omitempty"`
}

type webhookView struct {
	URL     string      `json:"url"`
	Signing signingView `json:"signing"`
}

type signingView struct {
	Alg   string `json:"alg"`
	KeyID string `json:"kid"`
	JWKS  string `json:"jwks_url"`
}

type subscribedView struct {
	Path     event.StreamName `json:"path"`
	LinkType string           `json:"link_type"`
	Acked    string           `json:"acked_offset"`
	Tail     string           `json:"tail_offset"`
	Pending  bool             `json:"has_pending"`
}

func subscribedOf(s *event.SubscribedStream) subscribedView {
	v := subscribedView{Path: s.Name, LinkType: "glob", Acked: formatStreamOffset(s.Acked), Tail: formatStreamOffset(s.Tail), Pending: s.Pending()}
	if s.Explicit {
		v.LinkType = "explicit"
	}
	return v
}

// baseURL is scheme and host as the client knows them.
func baseURL(r *http.Request) string {
	return strings.TrimSuffix(location(r), r.URL.EscapedPath())
}
