package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"time"

	"github.com/runlog/runlog/event"
)

// call is one request, to be sent to whichever server takes it.
type call struct {
	method string
	path   string // escaped, from the root
	query  url.Values
	header http.Header
	body   []byte
	// repeatable says that doing it twice is the same as doing it once.
	repeatable bool
	// patience bounds one attempt where it may be repeated; 0: Config.AttemptTimeout.
	patience time.Duration
}

// answer is a success.
type answer struct {
	status int
	header http.Header
	body   []byte
	// repeated says that an earlier attempt of the same call may have been carried out.
	repeated bool
}

// failure is one attempt that did not succeed, and what it means for the next.
type failure struct {
	err        error
	final      bool          // a refusal or a problem that no other server would answer otherwise
	ambiguous  bool          // it may have been carried out
	retryAfter time.Duration // what the server asked for
}

// do sends the call until a server answers, under the rules of the package comment. A refusal
// that follows an attempt that may have been carried out says so: it then also is
// [ErrOutcomeUnknown], and the caller may know better.
func (c *Client) do(ctx context.Context, r *call) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.retry)
	defer cancel()
	start := c.current.Load()
	maybe := false
	for n := 0; ; n++ {
		at := c.server(start, n)
		a, f := c.try(ctx, at, r)
		if f == nil {
			c.current.Store(at)
			a.repeated = maybe
			return a, nil
		}
		if f.final {
			c.current.Store(at)
			if maybe {
				return nil, fmt.Errorf("%w (%w by an earlier attempt)", f.err, ErrOutcomeUnknown)
			}
			return nil, f.err
		}
		maybe = maybe || f.ambiguous
		if f.ambiguous && !r.repeatable {
			return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, f.err)
		}
		c.log.DebugContext(ctx, "attempt failed", "server", c.servers[at].Host, "attempt", n+1, "error", f.err)
		if !c.pause(ctx, n, f.retryAfter) {
			return nil, fmt.Errorf("%w: %w", gaveUp(r, maybe), f.err)
		}
	}
}

// gaveUp names what is known when time runs out. A read has no outcome to be unsure of.
func gaveUp(r *call, maybe bool) error {
	if maybe && r.method != http.MethodGet {
		return ErrOutcomeUnknown
	}
	return ErrUnavailable
}

// try makes one attempt.
func (c *Client) try(ctx context.Context, at uint32, r *call) (*answer, *failure) {
	if r.repeatable {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, orDefault(r.patience, c.attempt))
		defer cancel()
	}
	connected := false
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected = true },
	})
	req, err := c.request(ctx, at, r)
	if err != nil {
		return nil, &failure{err: err, final: true}
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, &failure{err: err, ambiguous: connected}
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return nil, judge(resp)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, &failure{err: err, ambiguous: true}
	}
	return &answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

func (c *Client) request(ctx context.Context, at uint32, r *call) (*http.Request, error) {
	u := c.servers[at].String() + r.path
	if len(r.query) > 0 {
		u += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	for k, v := range r.header {
		req.Header[k] = v
	}
	if r.body == nil {
		req.Body, req.GetBody = http.NoBody, nil
	} else if req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json")
	}
	return req, nil
}

// judge says what an answer that is not a success means.
func judge(resp *http.Response) *failure {
	f := classify(resp.StatusCode, readProblem(resp))
	if !f.final && !f.ambiguous {
		f.retryAfter = retryAfter(resp.Header)
	}
	return f
}

// classify says what a status means that came with err.
func classify(status int, err error) *failure {
	f := &failure{err: err}
	var refusal event.Refusal
	if errors.As(f.err, &refusal) {
		f.final = true
		return f
	}
	switch status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		f.ambiguous = true
	default:
		f.final = true
	}
	return f
}

// retryAfter reads a Retry-After of seconds, the form that runlog sends.
func retryAfter(h http.Header) time.Duration {
	s, err := strconv.ParseFloat(h.Get("Retry-After"), 64)
	if err != nil || s < 0 || s > 3600 {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// pause waits before attempt n+1 and reports whether there is time for it. The first round over
// the servers does not wait unless asked to by the last of them; later ones wait longer and longer.
func (c *Client) pause(ctx context.Context, n int, asked time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	round := (n + 1) / len(c.servers)
	if (n+1)%len(c.servers) != 0 {
		return true
	}
	wait := min(25*time.Millisecond<<min(round-1, 5), 500*time.Millisecond)
	wait += rand.N(wait / 2)
	return sleep(ctx, max(wait, min(asked, time.Second)))
}

// sleep waits for d and reports whether the context outlived it.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
