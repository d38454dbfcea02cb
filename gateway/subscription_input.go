package gateway

import (
	"slices"

	"github.com/gin-gonic/gin"
	"github.com/tidwall/gjson"

	"github.com/runlog/runlog/event"
)

const (
	defaultWakeLeaseMs  = 30_000
	maxDescriptionBytes = 4 << 10
	maxWebhookURLBytes  = 2 << 10
)

// readSubscription reads what a subscription is to be.
func (g *Gateway) readSubscription(c *gin.Context) (cfg event.SubscriptionConfig, err error) {
	o, err := bodyObject(c)
	if err != nil {
		return cfg, badControl(err.Error())
	}
	cfg.Type = event.SubscriptionType(o.text("type", 16))
	cfg.Pattern = string(relative(o.text("pattern", event.MaxStreamNameBytes)))
	cfg.Description = o.text("description", maxDescriptionBytes)
	cfg.WakeStream = relative(o.text("wake_stream", event.MaxStreamNameBytes))
	cfg.LeaseMs = defaultWakeLeaseMs
	if ms := o.number("lease_ttl_ms", event.MinWakeLeaseMs, event.MaxWakeLeaseMs); ms != nil {
		cfg.LeaseMs = *ms
	}
	if o.err != nil {
		return cfg, badControl(o.err.Error())
	}
	if cfg.Streams, err = streamList(o); err != nil {
		return cfg, err
	}
	if cfg.Pattern == "" && len(cfg.Streams) == 0 {
		return cfg, badControl("a pattern or streams must be named")
	}
	switch cfg.Type {
	case event.SubscriptionWebhook:
		hook, _ := o.get("webhook")
		if cfg.URL = hook.Get("url").Str; cfg.URL == "" || len(cfg.URL) > maxWebhookURLBytes {
			return cfg, badControl("a webhook subscription names webhook.url")
		}
		cfg.WakeStream = ""
		if err := g.cfg.WebhookTargets.checkURL(cfg.URL); err != nil {
			return cfg, &controlError{code: "WEBHOOK_URL_REJECTED", message: err.Error()}
		}
	case event.SubscriptionPullWake:
		if cfg.WakeStream == "" {
			return cfg, badControl("a pull-wake subscription names its wake_stream")
		}
	default:
		return cfg, badControl(`type must be "webhook" or "pull-wake"`)
	}
	return cfg, nil
}

// streamList reads the member streams: names, sorted, each once.
func streamList(o *object) (names []event.StreamName, err error) {
	list, ok := o.get("streams")
	if !ok {
		return nil, nil
	}
	if !list.IsArray() {
		return nil, badControl("streams must be an array of names")
	}
	list.ForEach(func(_, v gjson.Result) bool {
		name := relative(v.Str)
		if v.Type != gjson.String || event.CheckStreamName(string(name)) != nil {
			err = badControl("streams holds something that cannot name a stream")
			return false
		}
		names = append(names, name)
		return true
	})
	slices.Sort(names)
	return slices.Compact(names), err
}
