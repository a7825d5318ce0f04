package graph

import (
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/ast"
)

// metrics are those of the edge. They have the names and labels that docs/cost.md lists.
type metrics struct {
	responses     *prometheus.CounterVec
	seconds       *prometheus.HistogramVec
	ru, predicted *prometheus.CounterVec
	kept          keptMetrics
}

// keptMetrics are those of queries whose answer was given again.
type keptMetrics struct {
	kept, responses, predicted prometheus.Counter
	seconds                    prometheus.Observer
}

func newMetrics(r prometheus.Registerer) metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		r.MustRegister(v)
		return v
	}
	m := metrics{
		responses: counter("byline_graphql_responses_total",
			"Responses: of a query or mutation one, of a subscription each event, or that it cannot be opened. The code is that of the first error.", "type", "code"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "byline_graphql_seconds",
			Help:    "How long queries and mutations took, from the request to the response.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}}, []string{"type"}),
		ru:        counter("byline_graphql_request_units_total", "Request units that responses have cost.", "type"),
		predicted: counter("byline_graphql_predicted_request_units_total", "Request units that responses were predicted to cost.", "type"),
	}
	r.MustRegister(m.seconds)
	query := string(ast.Query)
	kept := prometheus.NewCounter(prometheus.CounterOpts{Name: "byline_graphql_kept_responses_total",
		Help: "Responses to queries that were kept and given again, as nothing had changed. They are among byline_graphql_responses_total."})
	r.MustRegister(kept)
	m.kept = keptMetrics{kept, m.responses.WithLabelValues(query, codeOK), m.predicted.WithLabelValues(query), m.seconds.WithLabelValues(query)}
	return m
}

const (
	codeOK = "OK"

	typeNone ast.Operation = "none" // refused before it was known
)

// spend takes note of what a response has cost.
func (m metrics) spend(typ ast.Operation, c cost) {
	m.ru.WithLabelValues(string(typ)).Add(float64(c.ActualRU))
}

// observe takes note of a response that is given.
func (m metrics) observe(typ ast.Operation, took time.Duration, c cost, response *graphql.Response) {
	code := codeOK
	if len(response.Errors) > 0 {
		code = string(codeOf(response))
	}
	m.responses.WithLabelValues(string(typ), code).Inc()
	m.predicted.WithLabelValues(string(typ)).Add(float64(c.PredictedRU))
	if typ != ast.Subscription {
		m.seconds.WithLabelValues(string(typ)).Observe(took.Seconds())
	}
}

// observe takes note of an answer that was given again.
func (m keptMetrics) observe(took time.Duration, predicted float64) {
	m.kept.Inc()
	m.responses.Inc()
	m.predicted.Add(predicted)
	m.seconds.Observe(took.Seconds())
}
