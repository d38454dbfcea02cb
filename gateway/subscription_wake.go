package gateway

import (
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/tidwall/gjson"

	"github.com/runlog/runlog/event"
)

// maxWorkerBytes bounds a worker's name.
const maxWorkerBytes = event.MaxIDBytes

// claimWake makes a worker the holder of a pull-wake subscription's wake.
func (g *Gateway) claimWake(c *gin.Context, id event.SubscriptionID) error {
	o, err := bodyObject(c)
	if err != nil {
		return badControl(err.Error())
	}
	worker := o.text("worker", maxWorkerBytes)
	if o.err != nil || worker == "" {
		return badControl("worker must be a string that is not empty")
	}
	if err := g.pullWake(c, id); err != nil {
		return err
	}
	res, err := g.propose(c, event.ClaimWake{ID: id, Worker: worker})
	if err != nil {
		return err
	}
	if err := g.settle(c.Request.Context(), "", freshness{index: res.Index}); err != nil {
		return err
	}
	keys, _ := g.cfg.Subscriptions.SigningKeys()
	s := res.Subscription
	a := claimedView{WakeID: s.WakeID, Generation: s.Generation, Token: wakeToken(keys, id, s.Generation, time.Now()), LeaseMs: s.Config.LeaseMs}
	for i := range s.Streams {
		a.Streams = append(a.Streams, subscribedOf(&s.Streams[i]))
	}
	return writeValue(c, http.StatusOK, a)
}

// claimedView is the answer to a claim.
type claimedView struct {
	WakeID     string           `json:"wake_id"`
	Generation uint64           `json:"generation"`
	Token      string           `json:"token"`
	Streams    []subscribedView `json:"streams"`
	LeaseMs    int64            `json:"lease_ttl_ms"`
}

// pullWake refuses what only pull-wake subscriptions take.
func (g *Gateway) pullWake(c *gin.Context, id event.SubscriptionID) error {
	s, err := g.freshSubscription(c, id)
	if err == nil && s.Config.Type != event.SubscriptionPullWake {
		err = badControl("the subscription is not pull-wake")
	}
	return err
}

// ackWake acknowledges, and ends the wake when it is done. A webhook's consumer calls it back.
func (g *Gateway) ackWake(c *gin.Context, id event.SubscriptionID, action string) error {
	cmd, o, err := g.wakeCommand(c, id, action == "ack")
	if err != nil {
		return err
	}
	cmd.Done = o.flag("done", false)
	if cmd.Acks, err = readAcks(o); err != nil {
		return err
	}
	res, err := g.propose(c, cmd)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, struct {
		OK       bool `json:"ok"`
		NextWake bool `json:"next_wake"`
	}{true, res.NextWake})
}

func (g *Gateway) releaseWake(c *gin.Context, id event.SubscriptionID) error {
	cmd, _, err := g.wakeCommand(c, id, true)
	if err != nil {
		return err
	}
	cmd.Done = true
	return g.done(c, cmd)
}

// wakeCommand checks the token that a woken consumer was given, and reads which wake it speaks of.
func (g *Gateway) wakeCommand(c *gin.Context, id event.SubscriptionID, pull bool) (*event.AckWake, *object, error) {
	token, ok := strings.CutPrefix(c.GetHeader("Authorization"), "Bearer ")
	if !ok {
		return nil, nil, &controlError{code: "TOKEN_INVALID", message: "Authorization must hold the wake's token"}
	}
	o, err := bodyObject(c)
	if err != nil {
		return nil, nil, badControl(err.Error())
	}
	s, err := g.freshSubscription(c, id)
	switch {
	case err != nil:
		return nil, nil, err
	case pull && s.Config.Type != event.SubscriptionPullWake:
		return nil, nil, badControl("the subscription is not pull-wake")
	}
	keys, _ := g.cfg.Subscriptions.SigningKeys()
	granted, err := checkWakeToken(keys, id, token, time.Now())
	if err != nil {
		return nil, nil, err
	}
	cmd := &event.AckWake{ID: id, WakeID: o.text("wake_id", event.MaxIDBytes)}
	if n := o.natural("generation"); n != nil {
		cmd.Generation = *n
	}
	if o.err != nil {
		return nil, nil, badControl(o.err.Error())
	}
	if cmd.Generation != granted {
		return nil, nil, &event.WakeFenced{Generation: s.Generation}
	}
	return cmd, o, nil
}

// readAcks reads the acknowledgements of a body.
func readAcks(o *object) (acks []event.Ack, err error) {
	list, ok := o.get("acks")
	if !ok {
		return nil, nil
	}
	if !list.IsArray() {
		return nil, badControl("acks must be an array")
	}
	list.ForEach(func(_, v gjson.Result) bool {
		name := v.Get("stream").Str
		if name == "" {
			name = v.Get("path").Str
		}
		offset, ok := parseStreamOffset(v.Get("offset").Str)
		if !ok {
			err = &controlError{code: "INVALID_OFFSET", message: "an acknowledged offset is not one of a stream"}
			return false
		}
		acks = append(acks, event.Ack{Stream: relative(name), Offset: offset})
		return true
	})
	return acks, err
}

// relative is a stream's name as subscriptions know it: without slashes around.
func relative(name string) event.StreamName { return event.StreamName(strings.Trim(name, "/")) }
