package raftlog

import (
	"fmt"

	gometrics "github.com/hashicorp/go-metrics/compat"
	gometricsprom "github.com/hashicorp/go-metrics/compat/prometheus"
	"github.com/prometheus/client_golang/prometheus"
)

// RegisterRaftMetrics adds the metrics of hashicorp/raft and its stores, named raft_…, to reg. They
// are kept in a variable of the whole process, so a program calls it once, before [Open].
func RegisterRaftMetrics(reg prometheus.Registerer) error {
	sink, err := gometricsprom.NewPrometheusSinkFrom(gometricsprom.PrometheusOpts{Registerer: reg})
	if err != nil {
		return fmt.Errorf("register raft metrics: %w", err)
	}
	cfg := gometrics.DefaultConfig("")
	cfg.EnableHostname, cfg.EnableRuntimeMetrics = false, false
	if _, err := gometrics.NewGlobal(cfg, sink); err != nil {
		return fmt.Errorf("register raft metrics: %w", err)
	}
	return nil
}
