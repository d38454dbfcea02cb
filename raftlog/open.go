package raftlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// Node is one node of the cluster. All methods may be called from any goroutine.
type Node struct {
	cfg       Config
	id        raft.ServerID
	identity  identity
	logger    *slog.Logger
	state     State
	stores    *stores
	snapshots *snapshots
	guard     *guard
	network   Network
	raft      *raft.Raft
	// proposals and questions are the connections to other nodes, two to each: giving up on a
	// question must not leave a proposal's outcome unknown, nor a big group delay a read index.
	proposals, questions *peers
	server               *server
	metrics              *metrics

	admission  admission
	lessor     *lessor
	queue      *queue
	verified   verifier
	tenure     atomic.Pointer[tenure] // nil: this node does not lead, or not yet
	leadership signal                 // the tenure or the known leader changed

	observations chan raft.Observation
	opened       chan struct{}  // closed when Open has all of it: peers may call before
	members      chan struct{}  // holds a token while nobody changes the membership
	closing      chan struct{}  // closed when Close begins: nothing new is begun
	abort        chan struct{}  // closed when Close gives up waiting for what is in flight
	commits      sync.WaitGroup // runCommits
	inFlight     sync.WaitGroup // groups sent; only runCommits adds to it
	background   sync.WaitGroup
	closeOnce    sync.Once
	closeErr     error

	failOnce sync.Once
	failure  atomic.Pointer[error]
}

// Open starts the node on its data directory. A directory without a log starts the cluster that
// cfg.Bootstrap lists, or, without that, waits to be added to one. On success the node
// owns cfg.State and closes it; on error the caller still does.
func Open(cfg Config) (n *Node, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n = &Node{
		cfg: cfg, id: raft.ServerID(cfg.NodeID), logger: cfg.Logger, state: cfg.State, metrics: newMetrics(), queue: newQueue(),
		observations: make(chan raft.Observation, 64), opened: make(chan struct{}), members: make(chan struct{}, 1),
		closing: make(chan struct{}), abort: make(chan struct{}),
	}
	n.admission.maxCommands, n.admission.maxBytes = int64(cfg.MaxPending), int64(cfg.MaxPendingBytes)
	n.verified.n = n
	n.members <- struct{}{}
	n.lessor = newLessor(n)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open node %s: %w", cfg.NodeID, err), n.release())
			n = nil
		}
	}()
	if have := cfg.State.Roster().Level; have > cfg.Level {
		return n, fmt.Errorf("the cluster has reached level %d and this build knows levels up to %d: run a newer build", have, cfg.Level)
	}
	if n.identity, err = claimDir(cfg.Dir, cfg.NodeID, cfg.LogStore); err != nil {
		return n, err
	}
	if err = n.openFiles(); err != nil {
		return n, err
	}
	if n.network = cfg.Network; n.network == nil {
		if n.network, err = listenTCP(cfg.RaftAddr, handshake{n.greeting, n.greetBack, n.greeted}, n.logger); err != nil {
			n.network = nil
			return n, err
		}
	}
	n.proposals, n.questions = n.newPeers(), n.newPeers()
	if n.server, err = newServer(n.network.Peers(), n); err != nil {
		return n, err
	}
	if err = n.startRaft(); err != nil {
		return n, err
	}
	if err = n.metrics.register(cfg.Registerer, n); err != nil {
		return n, err
	}
	close(n.opened)
	n.background.Go(n.runLeadership)
	n.commits.Go(n.runCommits)
	n.background.Go(n.runSnapshots)
	n.background.Go(n.lessor.run)
	n.background.Go(n.runExpiry)
	n.background.Go(n.runMembers)
	return n, nil
}

// openFiles opens log, stable store and snapshots.
func (n *Node) openFiles() (err error) {
	dir := filepath.Join(n.cfg.Dir, "raft")
	if n.stores, err = openStores(dir, n.cfg.LogStore, newHCLog(n.logger)); err != nil {
		return err
	}
	log := n.stores.log
	if n.cfg.WrapLogStore != nil {
		log = n.cfg.WrapLogStore(log)
	}
	n.guard = newGuard(log, n.cfg.StoreTimeout, n.cfg.SnapshotBytes, n.metrics, n.failStop)
	n.snapshots, err = openSnapshots(filepath.Join(dir, "snapshots"), n.logger)
	return err
}

// startRaft decides how to go on from what is on disk, bootstraps a fresh node, and starts raft.
func (n *Node) startRaft() error {
	rc := n.cfg.raftConfig()
	how, err := n.examine()
	if err != nil {
		return err
	}
	rc.NoSnapshotRestoreOnStart = how == startGoOn
	if err := n.bootstrap(rc); err != nil {
		return err
	}
	n.state.OnLease(n.lessor.applied)
	fsm := &machine{State: n.state, snapshots: n.snapshots}
	n.guard.counting.Store(true)
	n.raft, err = raft.NewRaft(rc, fsm, n.guard, n.stores.stable, n.snapshots, n.network.Raft())
	n.guard.counting.Store(false)
	if err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	export := n.state.Export
	n.snapshots.export.Store(&export)
	n.raft.RegisterObserver(n.observer())
	select {
	case n.observations <- raft.Observation{}: // for what changed before the observer was there
	default:
	}
	return nil
}

// examine applies the start-up table, and empties a log that ends before the snapshot: raft continues
// after the snapshot, which a store that wants dense indexes would refuse.
func (n *Node) examine() (start, error) {
	d := onDisk{applied: n.state.Applied()}
	newest, err := n.snapshots.newest()
	if err != nil {
		return startRefuse, err
	}
	if newest != nil {
		d.snapshot, d.restored, d.whole = newest.Index, newest.Restored, newest.Kind == kindReceived
	}
	if d.first, err = n.guard.FirstIndex(); err != nil {
		return startRefuse, fmt.Errorf("read the log's bounds: %w", err)
	}
	if d.last, err = n.guard.LastIndex(); err != nil {
		return startRefuse, fmt.Errorf("read the log's bounds: %w", err)
	}
	how, err := decideStart(d)
	if err != nil {
		return how, err
	}
	if d.last > 0 && d.last < d.snapshot {
		err = n.guard.DeleteRange(d.first, d.last)
	}
	n.logger.Info("starting", "applied", d.applied, "snapshot", d.snapshot, "first", d.first, "last", d.last, "restore", how == startRestore)
	return how, err
}

// bootstrap writes the first configuration on a node without any history. Every member does this with
// the same list, so that whichever of them meet can elect a leader.
func (n *Node) bootstrap(rc *raft.Config) error {
	if len(n.cfg.Bootstrap) == 0 {
		return nil
	}
	has, err := raft.HasExistingState(n.guard, n.stores.stable, n.snapshots)
	if err != nil || has {
		return err
	}
	if n.state.Applied() > 0 {
		return errors.New("the state is not empty but there is no log")
	}
	if err := n.askAround(context.Background()); err != nil {
		return err
	}
	var c raft.Configuration
	for _, m := range n.cfg.Bootstrap {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(m.ID), Address: raft.ServerAddress(m.Raft)})
	}
	err = raft.BootstrapCluster(rc, n.guard, n.stores.stable, n.snapshots, n.network.Raft(), c)
	if err != nil {
		return fmt.Errorf("bootstrap: %w", err)
	}
	return nil
}

// fatal records the failure and says once that the node must stop.
func (n *Node) fatal(err error) {
	n.failOnce.Do(func() {
		n.failure.Store(&err)
		n.cfg.Fatal(err)
	})
}

// handOverTimeout bounds the attempt to hand over before a failing node stops: its raft may hang
// in the very store that failed.
const handOverTimeout = time.Second
