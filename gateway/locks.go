package gateway

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
)

func lockName(c *gin.Context) (event.LockName, error) {
	s, err := pathID(c, "name")
	return event.LockName(s), err
}

// acquireLock is POST /v1/locks/{name}.
func (g *Gateway) acquireLock(c *gin.Context) error {
	name, err := lockName(c)
	if err != nil {
		return err
	}
	key, err := acquireKey(c, "lock "+string(name))
	if err != nil {
		return err
	}
	o, err := bodyObject(c)
	if err != nil {
		return err
	}
	cmd := event.AcquireLock{Name: name, Key: key}
	var wait time.Duration
	cmd.Holder, cmd.LeaseMs, wait = g.holding(o)
	if o.err != nil {
		return o.err
	}
	free := func() bool {
		_, taken := g.leases.Lock(name)
		return !taken
	}
	watch := g.leases.WatchLock(name)
	defer watch.Close()
	res, err := g.acquire(c, cmd, wait, watch, free)
	remaining := func() (time.Duration, bool) { return g.leases.LockRemaining(name) }
	if err != nil {
		return g.heldFor(err, remaining)
	}
	a := granted{Epoch: res.LockEpoch, ExpiresInMs: cmd.LeaseMs}
	if left, ok := remaining(); ok {
		a.ExpiresInMs = min(left.Milliseconds(), cmd.LeaseMs)
	}
	return writeValue(c, http.StatusOK, a)
}

// renewLock is PUT /v1/locks/{name}.
func (g *Gateway) renewLock(c *gin.Context) error {
	name, err := lockName(c)
	if err != nil {
		return err
	}
	r, err := g.parseRenewal(c)
	if err != nil {
		return err
	}
	r.Run, r.Lock = event.RunID(name), true
	return g.renew(c, r)
}

// releaseLock is DELETE /v1/locks/{name}.
func (g *Gateway) releaseLock(c *gin.Context) error {
	name, err := lockName(c)
	if err != nil {
		return err
	}
	epoch, err := requiredEpoch(c)
	if err != nil {
		return err
	}
	if _, err := g.propose(c, event.ReleaseLock{Name: name, Epoch: epoch}); err != nil {
		return err
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}
