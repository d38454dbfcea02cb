package raftlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ReadIndex waits until this node's state includes everything that was committed anywhere when it was
// called, so that a local read right after it is linearizable (Ongaro's thesis, section 6.4). It
// waits through elections up to ctx or Config.HoldFor, then returns ErrUnavailable: it never
// returns nil without a quorum's word that the leader still led after the call began.
func (n *Node) ReadIndex(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.HoldFor)
	defer cancel()
	for {
		changed := n.leadership.C()
		index, err := n.readIndex(ctx)
		if err == nil {
			if err = n.state.WaitApplied(ctx, index); err != nil {
				return fmt.Errorf("%w: state behind entry %d: %w", ErrUnavailable, index, err)
			}
			return nil
		}
		retry := time.NewTimer(retryEvery)
		select {
		case <-changed:
		case <-retry.C:
		case <-n.closing:
			retry.Stop()
			return fmt.Errorf("%w: %w", ErrUnavailable, ErrClosed)
		case <-ctx.Done():
			retry.Stop()
			return fmt.Errorf("%w: read index: %w", ErrUnavailable, err)
		}
		retry.Stop()
	}
}

func (n *Node) readIndex(ctx context.Context) (uint64, error) {
	if n.tenure.Load() != nil {
		return n.verified.await(ctx)
	}
	leader, id := n.raft.LeaderWithID()
	if leader == "" || id == n.id {
		return 0, errNotReady
	}
	var reply ReadIndexReply
	err := n.ask(ctx, leader, "ReadIndex", &Empty{}, &reply)
	return reply.Index, err
}

// WaitApplied waits until this node's state includes the log entry at index.
func (n *Node) WaitApplied(ctx context.Context, index uint64) error {
	return n.state.WaitApplied(ctx, index)
}

var errNotReady = errors.New("this node does not lead, or not yet")

// verifier asks a quorum whether this node still leads, once for all who ask while the question
// before is under way: a round serves those that arrived before it started.
type verifier struct {
	n *Node

	mu      sync.Mutex
	next    *round // gathers callers; nil: none
	running bool
	closed  bool
	done    sync.WaitGroup
}

type round struct {
	done  chan struct{}
	index uint64
	err   error
}

// await returns an index that includes everything committed before the call.
func (v *verifier) await(ctx context.Context) (uint64, error) {
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return 0, ErrClosed
	}
	if v.next == nil {
		v.next = &round{done: make(chan struct{})}
	}
	r := v.next
	if !v.running {
		v.running = true
		v.done.Go(v.run)
	}
	v.mu.Unlock()
	select {
	case <-r.done:
		return r.index, r.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (v *verifier) run() {
	for {
		v.mu.Lock()
		r := v.next
		v.next = nil
		if r == nil {
			v.running = false
			v.mu.Unlock()
			return
		}
		v.mu.Unlock()
		r.index, r.err = v.n.verifiedCommit()
		close(r.done)
	}
}

// verifiedCommit is one round. The commit index counts only in a tenure: before its LeaderStart
// is applied, a new leader may not know how far its predecessors committed. The term is compared
// afterwards, too: leadership lost and regained in between would mix two terms' answers.
func (n *Node) verifiedCommit() (uint64, error) {
	ten := n.tenure.Load()
	if ten == nil || n.raft.CurrentTerm() != ten.term {
		return 0, errNotReady
	}
	index := n.raft.CommitIndex()
	if err := n.raft.VerifyLeader().Error(); err != nil {
		return 0, fmt.Errorf("verify leadership: %w", err)
	}
	if n.raft.CurrentTerm() != ten.term {
		return 0, errNotReady
	}
	return index, nil
}

// close refuses further rounds and waits for the running one, which must end before raft shuts
// down: raft may leave a question unanswered then.
func (v *verifier) close() {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	v.done.Wait()
}
