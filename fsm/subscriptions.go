package fsm

import (
	"context"

	"github.com/runlog/runlog/event"
)

// Subscription returns a subscription, or event.ErrSubscriptionNotFound.
func (m *Machine) Subscription(_ context.Context, id event.SubscriptionID) (event.Subscription, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s := m.subs.find(id)
	if s == nil {
		return event.Subscription{}, event.ErrSubscriptionNotFound
	}
	return *s.view(), nil
}

// WokenWebhooks returns the webhook subscriptions whose consumer is to be woken, or was.
func (m *Machine) WokenWebhooks() []event.Subscription {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var woken []event.Subscription
	for _, s := range m.subs.list {
		if s.config.Type == event.SubscriptionWebhook && s.wakeID != "" {
			woken = append(woken, *s.view())
		}
	}
	return woken
}

// SigningKeys returns the cluster's keys for subscriptions; ok is false before the first one was made.
func (m *Machine) SigningKeys() (keys event.SigningKeys, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return deref(m.subs.keys), m.subs.keys != nil
}

// OverdueWakes returns the commands that end wakes whose consumer let its lease run out. The leader
// proposes them; Apply judges by its own clock again.
func (m *Machine) OverdueWakes() (due []event.LapseWake) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	now := m.clocksNow().uptime
	for _, s := range m.subs.list {
		if s.deadline > 0 && s.deadline <= now {
			due = append(due, event.LapseWake{ID: s.id, Generation: s.generation})
		}
	}
	return due
}

// watchedSubscriptions is the name under which all subscriptions are watched: no run id has a
// control character.
const watchedSubscriptions event.RunID = "\x02"

// WatchSubscriptions wakes whoever delivers webhooks when a subscription changed.
func (m *Machine) WatchSubscriptions() *Watch { return m.Watch(watchedSubscriptions) }
