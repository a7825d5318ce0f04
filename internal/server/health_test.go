package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"byline/internal/enginetest"
	"byline/internal/secrettest"
	"byline/internal/waittest"
	"byline/store"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/projection"
)

// readiness is a response of /readyz.
type readiness struct {
	code   int
	Status string
	Checks []check
}

// failing returns the details of the checks that are not OK, by name.
func (r readiness) failing() map[string]string {
	out := map[string]string{}
	for _, c := range r.Checks {
		if !c.OK {
			out[c.Name] = c.Detail
		}
	}
	return out
}

func probeReady(t testing.TB, h http.Handler) readiness {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	r := readiness{code: w.Code}
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %v", w.Body, err)
	}
	if body := w.Body.String(); strings.Contains(body, "http") || strings.Contains(body, "localhost") {
		t.Errorf("names hosts: %s", body)
	}
	if (r.code == http.StatusOK) != (r.Status == "ready") || (r.code == http.StatusServiceUnavailable) != (r.Status == "unready") {
		t.Errorf("%d %s", r.code, r.Status)
	}
	return r
}

// counting forwards requests to an engine and counts them.
type counting struct {
	policy.Transporter
	n atomic.Int64
}

func (c *counting) Do(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.Transporter.Do(r)
}

func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := emulator.Open("", emulator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer engine.Close()
		wire := &counting{Transporter: engine}
		account := enginetest.Account(t, engine, cosmos.Options{Transport: wire, Retry: policy.RetryOptions{MaxRetries: -1}})
		blog, err := store.New(account, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		without := func(want map[string]string) {
			t.Helper()
			if got := probeReady(t, newHealth(blog, prometheus.NewRegistry())).failing(); !cmp.Equal(got, want) {
				t.Error(cmp.Diff(want, got))
			}
		}

		without(map[string]string{"cosmos": "the containers do not exist", "leases": "unknown", "lag": "unknown"})
		if err := blog.Provision(t.Context()); err != nil {
			t.Fatal(err)
		}
		without(map[string]string{"leases": "no instance has applied changes to the projections yet"})

		running, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- blog.Run(running) }()
		h := newHealth(blog, prometheus.NewRegistry())
		waittest.Until(t, func() error {
			r := probeReady(t, h)
			if r.code == http.StatusOK && slices.ContainsFunc(r.Checks, func(c check) bool { return strings.HasPrefix(c.Detail, "2 of 2 feed ranges") }) {
				return nil
			}
			return fmt.Errorf("not ready: %+v", r)
		})
		if r := probeReady(t, h); len(r.Checks) != 3 {
			t.Errorf("%+v", r.Checks)
		}
		demo := &demoBlog{blog: blog, log: secrettest.Logger()}
		h.add(demo.check)
		if got, want := probeReady(t, h).failing(), map[string]string{"demo": "loading the demo blog"}; !cmp.Equal(got, want) {
			t.Error(cmp.Diff(want, got))
		}
		demo.load(t.Context(), func() {})
		if c := demo.check(); !c.OK {
			t.Errorf("after the load: %+v", c)
		}
		h.checkers = h.checkers[:len(h.checkers)-1]
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}

		// Probes share cached results.
		before := wire.n.Load()
		for range 1000 {
			probeReady(t, h)
			waittest.Advance(time.Millisecond)
		}
		if sent := wire.n.Load() - before; sent > 100 {
			t.Errorf("1000 probes made %d requests", sent)
		}
		without(map[string]string{"leases": "0 of 2 feed ranges have an instance that applies their changes to the projections"})

		engine.Inject(func(emulator.Operation) emulator.Fault {
			return emulator.Fault{Status: http.StatusTooManyRequests}
		})
		without(map[string]string{})
		engine.Inject(func(emulator.Operation) emulator.Fault {
			return emulator.Fault{Status: http.StatusServiceUnavailable}
		})
		without(map[string]string{"cosmos": "Cosmos DB does not answer", "leases": "unknown", "lag": "unknown"})
		h.stop()
		if got := probeReady(t, h).failing(); got["process"] != "stopping" {
			t.Error(got)
		}
	})
}

func TestHealth_ProjectionsLagOrHaveNoOwner(t *testing.T) {
	now := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	one := func(owner string, renewed, since time.Time, replay int64) projection.Status {
		return projection.Status{Container: "posts", RangeStatus: changefeed.RangeStatus{
			Lease: changefeed.Lease{Owner: owner}, Renewed: renewed, Since: since, Replay: replay}}
	}
	well := one("a", ago(time.Second), time.Time{}, 0)
	for name, tt := range map[string]struct {
		status      []projection.Status
		leases, lag bool
	}{
		"all healthy -> ok":         {[]projection.Status{well, well}, true, true},
		"no owner -> leases":        {[]projection.Status{well, one("", ago(time.Second), time.Time{}, 0)}, false, true},
		"expired lease -> leases":   {[]projection.Status{well, one("b", ago(2*time.Minute), time.Time{}, 0)}, false, true},
		"clock behind -> ok":        {[]projection.Status{one("a", ago(-time.Minute), ago(-time.Minute), 0)}, true, true},
		"a minute behind -> ok":     {[]projection.Status{well, one("b", now, ago(time.Minute), 0)}, true, true},
		"ten minutes behind -> lag": {[]projection.Status{well, one("b", now, ago(10*time.Minute), 0)}, true, false},
		"rebuilding -> ok":          {[]projection.Status{well, one("b", now, ago(100*time.Hour), 7)}, true, true},
		"no leases -> leases":       {nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			leases, lag := checkLeases(tt.status, now), checkLag(tt.status, now)
			if leases.OK != tt.leases || lag.OK != tt.lag {
				t.Errorf("%+v %+v", leases, lag)
			}
		})
	}
}
