package gateway

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config configures a [Gateway]. Fields without "required" have a useful zero value.
type Config struct {
	// Log, Reader and Cluster are this node; required.
	Log     Log
	Reader  Reader
	Cluster Cluster
	// Leases are this node's, too; nil: the routes about leases, cancels and locks are not served.
	Leases Leases
	// Streams are this node's, too; nil: the routes of the Durable Streams protocol are not served.
	Streams Streams
	// RunStreams are this node's runs as Durable Streams; nil: they are not served so.
	RunStreams RunStreams
	// Subscriptions are this node's, too; nil: the control routes of that protocol are not served.
	Subscriptions Subscriptions
	// WebhookTargets says where webhooks may go beside public addresses.
	WebhookTargets WebhookTargets
	// Threads are this node's, too; nil: the routes about threads and changes are not served.
	Threads Threads
	// Logger receives what goes wrong inside; nil discards. Payloads are never logged.
	Logger *slog.Logger
	// Registry receives the gateway's metrics and is what GET /metrics shows; nil: a new one.
	Registry *prometheus.Registry
	// Heartbeat is how often an idle server-sent event stream carries a comment. Default 15 s.
	Heartbeat time.Duration
	// FlushTimeout is how long one write to a reader may take before the reader counts as too slow
	// and is cut off; it resumes with its cursor. Default 15 s.
	FlushTimeout time.Duration
	// ReadWait bounds how long a read waits for this node to catch up. Default 5 s.
	ReadWait time.Duration
	// LongPoll is how long a long poll of a stream waits for a message. Default 15 s.
	LongPoll time.Duration
	// StreamWindow is after how long a stream's server-sent events end, for the reader to come back
	// for the rest: caches and load balancers get to share readers out anew. Default 60 s.
	StreamWindow time.Duration
	// MaxTails bounds the tails open at once; more are answered 429. Default 10,000.
	MaxTails int
	// MinLease is the shortest lease that may be asked for. Default 1 s; tests set less.
	MinLease time.Duration
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// withDefaults returns the config with its defaults filled in, or says what is wrong with it.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Log == nil:
		return c, errors.New("config: Log is nil")
	case c.Reader == nil:
		return c, errors.New("config: Reader is nil")
	case c.Cluster == nil:
		return c, errors.New("config: Cluster is nil")
	}
	orDefault(&c.Logger, slog.New(slog.DiscardHandler))
	orDefault(&c.Heartbeat, 15*time.Second)
	orDefault(&c.FlushTimeout, 15*time.Second)
	orDefault(&c.ReadWait, 5*time.Second)
	orDefault(&c.LongPoll, 15*time.Second)
	orDefault(&c.StreamWindow, time.Minute)
	orDefault(&c.MaxTails, 10_000)
	orDefault(&c.MinLease, time.Second)
	if c.Registry == nil {
		c.Registry = prometheus.NewRegistry()
	}
	for _, d := range []time.Duration{c.Heartbeat, c.FlushTimeout, c.ReadWait, c.MinLease, c.LongPoll, c.StreamWindow} {
		if d < 0 {
			return c, errors.New("config: a duration is negative")
		}
	}
	return c, nil
}
