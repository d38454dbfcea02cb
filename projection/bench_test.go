package projection

import (
	"fmt"
	"testing"

	"github.com/runlog/runlog/event"
)

// BenchmarkFold measures one delta event into a transcript that already holds many messages: the
// cost must not depend on how many.
func BenchmarkFold(b *testing.B) {
	raw := []byte(`{"type":"TEXT_MESSAGE_CONTENT","messageId":"msg_0123456789abcdef","delta":"some tokens of text \u2026","timestamp":1700000000000}`)
	for _, kind := range kinds {
		for _, messages := range []int{1, 10_000} {
			b.Run(fmt.Sprintf("kind=%s/messages=%d", kind, messages), func(b *testing.B) {
				f := New(kind)
				for i := range messages {
					f.Apply(event.Record{Raw: fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_START","messageId":"m%d"}`, i)})
				}
				f.Apply(event.Record{Raw: []byte(`{"type":"TEXT_MESSAGE_START","messageId":"msg_0123456789abcdef"}`)})
				b.ReportAllocs()
				b.SetBytes(int64(len(raw)))
				r := event.Record{Raw: raw}
				for b.Loop() {
					f.Apply(r)
				}
			})
		}
	}
}

// BenchmarkFoldRun folds whole recorded runs; the metric is per event.
func BenchmarkFoldRun(b *testing.B) {
	var runs [][]event.Record
	events := 0
	for _, r := range readCorpus(b, "real-runs.ndjson") {
		runs = append(runs, records(r.Events))
		events += len(r.Events)
	}
	for _, kind := range kinds {
		b.Run("kind="+kind.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, run := range runs {
					foldAll(kind, run)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
		})
	}
}

// BenchmarkCheckpoint writes and reads back a transcript of a hundred kilobytes.
func BenchmarkCheckpoint(b *testing.B) {
	f := New(KindTranscript)
	for i := range 1000 {
		f.Apply(event.Record{Raw: fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_START","messageId":"m%d"}`, i)})
		f.Apply(event.Record{Raw: fmt.Appendf(nil, `{"type":"TEXT_MESSAGE_CONTENT","messageId":"m%d","delta":"%080d"}`, i, i)})
	}
	data, err := f.MarshalBinary()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("op=marshal", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := f.MarshalBinary(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("op=unmarshal", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		b.ReportAllocs()
		for b.Loop() {
			if err := New(KindTranscript).UnmarshalBinary(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}
