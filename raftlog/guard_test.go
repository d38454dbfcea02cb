package raftlog

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/runlog/runlog/event"
)

// faultyLog is a LogStore whose faults a test sets.
type faultyLog struct {
	raft.LogStore
	storeErr, deleteErr error
	delay               time.Duration
	damage              bool          // flip a bit of what is read
	hang                chan struct{} // StoreLogs waits for it
	hanging, failing    atomic.Bool
}

func (f *faultyLog) StoreLogs(logs []*raft.Log) error {
	if f.hanging.Load() {
		<-f.hang
	}
	if f.failing.Load() {
		return errors.New("input/output error")
	}
	time.Sleep(f.delay)
	if f.storeErr != nil {
		return f.storeErr
	}
	return f.LogStore.StoreLogs(logs)
}

func (f *faultyLog) GetLog(i uint64, l *raft.Log) error {
	err := f.LogStore.GetLog(i, l)
	if err == nil && f.damage {
		l.Data = append([]byte(nil), l.Data...)
		l.Data[len(l.Data)-1] ^= 1
	}
	return err
}

func (f *faultyLog) IsMonotonic() bool {
	m, ok := f.LogStore.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

func (f *faultyLog) DeleteRange(min, max uint64) error {
	if f.deleteErr != nil {
		return f.deleteErr
	}
	return f.LogStore.DeleteRange(min, max)
}

func entryLog(index uint64, raw string) *raft.Log {
	data := event.AppendEntry(nil, event.Entry{Time: 1, Commands: []event.Command{appendOf("r", raw)}})
	return &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: data}
}

// failures counts what a guard reported.
type failures struct{ atomic.Int32 }

// newTestGuard returns a guard and the failures it reports.
func newTestGuard(f *faultyLog, limit int64) (*guard, *failures) {
	f.LogStore = raft.NewInmemStore()
	n := &failures{}
	return newGuard(f, 3*time.Second, limit, newMetrics(), func(error) { n.Add(1) }), n
}

func TestGuardRefusesDamagedEntries(t *testing.T) {
	t.Parallel()
	f := &faultyLog{}
	g, failures := newTestGuard(f, 1<<20)
	bad := entryLog(1, `{"a":1}`)
	bad.Data[len(bad.Data)-1] ^= 1
	if err := g.StoreLogs([]*raft.Log{bad}); err == nil || failures.Load() != 1 {
		t.Errorf("a damaged entry was stored: %v, failures %d", err, failures.Load())
	}
	if last, _ := g.LastIndex(); last != 0 {
		t.Errorf("the log has entry %d", last)
	}
	if err := g.StoreLogs([]*raft.Log{entryLog(1, `{"a":1}`)}); err != nil {
		t.Fatal(err)
	}
	g.recent.drop(0, 9)
	f.damage = true
	if err := g.GetLog(1, &raft.Log{}); err == nil || failures.Load() != 2 {
		t.Errorf("a damaged entry was read: %v, failures %d", err, failures.Load())
	}
}

func TestGuardStopsTheNode(t *testing.T) {
	t.Parallel()
	broken := errors.New("no space left on device")
	f := &faultyLog{storeErr: broken}
	g, failures := newTestGuard(f, 1<<20)
	if err := g.StoreLog(entryLog(1, `{}`)); !errors.Is(err, broken) || failures.Load() != 1 {
		t.Errorf("store: %v, failures %d", err, failures.Load())
	}
	f.deleteErr = broken
	if err := g.DeleteRange(1, 1); !errors.Is(err, broken) || failures.Load() != 2 {
		t.Errorf("delete: %v, failures %d", err, failures.Load())
	}
	if err := g.GetLog(7, &raft.Log{}); !errors.Is(err, raft.ErrLogNotFound) || failures.Load() != 2 {
		t.Errorf("a compacted entry: %v, failures %d", err, failures.Load())
	}
}

func TestGuardStopsTheNodeWhenTheStoreIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &faultyLog{delay: 2 * time.Second}
		g, failures := newTestGuard(f, 1<<20)
		if err := g.StoreLog(entryLog(1, `{}`)); err != nil || failures.Load() != 0 {
			t.Errorf("2 s: %v, failures %d", err, failures.Load())
		}
		time.Sleep(time.Hour)
		if failures.Load() != 0 {
			t.Errorf("idle: failures %d", failures.Load())
		}
		f.delay = 4 * time.Second
		if err := g.StoreLog(entryLog(2, `{}`)); err != nil || failures.Load() != 1 {
			t.Errorf("4 s: %v, failures %d", err, failures.Load())
		}
	})
}

func TestGuardCountsBytes(t *testing.T) {
	t.Parallel()
	l := entryLog(1, `{"a":1}`)
	size := int64(len(l.Data))
	g, _ := newTestGuard(&faultyLog{}, 2*size)
	full := func() bool {
		select {
		case <-g.full:
			return true
		default:
			return false
		}
	}
	if err := g.StoreLog(l); err != nil || full() {
		t.Fatalf("full after one entry, %v", err)
	}
	if err := g.StoreLog(entryLog(2, `{"a":2}`)); err != nil || !full() {
		t.Fatalf("not full after two entries, %v", err)
	}
	bytes, entries := g.counted()
	if bytes != 2*size || entries != 2 {
		t.Errorf("%d bytes in %d entries, want %d in 2", bytes, entries, 2*size)
	}
	g.taken(bytes, entries)
	g.recent.drop(0, 9)
	if err := g.GetLog(1, &raft.Log{}); err != nil || full() {
		t.Errorf("reading counts: %v", err)
	}
	g.counting.Store(true)
	for i := range uint64(2) {
		if err := g.GetLog(i+1, &raft.Log{}); err != nil {
			t.Fatal(err)
		}
	}
	if !full() {
		t.Error("reading at the start does not count")
	}
}

func TestTrailingEntries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want, bytes, entries int64
		n                    uint64
	}{
		{64 << 20, 64 << 20, 20_000, 20_002}, {64 << 20, 0, 0, minTrailing}, {64 << 20, 64 << 20, 64, 64}, {1 << 20, 64 << 20, 64, minTrailing},
		{64 << 20, 100, 100, maxTrailing},
	} {
		if n := trailingEntries(c.want, c.bytes, c.entries); n != c.n {
			t.Errorf("%d of %d bytes in %d entries: %d, want %d", c.want, c.bytes, c.entries, n, c.n)
		}
	}
}

// The recent entries answer what a map of everything stored would, or nothing; and stay within their bounds.
func TestRecentEntriesAgainstModel(t *testing.T) {
	t.Parallel()
	zeros := make([]byte, 9<<20)
	rapid.Check(t, func(t *rapid.T) {
		var r recentEntries
		added := false // the last action was add
		model := map[uint64]int{}
		next := rapid.Uint64Range(1, 1000).Draw(t, "first")
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				size := rapid.SampledFrom([]int{0, 100, 1 << 20, len(zeros)}).Draw(t, "size")
				r.add([]*raft.Log{{Index: next, Data: zeros[:size]}})
				model[next] = size
				next++
				added = true
			},
			"truncate": func(t *rapid.T) {
				min := next - rapid.Uint64Range(0, min(next-1, 300)).Draw(t, "back")
				r.drop(min, next)
				for i := min; i <= next; i++ {
					delete(model, i)
				}
				next, added = min, false
			},
			"jump": func(t *rapid.T) {
				next += rapid.Uint64Range(1, 600).Draw(t, "gap")
				r.drop(0, next)
				clear(model)
				added = false
			},
			"": func(t *rapid.T) {
				sum := 0
				for i := uint64(0); i <= next+1; i++ {
					var l raft.Log
					if !r.get(i, &l) {
						continue
					}
					size, ok := model[i]
					if !ok || l.Index != i || len(l.Data) != size {
						t.Fatalf("entry %d: index %d with %d bytes, want %d (%v)", i, l.Index, len(l.Data), size, ok)
					}
					sum += size
				}
				if sum != r.bytes || (sum > recentMaxBytes && sum-model[next-1] > 0) {
					t.Fatalf("%d bytes held, %d counted", sum, r.bytes)
				}
				if added && !r.get(next-1, &raft.Log{}) {
					t.Fatal("the newest entry is not held")
				}
			},
		})
	})
}
