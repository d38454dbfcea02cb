package event

// The kinds of the commands about subscriptions.
const (
	KindSubscribe   Kind = 30
	KindUnsubscribe Kind = 31
	KindLinkStreams Kind = 32
	KindClaimWake   Kind = 33
	KindAckWake     Kind = 34
	KindLapseWake   Kind = 35
	KindNoteWebhook Kind = 36
)

// Subscribe makes a subscription, or answers with the one of that name and configuration.
// Result.Created tells which.
type Subscribe struct {
	ID     SubscriptionID
	Config SubscriptionConfig
	Base   string
	// Keys become the cluster's if it has none yet.
	Keys SigningKeys
	// Key tells a repeated request from a new one.
	Key IdempotencyKey
}

// Unsubscribe deletes a subscription; one that does not exist is fine.
type Unsubscribe struct{ ID SubscriptionID }

// LinkStreams adds streams to those that a subscription names one by one, or takes some out.
type LinkStreams struct {
	ID     SubscriptionID
	Add    []StreamName
	Remove []StreamName
}

// ClaimWake makes a worker the holder of a pull-wake subscription's wake, which it brings about when
// there is something to do.
type ClaimWake struct {
	ID     SubscriptionID
	Worker string
}

// AckWake acknowledges what a woken consumer has processed, and keeps its lease alive. Done ends the
// wake; with something left, the next one begins at once. A release is an AckWake without
// acknowledgements that is done.
type AckWake struct {
	ID         SubscriptionID
	Generation uint64
	WakeID     string
	Acks       []Ack
	Done       bool
}

// Ack says that a stream was processed up to an offset.
type Ack struct {
	Stream StreamName
	Offset Offset
}

// LapseWake is the leader's verdict that a woken consumer let its lease run out. Apply checks it
// against the log's own clock.
type LapseWake struct {
	ID         SubscriptionID
	Generation uint64
}

// NoteWebhook records whether deliveries of a webhook get through.
type NoteWebhook struct {
	ID      SubscriptionID
	Failing bool
}

// Kind returns the command's number.
func (*Subscribe) Kind() Kind { return KindSubscribe }

// Kind returns the command's number.
func (Unsubscribe) Kind() Kind { return KindUnsubscribe }

// Kind returns the command's number.
func (*LinkStreams) Kind() Kind { return KindLinkStreams }

// Kind returns the command's number.
func (ClaimWake) Kind() Kind { return KindClaimWake }

// Kind returns the command's number.
func (*AckWake) Kind() Kind { return KindAckWake }

// Kind returns the command's number.
func (LapseWake) Kind() Kind { return KindLapseWake }

// Kind returns the command's number.
func (NoteWebhook) Kind() Kind { return KindNoteWebhook }
