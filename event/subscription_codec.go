package event

import "encoding/binary"

// appendSubscriptionCommand appends the body of a command about subscriptions; false: it is none.
func appendSubscriptionCommand(dst []byte, c Command) ([]byte, bool) {
	switch c := c.(type) {
	case *Subscribe:
		dst = appendBytes(dst, c.ID)
		dst = AppendSubscriptionConfig(dst, &c.Config)
		dst = appendBytes(dst, c.Base)
		dst = append(dst, c.Keys.Seed[:]...)
		dst = append(dst, c.Keys.Token[:]...)
		dst = append(dst, c.Key[:]...)
	case Unsubscribe:
		dst = appendBytes(dst, c.ID)
	case *LinkStreams:
		dst = appendBytes(dst, c.ID)
		dst = appendNames(dst, c.Add)
		dst = appendNames(dst, c.Remove)
	case ClaimWake:
		dst = appendBytes(dst, c.ID)
		dst = appendBytes(dst, c.Worker)
	case *AckWake:
		dst = appendBytes(dst, c.ID)
		dst = binary.AppendUvarint(dst, c.Generation)
		dst = appendBytes(dst, c.WakeID)
		dst = binary.AppendUvarint(dst, uint64(len(c.Acks)))
		for _, a := range c.Acks {
			dst = appendBytes(dst, a.Stream)
			dst = binary.AppendUvarint(dst, uint64(a.Offset))
		}
		dst = appendFlag(dst, c.Done)
	case LapseWake:
		dst = appendBytes(dst, c.ID)
		dst = binary.AppendUvarint(dst, c.Generation)
	case NoteWebhook:
		dst = appendBytes(dst, c.ID)
		dst = appendFlag(dst, c.Failing)
	default:
		return dst, false
	}
	return dst, true
}

// subscriptionCommand decodes what appendSubscriptionCommand wrote; nil: the kind is none of its.
func (w *wire) subscriptionCommand(kind Kind) Command {
	switch kind {
	case KindSubscribe:
		c := &Subscribe{ID: SubscriptionID(w.string()), Config: w.subscriptionConfig(), Base: w.string()}
		copy(c.Keys.Seed[:], w.take(32))
		copy(c.Keys.Token[:], w.take(32))
		copy(c.Key[:], w.take(16))
		return c
	case KindUnsubscribe:
		return Unsubscribe{ID: SubscriptionID(w.string())}
	case KindLinkStreams:
		return &LinkStreams{ID: SubscriptionID(w.string()), Add: w.names(), Remove: w.names()}
	case KindClaimWake:
		return ClaimWake{ID: SubscriptionID(w.string()), Worker: w.string()}
	case KindAckWake:
		c := &AckWake{ID: SubscriptionID(w.string()), Generation: w.uvarint(), WakeID: w.string()}
		for range w.count(2) {
			c.Acks = append(c.Acks, Ack{Stream: StreamName(w.string()), Offset: Offset(w.uvarint())})
		}
		c.Done = w.byte() != 0
		return c
	case KindLapseWake:
		return LapseWake{ID: SubscriptionID(w.string()), Generation: w.uvarint()}
	case KindNoteWebhook:
		return NoteWebhook{ID: SubscriptionID(w.string()), Failing: w.byte() != 0}
	}
	return nil
}

// AppendSubscriptionConfig appends the encoding of c, which is stored too and must stay stable.
func AppendSubscriptionConfig(dst []byte, c *SubscriptionConfig) []byte {
	dst = appendBytes(dst, c.Type)
	dst = appendBytes(dst, c.Pattern)
	dst = appendNames(dst, c.Streams)
	dst = appendBytes(dst, c.URL)
	dst = appendBytes(dst, c.WakeStream)
	dst = binary.AppendVarint(dst, c.LeaseMs)
	return appendBytes(dst, c.Description)
}

// DecodeSubscriptionConfig decodes what [AppendSubscriptionConfig] wrote.
func DecodeSubscriptionConfig(b []byte) (SubscriptionConfig, error) {
	w := wire{b: b}
	c := w.subscriptionConfig()
	return c, w.done("subscription")
}

func (w *wire) subscriptionConfig() SubscriptionConfig {
	return SubscriptionConfig{
		Type: SubscriptionType(w.string()), Pattern: w.string(), Streams: w.names(), URL: w.string(),
		WakeStream: StreamName(w.string()), LeaseMs: w.varint(), Description: w.string(),
	}
}

func appendNames(dst []byte, names []StreamName) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(names)))
	for _, n := range names {
		dst = appendBytes(dst, n)
	}
	return dst
}

func (w *wire) names() []StreamName {
	n := w.count(1)
	if n == 0 {
		return nil
	}
	names := make([]StreamName, n)
	for i := range names {
		names[i] = StreamName(w.string())
	}
	return names
}
