package projection

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"byline/store/changefeed"
	"byline/store/internal/metric"
)

// metrics are the metrics of Run, shared by all Views with one registry.
type metrics struct {
	changes, failures *prometheus.CounterVec
	skipped           prometheus.Counter
	running           atomic.Pointer[map[string]*changefeed.Processor] // by name; nil while no Views run
}

// newMetrics returns the metrics of a registry, and registers them if there are none.
func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "byline_projection_changes_total",
			Help: "Changes of the change feed that were handled, repetitions included."}, projectionLabels),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "byline_projection_failures_total",
			Help: "Pages of the change feed that could not be read or handled, and are retried."}, projectionLabels),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{Name: "byline_projection_skipped_total",
			Help: "Items that were skipped because they are malformed, Cosmos DB refuses to write them, or they " +
				"cannot be deleted."}),
	}
	return metric.Register(r, m)
}

// observer counts the progress of a projection.
func (m *metrics) observer(projection string) func(changefeed.Progress) {
	changes, failures := m.changes.WithLabelValues(projection), m.failures.WithLabelValues(projection)
	return func(p changefeed.Progress) {
		changes.Add(float64(p.Items))
		if p.Err != nil {
			failures.Inc()
		}
	}
}

var projectionLabels = []string{"projection"}

var (
	leasesHeld = prometheus.NewDesc("byline_projection_leases", "Change feed ranges whose lease this instance owns.",
		projectionLabels, nil)
	projectionLag = prometheus.NewDesc("byline_projection_lag_transactions",
		"Transactions that the projections of this instance are behind, in the ranges it owns, as of the last page "+
			"of each.",
		projectionLabels, nil)
	projectionStall = prometheus.NewDesc("byline_projection_stalled_seconds",
		"How long ago a page of the change feed was last handled, of the range this instance owns for which it is "+
			"longest.",
		projectionLabels, nil)
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	m.changes.Describe(to)
	m.failures.Describe(to)
	m.skipped.Describe(to)
	to <- leasesHeld
	to <- projectionLag
	to <- projectionStall
}

// Collect implements prometheus.Collector. The gauges exist while Run runs.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	m.changes.Collect(to)
	m.failures.Collect(to)
	m.skipped.Collect(to)
	r := m.running.Load()
	if r == nil {
		return
	}
	for name, p := range *r {
		leases, lag := p.Held()
		to <- prometheus.MustNewConstMetric(leasesHeld, prometheus.GaugeValue, float64(leases), name)
		to <- prometheus.MustNewConstMetric(projectionLag, prometheus.GaugeValue, float64(lag), name)
		to <- prometheus.MustNewConstMetric(projectionStall, prometheus.GaugeValue, p.Stalled().Seconds(), name)
	}
}
