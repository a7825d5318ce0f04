package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// How long clients may take; variables so that a test need not wait for it.
var (
	readHeaderTimeout = 10 * time.Second // for a request's header to arrive
	readTimeout       = 30 * time.Second // for all of a request to arrive
	writeTimeout      = 90 * time.Second // for a request to arrive and execute, and its response to be read
	idleTimeout       = 2 * time.Minute  // between requests
	shutdownTimeout   = 10 * time.Second // for active requests, once the server is told to stop
)

// newServer returns the server of GraphQL, with its limits.
func (g *gateway) newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           g.strictTransport(handler),
		ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
		TLSConfig:         g.certificates,
		MaxHeaderBytes:    64 << 10,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
	}
}

// ShutDown stops servers, also after ctx has ended. Active requests have ten seconds to finish
// and are then cut off, which is no error.
func ShutDown(ctx context.Context, log *slog.Logger, servers ...*http.Server) (err error) {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	for _, s := range servers {
		serr := s.Shutdown(grace)
		if errors.Is(serr, context.DeadlineExceeded) {
			log.Warn("requests were cut off")
			serr = s.Close()
		}
		err = errors.Join(err, serr)
	}
	return err
}

// Address returns where clients on this machine reach a listener: the host of the address that
// was given, localhost if that is unspecified, and the port that the listener got.
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
