package cosmos

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/tracing"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/prometheus/client_golang/prometheus"
)

// Options of an Account. Endpoint and one of Key and Credential are required.
type Options struct {
	Endpoint   string                 // of the account
	Key        string                 // of the account, in base64
	Credential azcore.TokenCredential // used if there is no Key

	// Regions are where to read, the preferred one first; if a region cannot serve a read, the
	// next one is asked. Default: the first region of the account, and no other.
	Regions []string

	// SessionKey authenticates the tokens of Sessions: accounts that share it take each other's.
	// Default: derived from Key, or a random one if there is no Key.
	SessionKey []byte

	// Transport sends the requests; the embedded engine is one. Default: HTTPS.
	Transport policy.Transporter

	// CacheBytes is how much memory the item cache may take, about. Default: 0, and
	// nothing is cached.
	CacheBytes int

	// Metrics is where the metrics that docs/cost.md lists are registered. Accounts may
	// share it, and count together then. Default: a registry that nobody reads.
	Metrics prometheus.Registerer

	// Clock is the clock of this process, which is compared with the account's time. Default
	// time.Now.
	Clock func() time.Time

	// Logger gets warnings about the account. Default: none.
	Logger *slog.Logger

	// Tracing makes spans of requests. Default: none.
	Tracing tracing.Provider

	// Policies see every try of a request. Those of background work are not among them.
	Policies []policy.Policy

	// Retry says how often, and how fast, azcore repeats a failed request that is neither
	// throttled nor an ambiguous write. Background work is not subject to it: it waits while it is
	// throttled, and repeats only writes that met another of the same item. Default: azcore's.
	Retry policy.RetryOptions

	// RetryBudget is how long the requests of an operation may wait, all in all, from the first pause
	// on: while they are throttled, for writes that they met, and for replicas that are behind.
	// Default 2 s.
	RetryBudget time.Duration

	// TryTimeout is how long each try may take. Default 1 minute.
	TryTimeout time.Duration

	// Done, once closed, ends the wait for the account's properties, which azcosmos asks
	// for before its first request and waits a minute for. Default: never.
	Done <-chan struct{}
}

// propertiesTimeout is how long the account's properties may take.
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
		o.RetryBudget = retryBudget
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

// shared is what requests and background work have in common.
type shared struct {
	requests, background *azcosmos.Client
	registerer           prometheus.Registerer
	log                  *slog.Logger
	regions              []string                   // preferred
	properties           atomic.Pointer[properties] // nil before the first request
	meter                *meter
	clock                *clock
	cache                *itemCache // nil: nothing is cached
	sessions             *sessions
	sessionKey           []byte
	retryBudget          time.Duration

	mu       sync.Mutex
	followed map[string]*following // guarded by mu; by the container's path
}

// Open returns an Account. It does no I/O.
func Open(o Options) (*Account, error) {
	o = o.withDefaults()
	s := &shared{registerer: o.Metrics, log: o.Logger, regions: o.Regions, followed: map[string]*following{}, sessionKey: sessionKeyOf(o), retryBudget: o.RetryBudget}
	var err error
	if s.meter, err = newMeter(o.Metrics); err != nil {
		return nil, err
	}
	if s.clock, err = newClock(o.Clock, o.Logger, o.Metrics); err != nil {
		return nil, err
	}
	calls := []policy.Policy{s.askProperties(o), policyFunc(setHeaders)}
	if o.CacheBytes > 0 {
		s.cache = newItemCache(o.CacheBytes, s.meter)
		calls = append(calls, s.cache)
	}
	calls = append(calls, meterCalls{})
	// The order counts. A write that is repeated goes through the sessions again; the caller's
	// policies see requests with their tokens; the meter and the clock are last and see what is sent.
	s.sessions = &sessions{meter: s.meter, retryBudget: o.RetryBudget}
	tries := []policy.Policy{bodies{}, meterTries{s.meter}, s.clock}
	open := func(priority *azcosmos.PriorityLevel, retries withContext, client azcore.ClientOptions) (*azcosmos.Client, error) {
		client.Transport, client.PerCallPolicies = o.Transport, slices.Concat([]policy.Policy{retries}, calls, client.PerCallPolicies)
		return o.newClient(&azcosmos.ClientOptions{ClientOptions: client, PriorityLevel: priority, PreferredRegions: o.Regions})
	}
	s.requests, err = open(nil, withSomeRetries, azcore.ClientOptions{Retry: o.Retry, TracingProvider: o.Tracing,
		PerRetryPolicies: slices.Concat([]policy.Policy{writeSignals{s}, throttled{o.RetryBudget}, retryWrites{}, retryMet{o.RetryBudget}, s.sessions}, o.Policies, tries)})
	if err != nil {
		return nil, err
	}
	patient, low := waitWhileThrottled, azcosmos.PriorityLevelLow
	patient.TryTimeout = o.TryTimeout
	s.background, err = open(&low, withEndlessRetries, azcore.ClientOptions{Retry: patient, PerCallPolicies: []policy.Policy{policyFunc(limitRate)}, PerRetryPolicies: append([]policy.Policy{retryMet{o.RetryBudget}, s.sessions}, tries...)})
	if err != nil {
		return nil, err
	}
	return &Account{s, s.requests}, nil
}

// errKey does not quote the key.
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

// Close closes connections that are idle.
func (a *Account) Close() {
	a.requests.Close()
	a.background.Close()
}

// Background returns the account for work that nobody waits for: with low priority, and
// with patience while it is throttled.
func (a *Account) Background() *Account { return &Account{a.shared, a.shared.background} }

// Client returns azcosmos's client of the account, for what this package does not cover.
// Its requests take the same way.
func (a *Account) Client() *azcosmos.Client { return a.client }

// Registerer returns where the account's metrics are registered.
func (a *Account) Registerer() prometheus.Registerer { return a.registerer }

// RetryBudget returns how long the requests of an operation may wait; see Options.
func (a *Account) RetryBudget() time.Duration { return a.retryBudget }

// Container returns a container, which need not exist. It does no I/O.
func (a *Account) Container(database, name string) (*Container, error) {
	client, err := a.client.NewContainer(database, name)
	if err != nil {
		return nil, err
	}
	path := pathOf(database, name)
	return &Container{shared: a.shared, client: client, database: database, path: path, following: a.followingOf(path),
		patient: a.client == a.background}, nil
}

func (s *shared) followingOf(path string) *following {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.followed[path]
	if f == nil {
		f = &following{}
		s.followed[path] = f
	}
	return f
}

// policyFunc is a policy.
type policyFunc func(*policy.Request) (*http.Response, error)

// Do implements policy.Policy.
func (f policyFunc) Do(req *policy.Request) (*http.Response, error) { return f(req) }

// askProperties returns a policy, per call, that learns the account's properties. The first request of a
// client waits for them; azcosmos requests them for up to a minute, even if that request's context has
// ended, and reports a failure to all requests for five minutes. So also the background client retries
// them as Options.Retry says. The policy gives up when Options.Done is closed, and after
// propertiesTimeout.
func (s *shared) askProperties(o Options) policyFunc {
	return func(req *policy.Request) (*http.Response, error) {
		if !asksForProperties(req.Raw()) {
			return req.Next()
		}
		asking, cancel := context.WithTimeout(policy.WithRetryOptions(req.Raw().Context(), o.Retry), propertiesTimeout)
		defer cancel()
		go func() {
			select {
			case <-o.Done:
				cancel()
			case <-asking.Done():
			}
		}()
		return s.learnProperties(req.WithContext(asking))
	}
}

// withContext is a policy, per call, that sends requests in the context that it returns of theirs.
type withContext func(context.Context) context.Context

// Do implements policy.Policy.
func (f withContext) Do(req *policy.Request) (*http.Response, error) {
	return req.WithContext(withoutDiagnostics{f(req.Raw().Context())}).Next()
}

// withoutDiagnostics is a context in which azcosmos finds nothing of its own: all of that is
// for diagnostics, which nobody reads. To keep them takes azcosmos a tenth of what it allocates, and of
// its time: it finds no place for them.
type withoutDiagnostics struct{ context.Context }

var azcosmosPackage = reflect.TypeFor[azcosmos.Client]().PkgPath()

// Value implements context.Context.
func (c withoutDiagnostics) Value(key any) any {
	if reflect.TypeOf(key).PkgPath() == azcosmosPackage {
		return nil
	}
	return c.Context.Value(key)
}
