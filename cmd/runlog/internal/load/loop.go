package load

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Result is one measured point.
type Result struct {
	Writers   int           `json:"writers"`
	Requests  int64         `json:"requests"` // acknowledged
	Errors    int64         `json:"errors"`
	FirstErr  string        `json:"firstError,omitempty"`
	PerSecond float64       `json:"requestsPerSecond"`
	P50       time.Duration `json:"p50Ns"`
	P99       time.Duration `json:"p99Ns"`
	BusyCores float64       `json:"busyCores"` // of the whole machine, while measuring; 0 where unknown
}

// Op makes one request of a closed loop.
type Op func() error

// Run has every op called again and again by a goroutine of its own, each call after the answer to
// the one before, and measures for d, after a fifth of d (at most a second) to warm up. An op that
// fails is called again after a millisecond.
func Run(ctx context.Context, ops []Op, d time.Duration) Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loops := make([]loop, len(ops))
	var measuring atomic.Bool
	var wait sync.WaitGroup
	for i, op := range ops {
		wait.Go(func() { loops[i].run(ctx, op, &measuring) })
	}
	pause(ctx, min(d/5, time.Second))
	busy, began := busySeconds(), time.Now()
	measuring.Store(true)
	pause(ctx, d)
	measuring.Store(false)
	elapsed := time.Since(began).Seconds()
	r := Result{Writers: len(ops), BusyCores: (busySeconds() - busy) / elapsed}
	cancel()
	wait.Wait()

	var all []time.Duration
	for i := range loops {
		all = append(all, loops[i].latencies...)
		r.Errors += loops[i].errors
		if r.FirstErr == "" && loops[i].firstErr != nil {
			r.FirstErr = loops[i].firstErr.Error()
		}
	}
	r.Requests = int64(len(all))
	r.PerSecond = float64(len(all)) / elapsed
	r.P50, r.P99 = Quantiles(all)
	return r
}

// loop is what one goroutine saw.
type loop struct {
	latencies []time.Duration
	errors    int64
	firstErr  error
}

func (l *loop) run(ctx context.Context, op Op, measuring *atomic.Bool) {
	for ctx.Err() == nil {
		began := time.Now()
		if err := op(); err != nil {
			if l.errors++; l.firstErr == nil {
				l.firstErr = err
			}
			pause(ctx, time.Millisecond)
			continue
		}
		if measuring.Load() {
			l.latencies = append(l.latencies, time.Since(began))
		}
	}
}

// Quantiles returns the median and the 99th percentile; it sorts d.
func Quantiles(d []time.Duration) (p50, p99 time.Duration) {
	if len(d) == 0 {
		return 0, 0
	}
	slices.Sort(d)
	return d[len(d)/2], d[len(d)*99/100]
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
