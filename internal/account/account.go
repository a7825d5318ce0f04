package account

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/tracing"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/prometheus/client_golang/prometheus"

	"byline/internal/secret"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
)

// Flags are the flags that name the account and the database.
type Flags struct {
	Data           string   `name:"data" default:"./data" env:"BYLINE_DATA" help:"Directory of the embedded engine's data."`
	CosmosEndpoint string   `name:"cosmos-endpoint" env:"COSMOS_ENDPOINT" placeholder:"URL" help:"Azure Cosmos DB account. Its key is in the environment as COSMOS_KEY; without one, DefaultAzureCredential is used. Without an endpoint, the embedded engine."`
	CosmosDatabase string   `name:"cosmos-database" default:"blog" env:"COSMOS_DATABASE" help:"Name of the database."`
	CosmosRegions  []string `name:"cosmos-regions" env:"COSMOS_REGIONS" placeholder:"NAME" help:"Regions of the account to read in, the preferred one first. If a region cannot serve, the next one is read. Default: the account's first region, without failover."`
	FeedPartitions int      `name:"feed-partitions" env:"BYLINE_FEED_PARTITIONS" placeholder:"K" help:"Partitions of the feed, 1 to 64, each with all of it. The same for every process on a database. Default: 1."`
}

// Check returns an error that names the invalid flag.
func (c Flags) Check() error {
	if c.Embedded() && c.Data == "" {
		return ErrNoData
	}
	if c.CosmosDatabase == "" {
		return ErrNoDatabase
	}
	if err := CheckFeedPartitions(c.FeedPartitions); err != nil {
		return err
	}
	if len(c.CosmosRegions) > 0 && c.Embedded() {
		return errors.New(
			"--cosmos-regions: the embedded engine has no regions; name an account with --cosmos-endpoint")
	}
	if slices.ContainsFunc(c.CosmosRegions, func(name string) bool { return strings.TrimSpace(name) == "" }) {
		return errors.New("--cosmos-regions: the name of a region is empty")
	}
	return CheckEndpoint(c.CosmosEndpoint)
}

// ErrNoDatabase is the error of an empty --cosmos-database.
var ErrNoDatabase = errors.New("--cosmos-database is empty: it must name the database")

// ErrNoData is the error of an empty --data, which would open the engine in memory.
var ErrNoData = errors.New("--data is empty: it must name the directory of the data")

// CheckFeedPartitions checks the value of --feed-partitions.
func CheckFeedPartitions(n int) error {
	if n < 0 || n > blog.MaxFeedPartitions {
		return fmt.Errorf("--feed-partitions: the feed can have 1 to %d partitions, not %d", blog.MaxFeedPartitions, n)
	}
	return nil
}

// CheckEndpoint checks the value of --cosmos-endpoint, which may be empty.
func CheckEndpoint(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	switch { // the error does not quote it: it may be a connection string, with the key
	case strings.HasPrefix(endpoint, "AccountEndpoint="):
		return errors.New(
			"--cosmos-endpoint is a connection string: its AccountEndpoint is the endpoint, and its AccountKey is " +
				"COSMOS_KEY")
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("--cosmos-endpoint is not an http or https address")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("--cosmos-endpoint is more than an address")
	}
	return nil
}

// Environment variables with keys. They are not flags: flags are visible to every user of the machine.
const (
	KeyVariable        = "COSMOS_KEY"
	SessionKeyVariable = "BYLINE_SESSION_KEY"
)

// cosmosKey is the account's key, "" without one.
func cosmosKey() secret.Text { return secret.Text(os.Getenv(KeyVariable)) }

// minSessionKey is the length of the shortest session key, in bytes.
const minSessionKey = 32

// sessionKey is the key that authenticates sessions, nil without one.
func sessionKey() ([]byte, error) {
	key := os.Getenv(SessionKeyVariable)
	switch {
	case key == "":
		return nil, nil
	case len(key) < minSessionKey:
		return nil, fmt.Errorf("%s has less than %d characters", SessionKeyVariable, minSessionKey)
	}
	return []byte(key), nil
}

// SharesSessions reports whether other instances on the same data, if there can be any, accept this instance's
// sessions.
func (c Flags) SharesSessions() bool {
	return c.Embedded() || cosmosKey() != "" || os.Getenv(SessionKeyVariable) != ""
}

// Embedded reports whether the data is in the embedded engine.
func (c Flags) Embedded() bool { return c.CosmosEndpoint == "" }

// Location describes where the data is, for logs.
func (c Flags) Location() string {
	if c.Embedded() {
		return c.Data
	}
	return "Cosmos DB at " + c.CosmosEndpoint
}

// Local reports whether the data is on this machine: in the embedded engine, or in an
// emulator.
func (c Flags) Local() bool {
	u, err := url.Parse(c.CosmosEndpoint)
	return c.Embedded() || err == nil && Loopback(u.Host)
}

// ConfirmLoad returns an error if test data would be loaded into an account that is not on this machine without
// the flag --yes: COSMOS_ENDPOINT may be set for a server in production.
func (c Flags) ConfirmLoad(yes bool) error {
	if yes || c.Local() {
		return nil
	}
	return fmt.Errorf(
		"--cosmos-endpoint, or COSMOS_ENDPOINT, is %s: to load test data into that account, repeat the command with "+
			"--yes; without an endpoint it goes to the embedded engine", c.CosmosEndpoint)
}

// Options are the settings of an account that are not flags. The zero value is a durable engine
// without an item cache and without traces.
type Options struct {
	Engine      emulator.Options // of the embedded engine; its Logger is set by Open
	Cache       int              // bytes of the item cache; 0 for none
	RetryBudget time.Duration    // of operations; see cosmos.Options
	Tracing     tracing.Provider // background work is not traced
}

// Account is an open account: of Cosmos DB, or the embedded engine.
type Account struct {
	*cosmos.Account
	Metrics *prometheus.Registry // of the account
	Where   string               // for logs and errors
	compact func(context.Context) error
	close   func() error // closes the engine
}

// Open opens the embedded engine, or creates the clients of the account. The first request reads the
// account's properties, and fails once ctx has ended.
func (c Flags) Open(ctx context.Context, log *slog.Logger, o Options) (*Account, error) {
	metrics := prometheus.NewRegistry()
	a := &Account{Metrics: metrics, Where: c.Location(),
		compact: func(context.Context) error { return nil },
		close:   func() error { return nil }}
	options := cosmos.Options{Endpoint: c.CosmosEndpoint, Regions: c.CosmosRegions, CacheBytes: o.Cache,
		RetryBudget: o.RetryBudget, Metrics: metrics, Logger: log, Tracing: o.Tracing, Done: ctx.Done()}
	var err error
	if options.SessionKey, err = sessionKey(); err != nil {
		return nil, err
	}
	if c.Embedded() {
		o.Engine.Logger = log
		engine, err := emulator.Open(c.Data, o.Engine)
		if err != nil {
			return nil, err
		}
		dir, err := filepath.Abs(c.Data)
		if err != nil {
			dir = c.Data
		}
		a.Where, a.compact, a.close = "embedded engine in "+dir, engine.Compact, engine.Close
		options.Endpoint, options.Credential, options.Transport = engine.Endpoint(), engine.Credential(), engine
	} else if err := c.signIn(&options); err != nil {
		return nil, err
	}
	if a.Account, err = cosmos.Open(options); err != nil {
		if options.Key != "" {
			err = fmt.Errorf("COSMOS_KEY: %w", err)
		}
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// idleConnections is the number of idle connections that are kept to an emulator, as azcosmos's own client keeps
// them: with the two that net/http keeps, most of concurrent requests would dial.
const idleConnections = 100

// signIn sets the credential, and for a local emulator the transport.
func (c Flags) signIn(o *cosmos.Options) error {
	endpoint, err := url.Parse(c.CosmosEndpoint)
	if err != nil {
		return err
	}
	key := cosmosKey()
	if o.Key = key.Reveal(); o.Key == "" {
		identity, err := azidentity.NewDefaultAzureCredential(nil)
		o.Credential = credential{identity}
		return err
	}
	if key == emulator.WellKnownKey && Loopback(endpoint.Host) {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost = idleConnections
		// an emulator on this machine, with a self-signed certificate
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
		o.Transport = &http.Client{Transport: t}
	}
	return nil
}

// NoTokenError is the error of a request to Cosmos DB for which the identity gets no token.
type NoTokenError struct{ Err error }

func (e *NoTokenError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the credential.
func (e *NoTokenError) Unwrap() error { return e.Err }

// credential marks the errors of a credential, of which azidentity does not export all types.
type credential struct{ azcore.TokenCredential }

// GetToken implements azcore.TokenCredential.
func (c credential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := c.TokenCredential.GetToken(ctx, o)
	if err != nil && ctx.Err() == nil {
		err = &NoTokenError{err}
	}
	return token, err
}

// Compact compacts the embedded engine after a load; on Cosmos DB it does nothing.
func (a *Account) Compact(ctx context.Context) error { return a.compact(ctx) }

// Close closes the account and the engine.
func (a *Account) Close() error {
	a.Account.Close()
	return a.close()
}

// Store returns the blog on an account. It sets the fields of o that the flags determine, and the logger.
func (c Flags) Store(db *Account, log *slog.Logger, o store.Options) (*store.Store, error) {
	return c.store(db.Account, log, o)
}

// Loader is Store for bulk loads: every request has low priority and waits while throttled.
func (c Flags) Loader(db *Account, log *slog.Logger) (*store.Store, error) {
	return c.store(db.Background(), log, store.Options{})
}

func (c Flags) store(db *cosmos.Account, log *slog.Logger, o store.Options) (*store.Store, error) {
	o.Database, o.FeedPartitions, o.Logger = c.CosmosDatabase, c.FeedPartitions, log
	if c.Embedded() {
		o.Instance = "embedded" // the data directory has one owner: no need to wait for old leases to expire
	} else if host, err := os.Hostname(); err == nil {
		// views status shows it: in a container it is the name of the pod or replica
		o.Instance = fmt.Sprintf("%s-%06x", host, rand.N(1<<24))
	}
	if !c.Local() {
		o.PollInterval = time.Second // each poll of the change feed costs RU
	}
	return store.New(db, o)
}

// Loopback reports whether an address, with or without a port, is on the loopback interface.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}
