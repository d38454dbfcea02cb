package fsm

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/runlog/runlog/event"
)

// subscriptionCommand applies a command about subscriptions; ok is false for any other.
func (a *applier) subscriptionCommand(position int, c event.Command) (r event.Result, err error, ok bool) {
	switch c := c.(type) {
	case *event.Subscribe:
		r, err = a.subscribe(position, c)
	case event.Unsubscribe:
		r = a.unsubscribe(c.ID)
	case *event.LinkStreams:
		r, err = a.linkStreams(c)
	case event.ClaimWake:
		r, err = a.claimWake(&c)
	case *event.AckWake:
		r, err = a.ackWake(c)
	case event.LapseWake:
		r, err = a.lapseWake(&c)
	case event.NoteWebhook:
		r = a.noteWebhook(&c)
	default:
		return r, nil, false
	}
	return r, err, true
}

func (a *applier) subscribe(position int, c *event.Subscribe) (event.Result, error) {
	if s := a.m.subs.find(c.ID); s != nil {
		repeated := c.Key != (event.IdempotencyKey{}) && c.Key == s.createKey
		if !repeated && !s.config.Equal(&c.Config) {
			return refuse(event.ErrSubscriptionExists), nil
		}
		return event.Result{Created: repeated, Subscription: s.view()}, nil
	}
	if len(a.m.subs.list) >= event.MaxSubscriptions {
		return refuse(&event.TooManySubscriptions{What: "subscriptions", Limit: event.MaxSubscriptions}), nil
	}
	if n := len(event.AppendSubscriptionConfig(nil, &c.Config)); n > event.MaxSubscriptionBytes {
		return refuse(&event.TooLarge{What: "bytes of a subscription", Limit: event.MaxSubscriptionBytes}), nil
	}
	if a.m.subs.keys == nil {
		keys := c.Keys
		a.m.subs.keys = &keys
		a.m.active.setPair([]byte{keySubscription}, append(keys.Seed[:], keys.Token[:]...))
	}
	s := &subscription{
		sid: newStreamID(a.index, position), id: c.ID, base: c.Base, createdAt: a.now, createKey: c.Key,
		links: make(map[event.StreamName]*link),
	}
	s.setConfig(c.Config)
	a.m.subs.insert(s)
	for _, name := range c.Config.Streams {
		if err := a.linkNow(s, name); err != nil {
			return event.Result{}, err
		}
	}
	a.changedSubscription(s)
	return event.Result{Created: true, Subscription: s.view()}, nil
}

func (a *applier) unsubscribe(id event.SubscriptionID) event.Result {
	s := a.m.subs.find(id)
	if s == nil {
		return event.Result{}
	}
	a.m.subs.remove(id) // its links are under its stream id, which nobody has again: nothing reads them
	a.m.active.setPair(subscriptionKey(id), forgotten)
	a.effects.WriteString("unsubscribed")
	a.effects.Write(s.sid[:])
	a.touched = append(a.touched, watchedSubscriptions)
	return event.Result{}
}

// linkNow subscribes to a stream from its present tail on.
func (a *applier) linkNow(s *subscription, name event.StreamName) error {
	if l := s.links[name]; l != nil {
		l.explicit = true
		a.changedLink(s, name, l)
		return nil
	}
	l := &link{explicit: true}
	switch from, err := a.liveStream(name); {
	case err == nil:
		l.acked, l.tail = from.tail, from.tail
	case !errors.Is(err, event.ErrStreamNotFound) && !errors.Is(err, event.ErrStreamGone):
		return err
	}
	s.links[name] = l
	a.changedLink(s, name, l)
	return nil
}

func (a *applier) linkStreams(c *event.LinkStreams) (event.Result, error) {
	s := a.m.subs.find(c.ID)
	if s == nil {
		return refuse(event.ErrSubscriptionNotFound), nil
	}
	if len(c.Add)+len(c.Remove) > event.MaxNamedStreams {
		return refuse(&event.TooManySubscriptions{What: "streams named in one request", Limit: event.MaxNamedStreams}), nil
	}
	if len(s.links)+len(c.Add) > event.MaxSubscribedStreams {
		return refuse(&event.TooManySubscriptions{What: "streams of one subscription", Limit: event.MaxSubscribedStreams}), nil
	}
	for _, name := range c.Add {
		if err := a.linkNow(s, name); err != nil {
			return event.Result{}, err
		}
	}
	for _, name := range c.Remove {
		switch l := s.links[name]; {
		case l == nil:
		case s.watches(name):
			l.explicit = false
			a.changedLink(s, name, l)
		default:
			a.unlink(s, name)
		}
	}
	return event.Result{Subscription: s.view()}, nil
}

func (a *applier) unlink(s *subscription, name event.StreamName) {
	delete(s.links, name)
	a.m.active.setPair(linkKey(s.sid, name), forgotten)
	a.effects.WriteString("unlinked " + string(name))
	a.effects.Write(s.sid[:])
}

func (a *applier) changedLink(s *subscription, name event.StreamName, l *link) {
	value := l.encode()
	a.m.active.setPair(linkKey(s.sid, name), value)
	a.effects.WriteString(string(name))
	a.effects.Write(value)
}

func (a *applier) changedSubscription(s *subscription) {
	value := s.encode()
	a.m.active.setPair(subscriptionKey(s.id), value)
	a.effects.Write(value)
	a.touched = append(a.touched, watchedSubscriptions)
}

// notice tells the subscriptions that a stream was made or grew from tail before on. A stream that a
// pattern selects is linked the first time, from there on.
func (a *applier) notice(s *stream, before event.Offset) error {
	for _, sub := range a.m.subs.list {
		l := sub.links[s.name]
		if l == nil {
			if !sub.watches(s.name) || len(sub.links) >= event.MaxSubscribedStreams {
				continue
			}
			l = &link{acked: before}
			sub.links[s.name] = l
			a.changedLink(sub, s.name, l)
		}
		l.tail = s.tail
		if l.tail > l.acked && sub.wakeID == "" {
			if err := a.wake(sub, s.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// noticeEnd takes a stream that is gone out of the subscriptions.
func (a *applier) noticeEnd(name event.StreamName) {
	for _, sub := range a.m.subs.list {
		if sub.links[name] != nil {
			a.unlink(sub, name)
		}
	}
}

// wakeEvent is what a pull-wake subscription appends to its wake stream.
type wakeEvent struct {
	Type         string               `json:"type"`
	Subscription event.SubscriptionID `json:"subscription_id"`
	Stream       event.StreamName     `json:"stream"`
	Generation   uint64               `json:"generation"`
	Time         event.Time           `json:"ts"`
}

// wake begins the next generation: a webhook is to be posted, or a wake event appended.
func (a *applier) wake(s *subscription, trigger event.StreamName) error {
	s.generation++
	s.wakeID = fmt.Sprintf("w_%x_%x", a.index, s.generation)
	s.trigger, s.holder, s.deadline = trigger, "", 0
	if s.config.Type == event.SubscriptionWebhook {
		s.deadline = a.clocks().uptime + s.config.LeaseMs
	}
	a.changedSubscription(s)
	if s.config.Type == event.SubscriptionWebhook {
		return nil
	}
	to, err := a.liveStream(s.config.WakeStream)
	switch {
	case errors.Is(err, event.ErrStreamNotFound), errors.Is(err, event.ErrStreamGone):
		return nil // workers can claim without being told
	case err != nil:
		return err
	case to.closed:
		return nil
	}
	raw, err := json.Marshal(wakeEvent{"wake", s.id, trigger, s.generation, a.now})
	if err != nil {
		return err
	}
	to = a.writableStream(to)
	before := to.tail
	a.m.active.addRecord(&to.logHead, 0, a.now, raw)
	a.changedStream(to)
	return a.notice(to, before)
}

func (a *applier) claimWake(c *event.ClaimWake) (event.Result, error) {
	s := a.m.subs.find(c.ID)
	if s == nil || s.config.Type != event.SubscriptionPullWake {
		return refuse(event.ErrSubscriptionNotFound), nil
	}
	if s.holder != "" {
		return refuse(&event.WakeClaimed{Holder: s.holder, Generation: s.generation}), nil
	}
	first, ok := s.pending()
	if !ok {
		return refuse(event.ErrNothingPending), nil
	}
	if s.wakeID == "" {
		if err := a.wake(s, first); err != nil {
			return event.Result{}, err
		}
	}
	s.holder = c.Worker
	s.deadline = a.clocks().uptime + s.config.LeaseMs
	a.changedSubscription(s)
	return event.Result{Subscription: s.view()}, nil
}

func (a *applier) ackWake(c *event.AckWake) (event.Result, error) {
	s := a.m.subs.find(c.ID)
	if s == nil {
		return refuse(event.ErrSubscriptionNotFound), nil
	}
	if s.wakeID == "" || c.Generation != s.generation || c.WakeID != s.wakeID {
		return refuse(&event.WakeFenced{Generation: s.generation}), nil
	}
	if len(c.Acks) > event.MaxSubscribedStreams {
		return refuse(&event.TooManySubscriptions{What: "acknowledgements", Limit: event.MaxSubscribedStreams}), nil
	}
	for _, ack := range c.Acks {
		if bad := s.badAck(ack); bad != "" {
			return refuse(&event.BadAck{Stream: ack.Stream, Reason: bad}), nil
		}
	}
	for _, ack := range c.Acks {
		l := s.links[ack.Stream]
		l.acked = max(l.acked, ack.Offset)
		a.changedLink(s, ack.Stream, l)
	}
	s.deadline = a.clocks().uptime + s.config.LeaseMs
	if !c.Done {
		a.changedSubscription(s)
		return event.Result{Subscription: s.view()}, nil
	}
	next, err := a.endWake(s)
	return event.Result{Subscription: s.view(), NextWake: next}, err
}

// badAck says what is wrong with an acknowledgement; empty: nothing.
func (s *subscription) badAck(ack event.Ack) string {
	l := s.links[ack.Stream]
	switch {
	case l == nil:
		return "the stream is not subscribed to"
	case ack.Offset < l.acked:
		return fmt.Sprintf("offset %d goes back from %d", ack.Offset, l.acked)
	case ack.Offset > l.tail:
		return fmt.Sprintf("offset %d is beyond the tail, %d", ack.Offset, l.tail)
	}
	return ""
}

// endWake ends the present wake and begins the next one when something is pending.
func (a *applier) endWake(s *subscription) (next bool, err error) {
	s.wakeID, s.trigger, s.holder, s.deadline = "", "", "", 0
	a.changedSubscription(s)
	first, next := s.pending()
	if next {
		err = a.wake(s, first)
	}
	return next, err
}

func (a *applier) lapseWake(c *event.LapseWake) (event.Result, error) {
	s := a.m.subs.find(c.ID)
	if s == nil || s.generation != c.Generation || s.deadline == 0 || a.clocks().uptime < s.deadline {
		return refuse(event.ErrStaleVerdict), nil
	}
	_, err := a.endWake(s)
	return event.Result{Subscription: s.view()}, err
}

func (a *applier) noteWebhook(c *event.NoteWebhook) event.Result {
	s := a.m.subs.find(c.ID)
	if s == nil {
		return refuse(event.ErrSubscriptionNotFound)
	}
	if s.failing != c.Failing {
		s.failing = c.Failing
		a.changedSubscription(s)
	}
	return event.Result{Subscription: s.view()}
}
