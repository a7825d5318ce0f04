package cosmos

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/prometheus/client_golang/prometheus"

	"byline/store/cosmos/session"
	"byline/store/internal/metric"
)

// Kind is a kind of operation on Cosmos DB.
type Kind string

// The kinds.
const (
	KindPointRead  Kind = "point read"
	KindQuery      Kind = "query"
	KindReadMany   Kind = "ReadMany"
	KindBatch      Kind = "batch"
	KindCreate     Kind = "create"
	KindReplace    Kind = "replace"
	KindPatch      Kind = "patch"
	KindDelete     Kind = "delete"
	KindChangeFeed Kind = "change feed"
	KindMetadata   Kind = "metadata" // reads and writes
	KindCached     Kind = "cache"    // no request: cached, or read for another caller
)

// Operation is a completed operation on Cosmos DB, with all its tries. A ReadMany is one operation for
// each partition key range, and a query one for each page.
type Operation struct {
	Pattern      Pattern
	Kind         Kind
	Container    string // "" if none
	PartitionKey string // as JSON, such as ["a"]; "" if none
	Range        string // the id of the partition key range of the last response; "" if unknown
	RU           float64
	Took         time.Duration // including waits between tries
	Tries        int           // requests sent

	sent    time.Time      // of the first try
	last    *http.Response // of the last try; nil without a response
	host    string         // to which the last try was sent
	refused string         // status of the last try before that, such as "429/3200"; "" if there was none
}

// status returns the status of a response and its substatus, such as "429/3200"; "no response" without one.
func status(r *http.Response) string {
	if r == nil {
		return "no response"
	}
	s := strconv.Itoa(r.StatusCode)
	if sub := r.Header.Get(substatusHeader); sub != "" && sub != "0" {
		s += "/" + sub
	}
	return s
}

// meter counts all requests of accounts, including failed, throttled and repeated ones. The charge of a
// request without a response is unknown, and counts as 0.
type meter struct {
	begun, hits, requests, ru, errors, throttles, ranges, refusals *prometheus.CounterVec
	seconds                                                        *prometheus.HistogramVec
	invalid, unreached                                             prometheus.Counter // sessions; reads

	mu       sync.Mutex                                  // of changes
	patterns atomic.Pointer[map[Pattern]*patternMetrics] // immutable: replaced on change
}

// patternMetrics are the metrics of one pattern.
type patternMetrics struct {
	begun, hits, requests, ru, errors, throttles prometheus.Counter
	seconds                                      prometheus.Observer
}

// newMeter returns the meter of a registry. The first call registers it. docs/cost.md lists the
// names and labels of the metrics.
func newMeter(r prometheus.Registerer) (*meter, error) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m := &meter{
		ranges: counter("byline_cosmos_range_request_units_total",
			"Request units that Cosmos DB has charged, by partition key range.", "container", "range"),
		begun: counter("byline_access_total", "How often each access pattern was used, whatever it took.",
			"pattern"),
		hits: counter("byline_cache_hits_total", "Reads that were served without a request to Cosmos DB.",
			"pattern"),
		requests: counter("byline_cosmos_requests_total", "Requests to Cosmos DB, each try counted.", "pattern"),
		ru:       counter("byline_cosmos_request_units_total", "Request units that Cosmos DB has charged.", "pattern"),
		errors: counter("byline_cosmos_errors_total",
			"Requests that Cosmos DB could not or would not serve, or did not respond to.", "pattern"),
		throttles: counter("byline_cosmos_throttles_total",
			"Requests that Cosmos DB refused for want of request units (429).", "pattern"),
		refusals: counter("byline_cosmos_refusals_total",
			"Requests and operations of batches that Cosmos DB refused for a reason of their own, by status and "+
				"substatus.",
			"status"),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "byline_cosmos_request_seconds",
			Help:    "How long requests to Cosmos DB took.",
			Buckets: []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}},
			[]string{"pattern"}),
	}
	m.invalid = prometheus.NewCounter(prometheus.CounterOpts{Name: "byline_session_invalid_total",
		Help: "Sessions that were ignored because this account has not made them."})
	m.unreached = prometheus.NewCounter(prometheus.CounterOpts{Name: "byline_session_unreached_total",
		Help: "Reads that returned older data than their session requires, because no replica had newer."})
	m.patterns.Store(&map[Pattern]*patternMetrics{})
	m, err := metric.Register(r, m)
	for _, status := range refusals {
		m.refusals.WithLabelValues(status)
	}
	m.add(ChangeFeed, Leases, Metadata, Unnamed)
	return m, err
}

func (m *meter) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.begun, m.hits, m.requests, m.ru, m.errors, m.throttles, m.ranges, m.refusals,
		m.seconds, m.invalid, m.unreached}
}

// Describe implements prometheus.Collector.
func (m *meter) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *meter) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
}

// refusals are the statuses that byline_cosmos_refusals_total counts.
var refusals = []string{
	"449",                           // a write conflicted with a concurrent write of the same item
	"404/" + session.Substatus,      // no replica has reached the session token
	"403/" + substatusPartitionFull, // the logical partition is full
	"403/" + substatusControlPlane,  // an Entra identity may not do it
}

// refused counts a response if its status is one of refusals.
func (m *meter) refused(r *http.Response) {
	if s := status(r); slices.Contains(refusals, s) {
		m.refusals.WithLabelValues(s).Inc()
	}
}

// of returns the metrics of a pattern.
func (m *meter) of(p Pattern) *patternMetrics {
	if known := (*m.patterns.Load())[p]; known != nil {
		return known
	}
	m.add(p)
	return (*m.patterns.Load())[p]
}

// add creates the metrics of patterns that have none.
func (m *meter) add(patterns ...Pattern) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(*m.patterns.Load())
	for _, p := range patterns {
		if all[p] == nil {
			name := string(p)
			all[p] = &patternMetrics{m.begun.WithLabelValues(name), m.hits.WithLabelValues(name),
				m.requests.WithLabelValues(name), m.ru.WithLabelValues(name),
				m.errors.WithLabelValues(name), m.throttles.WithLabelValues(name), m.seconds.WithLabelValues(name)}
		}
	}
	m.patterns.Store(&all)
}

// hit counts a read that was served from the cache.
func (m *meter) hit(ctx context.Context, container, partition string) {
	s := scopeOf(ctx)
	m.of(s.pattern).hits.Inc()
	if s.record != nil {
		s.record(ctx, &Operation{Pattern: s.pattern, Kind: KindCached, Container: container,
			PartitionKey: `["` + partition + `"]`})
	}
}

// meterCalls is a policy, per call: it creates the Operation that meterTries adds to, passes it to the
// recorder of the context, and logs it if it is notable.
type meterCalls struct{ *shared }

// Do implements policy.Policy.
func (m meterCalls) Do(req *policy.Request) (*http.Response, error) {
	ctx := req.Raw().Context()
	s := scopeOf(ctx)
	o := operationOf(req.Raw(), s.pattern)
	req.SetOperationValue(o)
	began := time.Now()
	resp, err := req.Next()
	if ctx.Err() != context.Canceled { // the caller is gone
		m.operations.observe(s.requestID, o, m.regionOf, err)
	}
	if s.record != nil {
		o.Took = time.Since(began)
		s.record(ctx, o)
	}
	return resp, err
}

// operationOf returns the operation of a request.
func operationOf(r *http.Request, p Pattern) *Operation {
	o := &Operation{Pattern: p}
	_, rest, _ := strings.Cut(r.URL.Path, "/colls/")
	var items string
	o.Container, items, _ = strings.Cut(rest, "/")
	if o.Container == leasesContainer {
		o.Pattern = Leases
	}
	h := r.Header
	if key := h[partitionHeader]; len(key) > 0 {
		o.PartitionKey = key[0]
	}
	switch {
	case !strings.HasPrefix(items, "docs"):
		o.Kind, o.Pattern = KindMetadata, Metadata
	case r.Method == http.MethodPut:
		o.Kind = KindReplace
	case r.Method == http.MethodPatch:
		o.Kind = KindPatch
	case r.Method == http.MethodDelete:
		o.Kind = KindDelete
	case r.Method == http.MethodGet && len(h["A-Im"]) > 0:
		o.Kind, o.Pattern = KindChangeFeed, ChangeFeed
	case r.Method == http.MethodGet:
		o.Kind = KindPointRead
	case len(h["X-Ms-Cosmos-Is-Batch-Request"]) > 0:
		o.Kind = KindBatch
	case len(h["X-Ms-Documentdb-Query"]) == 0:
		o.Kind = KindCreate
	case len(h["X-Ms-Documentdb-Partitionkeyrangeid"]) > 0: // azcosmos sets it only for ReadMany
		o.Kind = KindReadMany
	default:
		o.Kind = KindQuery
	}
	return o
}

// meterTries is a policy, per try: it counts requests, and adds them to their Operation.
type meterTries struct{ *meter }

// Do implements policy.Policy.
func (m meterTries) Do(req *policy.Request) (*http.Response, error) {
	var o *Operation
	req.OperationValue(&o) // of meterCalls
	began := time.Now()
	if o.Tries == 0 {
		o.sent = began
	} else {
		o.refused = status(o.last)
	}
	resp, err := req.Next()
	p := m.of(o.Pattern)
	p.requests.Inc()
	p.seconds.Observe(time.Since(began).Seconds())
	o.Tries++
	o.last, o.host = resp, req.Raw().URL.Host
	if err != nil {
		// not an error of Cosmos DB if the caller canceled; an expired deadline is
		if req.Raw().Context().Err() != context.Canceled {
			p.errors.Inc()
		}
		return resp, err
	}
	switch s := resp.StatusCode; {
	case s == http.StatusTooManyRequests:
		p.throttles.Inc()
	case s >= 500 || (&Error{Status: s}).Unavailable():
		p.errors.Inc()
	}
	if resp.StatusCode >= http.StatusBadRequest {
		m.refused(resp)
	}
	if ru, err := strconv.ParseFloat(resp.Header.Get("X-Ms-Request-Charge"), 64); err == nil && ru > 0 {
		o.RU += ru
		p.ru.Add(ru)
		o.Range = resp.Header.Get("X-Ms-Documentdb-Partitionkeyrangeid")
		m.ranges.WithLabelValues(o.Container, o.Range).Add(ru)
	}
	return resp, nil
}
