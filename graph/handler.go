package graph

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/ast"
	"go.opentelemetry.io/otel/trace"

	"byline/graph/generated"
	"byline/store"
)

// Options of the edge. Store is required.
type Options struct {
	Store *store.Store

	// Verifier finds out who is behind a bearer token. Default: no token is good.
	Verifier Verifier

	// Streams is the life of subscriptions: when it ends they do, and their connections
	// with them. Default: they last as long as their clients want.
	Streams context.Context

	// Tracing makes the spans of operations and of what reads and writes for them.
	// Default: there are none.
	Tracing trace.TracerProvider

	// Logger gets a line for each operation that failed. Default: discards.
	Logger *slog.Logger

	// RUPerRequest is what an operation may be predicted to charge, or each event of a
	// subscription. Default 400.
	RUPerRequest Budget

	// RUPerViewer is what somebody who is signed in may spend in a minute, and so may those
	// who are not from one address. Default: no limit.
	RUPerViewer Budget

	// Metrics is where the edge registers what it counts. Default: nowhere.
	Metrics prometheus.Registerer

	// Development serves the playground, introspection, and suggestions in error
	// messages. Default: none of them.
	Development bool

	// TrustedDocuments, if set, are the only documents to execute. There is no
	// playground then. Default: all that are valid and not too expensive.
	TrustedDocuments *TrustedDocuments

	// Origins are those whose pages may do what this server's own may: read answers,
	// send mutations, and open WebSockets. Default: none.
	Origins []string

	// LoopbackOrigins admits those of this machine as well, such as http://localhost:5173.
	LoopbackOrigins bool

	// RequestsPerViewer and RequestsPerAddress are how many requests a second may come
	// from somebody who is signed in, and from an address or, of IPv6, a /64 network;
	// an operation over WebSocket is a request. What they do not use they may save for
	// ten seconds. Loopback is not limited. Default: no limit.
	RequestsPerViewer  int
	RequestsPerAddress int

	// AnswerBytes is how much memory answers may take that are given again while nothing
	// has changed of what was read for them, as far as the cache of Store knows.
	// Default: they are made anew each time.
	AnswerBytes int

	// ShedLoad refuses operations that the server is too busy for. Default: it executes
	// whatever comes at once.
	ShedLoad bool

	// TrustedProxies are the networks whose word is taken for where a request comes
	// from, in X-Forwarded-For or Forwarded. Default: nobody's.
	TrustedProxies []netip.Prefix

	// PlaygroundToken is the bearer token that the playground signs in with.
	// Default: it does not sign in.
	PlaygroundToken string

	unplanned bool // no plans: for tests that compare
}

// Handler is the edge.
type Handler struct {
	http.Handler
	sockets sync.WaitGroup
}

// Wait waits until the last WebSocket is closed: they outlive the requests that they
// began as. It is for when Options.Streams has ended.
func (h *Handler) Wait() { h.sockets.Wait() }

// NewHandler returns the edge: GraphQL at /graphql and, in development, the
// playground at /. It does no I/O and starts nothing.
func NewHandler(o Options) (*Handler, error) {
	if o.Store == nil {
		return nil, errors.New("graph: Options.Store is missing")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	if o.Streams == nil {
		o.Streams = context.Background()
	}
	h := &Handler{}
	var admission *admission
	if o.ShedLoad {
		admission = newAdmission(o.Logger)
	}
	if err := checkOrigins(o.Origins); err != nil {
		return nil, err
	}
	origins := &origins{named: o.Origins, loopback: o.LoopbackOrigins, log: o.Logger, refused: map[string]bool{}}
	endpoint, err := newEndpoint(o, &h.sockets, admission, origins)
	if err != nil {
		return nil, err
	}
	p := presenter{log: o.Logger}
	mux := http.NewServeMux()
	mux.Handle("/graphql", origins.guard(askCost(admission.door(endpoint, endpoint.metrics), p), p))
	if o.Development && o.TrustedDocuments == nil {
		if err := addPlayground(mux, o.Store, o.PlaygroundToken); err != nil {
			return nil, err
		}
	}
	h.Handler = identify(secured(mux), o.TrustedProxies)
	if o.Tracing != nil {
		h.Handler = continueTrace(h.Handler)
	}
	return h, nil
}

// endpoint answers operations.
type endpoint struct {
	exec    *executor.Executor
	metrics metrics
	sockets webSocketTransport
	http    httpTransport
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			write(w, http.StatusInternalServerError, dispatchError(r.Context(), e.exec, e.exec.PresentRecoveredError(r.Context(), p)))
		}
	}()
	if e.sockets.Supports(r) {
		e.sockets.Do(w, r.WithContext(graphql.StartOperationTrace(r.Context())), e.exec)
		return
	}
	e.http.Do(w, r, e.exec)
}

// newEndpoint puts schema, resolvers and rules together.
func newEndpoint(o Options, sockets *sync.WaitGroup, admission *admission, origins *origins) (*endpoint, error) {
	schema := servedSchema(o.Development)
	if err := checkRules(schema.Mutation); err != nil {
		return nil, err
	}
	cache, resolver := newQueryCache(), &Resolver{store: o.Store}
	served := generated.NewExecutableSchema(generated.Config{Schema: schema, Resolvers: resolver})
	rates, bodies := newRates(o), newBodies()
	metrics := newMetrics(o.Metrics)
	loaders := freshLoaders{store: o.Store}
	var traced tracing
	if o.Tracing != nil {
		traced.tracer = o.Tracing.Tracer(tracerName)
		loaders.tracer = traced.tracer
	}
	plans := planned{ExecutableSchema: served, resolver: resolver, documents: cache, tracing: traced}
	if !o.unplanned {
		served = plans
	}
	exec := executor.New(served)
	answers := newAnswers(o, metrics, traced)
	e := &endpoint{exec: exec, metrics: metrics}
	e.sockets = webSocketTransport{store: o.Store, verifier: o.Verifier, streams: o.Streams, open: sockets, rates: rates, bodies: bodies, admission: admission, origins: origins}
	e.http = httpTransport{store: o.Store, verifier: o.Verifier, streams: o.Streams, rates: rates, bodies: bodies, admission: admission, answers: answers}
	exec.SetErrorPresenter(presenter{log: o.Logger}.present)
	exec.SetRecoverFunc(recovered)
	exec.SetQueryCache(cache)
	exec.SetParserTokenLimit(maxTokens)
	exec.SetDefaultRulesFn(validationRules)
	if !o.Development {
		exec.SetDisableSuggestion(true)
		exec.SetDefaultRulesFn(reticentRules)
	}
	persisted := newByteCache[string](persistedBytes)
	exec.Use(persistedOperations{known: persisted, trusted: o.TrustedDocuments})
	exec.Use(wholeCharacters{})
	exec.Use(documentLimit{validated: cache})
	exec.Use(nullsInPlace{}) // before anybody asks what @skip and @include say
	exec.Use(strictVariables{schema})
	exec.Use(oneStream{})
	exec.Use(signedInToWrite{})
	budgets := newBudgets(o)
	exec.Use(budgets)
	exec.Use(inSession{})
	if o.Tracing != nil {
		exec.Use(traced)
	}
	exec.Use(accounting{metrics, budgets}) // within tracing, so that an event's cost comes to the event's span
	exec.Use(loaders)
	if !o.unplanned {
		exec.Use(plans)
	}
	if o.Development {
		exec.Use(extension.Introspection{})
	}
	exec.Use(newSubscriptionLimit())
	if o.TrustedDocuments == nil {
		exec.Use(rememberPersisted{known: persisted}) // last, when nothing is left to refuse the operation
	}
	return e, nil
}

// inputTypes is a schema that has all input types.
var inputTypes = sync.OnceValue(func() *ast.Schema { return servedSchema(false) })

// servedSchema is the schema without what the generated code cannot keep: @defer,
// which a single answer would get wrong without saying so. Outside development it
// also lacks the introspection fields.
func servedSchema(introspection bool) *ast.Schema {
	schema := *generated.NewExecutableSchema(generated.Config{}).Schema()
	schema.Directives = maps.Clone(schema.Directives)
	delete(schema.Directives, "defer")
	if !introspection {
		query := *schema.Query
		query.Fields = slices.DeleteFunc(slices.Clone(query.Fields), func(f *ast.FieldDefinition) bool {
			return f.Name == "__schema" || f.Name == "__type"
		})
		schema.Types = maps.Clone(schema.Types)
		schema.Types[query.Name], schema.Query = &query, &query
	}
	return &schema
}
