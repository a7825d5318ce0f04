package graph

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"go.opentelemetry.io/otel/trace"

	"byline/store/cosmos"
)

// costHeader asks for what an operation costs to be told in extensions.cost.
const costHeader = "Byline-Cost"

// costDetail is how much is told.
type costDetail int

const (
	costUntold costDetail = iota
	costSummary
	costInDetail
)

// parseCostDetail parses the header Byline-Cost.
func parseCostDetail(text string) (costDetail, error) {
	switch text {
	case "", "none":
		return costUntold, nil
	case "summary":
		return costSummary, nil
	case "detail":
		return costInDetail, nil
	}
	return costUntold, refuse(costHeader, "%s must be summary, detail or none", costHeader)
}

// tally is what the operation of a request has charged. It may be used by any number
// of goroutines at once. The zero value counts, and tells nothing.
type tally struct {
	detail costDetail
	began  time.Time

	mu         sync.Mutex
	kind       ast.Operation   // guarded by mu; "" until it is known
	predicted  float64         // guarded by mu; RU
	reserved   int             // guarded by mu; hundredths of an RU, of the viewer's budget
	charged    bool            // guarded by mu; to the viewer's budget
	response   cost            // guarded by mu; since the last response
	operations []costOperation // guarded by mu; since the last response, if they are to be told
}

// cost is extensions.cost.
type cost struct {
	PredictedRU rounded          `json:"predictedRU"`
	ActualRU    rounded          `json:"actualRU"`
	Requests    int              `json:"requests"`             // to Cosmos DB
	Operations  *[]costOperation `json:"operations,omitempty"` // nil in a summary
}

// costOperation is an operation on Cosmos DB.
type costOperation struct {
	Path         string          `json:"path"`
	Pattern      string          `json:"pattern"`
	Container    string          `json:"container"`
	Kind         string          `json:"kind"`
	PartitionKey json.RawMessage `json:"partitionKey,omitempty"`
	Range        string          `json:"range"`
	RU           rounded         `json:"ru"`
	Ms           rounded         `json:"ms"`
	Retries      int             `json:"retries"`
}

// rounded is a number of which two decimals are told.
type rounded float64

// MarshalJSON implements json.Marshaler.
func (r rounded) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, math.Round(float64(r)*100)/100, 'f', -1, 64), nil
}

// record takes note of an operation on Cosmos DB. See cosmos.WithRecorder.
func (t *tally) record(ctx context.Context, o *cosmos.Operation) {
	var told costOperation
	if t.detail == costInDetail {
		told = costOperation{Path: fieldPath(ctx), Pattern: string(o.Pattern), Container: o.Container, Kind: string(o.Kind),
			PartitionKey: json.RawMessage(o.PartitionKey), Range: o.Range,
			RU: rounded(o.RU), Ms: rounded(o.Took.Seconds() * 1000), Retries: max(0, o.Tries-1)}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.response.ActualRU += rounded(o.RU)
	t.response.Requests += o.Tries
	if t.detail == costInDetail {
		t.operations = append(t.operations, told)
	}
}

// predict takes note of what the operation is, and of what it is going to charge.
func (t *tally) predict(kind ast.Operation, ru float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kind, t.predicted = kind, ru
}

// prediction is what the operation is going to charge, in RU.
func (t *tally) prediction() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.predicted
}

// reserve takes note of what is taken from the viewer's budget.
func (t *tally) reserve(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reserved, t.charged = n, true
}

// settle returns what is reserved, once; ok says that the viewer's budget is charged.
func (t *tally) settle() (reserved int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	reserved, t.reserved = t.reserved, 0
	return reserved, t.charged
}

// take returns the cost of the response that has been made: what was read for it, and
// whatever was read before the first one.
func (t *tally) take() (ast.Operation, cost) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.response
	c.PredictedRU = rounded(t.predicted)
	if t.detail == costInDetail {
		operations := append([]costOperation{}, t.operations...)
		c.Operations = &operations
	}
	t.response, t.operations = cost{}, t.operations[:0]
	return cmp.Or(t.kind, typeNone), c
}

type askerKey struct{}

// withAsker says for which field something is read, where the context is not the field's:
// by its *graphql.FieldContext, or its path as a string.
func withAsker(ctx context.Context, asker any) context.Context {
	return context.WithValue(ctx, askerKey{}, asker)
}

// askerOf returns the field that something is read for. A batch is read for the first
// that asked.
func askerOf(ctx context.Context) any {
	if asker := ctx.Value(askerKey{}); asker != nil {
		return asker
	}
	return graphql.GetFieldContext(ctx)
}

// fieldPath is where the field that something is read for is found in the response, but
// for list indexes, as in QUERY_TOO_EXPENSIVE.
func fieldPath(ctx context.Context) string {
	asker := askerOf(ctx)
	if path, ok := asker.(string); ok {
		return path
	}
	field, _ := asker.(*graphql.FieldContext)
	var path strings.Builder
	for _, step := range field.Path() {
		if name, ok := step.(ast.PathName); ok {
			if path.Len() > 0 {
				path.WriteByte('.')
			}
			path.WriteString(string(name))
		}
	}
	return path.String()
}

// accounting takes note of what each response has cost, charges it, and tells it in the response's
// extensions if it is to be told.
type accounting struct {
	metrics metrics
	budgets budgets
}

var _ interface {
	graphql.OperationInterceptor
	graphql.ResponseInterceptor
} = accounting{}

func (accounting) ExtensionName() string                   { return "Accounting" }
func (accounting) Validate(graphql.ExecutableSchema) error { return nil }

// InterceptOperation accounts for a subscription that cannot be opened: the executor makes
// its one response past InterceptResponse.
func (a accounting) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	responses := next(ctx)
	if graphql.GetOperationContext(ctx).Operation.Operation != ast.Subscription || hasStream(ctx) {
		return responses
	}
	return func(ctx context.Context) *graphql.Response { return a.InterceptResponse(ctx, responses) }
}

func (a accounting) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	response := next(ctx)
	if response == nil {
		return nil
	}
	r := requestFrom(ctx)
	t := &r.tally
	kind, c := t.take()
	a.budgets.settle(ctx, r, c)
	a.metrics.spend(kind, c)
	if len(response.Data) >= smallAnswer { // there may be no room for it
		r.given = func() { a.metrics.observe(kind, time.Since(t.began), c, response) }
	} else {
		a.metrics.observe(kind, time.Since(t.began), c, response)
	}
	traceCost(trace.SpanFromContext(ctx), c)
	if t.detail != costUntold {
		if response.Extensions == nil {
			response.Extensions = map[string]any{}
		}
		response.Extensions[costExtension] = c
	}
	return response
}

const costExtension = "cost"

// askCost reads the header that asks for the cost.
func askCost(next http.Handler, p presenter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		detail, err := parseCostDetail(strings.Join(r.Header.Values(costHeader), ","))
		if err != nil {
			prepare(w.Header(), r)
			write(w, http.StatusBadRequest, &graphql.Response{Errors: gqlerror.List{p.present(r.Context(), err)}})
			return
		}
		requestFrom(r.Context()).tally.detail = detail
		next.ServeHTTP(w, r)
	})
}
