package fsm

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/runlog/runlog/event"
)

// Config says where a machine keeps its state. Dir and Fatal are required.
type Config struct {
	// Dir holds the state; it is created if missing.
	Dir string
	// Fatal is called at most once, from any goroutine, when the machine can no longer be trusted
	// (a flush failed or hung, stored state is damaged). It must not wait for the machine: the owner
	// hands over leadership and exits.
	Fatal func(error)
	// Logger receives what the machine has to say; nil discards it.
	Logger *slog.Logger
	// FlushInterval is how long a change may stay in memory alone before it is written behind;
	// 0 means 50 ms. The Raft log holds it meanwhile.
	FlushInterval time.Duration
	// FlushTimeout is how long one flush may take before the disk counts as hung; 0 means 3 s.
	FlushTimeout time.Duration
	// TailCacheBytes bounds the recent records kept in memory for tails; 0 means 32 MiB.
	TailCacheBytes int
	// CheckpointBytes is how many bytes of records a projection folds between two checkpoints at
	// least; 0 means 1 MiB.
	CheckpointBytes int
	// Registerer receives the machine's metrics; nil keeps them unregistered.
	Registerer prometheus.Registerer
	// InMemory keeps Badger in memory, for tests in virtual time: nothing survives Close.
	InMemory bool

	beforeWrite func() // tests: the disk of a flush
}

func (c *Config) validate() error {
	if c.Dir == "" && !c.InMemory {
		return fmt.Errorf("fsm: Config.Dir is empty")
	}
	if c.Fatal == nil {
		return fmt.Errorf("fsm: Config.Fatal is nil")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&c.FlushInterval, 50*time.Millisecond)
	setDefault(&c.FlushTimeout, 3*time.Second)
	setDefault(&c.TailCacheBytes, 32<<20)
	setDefault(&c.CheckpointBytes, 1<<20)
	return nil
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Machine is the state machine of one node. Apply, ApplyBatch, Snapshot and Restore belong to
// Raft's FSM goroutine; everything else may be called from any goroutine.
type Machine struct {
	cfg     Config
	metrics *metrics
	watches watches

	fatalOnce sync.Once

	// mu guards what follows. Apply holds it while it applies one entry, the flusher while it cuts
	// and while it drops a frozen overlay, readers (shared) while they pick references.
	mu       sync.RWMutex
	changed  sync.Cond // on mu: the frozen overlay went, or the machine stops
	store    *store
	active   *overlay
	frozen   *overlay // nil when everything but active is flushed
	flushed  uint64   // applied index that Badger holds
	names    nameSet
	threads  nameSet // all that have or had a run
	openRuns openRuns
	locks    map[event.LockName]*lock

	streamNames nameSet
	sources     map[streamID]uint64 // how many forks read a log
	expiries    expiries
	subs        subscriptions
	appliedAt   time.Time // by this node's clock: when the last entry was applied

	roster  atomic.Pointer[event.Roster]                 // written under mu
	onLease func(term uint64, changed []event.LeaseView) // set before the first entry, or nil
	cache   *cache
	recent  recentChunks
	stopped error // why the machine takes no more entries

	opened  uint64 // applied index found at open
	applied waitIndex
	flushes waitIndex

	flusher flusher
}

// Open opens the state in cfg.Dir, or begins an empty one. It fails with [ErrDamaged] when what it
// finds cannot be trusted.
func Open(cfg Config) (*Machine, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	st, err := openStore(&cfg)
	if err != nil {
		return nil, err
	}
	m := &Machine{cfg: cfg, metrics: newMetrics(cfg.Registerer), active: newOverlay()}
	m.changed.L = &m.mu
	m.applied.init()
	m.flushes.init()
	m.flusher.init()
	if err := m.adopt(st); err != nil {
		st.close()
		return nil, err
	}
	m.opened = m.active.meta.index
	m.flusher.start(m)
	return m, nil
}

// adopt makes st the machine's store and reads what is resident. Nothing else runs meanwhile:
// the machine is being opened, or holds mu with the flusher stopped.
func (m *Machine) adopt(st *store) error {
	res, err := st.loadResident()
	if err != nil {
		return err
	}
	m.store = st
	m.active, m.frozen = newOverlay(), nil
	m.active.meta = res.meta
	m.flushed = res.meta.index
	m.names = res.names
	m.threads = res.threads
	m.openRuns = res.openRuns
	m.locks = res.locks
	m.streamNames = res.streamNames
	m.sources = res.sources
	m.expiries = res.expiries
	m.subs = res.subs
	m.appliedAt = time.Now()
	m.roster.Store(res.roster)
	m.cache = newCache()
	m.recent = recentChunks{limit: m.cfg.TailCacheBytes}
	m.applied.set(res.meta.index)
	m.flushes.set(res.meta.index)
	return nil
}

// Close flushes what was applied and closes the store. It is safe to call twice; Raft must have
// been shut down before.
func (m *Machine) Close() error {
	m.flusher.stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.store == nil {
		return nil
	}
	m.stopLocked(errClosed)
	m.applied.fail()
	m.flushes.fail()
	m.watches.wakeAll()
	st := m.store
	m.store = nil
	return st.close()
}

var errClosed = fmt.Errorf("fsm: closed")

func (m *Machine) stopLocked(err error) {
	if m.stopped == nil {
		m.stopped = err
	}
	m.changed.Broadcast()
}

// fatal stops the machine: it takes no more entries, and its owner is told once. It may be called
// with or without mu held, hence from a goroutine of its own, which ends with the process.
func (m *Machine) fatal(err error) {
	m.fatalOnce.Do(func() {
		go func() {
			m.mu.Lock()
			m.stopLocked(err)
			m.mu.Unlock()
			m.cfg.Fatal(err)
		}()
	})
}

// Applied returns the index of the last entry applied, and Flushed that of the last one that
// Badger holds. Invariant: Flushed <= Applied.
func (m *Machine) Applied() uint64 { return m.applied.get() }

// Flushed returns the applied index that Badger holds.
func (m *Machine) Flushed() uint64 { return m.flushes.get() }

// AppliedAtOpen returns the applied index that [Open] found: where the log's replay begins.
func (m *Machine) AppliedAtOpen() uint64 { return m.opened }

// WaitApplied returns once the entry at index has been applied.
func (m *Machine) WaitApplied(ctx context.Context, index uint64) error {
	return m.applied.wait(ctx, index)
}

// Flush returns once everything applied when it was called is in Badger.
func (m *Machine) Flush(ctx context.Context) error {
	index := m.Applied()
	m.flusher.hurry()
	return m.flushes.wait(ctx, index)
}

func (m *Machine) meta() meta {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.active.meta
}

// LogTime returns the log's time: the latest stamp applied.
func (m *Machine) LogTime() event.Time { return m.meta().now }

// ClusterID returns the cluster's id, empty before the first LeaderStart.
func (m *Machine) ClusterID() string { return m.meta().clusterID }

// LeaderTerm returns the term of the last LeaderStart applied.
func (m *Machine) LeaderTerm() uint64 { return m.meta().leaderTerm }

// StateHash returns the rolling hash of everything applied and the index it belongs to. Two
// nodes with the same index have the same hash, or one of them is wrong.
func (m *Machine) StateHash() (index, hash uint64) {
	mt := m.meta()
	return mt.index, mt.stateHash
}
