package graph

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"go.opentelemetry.io/otel/trace"

	"byline/graph/auth"
	"byline/graph/cost"
	"byline/graph/document"
	"byline/graph/generated"
	"byline/graph/limit"
	"byline/store"
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

// Handler serves the GraphQL edge.
type Handler struct {
	http.Handler
	sockets   sync.WaitGroup
	admission *limit.Admission
}

// Overloaded reports whether operations have been refused for lack of capacity for some time.
func (h *Handler) Overloaded() bool { return h.admission.Overloaded() }

// Wait waits until all WebSockets are closed, which outlive their requests. It is called when
// Options.Streams has ended.
func (h *Handler) Wait() { h.sockets.Wait() }

// Path is where GraphQL is served.
const Path = "/graphql"

// NewHandler returns the edge: GraphQL at Path and, in development, the
// playground at /. It does no I/O and starts nothing.
func NewHandler(o Options) (*Handler, error) {
	if o.Store == nil {
		return nil, errors.New("graph: Options.Store is missing")
	}
	o = o.withDefaults()
	h := &Handler{}
	if err := checkOrigins(o.Origins); err != nil {
		return nil, err
	}
	origins := &origins{named: o.Origins, loopback: o.Development, log: o.Logger, refused: map[string]bool{}}
	endpoint, err := newEndpoint(o, &h.sockets, origins)
	if err != nil {
		return nil, err
	}
	h.admission = endpoint.admission
	p := endpoint.presenter
	mux := http.NewServeMux()
	graphql := origins.guard(readCostHeader(shedLoad(endpoint.admission, endpoint, endpoint.metrics), p), p)
	if o.Development && o.TrustedDocuments == nil {
		if err := addPlayground(mux, o); err != nil {
			return nil, err
		}
	}
	routes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == Path { // by far the most frequent
			graphql.ServeHTTP(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	})
	h.Handler = identify(secured(routes), o.TrustedProxies)
	if o.Tracing != nil {
		h.Handler = continueTrace(h.Handler)
	}
	return h, nil
}

// endpoint executes operations over HTTP and WebSocket.
type endpoint struct {
	*transport
	metrics   metrics
	presenter presenter
	sockets   webSocketTransport
	http      httpTransport
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			write(w, r, http.StatusInternalServerError, e.dispatchError(r.Context(), caught(p)))
		}
	}()
	if isUpgrade(r) {
		e.sockets.Do(w, r.WithContext(graphql.StartOperationTrace(r.Context())))
		return
	}
	e.http.Do(w, r)
}

// newEndpoint assembles the executor, limits and transports.
func newEndpoint(o Options, sockets *sync.WaitGroup, origins *origins) (*endpoint, error) {
	schema := Schema(o.Development)
	if err := checkRules(schema.Mutation); err != nil {
		return nil, err
	}
	metrics, presenter := newMetrics(o.Metrics), newPresenter(o.Logger)
	var traced tracing
	if o.Tracing != nil {
		traced.tracer = o.Tracing.Tracer(tracerName)
	}
	t := &transport{
		exec: newExecutor(o, schema, presenter, metrics, traced), store: o.Store, authentication: newAuthentication(o, metrics), streams: o.Streams,
		requests:  limit.NewRequests(o.RequestsPerViewer, o.RequestsPerAddress),
		bodies:    limit.NewBodies(o.Capacity),
		budget:    limit.NewBudget(o.Capacity),
		admission: limit.NewAdmission(o.Capacity, o.Logger),
		open:      limit.NewSubscriptions(o.Capacity),
	}
	o.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "byline_response_memory_bytes",
		Help: "Memory reserved for responses: from what is read for them until they are sent."}, func() float64 { return float64(t.budget.Used()) }))
	return &endpoint{t, metrics, presenter, webSocketTransport{t, sockets, origins}, httpTransport{t, newResponseCache(o, metrics, traced)}}, nil
}

// newExecutor assembles the schema, its resolvers, and the extensions around them: the first is the outermost.
func newExecutor(o Options, schema *ast.Schema, p presenter, m metrics, traced tracing) *executor.Executor {
	documents, resolver := document.New(document.Options{Schema: schema, Trusted: o.TrustedDocuments, Suggestions: o.Development}), &Resolver{store: o.Store}
	executable := generated.NewExecutableSchema(generated.Config{Schema: schema, Resolvers: resolver})
	plans := planned{ExecutableSchema: executable, resolver: resolver, documents: documents, tracing: traced}
	bounded := boundedMemory{plans, p}
	exec := executor.New(sharedEvents{ExecutableSchema: bounded, store: o.Store, cache: newEventCache()})
	exec.SetErrorPresenter(p.present)
	exec.SetRecoverFunc(recovered)
	documents.Install(exec)
	exec.Use(requireViewer{})
	budgets := cost.NewBudgets(cost.Options{PerRequest: o.RUPerRequest, PerViewer: o.RUPerViewer, FeedPartitions: o.Store.FeedPartitions(), Logger: o.Logger, Metrics: o.Metrics,
		Meter: func(ctx context.Context) *cost.Meter { return &requestFrom(ctx).meter }})
	exec.Use(budgets)
	exec.Use(bounded)
	if o.Tracing != nil {
		exec.Use(traced)
	}
	exec.Use(accounting{m, budgets}) // within tracing, for the span of an event
	exec.Use(responseLoaders{store: o.Store, tracer: traced.tracer})
	exec.Use(plans)
	if o.Development {
		exec.Use(introspected{})
	}
	documents.InstallRegistration(exec)
	return exec
}

// readCostHeader reads the header Byline-Cost.
func readCostHeader(next http.Handler, p presenter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		detail, err := cost.ParseDetail(strings.Join(r.Header[cost.Header], ","))
		if err != nil {
			prepare(w.Header(), r)
			write(w, r, http.StatusBadRequest, &graphql.Response{Errors: gqlerror.List{p.present(r.Context(), err)}})
			return
		}
		requestFrom(r.Context()).meter.Detail = detail
		next.ServeHTTP(w, r)
	})
}
