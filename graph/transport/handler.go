package transport

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/auth"
	"byline/graph/cost"
	"byline/graph/limit"
	"byline/graph/refusal"
	"byline/store"
)

// Options of a Handler. The functions and Executor, Schema, Store and Pages have to be set. The fields after Shed are
// those of the options of package graph.
type Options struct {
	Executor graphql.GraphExecutor // of a schema from ShareEvents
	Schema   *ast.Schema
	Store    *store.Store
	Pages    http.Handler // serves all paths but Path

	// Authenticate returns the viewer of the bearer token in the headers; nil without a token.
	Authenticate func(context.Context, http.Header) (*auth.Viewer, error)

	// Present presents errors outside of Executor, and Classify returns the code and message that it would present.
	Present  graphql.ErrorPresenterFunc
	Classify func(error) (refusal.Code, string)

	// Budget returns how long the next event of the subscription of ctx has to wait until its viewer has request units
	// for it, and otherwise takes these.
	Budget func(ctx context.Context) time.Duration

	// Recover converts the value of a panic to an error, while the stack is that of the panic.
	Recover graphql.RecoverFunc

	// Cached is called for each response from the response cache, and Shed for each request that is refused because
	// the server is overloaded: Executor learns of neither.
	Cached func(ctx context.Context, operation string, predictedRU float64)
	Shed   func()

	Streams            context.Context
	Logger             *slog.Logger
	Metrics            prometheus.Registerer
	Origins            []string
	LoopbackOrigins    bool // admits the origins of this machine, too
	RequestsPerViewer  int
	RequestsPerAddress int
	ResponseCacheBytes int
	Capacity           limit.Capacity
	TrustedProxies     []netip.Prefix
}

// Path is where GraphQL is served.
const Path = "/graphql"

// Handler serves GraphQL over HTTP and WebSocket at Path.
type Handler struct {
	http.Handler
	sockets  sync.WaitGroup
	endpoint *endpoint
	proxies  []netip.Prefix
	crawlers limit.ClientSlots
}

// Overloaded reports whether operations have been refused for lack of capacity for some time.
func (h *Handler) Overloaded() bool { return h.endpoint.admission.Overloaded() }

// Wait waits until all WebSockets are closed, which outlive their requests. It is called when
// Options.Streams has ended.
func (h *Handler) Wait() { h.sockets.Wait() }

// New returns a Handler. It does no I/O and starts nothing.
func New(o Options) (*Handler, error) {
	if err := checkOrigins(o.Origins); err != nil {
		return nil, err
	}
	h := &Handler{proxies: o.TrustedProxies}
	origins := &origins{named: o.Origins, loopback: o.LoopbackOrigins, log: o.Logger, refused: map[string]bool{}}
	h.endpoint = newEndpoint(o, &h.sockets, origins)
	shedding := shedLoad(h.endpoint.admission, h.endpoint, o.Shed)
	operations := origins.guard(readCostHeader(shedding, o.Present), o.Present)
	pages := origins.sharePages(o.Pages)
	routes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == Path {
			operations.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
	h.Handler = identify(secured(routes), o.TrustedProxies)
	return h, nil
}

// endpoint executes operations over HTTP and WebSocket.
type endpoint struct {
	*transport
	sockets webSocketTransport
	http    httpTransport
}

// newEndpoint assembles the limits and transports.
func newEndpoint(o Options, sockets *sync.WaitGroup, origins *origins) *endpoint {
	t := &transport{
		exec: o.Executor, schema: o.Schema, store: o.Store, streams: o.Streams,
		authenticate: o.Authenticate, recover: o.Recover, classify: o.Classify, budget: o.Budget,
		requests:  limit.NewRequests(o.RequestsPerViewer, o.RequestsPerAddress),
		bodies:    limit.NewBodies(o.Capacity),
		memory:    limit.NewMemory(o.Capacity),
		admission: limit.NewAdmission(o.Capacity, o.Logger),
		open:      limit.NewSubscriptions(o.Capacity),
	}
	o.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "byline_response_memory_bytes",
		Help: "Memory reserved for responses: from what is read for them until they are sent.",
	}, func() float64 { return float64(t.memory.Used()) }))
	cache := newResponseCache(o.Store, o.ResponseCacheBytes, o.Cached)
	return &endpoint{t, webSocketTransport{t, sockets, origins}, httpTransport{t, cache}}
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if p := recover(); p != nil {
			write(w, r, http.StatusInternalServerError, e.dispatchError(r.Context(), e.recover(r.Context(), p)))
		}
	}()
	if isUpgrade(r) {
		e.sockets.Do(w, r.WithContext(graphql.StartOperationTrace(r.Context())))
		return
	}
	e.http.Do(w, r)
}

// readCostHeader reads the header Byline-Cost.
func readCostHeader(next http.Handler, present graphql.ErrorPresenterFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		detail, err := cost.ParseDetail(strings.Join(r.Header[cost.Header], ","))
		if err != nil {
			prepare(w.Header(), r)
			write(w, r, http.StatusBadRequest, &graphql.Response{Errors: gqlerror.List{present(r.Context(), err)}})
			return
		}
		RequestOf(r.Context()).Meter.Detail = detail
		next.ServeHTTP(w, r)
	})
}
