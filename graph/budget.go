package graph

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// Budget is a limit on request units.
type Budget struct {
	RU int // 0 is the default

	// Measure executes what is over the budget, and only counts and logs it.
	Measure bool
}

// defaultPerRequest is what the smallest container of Cosmos DB has to give in a second.
const defaultPerRequest = 400

// Names of budgets, in metrics and the log.
const (
	budgetPerRequest = "request"
	budgetPerViewer  = "viewer"
)

// budgets refuse operations that are predicted to charge more than one may, or more
// than their viewer has left of this minute. What an operation has charged in the end
// is settled with each response.
type budgets struct {
	perRequest, perViewer Budget
	feedPartitions        int
	left                  *limiter // by viewer, in hundredths of an RU
	exceeded              *prometheus.CounterVec
	log                   *slog.Logger
}

var _ graphql.OperationContextMutator = budgets{}

func newBudgets(o Options) budgets {
	b := budgets{perRequest: o.RUPerRequest, perViewer: o.RUPerViewer, feedPartitions: o.Store.FeedPartitions(), left: newLimiterPerMinute(100 * o.RUPerViewer.RU), log: o.Logger,
		exceeded: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "byline_budget_exceeded_total",
			Help: "Operations that were over a budget, refused or not."}, []string{"budget"})}
	if b.perRequest.RU <= 0 {
		b.perRequest.RU = defaultPerRequest
	}
	o.Metrics.MustRegister(b.exceeded)
	for _, name := range []string{budgetPerRequest, budgetPerViewer} {
		b.exceeded.WithLabelValues(name)
	}
	for _, name := range slices.Sorted(maps.Keys(prices["Mutation"])) {
		if ru := prices["Mutation"][name].of(b.feedPartitions); ru > float64(b.perRequest.RU) {
			b.log.Warn("this mutation is always over budget", logMutation, name, logBudget, budgetPerRequest, logLimit, b.perRequest.RU, logPredicted, math.Round(ru))
		}
	}
	return b
}

func (budgets) ExtensionName() string                   { return "Budgets" }
func (budgets) Validate(graphql.ExecutableSchema) error { return nil }

func (b budgets) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	r := requestFrom(ctx)
	// Not viewerID: what an operation may cost is no part of its answer.
	p := predict(op.Operation, op.Variables, r.viewer != "", b.feedPartitions)
	r.tally.predict(op.Operation.Operation, p.total)
	if refused := p.refusal(b.perRequest.RU); refused != nil && b.exceeds(ctx, budgetPerRequest, b.perRequest, p) {
		return gqlerror.Wrap(refused)
	}
	if refused := p.answer.refusal(); refused != nil {
		return gqlerror.Wrap(refused)
	}
	if refused := b.reserve(r, p); refused != nil && b.exceeds(ctx, budgetPerViewer, b.perViewer, p) {
		return gqlerror.Wrap(refused)
	}
	return nil
}

// refusal refuses what is predicted to charge more than so many RU; nil for less.
// Nested lists multiply, so a short document can ask for millions of reads.
func (p prediction) refusal(limit int) *refusal {
	if p.total <= float64(limit) {
		return nil
	}
	dearest := p.dearest()
	path := bounded(dearest.path(), maxMessage)
	return &refusal{code: queryTooExpensive, field: path, message: fmt.Sprintf(
		"this operation is predicted to cost %.0f RU, more than the limit of %d RU; the most expensive field is %s with %.0f RU: request smaller pages or fewer nested lists",
		p.total, limit, path, dearest.ru)}
}

// exceeds counts an operation that is over a budget, and reports whether to refuse it.
func (b budgets) exceeds(ctx context.Context, name string, of Budget, p prediction) bool {
	b.exceeded.WithLabelValues(name).Inc()
	if !of.Measure {
		return true
	}
	b.log.LogAttrs(ctx, slog.LevelInfo, "over budget", slog.String(logBudget, name), slog.Int(logLimit, of.RU),
		slog.Float64(logPredicted, math.Round(p.total)), slog.String(logPath, bounded(p.dearest().path(), maxMessage)), slog.String(logRequestID, requestFrom(ctx).id))
	return false
}

// Keys of log attributes.
const (
	logBudget    = "budget"
	logMutation  = "mutation"
	logLimit     = "limit"
	logPredicted = "predicted"
)

// reserve takes what is predicted from what the viewer has left. It returns a refusal,
// and has taken nothing, if that is not enough.
func (b budgets) reserve(r *request, p prediction) *refusal {
	payer := r.payer()
	if b.left == nil || payer == "" {
		return nil
	}
	n := min(hundredths(p.total), b.left.burst) // who has spent nothing may go over, and owes the rest
	if wait := b.left.take(payer, n); wait > 0 {
		return &refusal{code: throttled, retryAfter: wait, message: "the request units for this minute are used up; try again later"}
	}
	r.tally.reserve(n)
	return nil
}

// settle charges the viewer for a response: what it has cost, less what is reserved. Of
// an operation that has ended before its time nothing is given back: what Cosmos DB was
// asked for it charges, and nobody was there to read how much.
func (b budgets) settle(ctx context.Context, r *request, c cost) {
	payer := r.payer()
	if b.left == nil || payer == "" {
		return
	}
	if reserved, ok := r.tally.settle(); ok {
		spent := hundredths(float64(c.ActualRU))
		if ctx.Err() != nil {
			spent = max(spent, reserved)
		}
		b.left.charge(payer, spent-reserved)
	}
}

func hundredths(ru float64) int { return int(math.Round(ru * 100)) }
