package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/runlog/runlog/event"
)

// Lock is a lock that is held, and renewed in the background. What it protects should carry its
// epoch and refuse smaller ones: a holder that is paused learns late that its lock has lapsed.
type Lock struct {
	c       *Client
	name    event.LockName
	epoch   event.Epoch
	term    time.Duration
	ctx     context.Context // the work's, as a request's is in net/http
	cancel  context.CancelCauseFunc
	renewed sync.WaitGroup
}

// ErrLockLapsed is why a lock's context ends when it could not be renewed in time.
var ErrLockLapsed = errors.New("the lock could not be renewed in time")

func lockPath(name event.LockName) string { return "/v1/locks/" + url.PathEscape(string(name)) }

// Lock acquires a lock at an epoch larger than any before it, and renews it until Unlock is called or ctx is
// done. Refusal: [event.ErrLeaseHeld], when another holder's lock outlived the wait.
func (c *Client) Lock(ctx context.Context, name event.LockName, a Acquisition) (*Lock, error) {
	asked := time.Now()
	got, err := c.acquire(ctx, lockPath(name), a)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	// The server says how long the term is, also where it chose it.
	l := &Lock{c: c, name: name, epoch: got.Epoch, term: time.Duration(max(a.LeaseMs, got.ExpiresInMs)) * time.Millisecond}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	l.renewed.Go(func() { l.renew(asked) })
	return l, nil
}

// Epoch is the lock's fencing token.
func (l *Lock) Epoch() event.Epoch { return l.epoch }

// Context is what the work under the lock should run under: it ends, with a cause, as soon as the
// lock is known to be lost ([event.ErrFenced]), or must be assumed to be ([ErrLockLapsed]).
func (l *Lock) Context() context.Context { return l.ctx }

// Unlock ends the renewals and gives the lock up. Giving up a lock that was lost already is no error.
func (l *Lock) Unlock(ctx context.Context) error {
	l.cancel(context.Canceled)
	l.renewed.Wait()
	_, err := l.c.do(ctx, &call{method: http.MethodDelete, path: lockPath(l.name), header: epochHeader(l.epoch), repeatable: true})
	if err != nil && !errors.Is(err, event.ErrFenced) {
		return fmt.Errorf("unlock %s: %w", l.name, err)
	}
	return nil
}

// renew renews three times a term, and more often while it fails, trying one server after the
// other. After a long wait it begins at once: when the lock was granted is not known.
func (l *Lock) renew(asked time.Time) {
	last, next := time.Now(), asked.Add(l.term/3)
	for sleep(l.ctx, time.Until(next)) {
		began := time.Now()
		ctx, stop := context.WithDeadline(l.ctx, last.Add(l.term))
		_, err := l.c.renew(ctx, lockPath(l.name), l.epoch, 0, min(l.term/3, l.c.attempt))
		stop()
		switch {
		case err == nil:
			last, next = began, began.Add(l.term/3)
		case errors.Is(err, event.ErrFenced):
			l.cancel(err)
		case time.Since(last) >= l.term:
			l.cancel(fmt.Errorf("%w: %w", ErrLockLapsed, err))
		default:
			next = time.Now().Add(l.term / 10)
		}
	}
}
