package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"byline/internal/account"
	"byline/internal/server"
	"byline/store"
)

// cosmosConfig is account.Flags, and the cache's size, which serve sets.
type cosmosConfig struct {
	account.Flags `embed:""`
	cache         int // bytes
}

func (c cosmosConfig) check() error   { return c.Check() }
func (c cosmosConfig) embedded() bool { return c.Embedded() }
func (c cosmosConfig) local() bool    { return c.Local() }

// cosmos is an account.Account.
type cosmos struct {
	*account.Account
	metrics *prometheus.Registry
	where   string
	close   func() error
}

func (c cosmosConfig) connect(ctx context.Context, log *slog.Logger, recorded traces) (*cosmos, error) {
	a, err := c.Open(ctx, log, account.Options{Cache: c.cache, Tracing: recorded.azure()})
	if err != nil {
		return nil, err
	}
	return &cosmos{Account: a, metrics: a.Metrics, where: a.Where, close: a.Close}, nil
}

// open returns the blog on an account.
func (c cosmosConfig) open(db *cosmos, log *slog.Logger, clock func() time.Time) (*store.Store, error) {
	return c.Store(db.Account, log, clock)
}

func loopback(address string) bool { return account.Loopback(address) }

func reachable(listen string, got net.Addr) string { return server.Address(listen, got) }

func shutDown(grace context.Context, s *http.Server, log *slog.Logger) error {
	return server.ShutDown(grace, s, log)
}
