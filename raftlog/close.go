package raftlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// drainTimeout bounds how long Close waits for proposals in flight. Raft answers them within an
// election timeout unless its disk or the state machine hangs.
const drainTimeout = 5 * time.Second

// Close hands over leadership, waits for what is in flight, and closes raft, the network, the state
// and the log, in this order. Calls that wait are answered: ErrClosed, or ErrOutcomeUnknown. It is
// safe to call twice; the second call waits for the first.
func (n *Node) Close() error {
	n.closeOnce.Do(func() { n.closeErr = n.shutdown() })
	return n.closeErr
}

func (n *Node) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*n.cfg.ElectionTimeout)
	if err := n.handOver(ctx); err != nil {
		n.logger.Warn("closing without handing over leadership", "error", err)
	}
	cancel()
	close(n.closing)
	n.queue.close()
	n.commits.Wait()
	// Raft may leave futures unanswered when it shuts down, so what waits for it ends before.
	ctx, cancel = context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if !waitFor(ctx, &n.inFlight) {
		n.logger.Error("closing with proposals in flight")
	}
	close(n.abort)
	n.verified.close()
	err := n.release()
	n.background.Wait()
	return errors.Join(err, n.state.Close())
}

// waitFor waits for g until ctx ends.
func waitFor(ctx context.Context, g *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		g.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// release closes what is open of raft, the network and the files; Open uses it, too.
func (n *Node) release() error {
	var errs []error
	if n.proposals != nil {
		n.proposals.close()
		n.questions.close()
	}
	if n.server != nil {
		n.server.close()
	}
	if n.raft != nil {
		errs = append(errs, n.raft.Shutdown().Error())
	}
	if n.network != nil {
		errs = append(errs, n.network.Close())
	}
	if n.stores != nil {
		errs = append(errs, n.stores.Close())
	}
	n.metrics.unregister()
	return errors.Join(errs...)
}

// failStop stops the node because its log store failed or hangs. A leader first tries to hand over, so
// that the cluster need not wait for an election timeout.
func (n *Node) failStop(err error) {
	n.failure.CompareAndSwap(nil, &err)
	go func() {
		if n.raft != nil && n.raft.State() == raft.Leader {
			ctx, cancel := context.WithTimeout(context.Background(), handOverTimeout)
			defer cancel()
			_ = n.handOver(ctx) // the failure itself is what Fatal reports
		}
		n.fatal(err)
	}()
}
