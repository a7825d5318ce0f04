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

// tracing makes a span of each operation, and below it of each resolver and each batch
// of a loader that reads or writes something. Of what clients send it records the name
// of the operation, and neither text nor variables.
//
// A subscription is a span until it has begun. Each of its events for which something
// is read is a trace of its own, with a link to it.
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
		next.ServeHTTP(w, r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))))
	})
}

func (t tracing) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	op := graphql.GetOperationContext(ctx).Operation
	ctx, span := t.operation(ctx, op.Operation, op.Name)
	responses := next(ctx)
	if op.Operation == ast.Subscription && hasStream(ctx) {
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
		attribute.String(attrRequestID, requestFrom(ctx).id)))
}

// endOperation ends the span of an operation that has been executed. It is an error if
// it failed for a reason that the client did not cause.
func endOperation(span trace.Span, response *graphql.Response) {
	defer span.End() // again if there is no further response, which changes nothing
	if response == nil || len(response.Errors) == 0 {
		return
	}
	code := codeOf(response)
	span.SetAttributes(attribute.Int(attrErrors, len(response.Errors)), attribute.String(attrErrorType, string(code)))
	if code == refusal.Internal || code == refusal.Unavailable || code == refusal.Throttled {
		span.SetStatus(codes.Error, "")
	}
}

// traceCost says in the span of an operation or an event what it has cost.
func traceCost(span trace.Span, c cost.Report) {
	if span.IsRecording() { // attributes are allocated
		span.SetAttributes(attribute.Float64(attrActualRU, float64(c.ActualRU)), attribute.Float64(attrPredictedRU, float64(c.PredictedRU)),
			attribute.Int(attrRequests, c.Requests))
	}
}

func (t tracing) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	// What is refused may have no operation.
	if !graphql.HasOperationContext(ctx) || graphql.GetOperationContext(ctx).Operation == nil ||
		graphql.GetOperationContext(ctx).Operation.Operation != ast.Subscription {
		return next(ctx)
	}
	event := &lazySpan{around: ctx, begin: func() trace.Span {
		_, span := t.tracer.Start(ctx, "event", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer), trace.WithLinks(trace.LinkFromContext(ctx)),
			trace.WithAttributes(attribute.String(attrOperationType, string(ast.Subscription)), attribute.String(attrRequestID, requestFrom(ctx).id)))
		return span
	}}
	response := next(trace.ContextWithSpan(ctx, event))
	if span := event.end(); span != nil {
		endOperation(span, response)
	}
	return response
}

// InterceptRootField makes the spans of root fields, which need not come to a resolver
// of their own (see planned).
func (t tracing) InterceptRootField(ctx context.Context, next graphql.RootResolver) graphql.Marshaler {
	if outer, ok := trace.SpanFromContext(ctx).(*lazySpan); ok && outer.resolver {
		return next(ctx) // a plan has not answered, and the executor is within the field already
	}
	field := graphql.GetRootFieldContext(ctx).Field
	within, span := t.resolving(ctx, field.ObjectDefinition.Name+"."+field.Name)
	defer span.finish()
	return next(within)
}

// InterceptField makes the spans of resolvers.
func (t tracing) InterceptField(ctx context.Context, next graphql.Resolver) (_ any, err error) {
	field := graphql.GetFieldContext(ctx)
	if !field.IsResolver {
		return next(ctx)
	}
	if root, ok := trace.SpanFromContext(ctx).(*lazySpan); ok && (field.Object == "Query" || field.Object == "Mutation") {
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

// resolving returns a context in which a field is resolved.
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

// endRead ends the span of something that read or wrote.
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

// traced makes a span of each batch that a loader reads. Without a tracer it does nothing.
func traced[K, V any](tracer trace.Tracer, name string, read func(context.Context, []K) ([]V, error)) func(context.Context, []K) ([]V, error) {
	if tracer == nil {
		return read
	}
	return func(ctx context.Context, keys []K) (_ []V, err error) {
		ctx, span := tracer.Start(ctx, name, trace.WithAttributes(attribute.Int(attrKeys, len(keys))))
		defer func() { endRead(span, err) }()
		return read(ctx, keys)
	}
}

// lazySpan stands in a context for a span that begins only if another one, or a line of
// the log, wants to belong to it: most resolvers read nothing.
type lazySpan struct {
	noop.Span
	begin    func() trace.Span
	resolver bool
	around   context.Context // with what the span is in

	mu    sync.Mutex
	span  trace.Span // guarded by mu; nil before it has begun
	ended bool       // guarded by mu
	err   error      // guarded by mu
}

// SpanContext implements trace.Span. It is what others ask for to belong to it.
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

// IsRecording implements trace.Span: there is nothing to record before it has begun.
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

// parent returns what the spans of resolvers below belong to.
func (l *lazySpan) parent() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.span != nil {
		return trace.ContextWithSpan(l.around, l.span)
	}
	return l.around
}

// fail notes why what it stands for failed, if it did.
func (l *lazySpan) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// end says that it will not begin any more. It returns the span to end, if it has.
func (l *lazySpan) end() trace.Span {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	return l.span
}

// finish ends it.
func (l *lazySpan) finish() {
	if span := l.end(); span != nil {
		endRead(span, l.err)
	}
}
