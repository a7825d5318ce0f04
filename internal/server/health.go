package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"byline/store"
	"byline/store/blog"
	"byline/store/projection"
)

const (
	readyTimeout   = 2 * time.Second  // of a probe, all checks together
	checkTTL       = time.Second      // how long a result is cached
	projectionsTTL = 10 * time.Second // of the projections while they are OK: their status costs more to read
	leaseAlive     = time.Minute      // after its last renewal; four times the longest expiry of a lease
	maxLag         = 5 * time.Minute  // of the projections
)

// health is the handler of /readyz. It checks when it is probed and caches the results: any number
// of probes cost about 1 RU a second, and a few more every ten seconds.
type health struct {
	checkers []*checker
	metric   *prometheus.GaugeVec // by check

	mu       sync.Mutex
	stopping bool // guarded by mu
}

// check is the result of one check. The detail is public and names no hosts.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// checker runs a group of checks and caches their results.
type checker struct {
	ttl time.Duration // of results that are all OK; checkTTL of others
	run func(context.Context) []check

	mu      sync.Mutex
	expires time.Time // guarded by mu
	cached  []check   // guarded by mu
}

func (c *checker) results(ctx context.Context) []check {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Now().Before(c.expires) {
		return c.cached
	}
	c.cached = c.run(ctx)
	ttl := c.ttl
	for _, one := range c.cached {
		if !one.OK {
			ttl = checkTTL
		}
	}
	c.expires = time.Now().Add(ttl)
	return c.cached
}

// newHealth returns the health of an instance that serves a blog. The results of the last probe
// are in the metric byline_ready.
func newHealth(blog *store.Store, r prometheus.Registerer) *health {
	metric := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "byline_ready",
		Help: "1 if a check of /readyz was OK in the last probe, 0 if not."}, []string{"check"})
	r.MustRegister(metric)
	return &health{metric: metric, checkers: []*checker{
		{ttl: checkTTL, run: func(ctx context.Context) []check { return []check{checkCosmos(blog.Ready(ctx))} }},
		{ttl: projectionsTTL, run: func(ctx context.Context) []check {
			status, err := blog.Views().Status(ctx)
			if err != nil {
				// Reading the status waits while throttled.
				ok := checkCosmos(err).OK || errors.Is(err, context.DeadlineExceeded)
				return []check{{"leases", ok, "unknown"}, {"lag", ok, "unknown"}}
			}
			status = slices.DeleteFunc(status, func(s projection.Status) bool { return s.Processor == "usernames" }) // the sweep of usernames delays no reader
			return []check{checkLeases(status, time.Now()), checkLag(status, time.Now())}
		}},
	}}
}

// checkCosmos derives the state of Cosmos DB from the error of a request. Throttling is OK: routing
// requests to other instances would not help.
func checkCosmos(err error) check {
	c := check{Name: "cosmos", OK: true}
	var e *blog.Error
	switch code := blog.CodeOf(err); {
	case code == "":
	case code == blog.Throttled:
		c.Detail = "Cosmos DB throttles requests"
	case errors.As(err, &e) && e.Message != "":
		c.OK, c.Detail = false, e.Message
	default:
		c.OK, c.Detail = false, "Cosmos DB does not answer"
	}
	return c
}

// checkLeases is OK if every feed range has an owner that renews its lease.
func checkLeases(status []projection.Status, now time.Time) check {
	held := 0
	for _, r := range status {
		if r.Owner != "" && now.Sub(r.Renewed) < leaseAlive {
			held++
		}
	}
	if len(status) == 0 {
		return check{Name: "leases", Detail: "no instance has applied changes to the projections yet"}
	}
	return check{Name: "leases", OK: held == len(status), Detail: fmt.Sprintf("%d of %d feed ranges have an instance that applies their changes to the projections", held, len(status))}
}

// checkLag is OK if no projection lags by more than maxLag. The replay of a rebuild does not count: it
// delays no new change.
func checkLag(status []projection.Status, now time.Time) check {
	worst, rebuilding := time.Duration(0), false
	for _, r := range status {
		rebuilding = rebuilding || r.Replay > 0
		if r.Replay == 0 && !r.Since.IsZero() {
			worst = max(worst, now.Sub(r.Since))
		}
	}
	c := check{Name: "lag", OK: worst <= maxLag, Detail: fmt.Sprintf("projections are %d seconds behind", int(worst.Seconds()))}
	if rebuilding {
		c.Detail += "; a rebuild is in progress"
	}
	return c
}

// add adds a check that makes no request.
func (h *health) add(run func() check) {
	h.checkers = append(h.checkers, &checker{run: func(context.Context) []check { return []check{run()} }})
}

// stop makes every later probe unready.
func (h *health) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = true
}

// ServeHTTP responds 200 if every check is OK and 503 if not, with the checks as JSON.
func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Other probes use the cached results, so the checks outlive this request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), readyTimeout)
	defer cancel()
	response := struct {
		Status string  `json:"status"`
		Checks []check `json:"checks"`
	}{Status: "ready"}
	h.mu.Lock()
	stopping := h.stopping
	h.mu.Unlock()
	if stopping {
		response.Checks = []check{{Name: "process", Detail: "stopping"}}
	} else {
		for _, c := range h.checkers {
			response.Checks = append(response.Checks, c.results(ctx)...)
		}
	}
	status := http.StatusOK
	for _, c := range response.Checks {
		ok := 1.0
		if !c.OK {
			response.Status, status, ok = "unready", http.StatusServiceUnavailable, 0
		}
		h.metric.WithLabelValues(c.Name).Set(ok)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(response) // fails only if the client has disconnected
}
