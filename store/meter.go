package store

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/prometheus/client_golang/prometheus"
)

// OperationKind is a kind of operation on Cosmos DB.
type OperationKind string

// The kinds.
const (
	PointRead      OperationKind = "point read"
	Query          OperationKind = "query"
	ReadMany       OperationKind = "ReadMany"
	Batch          OperationKind = "batch"
	Create         OperationKind = "create"
	Replace        OperationKind = "replace"
	Patch          OperationKind = "patch"
	Delete         OperationKind = "delete"
	ReadChangeFeed OperationKind = "change feed"
	ReadMetadata   OperationKind = "metadata" // or write it
	Cached         OperationKind = "cache"    // no request: it was remembered, or read for somebody else
)

// Operation is an operation on Cosmos DB that has ended, all its tries together. A
// ReadMany is one for each partition key range that it asks, and a query one for each
// page.
type Operation struct {
	Pattern      Pattern
	Kind         OperationKind
	Container    string // "" if it was about none
	PartitionKey string // as JSON, such as ["a"]; "" if it named none
	Range        string // the id of the partition key range that answered last; "" if none did
	RU           float64
	Took         time.Duration // waits between tries included
	Tries        int           // requests that were sent
}

// Meter accounts for all requests that the clients it is attached to send, those
// included that fail, are throttled, or are tried again. Requests without an answer
// count as free: what they were charged is not known.
type Meter struct {
	patterns   [patterns]patternMetrics
	ranges     *prometheus.CounterVec
	background backgroundMetrics
	running    atomic.Pointer[running] // nil while no Store runs
}

// patternMetrics are those of one pattern.
type patternMetrics struct {
	begun, hits, requests, ru, errors, throttles prometheus.Counter
	seconds                                      prometheus.Observer
}

// NewMeter registers the metrics of a process, and so can be called once for each
// registry. They have the names and labels that docs/cost.md lists.
func NewMeter(r prometheus.Registerer) *Meter {
	m := &Meter{
		ranges: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "byline_cosmos_range_request_units_total",
			Help: "Request units that Cosmos DB has charged, by partition key range."}, []string{"container", "range"}),
		background: newBackgroundMetrics(r),
	}
	r.MustRegister(m.ranges, collector{m})
	vec := func(name, help string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"pattern"})
		r.MustRegister(v)
		return v
	}
	begun := vec("byline_access_total", "How often each access pattern was used, whatever it took.")
	hits := vec("byline_cache_hits_total", "Reads that were answered without a request to Cosmos DB.")
	requests := vec("byline_cosmos_requests_total", "Requests to Cosmos DB, each try counted.")
	ru := vec("byline_cosmos_request_units_total", "Request units that Cosmos DB has charged.")
	errors := vec("byline_cosmos_errors_total", "Requests that Cosmos DB could not or would not serve, or did not answer.")
	throttles := vec("byline_cosmos_throttles_total", "Requests that Cosmos DB refused for want of request units (429).")
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "byline_cosmos_request_seconds", Help: "How long requests to Cosmos DB took.",
		Buckets: []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}}, []string{"pattern"})
	r.MustRegister(seconds)
	for p, name := range patternNames {
		m.patterns[p] = patternMetrics{begun.WithLabelValues(name), hits.WithLabelValues(name), requests.WithLabelValues(name), ru.WithLabelValues(name),
			errors.WithLabelValues(name), throttles.WithLabelValues(name), seconds.WithLabelValues(name)}
	}
	return m
}

// Attach has the clients that are made with the options account to the meter. It comes
// after other policies: it is to see what is sent.
func (m *Meter) Attach(o *policy.ClientOptions) {
	o.PerCallPolicies = append(o.PerCallPolicies, meterCalls{})
	o.PerRetryPolicies = append(o.PerRetryPolicies, meterTries{m})
}

// hit accounts for a read that was answered from memory.
func (m *Meter) hit(ctx context.Context, container, partition string) {
	s := scopeOf(ctx)
	m.patterns[s.pattern].hits.Inc()
	if s.record != nil {
		s.record(ctx, &Operation{Pattern: s.pattern, Kind: Cached, Container: container, PartitionKey: `["` + partition + `"]`})
	}
}

// meterCalls is a policy, per call: it makes what meterTries adds to, and hands it to
// the recorder of the context.
type meterCalls struct{}

func (meterCalls) Do(req *policy.Request) (*http.Response, error) {
	ctx := req.Raw().Context()
	s := scopeOf(ctx)
	o := operationOf(req.Raw(), s.pattern)
	req.SetOperationValue(o)
	began := time.Now()
	resp, err := req.Next()
	if s.record != nil {
		o.Took = time.Since(began)
		s.record(ctx, o)
	}
	return resp, err
}

// operationOf tells what a request is about.
func operationOf(r *http.Request, p Pattern) *Operation {
	o := &Operation{Pattern: p}
	_, rest, _ := strings.Cut(r.URL.Path, "/colls/")
	var items string
	o.Container, items, _ = strings.Cut(rest, "/")
	if o.Container == leasesContainer {
		o.Pattern = Leases
	}
	h := r.Header
	if key := h["X-Ms-Documentdb-Partitionkey"]; len(key) > 0 {
		o.PartitionKey = key[0]
	}
	switch {
	case !strings.HasPrefix(items, "docs"):
		o.Kind, o.Pattern = ReadMetadata, Metadata
	case r.Method == http.MethodPut:
		o.Kind = Replace
	case r.Method == http.MethodPatch:
		o.Kind = Patch
	case r.Method == http.MethodDelete:
		o.Kind = Delete
	case r.Method == http.MethodGet && len(h["A-Im"]) > 0:
		o.Kind, o.Pattern = ReadChangeFeed, ChangeFeed
	case r.Method == http.MethodGet:
		o.Kind = PointRead
	case len(h["X-Ms-Cosmos-Is-Batch-Request"]) > 0:
		o.Kind = Batch
	case len(h["X-Ms-Documentdb-Query"]) == 0:
		o.Kind = Create
	case len(h["X-Ms-Documentdb-Partitionkeyrangeid"]) > 0: // azcosmos names a range for nothing else
		o.Kind = ReadMany
	default:
		o.Kind = Query
	}
	return o
}

// meterTries is a policy, per try.
type meterTries struct{ *Meter }

func (m meterTries) Do(req *policy.Request) (*http.Response, error) {
	var o *Operation
	req.OperationValue(&o) // of meterCalls
	began := time.Now()
	resp, err := req.Next()
	p := &m.patterns[o.Pattern]
	p.requests.Inc()
	p.seconds.Observe(time.Since(began).Seconds())
	o.Tries++
	if err != nil {
		if req.Raw().Context().Err() != context.Canceled { // whoever asked has gone; with a deadline they waited
			p.errors.Inc()
		}
		return resp, err
	}
	switch s := resp.StatusCode; {
	case s == http.StatusTooManyRequests:
		p.throttles.Inc()
	case s >= 500 || codeOfStatus(s) == Unavailable:
		p.errors.Inc()
	}
	if ru, err := strconv.ParseFloat(resp.Header.Get("X-Ms-Request-Charge"), 64); err == nil && ru > 0 {
		o.RU += ru
		p.ru.Add(ru)
		o.Range = resp.Header.Get("X-Ms-Documentdb-Partitionkeyrangeid")
		m.ranges.WithLabelValues(o.Container, o.Range).Add(ru)
	}
	return resp, nil
}
