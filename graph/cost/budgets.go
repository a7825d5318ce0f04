package cost

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/fields"
	"byline/graph/limit"
	"byline/graph/refusal"
)

// Budget is a limit on request units.
type Budget struct {
	RU int // 0 is the default

	// Measure only counts and logs operations over the budget.
	Measure bool
}

// defaultPerRequest is the provisioned throughput per second of the smallest container.
const defaultPerRequest = 400

// Names of budgets, in metrics and the log.
const (
	budgetPerRequest = "request"
	budgetPerViewer  = "viewer"
)

// Budgets refuses operations that are predicted to charge more than the budget of one
// operation, or more than is left of their payer's budget per minute. Settle then charges the
// actual cost of each response.
type Budgets struct {
	perRequest, perViewer Budget
	blog                  Blog
	meter                 func(context.Context) *Meter
	left                  *limit.Rate // by payer, in hundredths of an RU
	exceeded              *prometheus.CounterVec
	log                   *slog.Logger
}

var _ graphql.OperationContextMutator = (*Budgets)(nil)

// Options of budgets. Meter, Logger and Metrics are required.
type Options struct {
	PerRequest Budget // the highest predicted charge of an operation or an event; default 400 RU
	PerViewer  Budget // what a payer may spend in a minute; default: no limit
	Blog       Blog

	// Meter returns the meter of the request that a context belongs to.
	Meter func(context.Context) *Meter

	Logger  *slog.Logger
	Metrics prometheus.Registerer
}

// NewBudgets returns unspent budgets, and registers their metrics.
func NewBudgets(o Options) *Budgets {
	b := &Budgets{perRequest: o.PerRequest, perViewer: o.PerViewer, blog: o.Blog, meter: o.Meter,
		left: limit.NewRatePerMinute(100 * o.PerViewer.RU), log: o.Logger,
		exceeded: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "byline_budget_exceeded_total",
			Help: "Operations over a budget, whether refused or only measured."}, []string{"budget"})}
	if b.perRequest.RU <= 0 {
		b.perRequest.RU = defaultPerRequest
	}
	o.Metrics.MustRegister(b.exceeded)
	for _, name := range []string{budgetPerRequest, budgetPerViewer} {
		b.exceeded.WithLabelValues(name)
	}
	for _, name := range slices.Sorted(maps.Keys(fields.Table["Mutation"])) {
		if ru := fields.Lookup("Mutation", name).Price.Of(b.blog.FeedPartitions); ru > float64(b.perRequest.RU) {
			b.log.Warn("this mutation is always over budget", logMutation, name, logBudget, budgetPerRequest, logLimit,
				b.perRequest.RU, logPredicted, math.Round(ru))
		}
	}
	return b
}

func (*Budgets) ExtensionName() string                   { return "Budgets" }
func (*Budgets) Validate(graphql.ExecutableSchema) error { return nil }

func (b *Budgets) MutateOperationContext(ctx context.Context, op *graphql.OperationContext) *gqlerror.Error {
	m := b.meter(ctx)
	p := Predict(op.Operation, op.Variables, m.SignedIn, b.blog)
	m.predict(op.Operation.Operation, p.RU)
	if refused := p.refusal(b.perRequest.RU); refused != nil && b.exceeds(ctx, budgetPerRequest, b.perRequest, p) {
		return gqlerror.Wrap(refused)
	}
	if refused := p.response.refusal(); refused != nil {
		return gqlerror.Wrap(refused)
	}
	if refused := b.reserve(m, p); refused != nil && b.exceeds(ctx, budgetPerViewer, b.perViewer, p) {
		return gqlerror.Wrap(refused)
	}
	return nil
}

// refusal returns an error if the operation is predicted to charge more than limit. Nested lists
// multiply, so a short document can select millions of items.
func (p Prediction) refusal(limit int) *refusal.Error {
	if p.RU <= float64(limit) {
		return nil
	}
	top := p.mostExpensive()
	path := refusal.Truncate(top.path(), refusal.MaxMessage)
	return &refusal.Error{Code: refusal.QueryTooExpensive, Field: path, Message: fmt.Sprintf(
		"this operation is predicted to cost %.0f RU, more than the limit of %d RU; the most expensive field is %s "+
			"with %.0f RU: request smaller pages or fewer nested lists",
		p.RU, limit, path, top.ru)}
}

// exceeds counts an operation over a budget, and reports whether to refuse it.
func (b *Budgets) exceeds(ctx context.Context, name string, of Budget, p Prediction) bool {
	b.exceeded.WithLabelValues(name).Inc()
	if !of.Measure {
		return true
	}
	b.log.LogAttrs(ctx, slog.LevelInfo, "over budget", slog.String(logBudget, name), slog.Int(logLimit, of.RU),
		slog.Float64(logPredicted, math.Round(p.RU)),
		slog.String(logRUPath, refusal.Truncate(p.mostExpensive().path(), refusal.MaxMessage)),
		slog.String(logRequest, b.meter(ctx).RequestID))
	return false
}

// Keys of log attributes.
const (
	logBudget    = "budget"
	logMutation  = "mutation"
	logLimit     = "limit"
	logPredicted = "predicted"
	logRUPath    = "path"
	logRequest   = "requestId"
)

// reserve takes the predicted charge from the payer's budget. If that is not enough it takes
// nothing and returns a refusal.
func (b *Budgets) reserve(m *Meter, p Prediction) *refusal.Error {
	if b.left == nil || m.Payer == "" {
		return nil
	}
	n := min(hundredths(p.RU), b.left.Burst()) // with a full budget an operation may exceed it, and go into debt
	if wait := b.left.Take(m.Payer, n); wait > 0 {
		return &refusal.Error{Code: refusal.Throttled, RetryAfter: wait,
			Message: "the request units for this minute are used up; try again later"}
	}
	m.reserve(n, hundredths(p.work))
	return nil
}

// ReserveEvent takes the predicted charge of an event from the payer's budget. If that is not enough it returns how
// long to wait. The charge of the first event was taken when the subscription was opened.
func (b *Budgets) ReserveEvent(ctx context.Context) (wait time.Duration) {
	m := b.meter(ctx)
	if b.left == nil || m.Payer == "" || ctx.Err() != nil || !m.settled() {
		return 0
	}
	op := graphql.GetOperationContext(ctx)
	p := Predict(op.Operation, op.Variables, m.SignedIn, b.blog)
	refused := b.reserve(m, p)
	if refused == nil || b.perViewer.Measure {
		if refused != nil {
			b.exceeds(ctx, budgetPerViewer, b.perViewer, p)
		}
		m.wait(false)
		return 0
	}
	if m.wait(true) {
		b.exceeds(ctx, budgetPerViewer, b.perViewer, p)
	}
	return refused.RetryAfter
}

// Settle charges the payer for a response: its cost and its work, minus what is reserved. An operation that
// was canceled gets no refund: Cosmos DB charges requests whose responses are not read.
func (b *Budgets) Settle(ctx context.Context, m *Meter, c Report) {
	if b.left == nil || m.Payer == "" {
		return
	}
	if reserved, work, ok := m.settle(); ok {
		spent := hundredths(float64(c.ActualRU)) + work
		if ctx.Err() != nil {
			spent = max(spent, reserved)
		}
		b.left.Charge(m.Payer, spent-reserved)
	}
}

func hundredths(ru float64) int { return int(math.Round(ru * 100)) }
