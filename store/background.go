package store

import (
	"github.com/prometheus/client_golang/prometheus"

	"byline/store/changefeed"
)

// backgroundMetrics are those of Run.
type backgroundMetrics struct {
	changes, failures *prometheus.CounterVec
	setAside          prometheus.Counter
}

func newBackgroundMetrics(r prometheus.Registerer) backgroundMetrics {
	b := backgroundMetrics{
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "byline_projection_changes_total",
			Help: "Changes of the change feed that were handled, those included that came again."}, projectionLabels),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "byline_projection_failures_total",
			Help: "Pages of the change feed that could not be read or handled, and are tried again."}, projectionLabels),
		setAside: prometheus.NewCounter(prometheus.CounterOpts{Name: "byline_projection_set_aside_total",
			Help: "Items of the change feed that cannot be read, and were set aside."}),
	}
	r.MustRegister(b.changes, b.failures, b.setAside)
	return b
}

// observer counts what a projection does.
func (b backgroundMetrics) observer(projection string) func(changefeed.Progress) {
	changes, failures := b.changes.WithLabelValues(projection), b.failures.WithLabelValues(projection)
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

// collector tells how things are at the moment; nothing while Run does not run.
type collector struct{ *Meter }

var projectionLabels = []string{"projection"}

var (
	leasesHeld    = prometheus.NewDesc("byline_projection_leases", "Change feed ranges that this instance projects.", projectionLabels, nil)
	projectionLag = prometheus.NewDesc("byline_projection_lag_transactions",
		"Transactions that this instance has still to project, of its ranges, as of the last page of each.", projectionLabels, nil)
	subscribers = prometheus.NewDesc("byline_subscribers", "Subscriptions that are open.", nil, nil)
)

// Describe implements prometheus.Collector.
func (collector) Describe(to chan<- *prometheus.Desc) {
	to <- leasesHeld
	to <- projectionLag
	to <- subscribers
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	r := c.running.Load()
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
