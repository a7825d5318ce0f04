package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/prometheus/client_golang/prometheus"

	"byline/internal/account"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
)

// Names of log attributes.
const (
	logCheck  = "check"
	logDetail = "detail"
)

// Names of checks that fail until an instance has started.
const (
	checkDemo     = "demo"
	checkIdentity = "identity"
)

const (
	readyTimeout = 2 * time.Second // of a probe, all checks together
	checkTTL     = time.Second     // how long the result about Cosmos DB is cached
)

// health is the handler of /readyz. Its checks are whether this instance can serve. Other problems of all instances,
// such as the lag of the projections, are for alerts, since taking instances out of service would not help. Checks
// run when /readyz is probed; those that make requests are cached, so that any number of probes costs about 1 RU a
// second.
type health struct {
	checks []func(context.Context) check
	metric *prometheus.GaugeVec // by check
	log    *slog.Logger

	mu       sync.Mutex
	stopping bool            // guarded by mu
	passed   map[string]bool // guarded by mu; the last result of each check
}

// check is the result of one check. The detail is public and names no hosts other than issuers of tokens.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`

	err error // the cause, for the log; may be nil
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

// newHealth returns the health of an instance that serves a blog, from the embedded engine or not. The
// results of the last probe are in the metric byline_ready.
func newHealth(blog *store.Store, embedded bool, r prometheus.Registerer, log *slog.Logger) *health {
	metric := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "byline_ready",
		Help: "1 if a check of /readyz was OK in the last probe, 0 if not."}, []string{"check"})
	r.MustRegister(metric)
	return &health{metric: metric, log: log, passed: map[string]bool{}, checks: []func(context.Context) check{
		cached(func(ctx context.Context) check { return checkCosmos(blog.Ready(ctx), embedded) }),
	}}
}

// checkCosmos derives the state of Cosmos DB from the error of a request. Throttling is OK: routing
// requests to other instances would not help.
func checkCosmos(err error, embedded bool) check {
	c := check{Name: "cosmos", OK: true, err: err}
	var e *blog.Error
	switch code := blog.CodeOf(err); {
	case code == "":
	case code == blog.Throttled:
		c.Detail = "Cosmos DB throttles requests"
	case errors.As(err, &e) && e.Message != "":
		c.OK, c.Detail = false, e.Message
	default:
		c.OK, c.Detail = false, cosmosCause(err, embedded)
	}
	return c
}

// cosmosCause returns why a request to Cosmos DB failed. Messages of Azure name accounts, principals and
// addresses, which are not public; those of the embedded engine do not.
func cosmosCause(err error, embedded bool) string {
	e := cosmos.ErrorOf(err)
	switch {
	case errors.As(err, new(*account.NoTokenError)):
		return "the identity gets no token for Cosmos DB"
	case e.Status == 0:
		return "Cosmos DB does not respond"
	case e.Status == http.StatusUnauthorized:
		return "Cosmos DB refuses the key or the token (401)"
	case e.Status == http.StatusForbidden:
		return "Cosmos DB denies access (403): the identity lacks its role, or the firewall refuses this network"
	}
	detail := strings.TrimSpace(fmt.Sprintf("Cosmos DB responds %d %s", e.Status, http.StatusText(e.Status)))
	if message := messageOf(err); embedded && message != "" {
		detail += ": " + message
	}
	return detail
}

// messageOf returns the message in an error response of Cosmos DB, "" without one.
func messageOf(err error) string {
	var r *azcore.ResponseError
	if !errors.As(err, &r) || r.RawResponse == nil {
		return ""
	}
	body, err := runtime.Payload(r.RawResponse) // azcore has read it, and keeps it
	var response struct {
		Message string `json:"message"`
	}
	if err != nil || json.Unmarshal(body, &response) != nil {
		return ""
	}
	return response.Message
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
	if !stopping {
		h.logChanges(response.Checks)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(response) // fails only if the client has disconnected
}

// logChanges logs the checks that failed in the last probe and pass now, or the other way round. Until they have
// passed, those of an instance that starts are no warning.
func (h *health) logChanges(checks []check) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range checks {
		passed, known := h.passed[c.Name]
		h.passed[c.Name] = c.OK
		switch {
		case known && passed == c.OK, !known && c.OK:
		case c.OK:
			h.log.Info("readiness check passes", logCheck, c.Name)
		default:
			level, attrs := slog.LevelWarn, []any{logCheck, c.Name, logDetail, c.Detail}
			if !known && (c.Name == checkDemo || c.Name == checkIdentity) {
				level = slog.LevelInfo
			}
			if c.err != nil {
				attrs = append(attrs, logError, c.err)
			}
			h.log.Log(context.Background(), level, "readiness check fails", attrs...)
		}
	}
}
