package client

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/runlog/runlog/event"
)

// renewer keeps the leases of one holder's handles alive, all of them together: a host with a thousand runs
// asks a few times a term and not three thousand times. It belongs to its handles: the first one to
// join starts it, and the last one to leave ends it.
//
// Each lease is due three times a term, and more often while its renewal fails, so that a term's end is
// not slept through. Whenever one is due, those that are going to be soon are renewed with it.
type renewer struct {
	c      *Client
	holder event.HolderID
	ctx    context.Context // from the first handle to the last, whose own contexts end earlier or later
	end    context.CancelFunc
	done   sync.WaitGroup
	wake   chan struct{} // holds a token when a lease may be due earlier than it was

	mu      sync.Mutex
	members map[*Handle]*dueLease
}

// dueLease is when a lease is to be renewed next. A renewal on its way is not joined by another.
type dueLease struct {
	next    time.Time
	renewed bool // a renewal is on its way
}

// maxRenewals bounds the runs of one request, so that ids of any length fit into a body.
const maxRenewals = 500

// renewers are a client's, one a holder.
type renewers struct {
	mu  sync.Mutex
	all map[event.HolderID]*renewer
}

// join renews h's lease, which was asked for at that time, until ctx is done or the handle leaves.
func (c *Client) join(ctx context.Context, h *Handle, asked time.Time) {
	holder := h.run.Lease.Holder
	c.renewers.mu.Lock()
	defer c.renewers.mu.Unlock()
	r := c.renewers.all[holder]
	if r == nil {
		r = &renewer{c: c, holder: holder, wake: make(chan struct{}, 1), members: map[*Handle]*dueLease{}}
		r.ctx, r.end = context.WithCancel(context.Background())
		if c.renewers.all == nil {
			c.renewers.all = map[event.HolderID]*renewer{}
		}
		c.renewers.all[holder] = r
		defer r.done.Go(r.run)
	}
	r.mu.Lock()
	h.renewer = r
	h.unwatch = context.AfterFunc(ctx, func() { r.leave(h) })
	r.members[h] = &dueLease{next: asked.Add(h.term() / 3)}
	r.mu.Unlock()
	r.hurry()
}

// leave renews h's lease no more, but for a renewal that is on its way. It may be called again.
func (r *renewer) leave(h *Handle) {
	r.c.renewers.mu.Lock()
	defer r.c.renewers.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.members, h)
	if len(r.members) == 0 && r.ctx.Err() == nil {
		r.end()
		delete(r.c.renewers.all, r.holder)
	}
}

// wait waits for the goroutines, if the last handle has left.
func (r *renewer) wait() {
	if r.ctx.Err() != nil {
		r.done.Wait()
	}
}

func (r *renewer) hurry() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *renewer) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-r.wake:
		case <-r.ctx.Done():
			return
		}
		due, wait := r.take(time.Now())
		for some := range slices.Chunk(due, maxRenewals) {
			r.done.Go(func() { r.renew(some) })
		}
		timer.Reset(wait)
	}
}

// take returns whose leases are to be renewed now, and how long until the next one may be.
func (r *renewer) take(now time.Time) (due []*Handle, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	soon := time.Duration(-1)
	for h, m := range r.members {
		if !m.renewed && !m.next.After(now) && (soon < 0 || h.term()/3 < soon) {
			soon = h.term() / 3
		}
	}
	wait = time.Hour
	for h, m := range r.members {
		switch {
		case m.renewed:
		case soon >= 0 && !m.next.After(now.Add(soon)):
			m.renewed = true
			due = append(due, h)
		default:
			wait = min(wait, m.next.Sub(now))
		}
	}
	return due, wait
}

// renew renews the leases of some handles in one request.
func (r *renewer) renew(some []*Handle) {
	defer r.hurry()
	began := time.Now()
	if len(some) == 1 {
		r.renewOne(some[0])
		return
	}
	held := make([]Held, len(some))
	shortest := r.c.attempt
	for i, h := range some {
		held[i] = Held{h.run.RunID, h.run.Epoch}
		shortest = min(shortest, h.term()/3)
	}
	got, err := r.c.renewAll(r.ctx, r.holder, 0, held, shortest)
	if err != nil || len(got) != len(some) {
		r.c.log.DebugContext(r.ctx, "renewals failed", "holder", r.holder, "runs", len(some), "error", err)
		for _, h := range some {
			r.failed(h)
		}
		return
	}
	var lost []*Handle
	for i, h := range some {
		if got[i].OK {
			r.succeeded(h, began, got[i].CancelRequested)
		} else {
			lost = append(lost, h)
		}
	}
	for _, h := range lost { // asked by itself, each is told why, with everything that belongs to it
		r.renewOne(h)
	}
}

func (r *renewer) renewOne(h *Handle) {
	began := time.Now()
	got, err := r.c.renew(r.ctx, runPath(h.run.RunID, "/lease"), h.run.Epoch, 0, min(h.term()/3, r.c.attempt))
	if err == nil {
		r.succeeded(h, began, got.CancelRequested)
		return
	}
	r.c.log.DebugContext(r.ctx, "renewal failed", "run", h.run.RunID, "epoch", h.run.Epoch, "error", err)
	h.learn(err)
	r.failed(h)
}

func (r *renewer) succeeded(h *Handle, began time.Time, cancelRequested bool) {
	h.asked(cancelRequested)
	r.schedule(h, began.Add(h.term()/3))
}

func (r *renewer) failed(h *Handle) {
	r.schedule(h, time.Now().Add(min(h.term()/10, time.Second)))
}

// schedule says when a lease is due again, unless its handle has left.
func (r *renewer) schedule(h *Handle, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.members[h]; m != nil {
		m.next, m.renewed = next, false
	}
}
