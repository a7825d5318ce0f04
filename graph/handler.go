package graph

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/ast"
	"go.opentelemetry.io/otel/trace"

	"byline/graph/auth"
	"byline/graph/cost"
	"byline/graph/document"
	"byline/graph/generated"
	"byline/graph/limit"
	"byline/graph/refusal"
	"byline/graph/transport"
	"byline/store"
	"byline/store/blog/markdown"
)

// Options of the edge. Store is required.
type Options struct {
	Store *store.Store

	// Verifier verifies bearer tokens. Default: all tokens are invalid.
	Verifier auth.Verifier

	// Streams bounds the life of subscriptions: when it ends they are closed, and their
	// connections with them. Default: they last until their clients end them.
	Streams context.Context

	// Tracing traces operations and their reads and writes. Default: no traces.
	Tracing trace.TracerProvider

	// Logger gets a line for each failed operation, and for rejected tokens. Default: discards.
	Logger *slog.Logger

	// RUPerRequest is the budget of an operation, or of each event of a subscription, against
	// its predicted charge. Default 400.
	RUPerRequest cost.Budget

	// RUPerViewer is the budget per minute of a viewer, and of the anonymous clients of an
	// address. Default: no limit.
	RUPerViewer cost.Budget

	// Metrics is where the handler registers its metrics. Default: nowhere.
	Metrics prometheus.Registerer

	// Development serves the playground, which sends demo tokens, introspection, and suggestions in
	// error messages; and it admits the origins of this machine, such as http://localhost:5173. Default: none
	// of them.
	Development bool

	// PlaygroundCDN lets the playground load GraphiQL from a CDN. Default: it uses what is embedded.
	PlaygroundCDN bool

	// TrustedDocuments, if set, are the only documents to execute, and there is no
	// playground. Default: all that are valid and within budget.
	TrustedDocuments *document.Trusted

	// KnownDocuments are executed by their ids, beside the trusted ones. Default: none.
	KnownDocuments *document.Trusted

	// Origins are the origins whose pages may read responses, send mutations, and open
	// WebSockets, as the server's own may. Default: none.
	Origins []string

	// RequestsPerViewer and RequestsPerAddress limit the requests per second of a viewer, and
	// of an address or, of IPv6, a /64 network; a /48 network may send eight times as many. An
	// operation over WebSocket is a request. Up to ten seconds' worth may be saved. Loopback is
	// not limited. Default: no limit.
	RequestsPerViewer  int
	RequestsPerAddress int

	// ResponseCacheBytes is the memory of the response cache. An entry is valid until the item
	// cache of Store learns of a change to what was read for it. Default: no response cache.
	ResponseCacheBytes int

	// HTMLCacheBytes is the memory of the cache of rendered texts, which their sources identify. Default: no such
	// cache.
	HTMLCacheBytes int

	// Capacity is how much is executed and held at a time. Default: that of its zero value.
	Capacity limit.Capacity

	// TrustedProxies are the networks whose X-Forwarded-For and Forwarded headers are believed.
	// Default: none.
	TrustedProxies []netip.Prefix
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	if o.Streams == nil {
		o.Streams = context.Background()
	}
	return o
}

// NewHandler returns the edge: GraphQL at transport.Path and, in development, the
// playground at /. It does no I/O and starts nothing.
func NewHandler(o Options) (*transport.Handler, error) {
	if o.Store == nil {
		return nil, errors.New("graph: Options.Store is missing")
	}
	o = o.withDefaults()
	to, err := transportOptions(o)
	if err != nil {
		return nil, err
	}
	h, err := transport.New(to)
	if err != nil {
		return nil, err
	}
	if o.Tracing != nil {
		h.Handler = continueTrace(h.Handler)
	}
	return h, nil
}

// transportOptions assembles what the transports need.
func transportOptions(o Options) (to transport.Options, err error) {
	schema := Schema(o.Development)
	if err := checkRules(schema.Mutation); err != nil {
		return to, err
	}
	pages, err := newPages(o)
	if err != nil {
		return to, err
	}
	metrics, presenter := newMetrics(o.Metrics), newPresenter(o.Logger)
	var traced tracing
	if o.Tracing != nil {
		traced.tracer = o.Tracing.Tracer(tracerName)
	}
	budgets := cost.NewBudgets(cost.Options{PerRequest: o.RUPerRequest, PerViewer: o.RUPerViewer,
		Blog:   cost.Blog{FeedPartitions: o.Store.FeedPartitions(), SearchRU: o.Store.SearchRU},
		Logger: o.Logger, Metrics: o.Metrics,
		Meter: func(ctx context.Context) *cost.Meter { return &transport.RequestOf(ctx).Meter }})
	return transport.Options{
		Executor:     newExecutor(o, schema, presenter, budgets, metrics, traced),
		Schema:       schema,
		Store:        o.Store,
		Pages:        pages,
		Authenticate: newAuthentication(o, metrics).authenticate,
		Present:      presenter.present,
		Classify: func(err error) (refusal.Code, string) {
			f := classify(err)
			return f.code, f.message
		},
		Budget:  budgets.ReserveEvent,
		Recover: recovered,
		Cached:  metrics.cached.observer(traced),
		Shed:    metrics.responses.WithLabelValues(string(typeNone), string(refusal.Unavailable)).Inc,

		Streams:            o.Streams,
		Logger:             o.Logger,
		Metrics:            o.Metrics,
		Origins:            o.Origins,
		LoopbackOrigins:    o.Development,
		RequestsPerViewer:  o.RequestsPerViewer,
		RequestsPerAddress: o.RequestsPerAddress,
		ResponseCacheBytes: o.ResponseCacheBytes,
		Capacity:           o.Capacity,
		TrustedProxies:     o.TrustedProxies,
	}, nil
}

// newExecutor assembles the schema, its resolvers, and the extensions around them: the first is the outermost.
func newExecutor(
	o Options, schema *ast.Schema, p presenter, budgets *cost.Budgets, m metrics, traced tracing,
) *executor.Executor {
	documents := document.New(document.Options{Schema: schema, Trusted: o.TrustedDocuments,
		Known: o.KnownDocuments, Suggestions: o.Development})
	resolver := &Resolver{store: o.Store, html: markdown.NewCache(o.HTMLCacheBytes), rendering: &limit.ClientSlots{}}
	executable := generated.NewExecutableSchema(generated.Config{Schema: schema, Resolvers: resolver})
	plans := planned{ExecutableSchema: executable, resolver: resolver, documents: documents, tracing: traced}
	bounded := boundedMemory{plans, p}
	exec := executor.New(transport.ShareEvents(bounded, o.Store))
	exec.SetErrorPresenter(p.present)
	exec.SetRecoverFunc(recovered)
	documents.Install(exec)
	exec.Use(requireViewer{})
	exec.Use(budgets)
	exec.Use(bounded)
	if o.Tracing != nil {
		exec.Use(traced)
	}
	exec.Use(laterCost{o.Store})
	exec.Use(accounting{m, budgets}) // within tracing, for the span of an event
	exec.Use(responseLoaders{store: o.Store, tracer: traced.tracer})
	exec.Use(plans)
	if o.Development {
		exec.Use(introspected{})
	}
	documents.InstallRegistration(exec)
	return exec
}
