// Byline is a GraphQL gateway for a blog on Azure Cosmos DB for NoSQL. Without an
// endpoint to talk to, it brings an embedded engine that speaks the same protocol.
package main

import (
	"context"
	_ "embed" // the schema
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"byline/graph"
	"byline/internal/cli"
	"byline/internal/collector"
	"byline/internal/console"
	"byline/store"
	"byline/store/seed"
)

// config is the whole configuration: flag over environment over default.
type config struct {
	Serve        serveConfig `cmd:"" default:"withargs" help:"Serve GraphQL. The default command. Traces go to OTEL_EXPORTER_OTLP_ENDPOINT, if that is set."`
	cli.Commands `embed:""`
}

// schema is the one that is served (TestServedSchemaIsTheFile of graph).
//
//go:embed schema.graphqls
var schema string

type serveConfig struct {
	listenConfig `embed:""`
	cosmosConfig `embed:""`
	Demo         bool   `default:"true" env:"BYLINE_DEMO" negatable:"" help:"Fill an empty embedded engine with a small demo blog."`
	AuthIssuer   string `env:"BYLINE_AUTH_ISSUER" placeholder:"URL" help:"OpenID Connect issuer of the bearer tokens. Without one, demo tokens, on loopback only."`
	AuthAudience string `env:"BYLINE_AUTH_AUDIENCE" placeholder:"NAME" help:"The audience that the tokens must be for."`

	AuthModeratorRole string `env:"BYLINE_AUTH_MODERATOR_ROLE" placeholder:"ROLE" help:"The role of those who may delete what others wrote. Without one, nobody may."`
	AuthRoleClaim     string `default:"roles" env:"BYLINE_AUTH_ROLE_CLAIM" help:"The claim of the tokens with the roles; one inside others, by their names joined by dots."`

	RUPerRequest     int    `name:"ru-per-request" default:"400" env:"BYLINE_RU_PER_REQUEST" help:"Request units that an operation may be predicted to cost."`
	RUPerRequestMode string `name:"ru-per-request-mode" enum:"enforce,measure" default:"enforce" env:"BYLINE_RU_PER_REQUEST_MODE" help:"Refuse what is over that (enforce), or only count and log it (measure)."`
	RUPerViewer      int    `name:"ru-per-viewer" placeholder:"N" env:"BYLINE_RU_PER_VIEWER" help:"Request units that a viewer, or an address from which nobody is signed in, may spend in a minute. Without, there is no limit."`
	RUPerViewerMode  string `name:"ru-per-viewer-mode" enum:"enforce,measure" default:"enforce" env:"BYLINE_RU_PER_VIEWER_MODE" help:"Refuse what is over that (enforce), or only count and log it (measure)."`

	MetricsListen string `env:"BYLINE_METRICS_LISTEN" placeholder:"HOST:PORT" help:"Address for /metrics alone. Without one, /metrics is served on --listen if that is on loopback and there is no --behind-proxy, and not at all otherwise."`

	Cache int `default:"64" env:"BYLINE_CACHE" help:"Megabytes of memory for what was read and has not changed since. 0: everything is read anew."`

	TrustedDocuments string `env:"BYLINE_TRUSTED_DOCUMENTS" placeholder:"FILE" help:"Manifest of the only documents to execute. Without one, all that are valid."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr, nil))
}

// run is the process without the process: it returns the exit status. listening, if set, is
// called with the address once the server accepts connections.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, listening func(net.Addr)) int {
	return console.Run(ctx, "byline", &config{}, args, stdout, stderr, kong.Help(cli.Help), kong.Bind(cli.Listening(listening), cli.Schema(schema)),
		kong.Description("A GraphQL gateway for a blog on Azure Cosmos DB, with an embedded engine for development."))
}

// Run implements the command serve.
func (c *serveConfig) Run(ctx context.Context, log *slog.Logger, listening cli.Listening) error {
	return serve(ctx, *c, log, listening)
}

// Names of log attributes.
const (
	logAddress  = "address"
	logError    = "error"
	logExpires  = "expires"
	logHow      = "how"
	logTook     = "took"
	logURL      = "url"
	logWhere    = "where"
	logDatabase = "database"
)

// startTimeout is for reaching and provisioning Cosmos DB.
const startTimeout = 30 * time.Second

// shutdownTimeout is for requests under way when told to stop; a variable so that a test
// need not wait for it.
var shutdownTimeout = 10 * time.Second

const measure = "measure" // the mode of budgets that refuse nothing

// How long clients may take; variables so that a test need not wait for it.
var (
	readHeaderTimeout = 10 * time.Second // for a request's header to arrive
	readTimeout       = 30 * time.Second // for all of a request to arrive
	writeTimeout      = 90 * time.Second // for a request to arrive, execute, and its answer to be taken
	idleTimeout       = 2 * time.Minute  // between requests
)

// collectLater makes the garbage collector wait for some more memory to be in use, until
// the returned function is called: a gateway whose heap is small would be gone through many
// times a second. What it adds to the heap is never touched, so that it takes no memory of
// the machine; the garbage does that it lets lie.
func collectLater() (asBefore func()) {
	if collector.Configured() {
		return func() {}
	}
	unused := make([]byte, 64<<20)
	return func() { runtime.KeepAlive(unused) }
}

// maxCache is a terabyte, in megabytes.
const maxCache = 1 << 20

// serve runs the gateway until ctx ends.
func serve(ctx context.Context, c serveConfig, log *slog.Logger, listening func(net.Addr)) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if c.RUPerRequest < 1 || c.RUPerViewer < 0 {
		return errors.New("--ru-per-request must be at least 1, and --ru-per-viewer at least 0")
	}
	if c.Cache < 0 || c.Cache > maxCache {
		return fmt.Errorf("--cache %d: there can be 0 to %d megabytes", c.Cache, maxCache)
	}
	provider, err := c.provider()
	if err != nil {
		return err
	}
	if err := c.checkListen(); err != nil {
		return err
	}
	if c.BehindProxy != nil && c.AuthIssuer == "" {
		return errors.New("demo tokens would let anybody in: --behind-proxy needs --auth-issuer and --auth-audience")
	}
	certificates, err := c.tls(log)
	if err != nil {
		return err
	}
	trusted, err := c.trustedDocuments()
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	if c.demoTokens() && !loopback(listener.Addr().String()) { // whatever the name resolves to
		return errDemoTokens
	}
	forMetrics, err := c.listenForMetrics()
	if err != nil {
		return fmt.Errorf("--metrics-listen: %w", err)
	}
	if forMetrics != nil {
		defer forMetrics.Close()
	}
	defer collectLater()()
	log.Info("data is in "+c.Location(), logDatabase, c.CosmosDatabase)
	recorded, err := openTraces(ctx, log)
	if err != nil {
		return err
	}
	defer recorded.flush()
	if recorded.provider != nil {
		log = slog.New(traceHandler{log.Handler()})
	}
	forAnswers := c.Cache << 20 / 2
	c.cosmosConfig.cache = c.Cache<<20 - forAnswers
	cosmos, err := c.connect(ctx, log, recorded)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cosmos.close()) }()
	blog, err := c.open(cosmos, log, time.Now)
	if err != nil {
		return err
	}
	verifier := graph.DemoVerifier()
	if provider != nil {
		verifier = provider
	}
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	edge := graph.Options{Store: blog, Verifier: verifier, Streams: streams, Tracing: recorded.provider, Logger: log, Metrics: cosmos.metrics,
		RUPerRequest: graph.Budget{RU: c.RUPerRequest, Measure: c.RUPerRequestMode == measure},
		RUPerViewer:  graph.Budget{RU: c.RUPerViewer, Measure: c.RUPerViewerMode == measure},
		AnswerBytes:  forAnswers, Development: c.demoTokens(), PlaygroundToken: "demo:ada", TrustedDocuments: trusted}
	c.limit(&edge, !c.demoTokens())
	handler, err := graph.NewHandler(edge)
	if err != nil {
		return err
	}
	start, cancel := context.WithTimeout(ctx, startTimeout)
	if err = blog.Provision(start); err == nil {
		err = blog.FillFeed(start)
	}
	cancel()
	switch {
	case ctx.Err() != nil: // told to stop before it served
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", cosmos.where, err)
	}

	// Behind the requests: the copies, and the demo blog.
	var background sync.WaitGroup
	defer background.Wait()
	behind, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBackground()
	background.Go(func() {
		if err := blog.Run(behind); err != nil {
			log.Error("projections stopped", logError, err)
		}
	})
	health := newHealth(blog, cosmos.metrics)
	if c.Demo && c.embedded() {
		demo := &demoBlog{blog: blog, log: log}
		health.inquiries = append(health.inquiries, &inquiry{look: func(context.Context) []check { return []check{demo.check()} }})
		firstPosts := make(chan struct{})
		background.Go(func() { demo.load(behind, sync.OnceFunc(func() { close(firstPosts) })) })
		select {
		case <-firstPosts: // so that the first query finds something
		case <-ctx.Done():
			return nil
		}
	}

	if provider != nil {
		background.Go(func() { _ = provider.Run(behind) }) // it ends with its context alone
	}

	if provider != nil {
		health.inquiries = append(health.inquiries, &inquiry{look: func(context.Context) []check { return []check{checkProvider(provider.Ready())} }})
	}
	mux := http.NewServeMux()
	mux.Handle("/", c.hosts(handler))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /readyz", health)
	stopMetrics := c.serveMetrics(metricsHandler(cosmos.metrics), forMetrics, mux, listener.Addr(), log)
	defer stopMetrics()
	base, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	server := &http.Server{
		Handler:           c.strict(mux),
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		TLSConfig:         certificates,
		MaxHeaderBytes:    64 << 10,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
	}
	root := c.scheme() + "://" + reachable(c.Listen, listener.Addr())
	log.Info("listening", logURL, root+"/graphql", logAddress, listener.Addr().String())
	if c.demoTokens() {
		log.Info("requests without a token are anonymous; to sign in, send the header 'Authorization: Bearer demo:ada', or another name")
		if trusted == nil {
			log.Info("open the playground in a browser", logURL, root+"/")
		}
	} else {
		log.Info("requests without a token are anonymous; to sign in, send a bearer token", "issuer", c.AuthIssuer, "audience", c.AuthAudience)
	}
	if listening != nil {
		listening(listener.Addr())
	}

	served := make(chan error, 1)
	go func() { served <- c.serve(server, listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	log.Info("stopping")
	health.stop()
	// Subscribers are told to go; requests under way may finish, and what is left then
	// is cut off.
	endStreams()
	grace, cancel := context.WithTimeout(base, shutdownTimeout)
	defer cancel()
	err = shutDown(grace, server, log)
	endRequests()
	handler.Wait()
	if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err // then, by the defers: the projections let go of their leases, and the engine closes
}

// demoBlog loads the demo blog into an empty store.
type demoBlog struct {
	blog   *store.Store
	log    *slog.Logger
	loaded atomic.Bool // or not needed
	failed atomic.Bool
}

// load loads the demo blog if the store is empty, or resumes an interrupted load. It calls
// ready when there is something to see, and in any case before it returns.
func (d *demoBlog) load(ctx context.Context, ready func()) {
	defer ready()
	began := time.Now()
	content := seed.Demo(graph.DemoUserID)
	needed, err := seed.Needed(ctx, d.blog, content)
	if err == nil && needed {
		d.log.Info("loading the demo blog", "users", content.Users, "posts", content.TotalPosts())
		err = seed.Load(ctx, content, d.blog, func(int) { ready() })
	}
	switch {
	case err == nil:
		d.loaded.Store(true)
	case ctx.Err() == nil:
		d.failed.Store(true)
		d.log.Error("demo blog not loaded", logError, err)
	}
	if err != nil {
		return
	}
	if needed {
		d.log.Info("the demo blog is complete", logTook, time.Since(began).Round(time.Millisecond))
	}
	if first, err := d.blog.User(ctx, content.User(0).ID); err == nil && first != nil {
		var names []string
		for i := range content.Users {
			names = append(names, content.User(i).Username)
		}
		d.log.Info("sign in as any of the demo users", "users", strings.Join(names, " "))
	}
}

// check is OK once the demo blog is complete.
func (d *demoBlog) check() check {
	c := check{Name: "demo", OK: d.loaded.Load()}
	switch {
	case c.OK:
	case d.failed.Load():
		c.Detail = "the demo blog was not loaded; the log says why"
	default:
		c.Detail = "the demo blog is being loaded"
	}
	return c
}

// trustedDocuments reads the manifest; nil if there is none.
func (c serveConfig) trustedDocuments() (*graph.TrustedDocuments, error) {
	if c.TrustedDocuments == "" {
		return nil, nil
	}
	manifest, err := os.ReadFile(c.TrustedDocuments)
	if err != nil {
		return nil, fmt.Errorf("--trusted-documents: %w", err)
	}
	trusted, err := graph.ParseTrustedDocuments(manifest, c.demoTokens())
	if err != nil {
		return nil, fmt.Errorf("--trusted-documents: %s: %w", c.TrustedDocuments, err)
	}
	return trusted, nil
}
