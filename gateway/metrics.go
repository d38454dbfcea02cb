package gateway

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the gateway's own, under runlog_gateway_. Run ids are never labels.
type metrics struct {
	requests     *prometheus.HistogramVec // by route and class of status
	problems     *prometheus.CounterVec   // by code
	appendEvents prometheus.Histogram
	eventsRead   prometheus.Counter
	eventsTailed prometheus.Counter
	openTails    prometheus.Gauge
	slowTails    prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	name := func(s string) string { return "runlog_gateway_" + s }
	m := &metrics{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    name("request_seconds"),
			Help:    "Time from a request's arrival to its answer's end; a tail's is as long as it was open.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 17),
		}, []string{"route", "status"}),
		problems: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: name("problems_total"), Help: "Problems answered, by code.",
		}, []string{"code"}),
		appendEvents: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name("append_events"), Help: "Events per append.",
			Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000},
		}),
		eventsRead: prometheus.NewCounter(prometheus.CounterOpts{
			Name: name("events_read_total"), Help: "Events sent in JSON pages.",
		}),
		eventsTailed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: name("events_tailed_total"), Help: "Events sent to tails.",
		}),
		openTails: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: name("open_tails"), Help: "Tails open now.",
		}),
		slowTails: prometheus.NewCounter(prometheus.CounterOpts{
			Name: name("slow_tails_total"), Help: "Tails cut off because their reader was too slow.",
		}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.requests, m.problems, m.appendEvents, m.eventsRead, m.eventsTailed, m.openTails, m.slowTails,
	} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

// request returns what records a request to a route. Finding a histogram by its labels costs more
// than observing, so each is found once.
func (m *metrics) request(route string) func(status int, took time.Duration) {
	observers := make([]func() prometheus.Observer, 6)
	for class := range observers {
		observers[class] = sync.OnceValue(func() prometheus.Observer {
			return m.requests.WithLabelValues(route, strconv.Itoa(class)+"xx")
		})
	}
	return func(status int, took time.Duration) {
		class := status / 100
		if class < 1 || class > 5 {
			class = 5
		}
		observers[class]().Observe(took.Seconds())
	}
}
