package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/runlog/runlog/event"
	"github.com/runlog/runlog/fsm"
	"github.com/runlog/runlog/gateway"
	"github.com/runlog/runlog/raftlog"
)

// node is one node put together: the state machine, the replicated log above it and HTTP on top.
type node struct {
	id      string
	log     *slog.Logger
	raft    *raftlog.Node // owns the state machine
	gateway *gateway.Gateway
	servers []*http.Server
	listen  []net.Listener
	lock    *dirLock
	fatal   chan error // receives once, when the node must stop at once

	delivering sync.WaitGroup // of webhooks
}

// httpDrain bounds how long a stopping node waits for requests under way.
const httpDrain = 5 * time.Second

// openNode opens everything. What it opened it closes when something fails.
func openNode(c *serveCmd, members []raftlog.Member, log *slog.Logger) (n *node, err error) {
	n = &node{id: c.ID, log: log, fatal: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
			n = nil
		}
	}()
	if n.lock, err = lockDir(c.Data, "a node"); err != nil {
		return n, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if err := raftlog.RegisterRaftMetrics(registry); err != nil {
		return n, err
	}
	state, err := fsm.Open(fsm.Config{
		Dir:        filepath.Join(c.Data, "state"),
		Logger:     log.With("node", c.ID),
		Registerer: registry,
		Fatal:      n.fail,
	})
	if err != nil {
		return n, err
	}
	n.raft, err = raftlog.Open(raftlog.Config{
		NodeID:           c.ID,
		Dir:              c.Data,
		RaftAddr:         c.Raft,
		HTTPAddr:         c.HTTP,
		Bootstrap:        members,
		LogStore:         c.LogStore,
		Level:            event.Level(c.Level),
		State:            state,
		HeartbeatTimeout: c.HeartbeatTimeout,
		ElectionTimeout:  c.ElectionTimeout,
		CommitTimeout:    c.CommitTimeout,
		MinLease:         c.MinLease,
		Logger:           log,
		Registerer:       registry,
		Fatal:            n.fail,
	})
	if err != nil {
		return n, errors.Join(err, state.Close())
	}
	n.gateway, err = gateway.New(gateway.Config{
		Log:        n.raft,
		Reader:     reader{state, n.raft},
		Cluster:    cluster{n.raft, state},
		Leases:     leases{n.raft, state},
		Threads:    threads{state},
		RunStreams: state,
		Streams:    streams{state},

		Subscriptions:  subscriptions{state, n.raft},
		WebhookTargets: gateway.WebhookTargets{Allow: c.WebhookAllow},

		LongPoll:     c.LongPoll,
		StreamWindow: c.StreamWindow,

		MinLease: c.MinLease,
		Logger:   log.With("node", c.ID),
		Registry: registry,
	})
	if err != nil {
		return n, err
	}
	logger := log.With("node", c.ID)
	if err := n.bind(c.HTTP, gateway.NewServer(n.gateway, logger)); err != nil {
		return n, err
	}
	if c.DebugAddr != "" {
		return n, n.bind(c.DebugAddr, debugServer(logger))
	}
	return n, nil
}

// fail is told by any goroutine that the node cannot be trusted any longer.
func (n *node) fail(err error) {
	select {
	case n.fatal <- err:
	default: // one reason is enough
	}
}

func (n *node) bind(addr string, s *http.Server) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	n.listen = append(n.listen, l)
	n.servers = append(n.servers, s)
	return nil
}

// serve answers requests until ctx is done, and then stops in order: readers are sent on to other
// nodes, requests under way are finished, leadership is handed over, files are closed. A failure
// that the node must not outlive ends it without all that: its disk may be what fails.
func (n *node) serve(ctx context.Context) error {
	failed := make(chan error, len(n.servers))
	deliver, stopDelivering := context.WithCancel(ctx)
	defer stopDelivering()
	n.delivering.Go(func() { n.gateway.DeliverWebhooks(deliver) })
	for i, s := range n.servers {
		go func() { failed <- s.Serve(n.listen[i]) }()
	}
	n.log.Info("serving", "node", n.id, "http", n.listen[0].Addr().String())
	select {
	case <-ctx.Done():
	case err := <-n.fatal:
		return err
	case err := <-failed:
		stopDelivering()
		return errors.Join(err, n.close())
	}
	n.log.Info("stopping", "node", n.id)
	stopped := make(chan error, 1)
	go func() { stopped <- n.close() }()
	select {
	case err := <-stopped:
		return err
	case err := <-n.fatal:
		return err
	}
}

// close closes what is open, from the top down.
func (n *node) close() error {
	var errs []error
	if n.gateway != nil {
		n.gateway.Drain()
	}
	n.delivering.Wait() // not where a node fails: a hung disk may hold what it waits for
	ctx, cancel := context.WithTimeout(context.Background(), httpDrain)
	defer cancel()
	for i, s := range n.servers {
		if err := s.Shutdown(ctx); err != nil {
			n.log.Warn("closing with requests under way", "node", n.id, "error", err)
			errs = append(errs, s.Close())
		}
		if err := n.listen[i].Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if n.raft != nil {
		if err := n.raft.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close node %s: %w", n.id, err))
		}
	}
	if n.lock != nil {
		errs = append(errs, n.lock.unlock())
	}
	return errors.Join(errs...)
}
