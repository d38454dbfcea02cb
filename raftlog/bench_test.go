package raftlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// noState answers every command and keeps nothing, so that a benchmark measures the log alone.
type noState struct {
	*fakeState
	applied, term atomic.Uint64
}

func (s *noState) Apply(l *raft.Log) any { return s.ApplyBatch([]*raft.Log{l})[0] }

func (s *noState) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	for i, l := range logs {
		if l.Type == raft.LogCommand {
			if err := event.CheckEntry(l.Data); err != nil {
				panic(err)
			}
			count, _ := binary.Uvarint(l.Data[13:])
			results := make([]event.Result, count)
			for k := range results {
				results[k].Index = l.Index
			}
			answers[i] = results
			if count == 1 {
				if e, err := event.DecodeEntry(l.Data); err == nil {
					if c, ok := e.Commands[0].(event.LeaderStart); ok {
						s.term.Store(c.Term)
					}
				}
			}
		}
		s.applied.Store(l.Index)
	}
	s.changed.Notify()
	return answers
}

func (s *noState) Applied() uint64    { return s.applied.Load() }
func (s *noState) LeaderTerm() uint64 { return s.term.Load() }

func freeAddr(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// tcpCluster opens three nodes over loopback TCP and returns them, the leader first.
func tcpCluster(t testing.TB, store string, state func() State) []*Node {
	var members []Member
	for i := range 3 {
		members = append(members, Member{ID: fmt.Sprintf("n%d", i+1), Raft: freeAddr(t), HTTP: "none"})
	}
	var nodes []*Node
	for _, m := range members {
		n, err := Open(Config{
			NodeID: m.ID, Dir: filepath.Join(t.TempDir(), m.ID), RaftAddr: m.Raft, Bootstrap: members, LogStore: store,
			State: state(), Fatal: func(err error) { t.Error(err) },
		})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, n)
		t.Cleanup(func() { n.Close() })
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		for i, n := range nodes {
			if n.tenure.Load() != nil {
				nodes[0], nodes[i] = nodes[i], nodes[0]
				return nodes
			}
		}
	}
	t.Fatal("no leader")
	return nil
}

// BenchmarkPropose measures acknowledged proposals of one 256-byte event on three nodes in one process over
// loopback TCP, writers waiting each for its answer. via says through which node they go.
func BenchmarkPropose(b *testing.B) {
	for _, store := range []string{LogStoreWAL, LogStoreBolt} {
		for _, via := range []string{"leader", "follower"} {
			for _, writers := range []int{1, 16, 64, 256, 1024} {
				b.Run(fmt.Sprintf("store=%s/via=%s/writers=%d", store, via, writers), func(b *testing.B) {
					benchmarkPropose(b, store, via, writers)
				})
			}
		}
	}
}

func benchmarkPropose(b *testing.B, store, via string, writers int) {
	nodes := tcpCluster(b, store, func() State { return &noState{fakeState: openFake(&fakeDisk{})} })
	node := nodes[0]
	if via == "follower" {
		node = nodes[1]
	}
	raw := `{"type":"TEXT_MESSAGE_CONTENT","delta":"` + strings.Repeat("x", 216) + `"}`
	propose := func(w int) {
		if _, err := node.Propose(context.Background(), appendOf(event.RunID(fmt.Sprintf("run-%d", w)), raw)); err != nil {
			b.Error(err)
		}
	}
	propose(0)
	b.ReportAllocs()
	b.SetBytes(int64(len(raw)))
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				propose(w)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "acked/s")
}

var _ io.Closer = (*Node)(nil)
