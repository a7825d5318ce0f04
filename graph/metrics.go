package graph

import (
	"cmp"
	"context"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/ast"
	"go.opentelemetry.io/otel/trace"

	"byline/graph/auth"
	"byline/graph/cost"
	"byline/graph/refusal"
	"byline/graph/transport"
)

// metrics are the handler's metrics. docs/cost.md lists their names and labels.
type metrics struct {
	responses     *prometheus.CounterVec
	seconds       *prometheus.HistogramVec
	ru, predicted *prometheus.CounterVec

	rejectedTokens *prometheus.CounterVec
	cached         cacheMetrics
}

// cacheMetrics count responses from the response cache.
type cacheMetrics struct {
	hits, responses, predicted prometheus.Counter
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
			"Responses: one per query or mutation, one per event of a subscription. The code is that of the first "+
				"error, or OK.", "type", "code"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "byline_graphql_seconds",
			Help:    "Duration of queries and mutations, from request to response.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}}, []string{"type"}),
		ru: counter("byline_graphql_request_units_total", "Request units charged for responses.", "type"),
		predicted: counter("byline_graphql_predicted_request_units_total", "Request units predicted for responses.",
			"type"),

		rejectedTokens: counter("byline_rejected_tokens_total", "Bearer tokens that were rejected.", "reason"),
	}
	for _, reason := range auth.Reasons() {
		m.rejectedTokens.WithLabelValues(string(reason))
	}
	r.MustRegister(m.seconds)
	query := string(ast.Query)
	hits := prometheus.NewCounter(prometheus.CounterOpts{Name: "byline_graphql_cached_responses_total",
		Help: "Responses to queries from the response cache. Included in byline_graphql_responses_total."})
	r.MustRegister(hits)
	m.cached = cacheMetrics{hits, m.responses.WithLabelValues(query, codeOK), m.predicted.WithLabelValues(query),
		m.seconds.WithLabelValues(query)}
	return m
}

const (
	codeOK = "OK"

	typeNone ast.Operation = "none" // refused before its kind is known
)

// spend counts the request units of a response.
func (m metrics) spend(typ ast.Operation, c cost.Report) {
	m.ru.WithLabelValues(string(typ)).Add(float64(c.ActualRU))
}

// observe counts a response.
func (m metrics) observe(typ ast.Operation, took time.Duration, c cost.Report, response *graphql.Response) {
	code := codeOK
	if len(response.Errors) > 0 {
		code = string(refusal.CodeOf(response.Errors))
	}
	m.responses.WithLabelValues(string(typ), code).Inc()
	m.predicted.WithLabelValues(string(typ)).Add(float64(c.PredictedRU))
	if typ != ast.Subscription {
		m.seconds.WithLabelValues(string(typ)).Observe(took.Seconds())
	}
}

// observer returns a function that counts a response from the response cache, and records its span.
func (m cacheMetrics) observer(t tracing) func(ctx context.Context, operation string, predictedRU float64) {
	return func(ctx context.Context, operation string, predictedRU float64) {
		m.hits.Inc()
		m.responses.Inc()
		m.predicted.Add(predictedRU)
		m.seconds.Observe(time.Since(transport.RequestOf(ctx).Began).Seconds())
		if t.tracer != nil {
			_, span := t.operation(ctx, ast.Query, operation)
			traceCost(span, cost.Report{PredictedRU: cost.Rounded(predictedRU)})
			span.End()
		}
	}
}

// accounting records the cost of each response, charges it to the payer's budget, and reports it
// in extensions.cost on request.
type accounting struct {
	metrics metrics
	budgets *cost.Budgets
}

var _ interface {
	graphql.OperationInterceptor
	graphql.ResponseInterceptor
} = accounting{}

func (accounting) ExtensionName() string                   { return "Accounting" }
func (accounting) Validate(graphql.ExecutableSchema) error { return nil }

// InterceptOperation accounts for a subscription that cannot be opened: its one response does
// not pass InterceptResponse.
func (a accounting) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	responses := next(ctx)
	if graphql.GetOperationContext(ctx).Operation.Operation != ast.Subscription || transport.HasStream(ctx) {
		return responses
	}
	return func(ctx context.Context) *graphql.Response { return a.InterceptResponse(ctx, responses) }
}

func (a accounting) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	response := next(ctx)
	if response == nil {
		return nil
	}
	r := transport.RequestOf(ctx)
	t := &r.Meter
	kind, c := t.Take()
	kind = cmp.Or(kind, typeNone)
	a.budgets.Settle(ctx, t, c)
	a.metrics.spend(kind, c)
	a.metrics.observe(kind, time.Since(r.Began), c, response)
	traceCost(trace.SpanFromContext(ctx), c)
	if t.Detail != cost.None {
		if response.Extensions == nil {
			response.Extensions = map[string]any{}
		}
		response.Extensions[costExtension] = c
	}
	return response
}

const costExtension = "cost"
