package server

import (
	"errors"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"byline/internal/account"
)

// metricsHandler serves what the registry holds, and what the Go runtime and the
// operating system know of the process.
func metricsHandler(registry *prometheus.Registry) http.Handler {
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// listenForMetrics opens the listener that is for metrics alone; nil if there is none.
func (c Config) listenForMetrics() (net.Listener, error) {
	if c.MetricsListen == "" {
		return nil, nil
	}
	return net.Listen("tcp", c.MetricsListen)
}

// serveMetrics serves them on a listener of their own until the returned function is
// called, or else beside everything else, which is at an address, if nobody but this
// machine can reach that, be it through a proxy.
func (c Config) serveMetrics(metrics http.Handler, listener net.Listener, beside *http.ServeMux, at net.Addr, log *slog.Logger) (stop func()) {
	if listener == nil {
		if account.Loopback(at.String()) && c.BehindProxy == nil {
			beside.Handle("GET /metrics", c.hosts(metrics))
		}
		return func() {}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are not served any more", logError, err)
		}
	}()
	log.Info("metrics", logURL, "http://"+Address(c.MetricsListen, listener.Addr())+"/metrics")
	return func() {
		_ = server.Close() // whoever is reading them can do without the rest
		<-served
	}
}
