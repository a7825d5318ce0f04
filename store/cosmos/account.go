package cosmos

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"byline/store/cosmos/itemcache"
	"byline/store/cosmos/session"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/tracing"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
)

// Options of an Account. Endpoint and one of Key and Credential are required.
type Options struct {
	Endpoint   string                 // of the account
	Key        string                 // of the account, in base64
	Credential azcore.TokenCredential // used if there is no Key

	// Regions are the regions to read from, the preferred one first; if a region cannot serve a
	// read, the next one does. Default: the first region of the account, and no other.
	Regions []string

	// SessionKey authenticates the tokens of Sessions: accounts that share it accept each other's.
	// Default: derived from Key, or random without a Key.
	SessionKey []byte

	// Transport sends the requests; the embedded engine implements it. Default: HTTPS.
	Transport policy.Transporter

	// CacheBytes is the approximate size of the item cache in memory. Default: 0, no cache.
	CacheBytes int

	// Metrics registers the metrics that docs/cost.md lists. Accounts that share it share the
	// metrics. Default: a new registry.
	Metrics prometheus.Registerer

	// Clock is this process's clock; see ClockOffset. Default time.Now.
	Clock func() time.Time

	// Logger gets warnings about the account, and notable operations. Default: none.
	Logger *slog.Logger

	// Tracing makes spans of requests. Default: none.
	Tracing tracing.Provider

	// Policies see every try of a request, except those of background work.
	Policies []policy.Policy

	// Retry limits how often, and how fast, azcore repeats a failed request that is neither
	// throttled nor an ambiguous write. It does not apply to background work, which waits while
	// throttled and repeats only conflicting concurrent writes (449), and the request for the
	// account's properties. Default: azcore's.
	Retry policy.RetryOptions

	// RetryBudget limits the time that the requests of an operation together spend waiting, from the
	// first pause on: while throttled (429), after conflicting concurrent writes (449), after a read
	// that the service refused (503), and for replicas behind the session token. Default 2 s.
	RetryBudget time.Duration

	// TryTimeout limits each try, with what is repeated within it. Default 1 minute. A request that reads is also
	// limited to readTimeout.
	TryTimeout time.Duration

	// Done, once closed, ends the wait for the account's properties, which azcosmos requests before
	// its first request, for up to a minute. Default: never.
	Done <-chan struct{}
}

// propertiesTimeout limits the request for the account's properties.
const propertiesTimeout = 30 * time.Second

func (o Options) withDefaults() Options {
	if o.Metrics == nil {
		o.Metrics = prometheus.NewRegistry()
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.RetryBudget == 0 {
		o.RetryBudget = defaultRetryBudget
	}
	if len(o.SessionKey) == 0 {
		o.SessionKey = session.Secret(o.Key)
	}
	if o.TryTimeout == 0 {
		o.TryTimeout = time.Minute
	}
	if o.Retry.TryTimeout == 0 {
		o.Retry.TryTimeout = o.TryTimeout
	}
	return o
}

// Account is a Cosmos DB account.
type Account struct {
	*shared
	client *azcosmos.Client // of shared
}

// shared is the state that requests and background work share.
type shared struct {
	requests, background *azcosmos.Client
	registerer           prometheus.Registerer
	log                  *slog.Logger
	regions              []string                   // preferred
	properties           atomic.Pointer[properties] // nil before the first request
	meter                *meter
	operations           *operationLog
	clock                *clock
	cache                *itemcache.Cache
	reads                singleflight.Group // for the cache
	sessions             *sessions
	sessionKey           []byte
	retryBudget          time.Duration

	closing sync.Once
	closed  chan struct{} // closed by Close
}

// Open returns an Account. It does no I/O.
func Open(o Options) (*Account, error) {
	o = o.withDefaults()
	outage := &outage{now: o.Clock, log: o.Logger}
	o.Logger = slog.New(outageHandler{o.Logger.Handler(), outage})
	s := &shared{registerer: o.Metrics, log: o.Logger, regions: o.Regions, sessionKey: o.SessionKey,
		retryBudget: o.RetryBudget,
		operations:  newOperationLog(o.Logger), closed: make(chan struct{})}
	var err error
	if s.meter, err = newMeter(o.Metrics); err != nil {
		return nil, err
	}
	if s.clock, err = newClock(o.Clock, o.Logger, o.Metrics); err != nil {
		return nil, err
	}
	calls := []policy.Policy{policyFunc(setHeaders)}
	if o.Key != "" {
		calls = append(calls, policyFunc(dateTries))
	}
	s.sessions = &sessions{meter: s.meter, retryBudget: o.RetryBudget}
	if s.cache = itemcache.New(o.CacheBytes, &s.sessions.known); s.cache.Caches() {
		calls = append(calls, cacheCalls{s})
	}
	calls = append(calls, meterCalls{s})
	// The order matters. A repeated write passes the sessions again; the caller's policies see
	// requests with their session tokens; the meter, the clock and the outage are after them and see each request sent.
	tries := []policy.Policy{meterTries{s.meter}, bodyPolicy{}, s.clock, outage}
	open := func(
		priority *azcosmos.PriorityLevel, retries withContext, client azcore.ClientOptions,
	) (*azcosmos.Client, error) {
		first := []policy.Policy{retries, s.propertiesPolicy(o.Done, priority != nil)}
		client.Transport, client.PerCallPolicies = o.Transport, slices.Concat(first, calls, client.PerCallPolicies)
		return o.newClient(&azcosmos.ClientOptions{ClientOptions: client, PriorityLevel: priority,
			PreferredRegions: o.Regions})
	}
	s.requests, err = open(nil, ensureRetryWindow, azcore.ClientOptions{Retry: o.Retry, TracingProvider: o.Tracing,
		PerRetryPolicies: slices.Concat([]policy.Policy{writeSignals{s}}, retries(o.RetryBudget, len(o.Regions) > 0),
			[]policy.Policy{s.sessions, policyFunc(limitReads)}, o.Policies, tries)})
	if err != nil {
		return nil, err
	}
	retry, low := backgroundRetry, azcosmos.PriorityLevelLow
	retry.TryTimeout = o.TryTimeout
	s.background, err = open(&low, ignoreRetryWindow,
		azcore.ClientOptions{Retry: retry, PerCallPolicies: []policy.Policy{policyFunc(limitRate)},
			PerRetryPolicies: append([]policy.Policy{retryContended{o.RetryBudget}, s.sessions, policyFunc(limitReads)},
				tries...)})
	if err != nil {
		return nil, err
	}
	return &Account{s, s.requests}, nil
}

// errKey reports an invalid key. It does not quote the key.
var errKey = errors.New("the key of a Cosmos DB account must be base64")

func (o Options) newClient(client *azcosmos.ClientOptions) (*azcosmos.Client, error) {
	if o.Key == "" {
		return azcosmos.NewClient(o.Endpoint, o.Credential, client)
	}
	key, err := azcosmos.NewKeyCredential(o.Key)
	if err != nil {
		return nil, errKey
	}
	return azcosmos.NewClientWithKey(o.Endpoint, key, client)
}

// Close ends waits for the account's properties and releases the caches of azcosmos. The account must not be
// used afterwards. Close may be called again.
func (a *Account) Close() {
	a.closing.Do(func() { close(a.closed) })
	a.requests.Close()
	a.background.Close()
}

// Background returns the account for background work: its requests have low priority, and wait while
// throttled until their context ends.
func (a *Account) Background() *Account { return &Account{a.shared, a.shared.background} }

// Client returns the azcosmos client of the account, for what this package does not cover. Its
// requests pass the same policies.
func (a *Account) Client() *azcosmos.Client { return a.client }

// Registerer returns the registerer of the account's metrics.
func (a *Account) Registerer() prometheus.Registerer { return a.registerer }

// Logger returns Options.Logger, or its default. It drops warnings with an "error" while Cosmos DB does not respond, which
// is one line of its own.
func (a *Account) Logger() *slog.Logger { return a.log }

// RetryBudget returns Options.RetryBudget, or its default.
func (a *Account) RetryBudget() time.Duration { return a.retryBudget }

// Container returns a container, which need not exist. It does no I/O.
func (a *Account) Container(database, name string) (*Container, error) {
	client, err := a.client.NewContainer(database, name)
	if err != nil {
		return nil, err
	}
	path := pathOf(database, name)
	cached := a.cache.Container(path)
	return &Container{shared: a.shared, client: client, database: database, path: path, cached: cached}, nil
}

// policyFunc is a function as a policy.
type policyFunc func(*policy.Request) (*http.Response, error)

// Do implements policy.Policy.
func (f policyFunc) Do(req *policy.Request) (*http.Response, error) { return f(req) }

// propertiesPolicy returns a policy, per call, that stores the account's properties. The first request
// of a client waits for them; azcosmos requests them for up to a minute, even if that request's context
// has ended, and reports a failure to all requests for five minutes. So in the background they are
// retried until the policy gives up: when done or the account is closed, and after propertiesTimeout.
func (s *shared) propertiesPolicy(done <-chan struct{}, background bool) policyFunc {
	return func(req *policy.Request) (*http.Response, error) {
		if !isPropertiesRequest(req.Raw()) {
			return req.Next()
		}
		ctx, cancel := context.WithTimeout(req.Raw().Context(), propertiesTimeout)
		defer cancel()
		if background {
			ctx = policy.WithRetryOptions(ctx, policy.RetryOptions{MaxRetries: math.MaxInt32 - 1})
		}
		go func() {
			select {
			case <-done:
				cancel()
			case <-s.closed:
				cancel()
			case <-ctx.Done():
			}
		}()
		return s.fetchProperties(req.WithContext(ctx))
	}
}

// withContext is a policy, per call, that replaces the context of requests by the one that the function
// returns.
type withContext func(context.Context) context.Context

// Do implements policy.Policy.
func (f withContext) Do(req *policy.Request) (*http.Response, error) {
	return req.WithContext(withoutDiagnostics{f(req.Raw().Context())}).Next()
}

// withoutDiagnostics hides the values of azcosmos in a context, so that it records no diagnostics, which nothing reads:
// operationLog logs notable operations. With them, the gateway takes 1.06 to 1.14 times the CPU for Q1, Q2 and C4
// (-bench Path).
type withoutDiagnostics struct{ context.Context }

var azcosmosPackage = reflect.TypeFor[azcosmos.Client]().PkgPath()

// Value implements context.Context.
func (c withoutDiagnostics) Value(key any) any {
	if t := reflect.TypeOf(key); t != nil && t.PkgPath() == azcosmosPackage {
		return nil
	}
	return c.Context.Value(key)
}
