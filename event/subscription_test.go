package event

import (
	"testing"

	"pgregory.net/rapid"
)

func subscriptionConfig() SubscriptionConfig {
	return SubscriptionConfig{Type: SubscriptionWebhook, Pattern: "events/*", Streams: []StreamName{"a", "b/c"}, URL: "https://example.org/hook",
		WakeStream: "wake", LeaseMs: 30_000, Description: "d"}
}

func genSubscriptionCommand(t *rapid.T) Command {
	g := rapid.Uint64().Draw(t, "generation")
	return rapid.SampledFrom([]Command{
		&Subscribe{ID: "s", Config: subscriptionConfig(), Base: "http://h", Keys: SigningKeys{Seed: [32]byte{1}, Token: [32]byte{2}}, Key: IdempotencyKey{3}},
		&Subscribe{ID: "s"}, Unsubscribe{"s"}, &LinkStreams{"s", []StreamName{"a"}, []StreamName{"b"}}, ClaimWake{"s", "w"},
		&AckWake{ID: "s", Generation: g, WakeID: "w", Acks: []Ack{{"a", 3}}, Done: true}, LapseWake{"s", g}, NoteWebhook{"s", true},
	}).Draw(t, "subscription command")
}

func goldenSubscriptionCommands() map[string]Command {
	return map[string]Command{
		"subscribe":    &Subscribe{ID: "s1", Config: subscriptionConfig(), Base: "http://127.0.0.1:4437", Keys: SigningKeys{Seed: [32]byte{1}, Token: [32]byte{2}}, Key: IdempotencyKey{3}},
		"unsubscribe":  Unsubscribe{"s1"},
		"link_streams": &LinkStreams{"s1", []StreamName{"a"}, []StreamName{"b"}},
		"claim_wake":   ClaimWake{"s1", "worker-1"},
		"ack_wake":     &AckWake{ID: "s1", Generation: 300, WakeID: "w_1", Acks: []Ack{{"a", 3}}, Done: true},
		"lapse_wake":   LapseWake{"s1", 300},
		"note_webhook": NoteWebhook{"s1", true},
	}
}

func fullSubscriptionRefusals() []Refusal {
	return []Refusal{
		&SubscriptionNotFound{}, &SubscriptionExists{}, &WakeFenced{Generation: 2}, &WakeClaimed{Holder: "w", Generation: 2}, &NothingPending{},
		&BadAck{Stream: "a", Reason: "why"}, &TooManySubscriptions{What: "subscriptions", Limit: 3},
	}
}

func TestSubscriptionConfigEqual(t *testing.T) {
	t.Parallel()
	a := subscriptionConfig()
	for what, change := range map[string]func(*SubscriptionConfig){
		"": func(*SubscriptionConfig) {}, "type": func(c *SubscriptionConfig) { c.Type = SubscriptionPullWake },
		"pattern": func(c *SubscriptionConfig) { c.Pattern = "x" }, "streams": func(c *SubscriptionConfig) { c.Streams = []StreamName{"a", "x"} },
		"fewer streams": func(c *SubscriptionConfig) { c.Streams = nil }, "url": func(c *SubscriptionConfig) { c.URL = "x" },
		"wake stream": func(c *SubscriptionConfig) { c.WakeStream = "x" }, "lease": func(c *SubscriptionConfig) { c.LeaseMs++ },
		"description": func(c *SubscriptionConfig) { c.Description = "x" },
	} {
		b := subscriptionConfig()
		change(&b)
		if a.Equal(&b) != (what == "") {
			t.Errorf("%s: equal %v", what, a.Equal(&b))
		}
		if got, err := DecodeSubscriptionConfig(AppendSubscriptionConfig(nil, &b)); err != nil || !got.Equal(&b) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}
