package client

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Config says where the cluster is and how patient to be. Only Servers is required.
type Config struct {
	// Servers are the base URLs of the nodes ("http://127.0.0.1:4437"), in order of preference.
	Servers []string
	// HTTPClient sends the requests. Its Timeout must be 0, or tails reconnect when it passes.
	// nil: one with connections of its own.
	HTTPClient *http.Client
	// Logger hears of retries and reconnections, at debug level. nil: nobody does.
	Logger *slog.Logger
	// RetryFor bounds one call over all its attempts; a context's deadline may cut it shorter. For a
	// tail or a replay it bounds the time without any server bringing it further. 0: 4.5 s, so that
	// a call has settled before five have passed.
	RetryFor time.Duration
	// AttemptTimeout bounds one attempt of a call that may be repeated, so that a node that hangs
	// costs that much and not the call. 0: 2 s.
	AttemptTimeout time.Duration
	// IdleTimeout is how long a tail may hear nothing, not even a heartbeat, before it reconnects.
	// 0: 40 s, which is two heartbeats and some.
	IdleTimeout time.Duration
}

// Client is a connection to a cluster. Make one with [New] and share it.
type Client struct {
	servers []*url.URL
	http    *http.Client
	log     *slog.Logger
	retry   time.Duration
	attempt time.Duration
	idle    time.Duration
	current atomic.Uint32 // index of the server that answered last

	renewers renewers // of the handles
}

// New checks cfg and returns a client. It opens no connection.
func New(cfg Config) (*Client, error) {
	c := &Client{
		http:    cfg.HTTPClient,
		log:     cfg.Logger,
		retry:   orDefault(cfg.RetryFor, 4500*time.Millisecond),
		attempt: orDefault(cfg.AttemptTimeout, 2*time.Second),
		idle:    orDefault(cfg.IdleTimeout, 40*time.Second),
	}
	if len(cfg.Servers) == 0 {
		return nil, errors.New("client: no servers")
	}
	for _, s := range cfg.Servers {
		u, err := url.Parse(strings.TrimRight(s, "/"))
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("client: server %q is not an http:// or https:// URL", s)
		}
		c.servers = append(c.servers, u)
	}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport()}
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// newTransport returns a transport that notices an unreachable server soon and keeps enough idle
// connections for many writers to one node.
func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		MaxIdleConns:        512,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     60 * time.Second,
	}
}

func orDefault(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}

// server returns the index of the server to try at attempt n of a call that began at start.
func (c *Client) server(start uint32, n int) uint32 {
	return (start + uint32(n)) % uint32(len(c.servers))
}
