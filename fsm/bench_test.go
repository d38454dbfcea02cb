package fsm

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/runlog/runlog/event"
)

// BenchmarkApply applies entries of many single-event appends of 256 bytes, spread over runs.
func BenchmarkApply(b *testing.B) {
	for _, runs := range []int{1, 64, 1000} {
		b.Run(fmt.Sprintf("runs=%d/batch=64", runs), func(b *testing.B) {
			m, err := Open(Config{Dir: b.TempDir(), Fatal: func(err error) { panic(err) }})
			if err != nil {
				b.Fatal(err)
			}
			defer m.Close()
			delta := `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"` + fmt.Sprintf("%0190d", 7) + `"}`
			index := uint64(0)
			feed := func(commands ...event.Command) {
				index++
				m.ApplyBatch([]*raft.Log{entryAt(index, commands...)})
			}
			name := func(i int) event.RunID { return event.RunID(fmt.Sprint("run-", i%runs)) }
			for i := range runs {
				feed(batch(b, name(i), started, `{"type":"TEXT_MESSAGE_START","messageId":"m"}`))
			}
			group := make([]event.Command, 64)
			b.SetBytes(int64(len(delta)))
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if n%64 == 0 {
					b.StopTimer()
					for i := range group {
						group[i] = batch(b, name(n+i), delta)
					}
					l := entryAt(index+1, group...)
					b.StartTimer()
					index++
					m.ApplyBatch([]*raft.Log{l})
				}
				n++
			}
		})
	}
}
