package fsm

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// BenchmarkList lists a page of each kind among 100,000 runs: ended ones of every status, 2,000 open
// ones of 40 holders, in 10,000 threads.
func BenchmarkList(b *testing.B) {
	m, err := Open(Config{Dir: b.TempDir(), Fatal: func(err error) { panic(err) }})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	const runs = 100_000
	ends := []string{finished, failed, asks("i"), `{"type":"RUN_FINISHED","outcome":{"type":"cancelled"}}`}
	index := uint64(0)
	for i := 0; i < runs; {
		var group []event.Command
		for range 500 {
			id := event.RunID(fmt.Sprintf("run-%02d-%06d", i%97, i))
			c := event.CreateRun{Run: id, Thread: event.ThreadID(fmt.Sprint("thread-", i%10_000)), Started: ptr(ev(b, started))}
			if i%3 == 0 {
				c.Parent = event.RunID(fmt.Sprintf("parent-%d", i%500))
			}
			if i%50 == 0 {
				c.Holder, c.LeaseMs = event.HolderID(fmt.Sprint("holder-", i%2000/50)), 30_000
				group = append(group, c)
			} else {
				group = append(group, c, batch(b, id, ends[i*7%len(ends)]))
			}
			i++
		}
		index++
		m.ApplyBatch([]*raft.Log{entryAt(index, group...)})
	}
	if err := m.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	for name, q := range map[string]event.RunQuery{
		"all":             {},
		"status=running":  {Status: event.StatusRunning},
		"status=failed":   {Status: event.StatusFailed},
		"status=lost":     {Status: event.StatusLost},
		"lease=held":      {Lease: event.LeaseStateHeld},
		"lease=lapsed":    {Lease: event.LeaseStateLapsed},
		"lease=none":      {Lease: event.LeaseStateNone},
		"holder":          {Holder: "holder-7"},
		"holder, unknown": {Holder: "nobody"},
		"thread":          {ThreadID: "thread-77"},
		"parent":          {ParentRunID: "parent-3"},
		"prefix, broad":   {Prefix: "run-"},
		"prefix, narrow":  {Prefix: "run-13-"},
		"prefix, none":    {Prefix: "nothing"},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := m.Runs(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	among := map[event.RunID]event.Epoch{}
	for i := range 40 {
		among[event.RunID(fmt.Sprintf("run-%02d-%06d", i*50%97, i*50))] = 1
	}
	b.Run("expiring", func(b *testing.B) {
		for b.Loop() {
			if runs, _, err := m.RunsAmong(b.Context(), event.RunQuery{}, among); err != nil || len(runs) != 40 {
				b.Fatal(len(runs), err)
			}
		}
	})
	b.Run("threads", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := m.Threads(b.Context(), "", 100, ""); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("thread view", func(b *testing.B) {
		for b.Loop() {
			if _, err := m.Thread(b.Context(), "thread-77", event.ThreadQuery{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
