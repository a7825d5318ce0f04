package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"byline/store"
	"byline/store/blog"
)

const (
	readyTimeout = 2 * time.Second // of a probe, all checks together
	checkTTL     = time.Second     // how long the result about Cosmos DB is cached
)

// health is the handler of /readyz. Its checks are about this instance alone: problems of all instances, such as
// the lag of the projections, are for alerts, since taking instances out of service would not help. Checks run
// when /readyz is probed; those that make requests are cached, so that any number of probes costs about 1 RU a
// second.
type health struct {
	checks []func(context.Context) check
	metric *prometheus.GaugeVec // by check

	mu       sync.Mutex
	stopping bool // guarded by mu
}

// check is the result of one check. The detail is public and names no hosts other than issuers of tokens.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// cached returns a check whose result is cached for checkTTL.
func cached(run func(context.Context) check) func(context.Context) check {
	var (
		mu      sync.Mutex
		expires time.Time
		last    check
	)
	return func(ctx context.Context) check {
		mu.Lock()
		defer mu.Unlock()
		if !time.Now().Before(expires) {
			last = run(ctx)
			expires = time.Now().Add(checkTTL)
		}
		return last
	}
}

// newHealth returns the health of an instance that serves a blog. The results of the last probe
// are in the metric byline_ready.
func newHealth(blog *store.Store, r prometheus.Registerer) *health {
	metric := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "byline_ready",
		Help: "1 if a check of /readyz was OK in the last probe, 0 if not."}, []string{"check"})
	r.MustRegister(metric)
	return &health{metric: metric, checks: []func(context.Context) check{
		cached(func(ctx context.Context) check { return checkCosmos(blog.Ready(ctx)) }),
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
		c.OK, c.Detail = false, "Cosmos DB does not respond"
	}
	return c
}

// checkOverload is OK unless the instance has refused operations for some time: other instances may have the
// capacity for them.
func checkOverload(overloaded bool) check {
	c := check{Name: "overload", OK: !overloaded}
	if overloaded {
		c.Detail = "operations are being refused for lack of capacity"
	}
	return c
}

// maxClockOffset is the maximum offset of a ready instance's clock from the account's time.
const maxClockOffset = 30 * time.Second

// checkClock is OK unless the clock is so far from the account's time that decisions by the local clock alone,
// such as the expiry of tokens, are wrong.
func checkClock(offset time.Duration) check {
	c := check{Name: "clock", OK: offset.Abs() <= maxClockOffset}
	if !c.OK {
		c.Detail = fmt.Sprintf("the clock is %d seconds from Cosmos DB's time", int(offset.Abs().Seconds()))
	}
	return c
}

// add adds a check that makes no request.
func (h *health) add(run func() check) {
	h.checks = append(h.checks, func(context.Context) check { return run() })
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
		for _, run := range h.checks {
			response.Checks = append(response.Checks, run(ctx))
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
