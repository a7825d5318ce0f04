package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"time"
)

// Timeouts of requests.
const (
	readHeaderTimeout = 10 * time.Second // to receive a request's header
	readTimeout       = 30 * time.Second // to receive a whole request
	writeTimeout      = 90 * time.Second // to receive and execute a request and write its response
	idleTimeout       = 2 * time.Minute  // between requests
	shutdownTimeout   = 10 * time.Second // grace period of active requests at shutdown
)

// newServer returns the server of GraphQL, with its limits.
func (g *gateway) newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           g.strictTransport(g.closeWhileDraining(handler)),
		ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
		TLSConfig:         g.certificate.config(),
		MaxHeaderBytes:    64 << 10,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		ConnState:         yieldAfterResponse,
	}
}

// closeWhileDraining closes the connection of each response while the server drains, so that proxies, which keep
// connections, open new ones to other instances. A request on a kept connection that the server closes at the same
// time would be lost.
func (g *gateway) closeWhileDraining(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// yieldAfterResponse lets the goroutines of other connections run after each response. A client on the same machine
// has often sent its next request by then. A request whose response is cached or comes from the embedded engine does
// not block on the network, so the goroutine of the connection would keep its processor until the runtime preempts
// it, after 10 ms, and so would the next one.
func yieldAfterResponse(_ net.Conn, s http.ConnState) {
	if s == http.StateIdle {
		runtime.Gosched()
	}
}

// Shutdown stops servers, even if ctx has ended. Active requests have ten seconds to finish
// and are then aborted, which is not an error.
func Shutdown(ctx context.Context, log *slog.Logger, servers ...*http.Server) (err error) {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	for _, s := range servers {
		serr := s.Shutdown(grace)
		if errors.Is(serr, context.DeadlineExceeded) {
			log.Warn("requests aborted after the grace period")
			serr = s.Close()
		}
		err = errors.Join(err, serr)
	}
	return err
}

// Address returns the address at which clients on this machine reach a listener: the host of listen,
// localhost if that is unspecified, and the port of got.
func Address(listen string, got net.Addr) string {
	host, _, err := net.SplitHostPort(listen)
	_, port, err2 := net.SplitHostPort(got.String())
	if err != nil || err2 != nil {
		return got.String()
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
