package raftlog

import (
	"bytes"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// raft-wal and raft-boltdb answer the same to the same operations, reopened at any time, and what a map would.
func TestLogStoresAgree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "raftlog")
		if err != nil {
			t.Fatal(err)
		}
		m := &logModel{dir: dir, next: 1, entries: map[uint64]*raft.Log{}}
		defer os.RemoveAll(dir)
		defer m.close(t)
		m.open(t)
		t.Repeat(map[string]func(*rapid.T){
			"store": m.store, "truncate": m.truncate, "compact": m.compact, "reset": m.reset, "reopen": m.reopen, "": m.check,
		})
	})
}

type logModel struct {
	dir     string
	logs    [2]closableLog
	entries map[uint64]*raft.Log
	first   uint64 // 0: empty
	next    uint64
}

func (m *logModel) open(t *rapid.T) {
	for i, kind := range []string{LogStoreWAL, LogStoreBolt} {
		l, err := openLog(m.dir, kind, newHCLog(slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatalf("open %s: %v", kind, err)
		}
		m.logs[i] = l
	}
}

func (m *logModel) close(t *rapid.T) {
	for i, l := range m.logs {
		if l == nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
		m.logs[i] = nil
	}
}

func (m *logModel) store(t *rapid.T) {
	var batch []*raft.Log
	for range rapid.IntRange(1, 5).Draw(t, "n") {
		l := &raft.Log{
			Index: m.next, Term: rapid.Uint64Range(1, 9).Draw(t, "term"), AppendedAt: time.Unix(1_900_000_000, 5).UTC(),
			Type: rapid.SampledFrom([]raft.LogType{raft.LogCommand, raft.LogNoop, raft.LogConfiguration}).Draw(t, "type"),
			Data: rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "data"),
		}
		m.entries[m.next] = l
		if m.first == 0 {
			m.first = m.next
		}
		m.next++
		batch = append(batch, l)
	}
	for _, l := range m.logs {
		if err := l.StoreLogs(batch); err != nil {
			t.Fatalf("store %d entries from %d: %v", len(batch), batch[0].Index, err)
		}
	}
}

// drop deletes min to max from the stores and the model.
func (m *logModel) drop(t *rapid.T, min, max uint64) {
	for _, l := range m.logs {
		if err := l.DeleteRange(min, max); err != nil {
			t.Fatalf("delete %d to %d: %v", min, max, err)
		}
	}
	for i := min; i <= max; i++ {
		delete(m.entries, i)
	}
}

func (m *logModel) truncate(t *rapid.T) {
	if m.first == 0 || m.next-m.first < 2 {
		t.Skip("nothing to truncate")
	}
	from := rapid.Uint64Range(m.first+1, m.next-1).Draw(t, "from")
	m.drop(t, from, m.next-1)
	m.next = from
}

func (m *logModel) compact(t *rapid.T) {
	if m.first == 0 || m.next-m.first < 2 {
		t.Skip("nothing to compact")
	}
	to := rapid.Uint64Range(m.first, m.next-2).Draw(t, "to")
	m.drop(t, m.first, to)
	m.first = to + 1
}

// reset empties the log and goes on further up, as after an installed snapshot.
func (m *logModel) reset(t *rapid.T) {
	if m.first == 0 {
		t.Skip("empty")
	}
	m.drop(t, m.first, m.next-1)
	m.first, m.next = 0, m.next+rapid.Uint64Range(0, 100).Draw(t, "gap")
}

func (m *logModel) reopen(t *rapid.T) {
	m.close(t)
	m.open(t)
}

func (m *logModel) check(t *rapid.T) {
	last := m.next - 1
	if m.first == 0 {
		last = 0
	}
	for k, l := range m.logs {
		gotFirst, err1 := l.FirstIndex()
		gotLast, err2 := l.LastIndex()
		if err1 != nil || err2 != nil || gotFirst != m.first || gotLast != last {
			t.Fatalf("store %d: %d to %d (%v, %v), want %d to %d", k, gotFirst, gotLast, err1, err2, m.first, last)
		}
		for i := m.first; i != 0 && i <= last; i++ {
			var got raft.Log
			want := m.entries[i]
			if err := l.GetLog(i, &got); err != nil {
				t.Fatalf("store %d, entry %d: %v", k, i, err)
			}
			if got.Index != i || got.Term != want.Term || got.Type != want.Type || !bytes.Equal(got.Data, want.Data) || !got.AppendedAt.Equal(want.AppendedAt) {
				t.Fatalf("store %d, entry %d: %+v, want %+v", k, i, got, want)
			}
		}
		if err := l.GetLog(last+1, &raft.Log{}); err != raft.ErrLogNotFound {
			t.Fatalf("store %d, entry %d after the last: %v", k, last+1, err)
		}
	}
}
