package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/tracing"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushTimeout limits sending the last traces at shutdown.
const flushTimeout = 5 * time.Second

// traces has the provider of tracers, nil if tracing is off; flush sends the last traces.
type traces struct {
	provider trace.TracerProvider
	flush    func()
}

// openTraces sets g.traces and adds trace ids to the log.
func (g *gateway) openTraces(ctx context.Context) (err error) {
	if g.traces, err = newTraces(ctx, g.log); err != nil || g.traces.provider == nil {
		return err
	}
	g.onClose(g.traces.flush)
	g.log = slog.New(traceHandler{g.log.Handler()})
	return nil
}

// newTraces configures tracing from the environment variables of OpenTelemetry. Without an endpoint,
// tracing is off.
func newTraces(ctx context.Context, log *slog.Logger) (traces, error) {
	off := traces{}
	if os.Getenv("OTEL_SDK_DISABLED") == "true" || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return off, nil
	}
	exporter, err := newExporter(ctx)
	if exporter == nil || err != nil {
		return off, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "byline")),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return off, fmt.Errorf("traces: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces", logError, err) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	return traces{provider, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last traces were not sent", logError, err)
		}
	}}, nil
}

// azure returns the tracing provider of azcosmos. It records the requests of sampled operations, but not those of
// background work, which polls continuously.
func (t traces) azure() tracing.Provider {
	if t.provider == nil {
		return tracing.Provider{}
	}
	return tracing.NewProvider(func(module, version string) tracing.Tracer {
		tracer := t.provider.Tracer(module, trace.WithInstrumentationVersion(version))
		start := func(ctx context.Context, name string, o *tracing.SpanOptions) (context.Context, tracing.Span) {
			if !trace.SpanContextFromContext(ctx).IsSampled() {
				return ctx, tracing.Span{}
			}
			ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(spanKinds[o.Kind]),
				trace.WithAttributes(azureAttributes(o.Attributes)...))
			return ctx, azureSpan(span)
		}
		current := func(ctx context.Context) tracing.Span { return azureSpan(trace.SpanFromContext(ctx)) }
		return tracing.NewTracer(start, &tracing.TracerOptions{SpanFromContext: current})
	}, nil)
}

func azureSpan(span trace.Span) tracing.Span {
	return tracing.NewSpan(tracing.SpanImpl{
		End:           func() { span.End() },
		SetAttributes: func(all ...tracing.Attribute) { span.SetAttributes(azureAttributes(all)...) },
		SetStatus: func(s tracing.SpanStatus, _ string) { // the description quotes the response, so it is dropped
			if s == tracing.SpanStatusError {
				span.SetStatus(codes.Error, "")
			}
		},
	})
}

var spanKinds = map[tracing.SpanKind]trace.SpanKind{
	tracing.SpanKindInternal: trace.SpanKindInternal,
	tracing.SpanKindClient:   trace.SpanKindClient,
}

// azureRecorded are the recorded attributes of azcosmos. The URL is excluded: it contains ids, and so
// usernames.
var azureRecorded = map[string]bool{
	"db.system": true, "db.namespace": true, "db.collection.name": true, "db.operation.name": true,
	"db.cosmosdb.connection_mode": true, "db.cosmosdb.request_charge": true, "db.cosmosdb.status_code": true,
	"server.address": true, "server.port": true, "net.peer.name": true, "az.namespace": true,
	"http.method": true, "http.status_code": true,
}

func azureAttributes(all []tracing.Attribute) []attribute.KeyValue {
	var recorded []attribute.KeyValue
	for _, a := range all {
		if !azureRecorded[a.Key] {
			continue
		}
		key := attribute.Key(a.Key)
		switch v := a.Value.(type) {
		case string:
			recorded = append(recorded, key.String(v))
		case int:
			recorded = append(recorded, key.Int(v))
		case float32:
			recorded = append(recorded, key.Float64(float64(v)))
		default:
			recorded = append(recorded, key.String(fmt.Sprint(v)))
		}
	}
	return recorded
}

// logTrace is the attribute of a record with the id of its trace.
const logTrace = "traceId"

// traceHandler adds the id of its trace to each record.
type traceHandler struct{ slog.Handler }

func (h traceHandler) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		r = r.Clone()
		r.AddAttrs(slog.String(logTrace, span.TraceID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h traceHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traceHandler{h.Handler.WithAttrs(attrs)}
}

func (h traceHandler) WithGroup(name string) slog.Handler {
	return traceHandler{h.Handler.WithGroup(name)}
}
