package graph

import (
	"cmp"
	"context"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"go.opentelemetry.io/otel/trace"

	"byline/graph/cost"
)

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
	if graphql.GetOperationContext(ctx).Operation.Operation != ast.Subscription || hasStream(ctx) {
		return responses
	}
	return func(ctx context.Context) *graphql.Response { return a.InterceptResponse(ctx, responses) }
}

func (a accounting) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	if ofSubscription(ctx) {
		if err := a.budgets.ReserveEvent(ctx); err != nil {
			next = func(ctx context.Context) *graphql.Response { // without data, it ends the subscription
				graphql.AddError(ctx, err)
				return &graphql.Response{Errors: graphql.GetErrors(ctx)}
			}
		}
	}
	response := next(ctx)
	if response == nil {
		return nil
	}
	r := requestFrom(ctx)
	t := &r.meter
	kind, c := t.Take()
	kind = cmp.Or(kind, typeNone)
	a.budgets.Settle(ctx, t, c)
	a.metrics.spend(kind, c)
	a.metrics.observe(kind, time.Since(r.began), c, response)
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
