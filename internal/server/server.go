package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"byline/graph"
	"byline/internal/account"
	"byline/internal/collector"
)

// Names of log attributes.
const (
	logAddress  = "address"
	logError    = "error"
	logExpires  = "expires"
	logTook     = "took"
	logURL      = "url"
	logDatabase = "database"
)

// startTimeout is for reaching and provisioning Cosmos DB.
const startTimeout = 30 * time.Second

// shutdownTimeout is for requests under way when told to stop; a variable so that a test
// need not wait for it.
var shutdownTimeout = 10 * time.Second

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

// Run runs the gateway until ctx ends. listening, if set, is called with the address once the
// server accepts connections.
func Run(ctx context.Context, c Config, log *slog.Logger, listening func(net.Addr)) (err error) {
	if err := c.Check(); err != nil {
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
	if c.demoTokens() && !account.Loopback(listener.Addr().String()) { // whatever the name resolves to
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
	db, err := c.Open(ctx, log, account.Options{Cache: c.Cache<<20 - forAnswers, Tracing: recorded.azure()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	blog, err := c.Store(db, log, time.Now)
	if err != nil {
		return err
	}
	verifier := graph.DemoVerifier()
	if provider != nil {
		verifier = provider
	}
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	edge := graph.Options{Store: blog, Verifier: verifier, Streams: streams, Tracing: recorded.provider, Logger: log, Metrics: db.Metrics,
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
		return fmt.Errorf("%s: %w", db.Where, err)
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
	health := newHealth(blog, db.Metrics)
	if c.Demo && c.Embedded() {
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
	stopMetrics := c.serveMetrics(metricsHandler(db.Metrics), forMetrics, mux, listener.Addr(), log)
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
	root := c.scheme() + "://" + Address(c.Listen, listener.Addr())
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
	err = ShutDown(grace, server, log)
	endRequests()
	handler.Wait()
	if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err // then, by the defers: the projections let go of their leases, and the engine closes
}
