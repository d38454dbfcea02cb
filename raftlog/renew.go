package raftlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/lease"
)

// Renewal asks for a lease to last LeaseMs from now.
type Renewal struct {
	// Run is the run, or the lock's name when Lock is set.
	Run   event.RunID
	Lock  bool
	Epoch event.Epoch
	// LeaseMs is the term; 0: the one that the lease was acquired for.
	LeaseMs int64
}

// RenewResult answers a [Renewal].
type RenewResult struct {
	// Refusal is [event.Fenced], [event.RunEnded], [event.RunNotFound] or [event.RunDeleted]; nil:
	// the lease lasts ExpiresInMs from a moment between question and answer.
	Refusal         event.Refusal
	ExpiresInMs     int64
	CancelRequested bool
}

// Renew renews leases, on the leader, wherever that is; results stand in the order of renewals. It
// writes nothing to the log, but for leases that had lapsed or are to last longer than before, and does not wait behind appends. It returns only after
// a quorum confirmed the leader, in a round that began after the leases were extended: a deposed
// leader never confirms a renewal.
//
// It holds through elections up to Config.HoldFor or ctx, then returns ErrUnavailable: the
// leases may have been renewed or not, and asking again is harmless.
func (n *Node) Renew(ctx context.Context, renewals []Renewal) ([]RenewResult, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.HoldFor)
	defer cancel()
	for {
		changed := n.leadership.C()
		results, err := n.renew(ctx, renewals)
		if err == nil {
			return results, nil
		}
		retry := time.NewTimer(retryEvery)
		select {
		case <-changed:
		case <-retry.C:
		case <-n.closing:
			retry.Stop()
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, ErrClosed)
		case <-ctx.Done():
			retry.Stop()
			return nil, fmt.Errorf("%w: renew: %w", ErrUnavailable, err)
		}
		retry.Stop()
	}
}

// renew is one attempt.
func (n *Node) renew(ctx context.Context, renewals []Renewal) ([]RenewResult, error) {
	if ten := n.tenure.Load(); ten != nil {
		return n.lessor.renew(ctx, ten, renewals)
	}
	leader, id := n.raft.LeaderWithID()
	if leader == "" || id == n.id {
		return nil, errNotReady
	}
	var reply RenewReply
	if err := n.ask(ctx, leader, "Renew", &RenewArgs{renewals}, &reply); err != nil {
		return nil, err
	}
	if len(reply.Answers) != len(renewals) {
		return nil, errNotReady
	}
	results := make([]RenewResult, len(renewals))
	for i, a := range reply.Answers {
		results[i] = RenewResult{ExpiresInMs: a.ExpiresInMs, CancelRequested: a.CancelRequested}
		if a.Code != "" {
			var err error
			if results[i].Refusal, err = event.DecodeRefusal(a.Code, a.Fields); err != nil {
				return nil, err
			}
		}
	}
	return results, nil
}

// LeaseRemaining returns how long the run's lease lasts from now, if this node leads and it has one that is
// live. It asks nobody: on a leader that was just deposed the answer is out of date.
func (n *Node) LeaseRemaining(run event.RunID) (time.Duration, bool) {
	return n.lessor.remaining(run, false)
}

// LockRemaining is LeaseRemaining for a lock.
func (n *Node) LockRemaining(name event.LockName) (time.Duration, bool) {
	return n.lessor.remaining(event.RunID(name), true)
}

func (l *lessor) remaining(name event.RunID, lock bool) (time.Duration, bool) {
	ten := l.n.tenure.Load()
	if ten == nil {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ten != ten {
		return 0, false
	}
	l.take()
	if lock {
		return l.judge.RemainingLock(event.LockName(name))
	}
	return l.judge.Remaining(name)
}

// renew answers renewals during one tenure.
func (l *lessor) renew(ctx context.Context, ten *tenure, renewals []Renewal) ([]RenewResult, error) {
	results := make([]RenewResult, len(renewals))
	todo := make([]int, len(renewals))
	for i := range todo {
		todo[i] = i
	}
	for len(todo) > 0 {
		answered := l.answered.C()
		judged, write, err := l.extend(ctx, ten, renewals, results, todo)
		if err != nil {
			return nil, err
		}
		if err := l.write(ctx, renewals, results, write); err != nil {
			return nil, err
		}
		if todo = judged; len(todo) == 0 {
			break
		}
		select {
		case <-answered:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if err := shareRound(ctx); err != nil {
		return nil, err
	}
	if _, err := l.n.verified.await(ctx); err != nil {
		return nil, err
	}
	if l.n.tenure.Load() != ten {
		return nil, errNotReady
	}
	return results, nil
}

// roundEvery is how far apart the rounds are that confirm renewals. Thousands of hosts that renew
// one run each would otherwise keep a quorum busy with nothing else.
const roundEvery = 20 * time.Millisecond

// shareRound waits for the next multiple of roundEvery, at which all renewals since the last one ask
// for their confirmation together.
func shareRound(ctx context.Context) error {
	now := time.Now()
	t := time.NewTimer(now.Truncate(roundEvery).Add(roundEvery).Sub(now))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// extend extends the leases of the renewals in todo, and returns those that must wait for a verdict
// and those that must be written to the log.
func (l *lessor) extend(ctx context.Context, ten *tenure, renewals []Renewal, results []RenewResult, todo []int) (judged, write []int, err error) {
	var unknown []int
	l.mu.Lock()
	if l.ten != ten {
		l.mu.Unlock()
		return nil, nil, errNotReady
	}
	l.take()
	for _, i := range todo {
		r, err := l.extendOne(&renewals[i])
		var refusal event.Refusal
		switch {
		case errors.Is(err, lease.ErrJudged):
			judged = append(judged, i)
			continue
		case errors.Is(err, event.ErrRunNotFound):
			unknown = append(unknown, i)
			continue
		case errors.As(err, &refusal):
			results[i] = RenewResult{Refusal: refusal}
			continue
		}
		results[i] = RenewResult{ExpiresInMs: r.Left.Milliseconds(), CancelRequested: r.CancelRequested}
		if r.Write {
			write = append(write, i)
		}
	}
	l.mu.Unlock()
	for _, i := range unknown {
		if results[i].Refusal, err = l.n.unrenewable(ctx, &renewals[i]); err != nil {
			return nil, nil, err
		}
	}
	return judged, write, nil
}

func (l *lessor) extendOne(r *Renewal) (lease.Renewal, error) {
	if r.Lock {
		return l.judge.RenewLock(event.LockName(r.Run), r.Epoch, r.LeaseMs)
	}
	return l.judge.Renew(r.Run, r.Epoch, r.LeaseMs)
}

// unrenewable says why the judge knows nothing of a run or lock.
func (n *Node) unrenewable(ctx context.Context, r *Renewal) (event.Refusal, error) {
	if r.Lock {
		return &event.Fenced{Epoch: r.Epoch}, nil
	}
	run, err := n.state.Run(ctx, r.Run)
	var refusal event.Refusal
	switch {
	case errors.As(err, &refusal):
		return refusal, nil
	case err != nil:
		return nil, fmt.Errorf("renew run %s: %w", r.Run, err)
	case run.Epoch != r.Epoch || run.TerminalOffset == nil:
		return &event.Fenced{Epoch: r.Epoch, CurrentEpoch: run.Epoch}, nil
	}
	return &event.RunEnded{TerminalOffset: *run.TerminalOffset}, nil
}

// write puts renewals into the log that must outlive this leader. They pass by the admission, as
// verdicts do, so that a full queue ends no run.
func (l *lessor) write(ctx context.Context, renewals []Renewal, results []RenewResult, which []int) error {
	if len(which) == 0 {
		return nil
	}
	commands := make([][]byte, len(which))
	for k, i := range which {
		r := &renewals[i]
		commands[k] = event.AppendCommand(nil, event.ReviveLease{Run: r.Run, Epoch: r.Epoch, LeaseMs: r.LeaseMs})
	}
	tickets, err := l.n.queue.add(make([]ticket, 0, len(which)), true, commands...)
	if err != nil {
		return err
	}
	for k, t := range tickets {
		select {
		case <-t.group.done:
		case <-ctx.Done():
			return ctx.Err()
		case <-l.n.abort:
			return ErrClosed
		}
		o := t.outcome()
		if o.err != nil {
			return o.err
		}
		if o.result.Refusal != nil {
			results[which[k]] = RenewResult{Refusal: o.result.Refusal}
		}
	}
	return nil
}

// RenewArgs carries renewals to the leader.
type RenewArgs struct{ Renewals []Renewal }

// RenewReply answers each of them.
type RenewReply struct{ Answers []RenewAnswer }

// RenewAnswer is a [RenewResult] on its way between nodes: a refusal travels as code and JSON.
type RenewAnswer struct {
	ExpiresInMs     int64
	CancelRequested bool
	Code            string
	Fields          []byte
}

// Renew answers a follower's renewals. It does not hold: the follower does.
func (s *service) Renew(args *RenewArgs, reply *RenewReply) error {
	ten := s.n.tenure.Load()
	if ten == nil {
		return errNotReady
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.n.cfg.HoldFor)
	defer cancel()
	results, err := s.n.lessor.renew(ctx, ten, args.Renewals)
	if err != nil {
		return err
	}
	reply.Answers = make([]RenewAnswer, len(results))
	for i, r := range results {
		a := RenewAnswer{ExpiresInMs: r.ExpiresInMs, CancelRequested: r.CancelRequested}
		if r.Refusal != nil {
			a.Code = r.Refusal.Code()
			if a.Fields, err = json.Marshal(r.Refusal); err != nil {
				return fmt.Errorf("encode refusal %s: %w", a.Code, err)
			}
		}
		reply.Answers[i] = a
	}
	return nil
}
