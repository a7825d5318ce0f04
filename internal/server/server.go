package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"byline/graph"
	"byline/graph/auth"
	"byline/graph/cost"
	"byline/graph/document"
	"byline/graph/transport"
	"byline/internal/account"
	"byline/store"
	"byline/store/blog"
	"byline/store/files"
)

// Names of log attributes.
const (
	logAddress  = "address"
	logDrain    = "drain"
	logError    = "error"
	logExpires  = "expires"
	logTook     = "took"
	logURL      = "url"
	logDatabase = "database"
	logInstance = "instance"
	logVersion  = "version"
)

// startTimeout limits the provisioning of Cosmos DB at the start.
const startTimeout = 30 * time.Second

// gateway is the state of Run. Each step sets the fields below its name.
type gateway struct {
	Config
	log       *slog.Logger
	listening func(net.Addr) // may be nil
	closers   []func()       // called by close, the last first
	closeErr  error          // of the account

	// configure
	certificate *keyPair          // nil for plain HTTP
	provider    *auth.OIDC        // nil with demo tokens
	trusted     *document.Trusted // nil if every valid document is executed
	known       *document.Trusted // of the front end; nil without one

	// listen
	listener        net.Listener
	metricsListener net.Listener // nil without --metrics-listen

	// open
	traces     traces
	account    *account.Account
	files      *files.Files // nil if there is no place for pictures
	blog       *store.Store
	handler    *transport.Handler
	endStreams context.CancelFunc // ends subscriptions

	// start
	health *health

	// serve
	draining atomic.Bool // from the stop signal on
}

// Run serves until ctx ends, and then stops in the order of the package comment. It returns nil if it
// stopped because ctx ended. listening, if it is not nil, is called with the address when connections are
// accepted.
func Run(ctx context.Context, c Config, log *slog.Logger, listening func(net.Addr)) (err error) {
	g := &gateway{Config: c, log: log, listening: listening}
	defer func() { err = errors.Join(err, g.close()) }()
	for _, step := range []func(context.Context) error{
		g.configure,
		g.listen,
		g.openTraces,
		g.openBlog,
		g.openHandler,
		g.provision,
		g.start,
		g.serve,
	} {
		if err := step(ctx); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// onClose registers a function that close calls.
func (g *gateway) onClose(f func()) { g.closers = append(g.closers, f) }

// close calls the registered functions, the last first.
func (g *gateway) close() error {
	for _, f := range slices.Backward(g.closers) {
		f()
	}
	return g.closeErr
}

// configure checks the flags and reads the files that they name.
func (g *gateway) configure(context.Context) (err error) {
	if err := g.Config.check(); err != nil {
		return err
	}
	if g.provider, err = g.newProvider(g.log); err != nil {
		return err
	}
	if g.certificate, err = g.loadTLS(g.log); err != nil {
		return err
	}
	if g.known, err = g.siteDocuments(); err != nil {
		return err
	}
	g.trusted, err = g.trustedDocuments()
	return err
}

// listen opens the listeners. Connections wait in their backlog until serve.
func (g *gateway) listen(context.Context) (err error) {
	if g.listener, err = net.Listen("tcp", g.Listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	g.onClose(func() { _ = g.listener.Close() }) // may already be closed by its server
	if err := g.checkListener(g.listener.Addr()); err != nil {
		return err
	}
	if g.MetricsListen == "" {
		return nil
	}
	if g.metricsListener, err = net.Listen("tcp", g.MetricsListen); err != nil {
		return fmt.Errorf("--metrics-listen: %w", err)
	}
	g.onClose(func() { _ = g.metricsListener.Close() })
	return nil
}

// openBlog opens the account and the store on it. It makes no request.
func (g *gateway) openBlog(ctx context.Context) (err error) {
	g.log.Info("data is in "+g.Location(), logDatabase, g.CosmosDatabase)
	if g.Embedded() && !g.demoTokens() {
		g.log.Warn("no account is named with --cosmos-endpoint or COSMOS_ENDPOINT: the embedded engine is for " +
			"development, and serves this instance alone")
	}
	g.account, err = g.Open(ctx, g.log,
		account.Options{Cache: g.itemCache(), RetryBudget: g.RetryBudget, Tracing: g.traces.azure()})
	if err != nil {
		return err
	}
	g.onClose(func() { g.closeErr = g.account.Close() })
	if g.certificate != nil {
		g.certificate.measure(g.account.Metrics)
	}
	if !g.SharesSessions() {
		g.log.Warn("Byline-Session is ignored by other instances, and by this one once it restarts: give all of them " +
			"the same BYLINE_SESSION_KEY")
	}
	g.files, err = g.OpenFiles(g.Flags, files.Options{Logger: g.log, Metrics: g.account.Metrics})
	if err != nil {
		return err
	}
	g.blog, err = g.Store(g.account, g.account.Logger(),
		store.Options{RenameCooldown: g.RenameCooldown, ReservedUsernames: g.ReservedUsernames,
			Recency: g.Recency, BackgroundRU: g.BackgroundRU, Files: g.files})
	return err
}

// openHandler makes the GraphQL handler.
func (g *gateway) openHandler(ctx context.Context) (err error) {
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	g.endStreams = endStreams
	g.onClose(endStreams)
	o := graph.Options{Store: g.blog, Verifier: auth.DemoVerifier(), Streams: streams, Tracing: g.traces.provider,
		Logger: g.log, Metrics: g.account.Metrics,
		RUPerRequest:       cost.Budget{RU: g.RUPerRequest, Measure: g.RUPerRequestMode == measure},
		RUPerViewer:        g.budgetPerViewer(),
		ResponseCacheBytes: g.responseCache(), HTMLCacheBytes: g.htmlCache(), Development: g.demoTokens(),
		PlaygroundCDN: g.PlaygroundCDN == "on", TrustedDocuments: g.trusted, KnownDocuments: g.known}
	if g.provider != nil {
		o.Verifier = g.provider
	}
	g.setLimits(&o, g.demoTokens())
	g.handler, err = graph.NewHandler(o)
	return err
}

// provision creates the containers and fills the feed where they are missing.
func (g *gateway) provision(ctx context.Context) error {
	start, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := g.blog.Provision(start)
	if err == nil {
		err = g.blog.Views().FillFeed(start)
	}
	if err == nil || ctx.Err() != nil { // stopped while starting
		return nil
	}
	return fmt.Errorf("%s: %w", g.account.Where, err)
}

// start starts the background work: the projections, the load of the demo blog, whose first posts it
// waits for, and the refresh of the identity provider's keys.
func (g *gateway) start(ctx context.Context) error {
	g.health = newHealth(g.blog, g.Embedded(), g.account.Metrics, g.account.Logger())
	g.health.add(func() check { return checkOverload(g.handler.Overloaded()) })
	g.health.add(func() check { return checkClock(g.account.ClockOffset()) })
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	g.onClose(func() {
		stop()
		background.Wait()
	})
	background.Go(func() {
		if err := g.blog.Run(running); err != nil {
			g.log.Error("projections stopped", logError, err)
		}
	})
	if bool(g.Demo) && g.Embedded() {
		demo := &demoBlog{blog: g.blog, files: g.files, tokens: g.demoTokens(), log: g.log}
		g.health.add(demo.check)
		firstPosts := make(chan struct{})
		background.Go(func() { demo.load(running, sync.OnceFunc(func() { close(firstPosts) })) })
		select {
		case <-firstPosts: // so that the first query returns posts
		case <-ctx.Done():
			return nil
		}
	}
	if g.provider != nil {
		background.Go(func() { _ = g.provider.Run(running) }) // returns only the error of its context
		g.health.add(func() check { return checkProvider(g.provider.Ready()) })
	}
	return nil
}

// serve serves requests until ctx ends, and then stops the servers.
func (g *gateway) serve(ctx context.Context) error {
	requests, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	mux, err := g.routes()
	if err != nil {
		return err
	}
	stopMetrics := g.serveMetrics(mux)
	defer stopMetrics()
	server := g.newServer(mux)
	server.BaseContext = func(net.Listener) context.Context { return requests }
	g.announce()
	served := make(chan error, 1)
	go func() { served <- g.accept(server, g.listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	g.log.Info("stopping", logDrain, g.drainTime())
	g.draining.Store(true)
	g.health.stop()
	select {
	case err := <-served:
		return err
	case <-time.After(g.drainTime()):
	}
	g.endStreams() // clients that reconnect now reach another instance
	err = Shutdown(ctx, g.log, server)
	endRequests() // of aborted requests
	g.handler.Wait()
	if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

// routes returns the handler of all paths except /metrics.
func (g *gateway) routes() (*http.ServeMux, error) {
	mux := http.NewServeMux()
	if g.Site == "" {
		mux.Handle("/", g.hosts(g.handler))
	} else if err := g.serveSite(mux); err != nil {
		return nil, err
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("GET /readyz", g.health)
	mux.Handle(avatarsPattern, g.hosts(http.HandlerFunc(serveAvatar)))
	if g.files != nil {
		mux.Handle(blog.FilePrefix, g.hosts(g.files))
		mux.Handle(files.UploadPrefix, g.hosts(g.files))
	}
	return mux, nil
}

// announce logs where the server listens, which version it is, the name that its leases have, and how clients
// sign in.
func (g *gateway) announce() {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	address := g.listener.Addr()
	root := g.scheme() + "://" + Address(g.Listen, address)
	g.log.Info("listening", logURL, root+transport.Path, logVersion, version, logAddress, address.String(),
		logInstance, g.blog.Instance())
	if g.demoTokens() {
		g.log.Info("requests without a token are anonymous; to sign in, send the header 'Authorization: Bearer " +
			"demo:ada', or another name")
	} else {
		g.log.Info("requests without a token are anonymous; to sign in, send a bearer token", "issuer", g.AuthIssuer,
			"audience", g.AuthAudience)
	}
	switch {
	case g.trusted != nil:
		g.log.Info("only trusted documents are executed, so there is no playground")
	case g.demoTokens():
		playground := root + "/"
		if g.Site != "" {
			playground = root + "/playground"
		}
		g.log.Info("open the playground in a browser", logURL, playground)
	}
	if g.listening != nil {
		g.listening(address)
	}
}
