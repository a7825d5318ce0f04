package main

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
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/prometheus/client_golang/prometheus"

	"byline/store"
	"byline/store/emulator"
)

// cosmosConfig says where the data is.
type cosmosConfig struct {
	Data           string `default:"./data" env:"BYLINE_DATA" help:"Directory of the embedded engine's data."`
	CosmosEndpoint string `env:"COSMOS_ENDPOINT" placeholder:"URL" help:"Azure Cosmos DB account; its key is in the environment as COSMOS_KEY, or else DefaultAzureCredential signs in. Without an endpoint, the embedded engine."`
	CosmosDatabase string `default:"blog" env:"COSMOS_DATABASE" help:"The database's name."`
	FeedPartitions int    `env:"BYLINE_FEED_PARTITIONS" placeholder:"K" help:"Partitions that the feed is spread over, 1 to 64, each with all of it. The same for all that share a database. Without, one."`

	engine emulator.Options // of the embedded engine
	cache  int              // bytes of memory for what was read; none is remembered by default
}

// check finds what is wrong with the configuration before anything is opened.
func (c cosmosConfig) check() error {
	if c.embedded() && c.Data == "" {
		return errNoData
	}
	if c.CosmosDatabase == "" {
		return errNoDatabase
	}
	if err := checkFeedPartitions(c.FeedPartitions); err != nil {
		return err
	}
	return checkEndpoint(c.CosmosEndpoint)
}

// errNoDatabase is said instead of taking the default, which some of what uses the name does not know.
var errNoDatabase = errors.New("--cosmos-database is empty: it must name the database")

// errNoData is said instead of keeping everything in memory, as the engine does without a directory.
var errNoData = errors.New("--data is empty: it must name the directory of the data")

func checkFeedPartitions(n int) error {
	if n < 0 || n > store.MaxFeedPartitions {
		return fmt.Errorf("--feed-partitions: the feed can have 1 to %d partitions, not %d", store.MaxFeedPartitions, n)
	}
	return nil
}

func checkEndpoint(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	switch { // without a word of it: it may be a connection string, with the key
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("--cosmos-endpoint is not an http or https address")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("--cosmos-endpoint is more than an address")
	}
	return nil
}

// cosmosKey is the account's key, "" if there is none. It is not a flag: those are
// visible to everybody on the machine.
func cosmosKey() secret { return secret(os.Getenv("COSMOS_KEY")) }

// embedded reports whether the data is in the embedded engine.
func (c cosmosConfig) embedded() bool { return c.CosmosEndpoint == "" }

// location says where the data is, for people.
func (c cosmosConfig) location() string {
	if c.embedded() {
		return c.Data
	}
	return "Cosmos DB at " + c.CosmosEndpoint
}

// local reports whether the data is on this machine: in the embedded engine, or in an
// emulator.
func (c cosmosConfig) local() bool {
	u, err := url.Parse(c.CosmosEndpoint)
	return c.embedded() || err == nil && loopback(u.Host)
}

// cosmos is a connection to the data: an account, or the embedded engine.
type cosmos struct {
	client     *azcosmos.Client
	background *azcosmos.Client // with low priority
	metrics    *prometheus.Registry
	meter      *store.Meter                // of both clients, in metrics
	cache      *store.Cache                // of both clients, if what was read is remembered
	where      string                      // for people
	compact    func(context.Context) error // for after a load; it does nothing for an account
	close      func() error
}

// connect opens the embedded engine, or makes clients of the account, whose properties
// nobody waits for any more when ctx has ended. What the client of requests does is
// recorded.
func (c cosmosConfig) connect(ctx context.Context, log *slog.Logger, recorded traces) (*cosmos, error) {
	var cache *store.Cache
	if c.cache > 0 {
		cache = store.NewCache(c.cache)
	}
	if c.embedded() {
		o := c.engine
		o.Logger = log
		engine, err := emulator.Open(c.Data, o)
		if err != nil {
			return nil, err
		}
		dir, err := filepath.Abs(c.Data)
		if err != nil {
			dir = c.Data
		}
		db, err := newCosmos(ctx, "embedded engine in "+dir, engine, engine.Close, recorded, cache, func(o *azcosmos.ClientOptions) (*azcosmos.Client, error) {
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
	where := c.location()
	nothing := func() error { return nil }
	accountKey := cosmosKey()
	if accountKey == "" {
		credential, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, err
		}
		return newCosmos(ctx, where, nil, nothing, recorded, cache, func(o *azcosmos.ClientOptions) (*azcosmos.Client, error) {
			return azcosmos.NewClient(c.CosmosEndpoint, credential, o)
		})
	}
	k, err := azcosmos.NewKeyCredential(accountKey.reveal())
	if err != nil {
		return nil, errors.New("COSMOS_KEY is not the key of a Cosmos DB account: it must be base64")
	}
	var transport policy.Transporter
	if accountKey == emulator.WellKnownKey && loopback(endpoint.Host) {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // an emulator on this machine, with a certificate of its own making
		transport = &http.Client{Transport: t}
	}
	return newCosmos(ctx, where, transport, nothing, recorded, cache, func(o *azcosmos.ClientOptions) (*azcosmos.Client, error) {
		return azcosmos.NewClientWithKey(c.CosmosEndpoint, k, o)
	})
}

// waitWhileThrottled has a request that is refused with 429 wait as long as Cosmos DB
// asks for, again and again until its context ends: nobody waits for background work,
// and to begin a page or a scan anew costs more than to wait. Everything else is left
// to azcosmos and to whoever called, so that an outage shows as soon as it would
// otherwise.
var waitWhileThrottled = policy.RetryOptions{
	MaxRetries:    math.MaxInt32 - 1,
	RetryDelay:    100 * time.Millisecond, // and twice as long each time, if the answer does not say
	MaxRetryDelay: time.Minute,
	ShouldRetry: func(resp *http.Response, err error) bool {
		return err == nil && resp.StatusCode == http.StatusTooManyRequests
	},
}

// undiagnosed is a policy, per call, for clients whose Diagnostics nobody reads. To keep them
// takes azcosmos a tenth of what it allocates, and of its time: it finds no place for them.
type undiagnosed struct{}

// Do implements policy.Policy.
func (undiagnosed) Do(req *policy.Request) (*http.Response, error) {
	return req.WithContext(withoutDiagnostics{req.Raw().Context()}).Next()
}

// withoutDiagnostics is a context in which azcosmos finds nothing of its own: all of that is
// for diagnostics.
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

// accountUntil returns a policy, per call, that gives up asking for the account's properties
// when ctx ends, and after the time that there is to start. The first request of a client
// waits for them, and azcosmos asks for a minute, even if nobody waits for the request.
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

// tryTimeout is how long the answer to a request may take, for what nobody else gives up
// on, which is what happens in the background: a variable so that a test need not wait for it.
var tryTimeout = time.Minute

func newCosmos(ctx context.Context, where string, t policy.Transporter, closer func() error, recorded traces, cache *store.Cache, open func(*azcosmos.ClientOptions) (*azcosmos.Client, error)) (*cosmos, error) {
	metrics, sessions := prometheus.NewRegistry(), &store.Sessions{}
	meter := store.NewMeter(metrics)
	calls := []policy.Policy{accountUntil(ctx), undiagnosed{}}
	if cache != nil {
		calls = append(calls, cache)
	}
	requests := azcore.ClientOptions{Transport: t, Retry: policy.RetryOptions{TryTimeout: tryTimeout}, PerCallPolicies: calls, TracingProvider: recorded.azure(), PerRetryPolicies: []policy.Policy{store.WriteOnce(), sessions, store.Bodies{}}}
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
	return &cosmos{client: client, background: background, metrics: metrics, meter: meter, cache: cache, where: where, compact: func(context.Context) error { return nil }, close: func() error {
		client.Close()
		background.Close()
		return closer()
	}}, nil
}

// open returns the blog on a connection.
func (c cosmosConfig) open(db *cosmos, log *slog.Logger, clock func() time.Time) (*store.Store, error) {
	o := store.Options{Database: c.CosmosDatabase, FeedPartitions: c.FeedPartitions, Clock: clock, Logger: log, Meter: db.meter, Cache: db.cache}
	if c.embedded() {
		o.Instance = "embedded" // nobody else can have the data directory: no need to wait for old leases
	}
	if !c.local() {
		o.PollInterval = time.Second // each look at the change feed is paid for
	}
	return store.New(db.client, db.background, o)
}

// loopback reports whether an address, with or without a port, is this machine's
// own and nobody else's.
func loopback(address string) bool {
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
