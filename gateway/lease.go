package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/raftlog"
)

// Leases is what a node knows and does about leases beside the log; raftlog.Node and fsm.Machine
// together implement it. All methods may be called from any goroutine.
type Leases interface {
	// Renew renews leases on the leader; see [raftlog.Node.Renew]. Its error is
	// raftlog.ErrUnavailable.
	Renew(ctx context.Context, renewals []raftlog.Renewal) ([]raftlog.RenewResult, error)
	// LeaseRemaining and LockRemaining say how long a live lease lasts, on the leader alone.
	LeaseRemaining(run event.RunID) (time.Duration, bool)
	LockRemaining(name event.LockName) (time.Duration, bool)
	// HolderRuns returns the open runs that holder has leased and not given up, in this node's state.
	HolderRuns(holder event.HolderID) ([]event.LeaseView, error)
	// Lock returns who holds a lock in this node's state; false: nobody.
	Lock(name event.LockName) (event.LeaseView, bool)
	// WatchLock subscribes to changes of a lock.
	WatchLock(name event.LockName) Watch
}

// maxWaitMs bounds how long an acquisition may wait.
const maxWaitMs = 60_000

func (g *Gateway) leaseRoutes() []route {
	if g.leases == nil {
		return nil
	}
	return []route{
		{http.MethodPost, "/v1/runs/:runId/lease", g.acquireLease},
		{http.MethodPut, "/v1/runs/:runId/lease", g.renewLease},
		{http.MethodDelete, "/v1/runs/:runId/lease", g.releaseLease},
		{http.MethodPost, "/v1/runs/:runId/cancel", g.cancelRun},
		{http.MethodPut, "/v1/leases", g.renewLeases},
		{http.MethodDelete, "/v1/leases", g.releaseLeases},
		{http.MethodPost, "/v1/locks/:name", g.acquireLock},
		{http.MethodPut, "/v1/locks/:name", g.renewLock},
		{http.MethodDelete, "/v1/locks/:name", g.releaseLock},
	}
}

// granted is the answer to an acquisition and to a renewal.
type granted struct {
	Epoch           event.Epoch   `json:"epoch"`
	Tail            *event.Offset `json:"tail,omitempty"`
	ExpiresInMs     int64         `json:"expiresInMs"`
	CancelRequested *bool         `json:"cancelRequested,omitempty"`
	Open            *event.Open   `json:"open,omitempty"`
}

// acquireLease is POST /v1/runs/{runId}/lease.
func (g *Gateway) acquireLease(c *gin.Context) error {
	id, err := runID(c)
	if err != nil {
		return err
	}
	cmd := event.AcquireLease{Run: id}
	wait, err := g.parseAcquire(c, &cmd)
	if err != nil {
		return err
	}
	free := func() bool {
		run, err := g.reader.Run(c.Request.Context(), id)
		return err != nil || run.Ended || run.Lease == nil || run.Lease.State != event.LeaseStateHeld
	}
	watch := g.reader.Watch(id)
	defer watch.Close()
	res, err := g.acquire(c, cmd, wait, watch, free)
	if err != nil {
		return g.heldFor(err, func() (time.Duration, bool) { return g.leases.LeaseRemaining(id) })
	}
	a := granted{Epoch: res.Run.Epoch, Tail: &res.Run.Tail, ExpiresInMs: cmd.LeaseMs, Open: res.Run.Open}
	if left, ok := g.leases.LeaseRemaining(id); ok {
		a.ExpiresInMs = min(left.Milliseconds(), cmd.LeaseMs) // less when the request was a repeated one
	}
	return writeValue(c, http.StatusOK, a)
}

// parseAcquire reads an acquisition's body into cmd.
func (g *Gateway) parseAcquire(c *gin.Context, cmd *event.AcquireLease) (wait time.Duration, err error) {
	if cmd.Key, err = acquireKey(c, "lease "+string(cmd.Run)); err != nil {
		return 0, err
	}
	o, err := bodyObject(c)
	if err != nil {
		return 0, err
	}
	cmd.Holder, cmd.LeaseMs, wait = g.holding(o)
	cmd.IfEpoch = (*event.Epoch)(o.natural("ifEpoch"))
	if cmd.Steal = o.flag("steal", false); cmd.Steal && cmd.IfEpoch == nil {
		o.fail("steal", "needs ifEpoch, the epoch of the lease to take")
	}
	return wait, o.err
}

// holding reads what every acquisition says: who, for how long, and how long to wait for it.
func (g *Gateway) holding(o *object) (holder event.HolderID, leaseMs int64, wait time.Duration) {
	holder = event.HolderID(o.required("holder"))
	leaseMs = defaultLeaseMs
	if n := o.number("leaseMs", g.cfg.MinLease.Milliseconds(), maxLeaseMs); n != nil {
		leaseMs = *n
	}
	if n := o.number("waitMs", 0, maxWaitMs); n != nil {
		wait = time.Duration(*n) * time.Millisecond
	}
	return holder, leaseMs, wait
}

// acquireKey is the request's Idempotency-Key as what commands carry; without one a key of its
// own, so that the log can repeat the request where it stands in doubt.
func acquireKey(c *gin.Context, scope string) (event.IdempotencyKey, error) {
	key, has, err := header(c.Request.Header, "Idempotency-Key")
	if err != nil {
		return event.IdempotencyKey{}, err
	}
	if !has {
		return event.HashKey(scope, rand.Text()), nil
	}
	return event.HashKey(scope, key), checkID("header", "Idempotency-Key", key)
}

// acquire proposes an acquisition until it is not refused because the lease is held, or the wait is over. It
// is proposed again when this node's state says that the lease is free; appends of the holder
// wake it, too, and cost a look.
func (g *Gateway) acquire(c *gin.Context, cmd event.Command, wait time.Duration, watch Watch, free func() bool) (event.Result, error) {
	if wait > 0 {
		if err := liftDeadlines(c); err != nil {
			return event.Result{}, err
		}
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		changed := watch.C()
		res, err := g.propose(c, cmd)
		if !errors.Is(err, event.ErrLeaseHeld) {
			return res, err
		}
		for again := false; !again; again = free() {
			select {
			case <-changed:
			case <-timer.C:
				return res, err
			case <-g.draining:
				return res, err
			case <-c.Request.Context().Done():
				return res, c.Request.Context().Err()
			}
			changed = watch.C()
		}
	}
}

// heldFor adds to a lease_held what this node knows of when it ends.
func (g *Gateway) heldFor(err error, remaining func() (time.Duration, bool)) error {
	var held *event.LeaseHeld
	if !errors.As(err, &held) {
		return err
	}
	if left, ok := remaining(); ok {
		ms := left.Milliseconds()
		return &event.LeaseHeld{Holder: held.Holder, ExpiresInMs: &ms}
	}
	return err
}

// renewLease is PUT /v1/runs/{runId}/lease.
func (g *Gateway) renewLease(c *gin.Context) error {
	id, err := runID(c)
	if err != nil {
		return err
	}
	r, err := g.parseRenewal(c)
	if err != nil {
		return err
	}
	r.Run = id
	return g.renew(c, r)
}

func (g *Gateway) parseRenewal(c *gin.Context) (raftlog.Renewal, error) {
	epoch, err := requiredEpoch(c)
	if err != nil {
		return raftlog.Renewal{}, err
	}
	o, err := bodyObject(c)
	if err != nil {
		return raftlog.Renewal{}, err
	}
	r := raftlog.Renewal{Epoch: epoch}
	if n := o.number("leaseMs", g.cfg.MinLease.Milliseconds(), maxLeaseMs); n != nil {
		r.LeaseMs = *n
	}
	return r, o.err
}

func (g *Gateway) renew(c *gin.Context, r raftlog.Renewal) error {
	results, err := g.leases.Renew(c.Request.Context(), []raftlog.Renewal{r})
	if err != nil {
		return err
	}
	if results[0].Refusal != nil {
		return results[0].Refusal
	}
	a := granted{Epoch: r.Epoch, ExpiresInMs: results[0].ExpiresInMs}
	if !r.Lock {
		a.CancelRequested = &results[0].CancelRequested
	}
	return writeValue(c, http.StatusOK, a)
}

// releaseLease is DELETE /v1/runs/{runId}/lease.
func (g *Gateway) releaseLease(c *gin.Context) error {
	id, err := runID(c)
	if err != nil {
		return err
	}
	epoch, err := requiredEpoch(c)
	if err != nil {
		return err
	}
	cmd := event.ReleaseLease{Run: id, Epoch: epoch}
	q := newQuery(c.Request)
	if n := q.number("takeoverMs"); n != nil {
		if *n > maxTakeoverMs {
			q.fail("takeoverMs", "must be at most "+strconv.Itoa(maxTakeoverMs))
		}
		ms := int64(*n)
		cmd.TakeoverMs = &ms
	}
	if q.err != nil {
		return q.err
	}
	if _, err := g.propose(c, cmd); err != nil {
		return err
	}
	c.Writer.WriteHeader(http.StatusNoContent)
	return nil
}

// requiredEpoch reads Run-Epoch where nothing can be done without it.
func requiredEpoch(c *gin.Context) (event.Epoch, error) {
	epoch, err := numberHeader(c.Request.Header, "Run-Epoch")
	if err == nil && epoch == nil {
		err = &inputError{"header", "Run-Epoch", "is missing"}
	}
	if err != nil {
		return 0, err
	}
	return event.Epoch(*epoch), nil
}

// addRemaining fills in how long a run's lease lasts, where this node knows.
func (g *Gateway) addRemaining(run *event.Run) {
	if g.leases == nil || run.Lease == nil || run.Lease.State != event.LeaseStateHeld || run.Ended {
		return
	}
	if left, ok := g.leases.LeaseRemaining(run.RunID); ok {
		ms := left.Milliseconds()
		run.Lease.ExpiresInMs = &ms
	}
}
