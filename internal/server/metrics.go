package server

import (
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"byline/internal/account"
)

// metricsHandler serves the metrics of a registry, of the build, of the Go runtime and of the process.
func metricsHandler(registry *prometheus.Registry) http.Handler {
	registry.MustRegister(collectors.NewBuildInfoCollector(), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// serveMetrics serves /metrics until the returned function is called: on the metrics listener or,
// without one, on mux, if --listen is on loopback and there is no proxy.
func (g *gateway) serveMetrics(mux *http.ServeMux) (stop func()) {
	metrics, listener := metricsHandler(g.account.Metrics), g.metricsListener
	if listener == nil {
		if account.Loopback(g.listener.Addr().String()) && g.BehindProxy == nil {
			mux.Handle("GET /metrics", g.hosts(metrics))
		}
		return func() {}
	}
	own := http.NewServeMux()
	own.Handle("GET /metrics", metrics)
	server := &http.Server{Handler: own, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			g.log.Error("serving metrics failed", logError, err)
		}
	}()
	g.log.Info("metrics", logURL, "http://"+Address(g.MetricsListen, listener.Addr())+"/metrics")
	return func() {
		_ = server.Close() // an active scrape may fail
		<-served
	}
}
