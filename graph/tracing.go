package graph

import (
	"context"
	"net/http"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"byline/graph/cost"
	"byline/graph/refusal"
	"byline/graph/transport"
)

const tracerName = "byline/graph"

const maxTracedName = 100 // bytes of an operation's name

// Keys of span attributes. The first two and the last are OpenTelemetry's.
const (
	attrOperationType = "graphql.operation.type"
	attrOperationName = "graphql.operation.name"
	attrRequestID     = "byline.request_id"
	attrErrors        = "byline.errors"
	attrKeys          = "byline.keys"
	attrActualRU      = "byline.request_units"
	attrPredictedRU   = "byline.predicted_request_units"
	attrRequests      = "byline.cosmos_requests"
	attrErrorType     = "error.type"
)

// tracing records a span for each operation, and below it for each resolver and each batch
// of a loader that reads or writes. Of a request it records the name of the operation, but
// neither text nor variables.
//
// The span of a subscription ends once it is opened. Each event that needs reads is a trace of
// its own, with a link to that span.
type tracing struct{ tracer trace.Tracer }

var _ interface {
	graphql.OperationInterceptor
	graphql.ResponseInterceptor
	graphql.RootFieldInterceptor
	graphql.FieldInterceptor
} = tracing{}

func (tracing) ExtensionName() string                   { return "Tracing" }
func (tracing) Validate(graphql.ExecutableSchema) error { return nil }

// continueTrace makes requests part of the trace that their traceparent header names
// (W3C Trace Context).
func continueTrace(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w,
			r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))))
	})
}

func (t tracing) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	op := graphql.GetOperationContext(ctx).Operation
	ctx, span := t.operation(ctx, op.Operation, op.Name)
	responses := next(ctx)
	if op.Operation == ast.Subscription && transport.HasStream(ctx) {
		span.End()
		return responses
	}
	return func(ctx context.Context) *graphql.Response {
		response := responses(ctx)
		endOperation(span, response)
		return response
	}
}

// operation begins the span of an operation.
func (t tracing) operation(ctx context.Context, kind ast.Operation, name string) (context.Context, trace.Span) {
	return t.tracer.Start(ctx, string(kind), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String(attrOperationType, string(kind)),
		attribute.String(attrOperationName, refusal.Truncate(name, maxTracedName)),
		attribute.String(attrRequestID, transport.RequestOf(ctx).ID)))
}

// endOperation ends the span of an operation. Its status is an error if the client did not cause
// the failure.
func endOperation(span trace.Span, response *graphql.Response) {
	defer span.End() // again if there is no further response, which changes nothing
	if response == nil || len(response.Errors) == 0 {
		return
	}
	code := refusal.CodeOf(response.Errors)
	span.SetAttributes(attribute.Int(attrErrors, len(response.Errors)), attribute.String(attrErrorType, string(code)))
	if code == refusal.Internal || code == refusal.Unavailable || code == refusal.Throttled {
		span.SetStatus(codes.Error, "")
	}
}

// traceCost records the cost of an operation or event in its span.
func traceCost(span trace.Span, c cost.Report) {
	if span.IsRecording() { // do not allocate the attributes otherwise
		span.SetAttributes(attribute.Float64(attrActualRU, float64(c.ActualRU)),
			attribute.Float64(attrPredictedRU, float64(c.PredictedRU)),
			attribute.Int(attrRequests, c.Requests))
	}
}

func (t tracing) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	if !isOf(ctx, ast.Subscription) {
		return next(ctx)
	}
	event := &lazySpan{around: ctx, begin: func() trace.Span {
		_, span := t.tracer.Start(ctx, "event", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer),
			trace.WithLinks(trace.LinkFromContext(ctx)),
			trace.WithAttributes(attribute.String(attrOperationType, string(ast.Subscription)),
				attribute.String(attrRequestID, transport.RequestOf(ctx).ID)))
		return span
	}}
	response := next(trace.ContextWithSpan(ctx, event))
	if span := event.end(); span != nil {
		endOperation(span, response)
	}
	return response
}

// InterceptRootField records the spans of root fields: one with a plan does not reach InterceptField
// (see planned).
func (t tracing) InterceptRootField(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	if outer, ok := trace.SpanFromContext(ctx).(*lazySpan); ok && outer.resolver {
		return next(ctx) // the executor resolves the field of a plan, which has a span already
	}
	field := graphql.GetRootFieldContext(ctx).Field
	within, span := t.resolving(ctx, field.ObjectDefinition.Name+"."+field.Name)
	defer span.finish()
	return next(within)
}

// InterceptField records the spans of resolvers.
func (t tracing) InterceptField(ctx context.Context, next graphql.Resolver) (_ any, err error) {
	field := graphql.GetFieldContext(ctx)
	if !field.IsResolver {
		return next(ctx)
	}
	if root, ok := trace.SpanFromContext(ctx).(*lazySpan); ok &&
		(field.Object == "Query" || field.Object == "Mutation") {
		defer func() { root.fail(err) }()
		return next(ctx)
	}
	within, span := t.resolving(ctx, field.Object+"."+field.Field.Name)
	defer func() {
		span.fail(err)
		span.finish()
	}()
	return next(within)
}

// resolving returns a context in which to resolve a field, and its span.
func (t tracing) resolving(ctx context.Context, name string) (context.Context, *lazySpan) {
	parent := ctx
	if outer, ok := trace.SpanFromContext(ctx).(*lazySpan); ok && outer.resolver {
		parent = outer.parent()
	}
	span := &lazySpan{resolver: true, around: parent, begin: func() trace.Span {
		_, span := t.tracer.Start(parent, name)
		return span
	}}
	return trace.ContextWithSpan(ctx, span), span
}

// endRead ends the span of a read or write.
func endRead(span trace.Span, err error) {
	if err != nil {
		f := classify(err)
		span.SetAttributes(attribute.String(attrErrorType, string(f.code)))
		if f.code == refusal.Internal || f.code == refusal.Unavailable || f.code == refusal.Throttled {
			span.SetStatus(codes.Error, "")
		}
	}
	span.End()
}

// traced records a span for each batch of a loader, unless tracer is nil.
func traced[K, V any](
	tracer trace.Tracer, name string, read func(context.Context, []K) ([]V, error),
) func(context.Context, []K) ([]V, error) {
	if tracer == nil {
		return read
	}
	return func(ctx context.Context, keys []K) (_ []V, err error) {
		ctx, span := tracer.Start(ctx, name, trace.WithAttributes(attribute.Int(attrKeys, len(keys))))
		defer func() { endRead(span, err) }()
		return read(ctx, keys)
	}
}

// lazySpan is a span that begins only when a child span or a log line needs its context: most
// resolvers read nothing.
type lazySpan struct {
	noop.Span
	begin    func() trace.Span
	resolver bool
	around   context.Context // with the parent span

	mu    sync.Mutex
	span  trace.Span // guarded by mu; nil before it has begun
	ended bool       // guarded by mu
	err   error      // guarded by mu
}

// SpanContext implements trace.Span. Children and log lines call it, so it begins the span.
func (l *lazySpan) SpanContext() trace.SpanContext {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.span == nil && l.ended {
		return trace.SpanContextFromContext(l.around)
	}
	if l.span == nil {
		l.span = l.begin()
	}
	return l.span.SpanContext()
}

// IsRecording implements trace.Span. It is false before the span has begun.
func (l *lazySpan) IsRecording() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.span != nil && l.span.IsRecording()
}

// SetAttributes implements trace.Span. Those of a span that has not begun are lost.
func (l *lazySpan) SetAttributes(attributes ...attribute.KeyValue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.span != nil {
		l.span.SetAttributes(attributes...)
	}
}

// parent returns the context for the spans of resolvers below.
func (l *lazySpan) parent() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.span != nil {
		return trace.ContextWithSpan(l.around, l.span)
	}
	return l.around
}

// fail records the error of what the span covers; nil: none.
func (l *lazySpan) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// end keeps the span from beginning. It returns the span for the caller to end, nil if it has not begun.
func (l *lazySpan) end() trace.Span {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	return l.span
}

// finish ends the span, if it has begun.
func (l *lazySpan) finish() {
	if span := l.end(); span != nil {
		endRead(span, l.err)
	}
}
