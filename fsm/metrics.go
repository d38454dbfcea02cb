package fsm

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are this node's own; none carries a run id, which would make their number unbounded.
type metrics struct {
	applySeconds prometheus.Histogram
	commands     prometheus.Counter
	stalls       prometheus.Counter
	flushSeconds prometheus.Histogram
	flushBytes   prometheus.Histogram
	merged       prometheus.Counter
	checkpoints  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		applySeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "runlog_apply_seconds", Help: "Time to apply one Raft entry.", Buckets: prometheus.ExponentialBuckets(10e-6, 4, 8)}),
		commands: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "runlog_apply_commands_total", Help: "Commands applied."}),
		stalls: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "runlog_apply_stalls_total", Help: "Times Apply waited because memory held as much unflushed state as it may."}),
		flushSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "runlog_flush_seconds", Help: "Time to write one overlay to Badger.", Buckets: prometheus.ExponentialBuckets(1e-3, 2, 12)}),
		flushBytes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "runlog_flush_bytes", Help: "Estimated size of one overlay.", Buckets: prometheus.ExponentialBuckets(1<<10, 4, 7)}),
		merged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "runlog_merged_runs_total", Help: "Ended runs whose segments were merged."}),
		checkpoints: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "runlog_checkpoints_total", Help: "Projection checkpoints written."}),
	}
	if reg != nil {
		reg.MustRegister(m.applySeconds, m.commands, m.stalls, m.flushSeconds, m.flushBytes, m.merged, m.checkpoints)
	}
	return m
}

// applyStart and applied time one entry. The clock goes into metrics alone, never into state.
func (m *metrics) applyStart() time.Time { return time.Now() }

func (m *metrics) applied(start time.Time, commands int) {
	m.applySeconds.Observe(time.Since(start).Seconds())
	m.commands.Add(float64(commands))
}

func (m *metrics) flushed(start time.Time, o *overlay) {
	m.flushSeconds.Observe(time.Since(start).Seconds())
	m.flushBytes.Observe(float64(o.bytes))
}
