// Package server has what HTTP servers of this program share: how they stop, and the address
// that is shown for them.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
)

// ShutDown stops a server. Active requests may finish until grace ends, and are cut off then.
func ShutDown(grace context.Context, server *http.Server, log *slog.Logger) error {
	err := server.Shutdown(grace)
	if errors.Is(err, context.DeadlineExceeded) {
		log.Warn("requests were cut off")
		return server.Close()
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
