package account

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/tracing"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/prometheus/client_golang/prometheus"

	"byline/internal/secret"
	"byline/store"
	"byline/store/emulator"
)

// Flags name the account and the database. They are flags of kong.
type Flags struct {
	Data           string `default:"./data" env:"BYLINE_DATA" help:"Directory of the embedded engine's data."`
	CosmosEndpoint string `env:"COSMOS_ENDPOINT" placeholder:"URL" help:"Azure Cosmos DB account; its key is in the environment as COSMOS_KEY, or else DefaultAzureCredential signs in. Without an endpoint, the embedded engine."`
	CosmosDatabase string `default:"blog" env:"COSMOS_DATABASE" help:"The database's name."`
	FeedPartitions int    `env:"BYLINE_FEED_PARTITIONS" placeholder:"K" help:"Partitions that the feed is spread over, 1 to 64, each with all of it. The same for all that share a database. Without, one."`
}

// Check returns an error that names the flag that is wrong.
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
	return CheckEndpoint(c.CosmosEndpoint)
}

// ErrNoDatabase refuses an empty --cosmos-database.
var ErrNoDatabase = errors.New("--cosmos-database is empty: it must name the database")

// ErrNoData refuses an empty --data, by which the engine would keep everything in memory.
var ErrNoData = errors.New("--data is empty: it must name the directory of the data")

// CheckFeedPartitions checks the value of --feed-partitions.
func CheckFeedPartitions(n int) error {
	if n < 0 || n > store.MaxFeedPartitions {
		return fmt.Errorf("--feed-partitions: the feed can have 1 to %d partitions, not %d", store.MaxFeedPartitions, n)
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
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("--cosmos-endpoint is not an http or https address")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("--cosmos-endpoint is more than an address")
	}
	return nil
}

// cosmosKey is the account's key, "" if there is none. It is not a flag: those are
// visible to everybody on the machine.
func cosmosKey() secret.Text { return secret.Text(os.Getenv("COSMOS_KEY")) }

// Embedded reports whether the data is in the embedded engine.
func (c Flags) Embedded() bool { return c.CosmosEndpoint == "" }

// Location says where the data is, for people.
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

// Options are the settings of an account that no flag names. The zero value is a durable
// engine without a cache and without traces.
type Options struct {
	Engine  emulator.Options // of the embedded engine; its Logger is set by Open
	Cache   int              // bytes of the item cache; 0 for none
	Tracing tracing.Provider // of the client of requests
}

// Account is an open account: of Cosmos DB, or the embedded engine.
type Account struct {
	Client     *azcosmos.Client
	Background *azcosmos.Client     // with low priority; it waits while throttled
	Metrics    *prometheus.Registry // of both clients
	Where      string               // for people
	meter      *store.Meter         // of both clients, in Metrics; nil for none
	cache      *store.Cache         // of both clients; nil for none
	compact    func(context.Context) error
	close      func() error
}

// Open opens the embedded engine, or makes clients of the account. The account's properties
// are read by the first request, which fails once ctx has ended.
func (c Flags) Open(ctx context.Context, log *slog.Logger, o Options) (*Account, error) {
	var cache *store.Cache
	if o.Cache > 0 {
		cache = store.NewCache(o.Cache)
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
		db, err := newAccount(ctx, "embedded engine in "+dir, engine, engine.Close, o.Tracing, cache, func(o *azcosmos.ClientOptions) (*azcosmos.Client, error) {
			return azcosmos.NewClient(engine.Endpoint(), engine.Credential(), o)
		})
		if err == nil {
			db.compact = engine.Compact
		}
		return db, err
	}
	endpoint, err := url.Parse(c.CosmosEndpoint)
	if err != nil {
		return nil, err
	}
	where := c.Location()
	nothing := func() error { return nil }
	accountKey := cosmosKey()
	if accountKey == "" {
		credential, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, err
		}
		return newAccount(ctx, where, nil, nothing, o.Tracing, cache, func(o *azcosmos.ClientOptions) (*azcosmos.Client, error) {
			return azcosmos.NewClient(c.CosmosEndpoint, credential, o)
		})
	}
	k, err := azcosmos.NewKeyCredential(accountKey.Reveal())
	if err != nil {
		return nil, errors.New("COSMOS_KEY is not the key of a Cosmos DB account: it must be base64")
	}
	var transport policy.Transporter
	if accountKey == emulator.WellKnownKey && Loopback(endpoint.Host) {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // an emulator on this machine, with a certificate of its own making
		transport = &http.Client{Transport: t}
	}
	return newAccount(ctx, where, transport, nothing, o.Tracing, cache, func(o *azcosmos.ClientOptions) (*azcosmos.Client, error) {
		return azcosmos.NewClientWithKey(c.CosmosEndpoint, k, o)
	})
}

// waitWhileThrottled retries a request that is refused with 429 after the time that Cosmos
// DB asks for, until its context ends: nobody waits for background work, and to restart a
// page or a scan costs more than to wait. Other errors are left to azcosmos and the caller,
// so that an outage shows as soon as it would otherwise.
var waitWhileThrottled = policy.RetryOptions{
	MaxRetries:    math.MaxInt32 - 1,
	RetryDelay:    100 * time.Millisecond, // and twice as long each time, if the answer does not say
	MaxRetryDelay: time.Minute,
	ShouldRetry: func(resp *http.Response, err error) bool {
		return err == nil && resp.StatusCode == http.StatusTooManyRequests
	},
}

// undiagnosed is a policy, per call, for clients whose Diagnostics nobody reads. Collecting
// them takes a tenth of azcosmos's allocations and time.
type undiagnosed struct{}

// Do implements policy.Policy.
func (undiagnosed) Do(req *policy.Request) (*http.Response, error) {
	return req.WithContext(withoutDiagnostics{req.Raw().Context()}).Next()
}

// withoutDiagnostics is a context that hides azcosmos's own keys, which are all for
// diagnostics.
type withoutDiagnostics struct{ context.Context }

var azcosmosPackage = reflect.TypeFor[azcosmos.Client]().PkgPath()

// Value implements context.Context.
func (c withoutDiagnostics) Value(key any) any {
	if reflect.TypeOf(key).PkgPath() == azcosmosPackage {
		return nil
	}
	return c.Context.Value(key)
}

// policyFunc is a policy.
type policyFunc func(*policy.Request) (*http.Response, error)

// Do implements policy.Policy.
func (f policyFunc) Do(req *policy.Request) (*http.Response, error) { return f(req) }

// accountUntil returns a policy, per call, that cancels reading the account's properties when
// ctx ends, and after startTimeout. The first request of a client waits for them, and azcosmos
// retries for a minute, even if the request was cancelled.
func accountUntil(ctx context.Context) policyFunc {
	return func(req *policy.Request) (*http.Response, error) {
		if strings.Trim(req.Raw().URL.Path, "/") != "" {
			return req.Next()
		}
		asking, cancel := context.WithTimeout(req.Raw().Context(), startTimeout)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return req.WithContext(asking).Next()
	}
}

// startTimeout is how long reading the account's properties may take.
const startTimeout = 30 * time.Second

// tryTimeout bounds each try of a request, for background work, whose contexts have no
// deadline: a variable so that a test need not wait for it.
var tryTimeout = time.Minute

func newAccount(ctx context.Context, where string, t policy.Transporter, closer func() error, recorded tracing.Provider, cache *store.Cache, open func(*azcosmos.ClientOptions) (*azcosmos.Client, error)) (*Account, error) {
	metrics, sessions := prometheus.NewRegistry(), &store.Sessions{}
	meter := store.NewMeter(metrics)
	calls := []policy.Policy{accountUntil(ctx), undiagnosed{}}
	if cache != nil {
		calls = append(calls, cache)
	}
	requests := azcore.ClientOptions{Transport: t, Retry: policy.RetryOptions{TryTimeout: tryTimeout}, PerCallPolicies: calls, TracingProvider: recorded, PerRetryPolicies: []policy.Policy{store.WriteOnce(), sessions, store.Bodies{}}}
	patience := waitWhileThrottled
	patience.TryTimeout = tryTimeout
	projections := azcore.ClientOptions{Transport: t, PerCallPolicies: slices.Clone(calls), Retry: patience, PerRetryPolicies: []policy.Policy{sessions, store.Bodies{}}}
	meter.Attach(&requests)
	meter.Attach(&projections)
	low := azcosmos.PriorityLevelLow
	client, err := open(&azcosmos.ClientOptions{ClientOptions: requests})
	if err != nil {
		return nil, errors.Join(err, closer())
	}
	background, err := open(&azcosmos.ClientOptions{ClientOptions: projections, PriorityLevel: &low})
	if err != nil {
		return nil, errors.Join(err, closer())
	}
	return &Account{Client: client, Background: background, Metrics: metrics, meter: meter, cache: cache, Where: where, compact: func(context.Context) error { return nil }, close: func() error {
		client.Close()
		background.Close()
		return closer()
	}}, nil
}

// Compact merges what a load has written, if the account is the embedded engine.
func (a *Account) Compact(ctx context.Context) error { return a.compact(ctx) }

// Close closes the clients and the engine.
func (a *Account) Close() error { return a.close() }

// Store returns the blog on an account.
func (c Flags) Store(db *Account, log *slog.Logger, clock func() time.Time) (*store.Store, error) {
	o := store.Options{Database: c.CosmosDatabase, FeedPartitions: c.FeedPartitions, Clock: clock, Logger: log, Meter: db.meter, Cache: db.cache}
	if c.Embedded() {
		o.Instance = "embedded" // the data directory has one owner: no need to wait for old leases to expire
	}
	if !c.Local() {
		o.PollInterval = time.Second // each poll of the change feed costs RU
	}
	return store.New(db.Client, db.Background, o)
}

// Loader is Store for a load: every request has low priority and waits while throttled, and
// nothing is cached or metered.
func (c Flags) Loader(db *Account, log *slog.Logger) (*store.Store, error) {
	return c.Store(&Account{Client: db.Background, Background: db.Background}, log, time.Now)
}

// Loopback reports whether an address, with or without a port, is this machine's
// own and nobody else's.
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
