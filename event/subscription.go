package event

// SubscriptionID names a subscription of the Durable Streams protocol's reserved control routes;
// same form as a [RunID].
type SubscriptionID string

// SubscriptionType is how a subscription wakes its consumer.
type SubscriptionType string

// SubscriptionWebhook posts to a URL; SubscriptionPullWake appends an event to a stream that workers
// follow and claim wakes from.
const (
	SubscriptionWebhook  SubscriptionType = "webhook"
	SubscriptionPullWake SubscriptionType = "pull-wake"
)

// Bounds of subscriptions: of all of them, of one's configuration once encoded, of the streams linked to
// one and named in one request, and of a wake's lease. [Cost] counts on them: any write to a stream may
// link it to every subscription, and one entry may wake them all.
const (
	MaxSubscriptions     = 100
	MaxSubscriptionBytes = 2 << 10
	MaxSubscribedStreams = 10_000
	MaxNamedStreams      = 1000
	MinWakeLeaseMs       = 1000
	MaxWakeLeaseMs       = 600_000
)

// SubscriptionConfig is what a subscription was made with; a repeated creation must name the same.
type SubscriptionConfig struct {
	Type SubscriptionType
	// Pattern selects streams by name: "*" stands for one segment, "**" for any number. Empty: none.
	Pattern string
	// Streams are the streams named one by one, sorted, each once.
	Streams []StreamName
	// URL is where a webhook goes.
	URL string
	// WakeStream takes the events of a pull-wake subscription, which never watches it.
	WakeStream  StreamName
	LeaseMs     int64
	Description string
}

// Equal reports whether two configurations are the same.
func (c *SubscriptionConfig) Equal(o *SubscriptionConfig) bool {
	same := c.Type == o.Type && c.Pattern == o.Pattern && c.URL == o.URL && c.WakeStream == o.WakeStream &&
		c.LeaseMs == o.LeaseMs && c.Description == o.Description && len(c.Streams) == len(o.Streams)
	for i := 0; same && i < len(c.Streams); i++ {
		same = c.Streams[i] == o.Streams[i]
	}
	return same
}

// Subscription is a subscription as readers see it.
type Subscription struct {
	ID        SubscriptionID
	Config    SubscriptionConfig
	CreatedAt Time
	// Base is the scheme and host under which its creator reached the cluster; callbacks name it.
	Base string
	// Generation counts wakes; WakeID is the present one's, empty while nobody is woken.
	Generation uint64
	WakeID     string
	// Trigger is the stream that brought the present wake about.
	Trigger StreamName
	// Holder is the worker that claimed the wake; empty: nobody did.
	Holder string
	// Failing says that the last delivery of a webhook failed.
	Failing bool
	Streams []SubscribedStream // by name
}

// SubscribedStream is one stream that a subscription watches.
//
// Invariant: Acked <= Tail, unless the stream was deleted and made again since.
type SubscribedStream struct {
	Name     StreamName
	Explicit bool // named one by one, not by the pattern
	Acked    Offset
	Tail     Offset
}

// Pending reports whether the stream holds something that was not acknowledged.
func (s *SubscribedStream) Pending() bool { return s.Tail > s.Acked }

// SigningKeys are the cluster's secrets for subscriptions, made once, on the first subscription: the
// seed of the Ed25519 key that signs webhooks, and the key of the codes that make tokens.
type SigningKeys struct {
	Seed  [32]byte
	Token [32]byte
}
