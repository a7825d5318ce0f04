package store

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"byline/store/changefeed"
)

// metrics are those of Run, of all Stores with one registry.
type metrics struct {
	changes, failures *prometheus.CounterVec
	skipped           prometheus.Counter
	running           atomic.Pointer[running] // nil while no Store runs
}

// newMetrics returns the metrics of a registry, which it registers if there are none.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "byline_projection_changes_total",
			Help: "Changes of the change feed that were handled, those included that came again."}, projectionLabels),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "byline_projection_failures_total",
			Help: "Pages of the change feed that could not be read or handled, and are tried again."}, projectionLabels),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{Name: "byline_projection_set_aside_total",
			Help: "Items of the change feed that cannot be read, and were set aside."}),
	}
	err := r.Register(m)
	if there := (prometheus.AlreadyRegisteredError{}); errors.As(err, &there) {
		if have, ok := there.ExistingCollector.(*metrics); ok {
			return have, nil
		}
	}
	return m, err
}

// observer counts what a projection does.
func (m *metrics) observer(projection string) func(changefeed.Progress) {
	changes, failures := m.changes.WithLabelValues(projection), m.failures.WithLabelValues(projection)
	return func(p changefeed.Progress) {
		changes.Add(float64(p.Items))
		if p.Err != nil {
			failures.Inc()
		}
	}
}

// running is what Run has under way.
type running struct {
	projections map[string]*changefeed.Processor
	subscribers func() int
}

var projectionLabels = []string{"projection"}

var (
	leasesHeld    = prometheus.NewDesc("byline_projection_leases", "Change feed ranges that this instance projects.", projectionLabels, nil)
	projectionLag = prometheus.NewDesc("byline_projection_lag_transactions",
		"Transactions that this instance has still to project, of its ranges, as of the last page of each.", projectionLabels, nil)
	subscribers = prometheus.NewDesc("byline_subscribers", "Subscriptions that are open.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	m.changes.Describe(to)
	m.failures.Describe(to)
	m.skipped.Describe(to)
	to <- leasesHeld
	to <- projectionLag
	to <- subscribers
}

// Collect implements prometheus.Collector. How things are at the moment is told while Run
// runs.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	m.changes.Collect(to)
	m.failures.Collect(to)
	m.skipped.Collect(to)
	r := m.running.Load()
	if r == nil {
		return
	}
	for name, p := range r.projections {
		leases, lag := p.Held()
		to <- prometheus.MustNewConstMetric(leasesHeld, prometheus.GaugeValue, float64(leases), name)
		to <- prometheus.MustNewConstMetric(projectionLag, prometheus.GaugeValue, float64(lag), name)
	}
	to <- prometheus.MustNewConstMetric(subscribers, prometheus.GaugeValue, float64(r.subscribers()))
}
