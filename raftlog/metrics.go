package raftlog

import (
	"fmt"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the node's own. No label ever holds a caller's id.
type metrics struct {
	outcomes    map[string]prometheus.Counter
	groupSize   prometheus.Histogram
	commit      prometheus.Histogram
	pending     prometheus.Gauge
	forwarded   prometheus.Counter
	held        prometheus.Counter
	storeLogs   prometheus.Histogram
	leaderships prometheus.Counter
	ended       map[string]prometheus.Counter // by reason
	unreadable  prometheus.Counter
	leaseGap    prometheus.Counter

	all []prometheus.Collector
	reg prometheus.Registerer
}

const metricsPrefix = "runlog_raftlog_"

func newMetrics() *metrics {
	m := &metrics{outcomes: map[string]prometheus.Counter{}, ended: map[string]prometheus.Counter{}}
	proposals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: metricsPrefix + "proposals_total", Help: "Proposals made on this node, by what became of them.",
	}, []string{"outcome"})
	for _, o := range []string{"done", "refused", "unknown", "overloaded", "unavailable"} {
		m.outcomes[o] = proposals.WithLabelValues(o)
	}
	seconds := prometheus.ExponentialBuckets(0.0001, 2, 16)
	m.groupSize = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: metricsPrefix + "group_commands", Help: "Commands that travelled together.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 13),
	})
	m.commit = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: metricsPrefix + "commit_seconds", Help: "From handing a group to raft to its results.", Buckets: seconds,
	})
	m.storeLogs = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: metricsPrefix + "store_logs_seconds", Help: "One durable write of the log.", Buckets: seconds,
	})
	m.pending = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: metricsPrefix + "pending_proposals", Help: "Proposals held, queued or in flight on this node.",
	})
	m.forwarded = prometheus.NewCounter(prometheus.CounterOpts{
		Name: metricsPrefix + "forwarded_commands_total", Help: "Commands sent to the leader.",
	})
	m.held = prometheus.NewCounter(prometheus.CounterOpts{
		Name: metricsPrefix + "held_proposals_total", Help: "Proposals that waited for a leader.",
	})
	m.leaderships = prometheus.NewCounter(prometheus.CounterOpts{
		Name: metricsPrefix + "leaderships_total", Help: "Times this node became leader.",
	})
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "runlog_runs_ended_total", Help: "Runs that the cluster ended, by reason; each counted once, by the node that proposed it.",
	}, []string{"reason"})
	for _, r := range []string{endedLost, endedCancelled} {
		m.ended[r] = ended.WithLabelValues(r)
	}
	m.unreadable = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "runlog_runs_unreadable_total", Help: "Times that a run was not judged or ended because it could not be read.",
	})
	m.leaseGap = prometheus.NewCounter(prometheus.CounterOpts{
		Name: metricsPrefix + "lease_gap_seconds_total", Help: "Time not counted against leases because renewals might not have come through.",
	})
	m.all = []prometheus.Collector{
		proposals, m.groupSize, m.commit, m.storeLogs, m.pending, m.forwarded, m.held, m.leaderships, ended, m.unreadable, m.leaseGap,
	}
	return m
}

func (m *metrics) outcome(name string) { m.outcomes[name].Inc() }

// register adds the metrics, and gauges that read the node, to reg; nil does nothing.
func (m *metrics) register(reg prometheus.Registerer, n *Node) error {
	if reg == nil {
		return nil
	}
	gauge := func(name, help string, f func() float64) {
		m.all = append(m.all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: metricsPrefix + name, Help: help}, f))
	}
	gauge("term", "Raft's term.", func() float64 { return float64(n.raft.CurrentTerm()) })
	gauge("commit_index", "Last log entry this node knows to be committed.", func() float64 { return float64(n.raft.CommitIndex()) })
	gauge("applied_index", "Last log entry that the state includes.", func() float64 { return float64(n.state.Applied()) })
	gauge("level", "The level of commands that all members know.", func() float64 { return float64(n.state.Roster().Level) })
	gauge("voters", "Members with a vote, as this node knows.", func() float64 { return n.countMembers(raft.Voter) })
	gauge("nonvoters", "Members without a vote, as this node knows.", func() float64 { return n.countMembers(raft.Nonvoter) })
	gauge("leader", "1 while this node leads and its term has begun.", func() float64 {
		if n.tenure.Load() != nil {
			return 1
		}
		return 0
	})
	for i, c := range m.all {
		if err := reg.Register(c); err != nil {
			for _, done := range m.all[:i] {
				reg.Unregister(done)
			}
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	m.reg = reg
	return nil
}

// countMembers counts the members of one kind.
func (n *Node) countMembers(kind raft.ServerSuffrage) float64 {
	count := 0
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		if s.Suffrage == kind {
			count++
		}
	}
	return float64(count)
}

func (m *metrics) unregister() {
	if m.reg == nil {
		return
	}
	for _, c := range m.all {
		m.reg.Unregister(c)
	}
}
