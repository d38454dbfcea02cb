package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// WebhookTargets says which addresses webhooks may go to. The zero value allows public ones over
// https: whoever may subscribe must not reach into the cluster's own network through it
// (server-side request forgery).
type WebhookTargets struct {
	// Allow are networks that may be posted to although they are private or loopback, over http too.
	Allow []netip.Prefix
}

var errPrivateTarget = errors.New("webhook.url leads to an address that webhooks may not go to")

// allowed reports whether an address may be posted to, and whether that may be without TLS.
func (t WebhookTargets) allowed(a netip.Addr) (ok, plain bool) {
	a = a.Unmap()
	for _, p := range t.Allow {
		if p.Contains(a) {
			return true, true
		}
	}
	public := a.IsGlobalUnicast() && !a.IsPrivate() && !sharedSpace.Contains(a) && !thisNetwork.Contains(a) && !nat64.Contains(a)
	return public, false
}

// Ranges beside the private ones that lead to nobody outside: RFC 6598, RFC 791, and RFC 6052, which
// embeds any IPv4 address.
var (
	sharedSpace = netip.MustParsePrefix("100.64.0.0/10")
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	nat64       = netip.MustParsePrefix("64:ff9b::/96")
)

// checkURL refuses a URL that can be seen to lead where webhooks may not go. What a name leads to is
// seen when it is dialed.
func (t WebhookTargets) checkURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return errors.New("webhook.url is not a URL to post to")
	}
	host := u.Hostname()
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ok, plain := true, false
	if a, err := netip.ParseAddr(host); err == nil {
		ok, plain = t.allowed(a)
	}
	switch {
	case !ok:
		return errPrivateTarget
	case u.Scheme == "https", u.Scheme == "http" && plain:
		return nil
	}
	return errors.New("webhook.url must use https")
}

// webhookTimeout bounds one delivery.
const webhookTimeout = 10 * time.Second

// client returns an HTTP client that goes nowhere else, whatever a name resolves to, and follows no
// redirect.
func (t WebhookTargets) client() *http.Client {
	dialer := &net.Dialer{Timeout: webhookTimeout, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("webhook: %w", err)
		}
		if ok, _ := t.allowed(a.Addr()); !ok {
			return errPrivateTarget
		}
		return nil
	}}
	return &http.Client{
		Timeout:       webhookTimeout,
		Transport:     &http.Transport{DialContext: dialer.DialContext, MaxIdleConns: 100, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
