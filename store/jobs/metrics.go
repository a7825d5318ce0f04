package jobs

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"byline/store/internal/metric"
)

// metrics are the metrics of all runners with one registry.
type metrics struct {
	clock         func() time.Time
	kinds         map[string]Work
	items, charge *prometheus.CounterVec
	open          atomic.Pointer[map[string]open] // by kind; nil while no Runner runs
}

// open are the jobs of a kind.
type open struct {
	jobs   int
	oldest time.Time
}

var kindLabels = []string{"kind"}

// newMetrics returns the metrics of a registry, and registers them if it has none.
func newMetrics(o Options) (*metrics, error) {
	m := &metrics{clock: o.Clock, kinds: o.Kinds,
		items: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "byline_job_items_total",
			Help: "Items that jobs of this instance have done."}, kindLabels),
		charge: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "byline_job_request_charge_total",
			Help: "Request units that jobs of this instance were charged."}, kindLabels),
	}
	m, err := metric.Register(o.Metrics, m)
	for kind := range o.Kinds {
		m.items.WithLabelValues(kind)
		m.charge.WithLabelValues(kind)
	}
	return m, err
}

// setOpen counts the known jobs.
func (m *metrics) setOpen(jobs map[string]observation) {
	all := map[string]open{}
	for kind := range m.kinds {
		all[kind] = open{}
	}
	for _, j := range jobs {
		o := all[j.Kind]
		o.jobs++
		if o.oldest.IsZero() || j.Created.Before(o.oldest) {
			o.oldest = j.Created
		}
		all[j.Kind] = o
	}
	m.open.Store(&all)
}

var (
	openJobs = prometheus.NewDesc("byline_jobs", "Jobs that are not done, of all instances, as far as this one knows.",
		kindLabels, nil)
	jobAge = prometheus.NewDesc("byline_job_age_seconds",
		"How long ago the oldest job that is not done was enqueued first; 0 without jobs.", kindLabels, nil)
)

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	m.items.Describe(to)
	m.charge.Describe(to)
	to <- openJobs
	to <- jobAge
}

// Collect implements prometheus.Collector. The gauges exist while Run runs.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	m.items.Collect(to)
	m.charge.Collect(to)
	all := m.open.Load()
	if all == nil {
		return
	}
	for kind, o := range *all {
		age := 0.0
		if !o.oldest.IsZero() {
			age = max(0, m.clock().Sub(o.oldest).Seconds())
		}
		to <- prometheus.MustNewConstMetric(openJobs, prometheus.GaugeValue, float64(o.jobs), kind)
		to <- prometheus.MustNewConstMetric(jobAge, prometheus.GaugeValue, age, kind)
	}
}
