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
)

const (
	readyTimeout = 2 * time.Second  // to find out how things are
	checkedFor   = time.Second      // how long an answer holds
	copiesFor    = 10 * time.Second // the same, if all is well with the copies: that costs more to find out
	leaseAlive   = time.Minute      // after its last renewal; four times the longest expiry of a lease
	maxLag       = 5 * time.Minute  // of the copies
)

// health tells probes whether requests should be sent here, and if not, why. It finds
// out when it is asked, and not more often than answers hold: any number of probes
// cost about 1 RU a second, and a few more every ten seconds.
type health struct {
	inquiries []*inquiry
	metric    *prometheus.GaugeVec // by check

	mu       sync.Mutex
	stopping bool // guarded by mu
}

// check is the result of looking at one thing. Anybody may read the detail, which
// names no hosts.
type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// inquiry finds out about some things at once, and remembers it for a while.
type inquiry struct {
	holds time.Duration // if all is well; otherwise checkedFor
	look  func(context.Context) []check

	mu    sync.Mutex
	until time.Time // guarded by mu
	found []check   // guarded by mu
}

func (i *inquiry) result(ctx context.Context) []check {
	i.mu.Lock()
	defer i.mu.Unlock()
	if time.Now().Before(i.until) {
		return i.found
	}
	i.found = i.look(ctx)
	holds := i.holds
	for _, c := range i.found {
		if !c.OK {
			holds = checkedFor
		}
	}
	i.until = time.Now().Add(holds)
	return i.found
}

// newHealth returns the health of an instance that serves a blog. What the last probe
// was told is in the metric that docs/cost.md names.
func newHealth(blog *store.Store, r prometheus.Registerer) *health {
	metric := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "byline_ready",
		Help: "1 if a check of /readyz was well when it was probed last, and 0 if not."}, []string{"check"})
	r.MustRegister(metric)
	return &health{metric: metric, inquiries: []*inquiry{
		{holds: checkedFor, look: func(ctx context.Context) []check { return []check{checkCosmos(blog.Ready(ctx))} }},
		{holds: copiesFor, look: func(ctx context.Context) []check {
			status, err := blog.Projections(ctx)
			if err != nil {
				// What is known of the copies waits as long as it is throttled.
				ok := checkCosmos(err).OK || errors.Is(err, context.DeadlineExceeded)
				return []check{{"leases", ok, "not known"}, {"lag", ok, "not known"}}
			}
			status = slices.DeleteFunc(status, func(s store.ProjectionStatus) bool { return s.Processor == "usernames" }) // no reader waits for the sweep
			return []check{checkLeases(status, time.Now()), checkLag(status, time.Now())}
		}},
	}}
}

// checkCosmos is what a request's error tells of Cosmos DB. Who is throttled reaches
// it: to send the requests elsewhere would not help.
func checkCosmos(err error) check {
	c := check{Name: "cosmos", OK: true}
	var e *store.Error
	switch code := store.CodeOf(err); {
	case code == "":
	case code == store.Throttled:
		c.Detail = "Cosmos DB throttles"
	case errors.As(err, &e) && e.Message != "":
		c.OK, c.Detail = false, e.Message
	default:
		c.OK, c.Detail = false, "Cosmos DB does not answer"
	}
	return c
}

// checkLeases is well if somebody brings the changes of every feed range to the copies.
func checkLeases(status []store.ProjectionStatus, now time.Time) check {
	held := 0
	for _, r := range status {
		if r.Owner != "" && now.Sub(r.Renewed) < leaseAlive {
			held++
		}
	}
	if len(status) == 0 {
		return check{Name: "leases", Detail: "no instance has brought changes to the copies yet"}
	}
	return check{Name: "leases", OK: held == len(status), Detail: fmt.Sprintf("%d of %d feed ranges have an instance that brings their changes to the copies", held, len(status))}
}

// checkLag is well if no copy is far behind its source. What a rebuild brings again is
// old, and no copy waits for it.
func checkLag(status []store.ProjectionStatus, now time.Time) check {
	worst, rebuilding := time.Duration(0), false
	for _, r := range status {
		rebuilding = rebuilding || r.Replay > 0
		if r.Replay == 0 && !r.Since.IsZero() {
			worst = max(worst, now.Sub(r.Since))
		}
	}
	c := check{Name: "lag", OK: worst <= maxLag, Detail: fmt.Sprintf("copies are %d seconds behind", int(worst.Seconds()))}
	if rebuilding {
		c.Detail += "; a rebuild is under way"
	}
	return c
}

// stop makes the instance unready for good.
func (h *health) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = true
}

// ServeHTTP answers 200 if all is well and 503 if not, with every check as JSON.
func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// What is found out is for other probes, too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), readyTimeout)
	defer cancel()
	answer := struct {
		Status string  `json:"status"`
		Checks []check `json:"checks"`
	}{Status: "ready"}
	h.mu.Lock()
	stopping := h.stopping
	h.mu.Unlock()
	if stopping {
		answer.Checks = []check{{Name: "process", Detail: "stopping"}}
	} else {
		for _, i := range h.inquiries {
			answer.Checks = append(answer.Checks, i.result(ctx)...)
		}
	}
	status := http.StatusOK
	for _, c := range answer.Checks {
		well := 1.0
		if !c.OK {
			answer.Status, status, well = "unready", http.StatusServiceUnavailable, 0
		}
		h.metric.WithLabelValues(c.Name).Set(well)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // nobody is left to tell
}
