package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"byline/graph/auth"
	"byline/internal/account"
	"byline/internal/enginetest"
	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
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
	if (r.code == http.StatusOK) != (r.Status == "ready") ||
		(r.code == http.StatusServiceUnavailable) != (r.Status == "unready") {
		t.Errorf("%d %s", r.code, r.Status)
	}
	return r
}

// interceptor counts requests, and forwards them to an engine unless it is down or respond returns a status.
type interceptor struct {
	policy.Transporter
	n       atomic.Int64
	down    atomic.Bool                                                        // no connection is accepted
	respond atomic.Pointer[func(*http.Request) (status int, substatus string)] // status 0: forward to the engine
}

func (i *interceptor) Do(r *http.Request) (*http.Response, error) {
	i.n.Add(1)
	if i.down.Load() {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	if respond := i.respond.Load(); respond != nil {
		if status, substatus := (*respond)(r); status != 0 {
			return &http.Response{StatusCode: status, Request: r, Body: http.NoBody,
				Header: http.Header{"X-Ms-Substatus": {substatus}, "X-Ms-Retry-After-Ms": {"1000"}}}, nil
		}
	}
	return i.Transporter.Do(r)
}

// probed is a blog whose readiness is probed.
type probed struct {
	*store.Store
	faults *faulttest.Injector
	wire   *interceptor
	log    *slog.Logger
}

func newProbed(t *testing.T) probed { return newProbedLogging(t, testkit.Logger()) }

func newProbedLogging(t *testing.T, log *slog.Logger) probed {
	engine, err := emulator.Open("", emulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	faults := &faulttest.Injector{To: engine}
	wire := &interceptor{Transporter: faults}
	account := enginetest.Account(t, engine,
		cosmos.Options{Transport: wire, Retry: policy.RetryOptions{MaxRetries: -1}, Logger: log})
	t.Cleanup(account.Close) // ends the request for the account's properties that azcosmos sends every five minutes
	blog, err := store.New(account, store.Options{Logger: account.Logger(), PollInterval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return probed{blog, faults, wire, account.Logger()}
}

func (p probed) health() *health {
	return newHealth(p.Store, true, prometheus.NewRegistry(), testkit.Logger())
}

// run runs the projections until the test ends.
func (p probed) run(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := testkit.Receive(t, done); err != nil {
			t.Error(err)
		}
	})
}

func TestReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbed(t)
		expectFailing := func(want map[string]string) {
			t.Helper()
			if got := probeReady(t, p.health()).failing(); !cmp.Equal(got, want) {
				t.Error(cmp.Diff(want, got))
			}
		}
		expectFailing(map[string]string{"cosmos": "the containers do not exist"})
		if err := p.Provision(t.Context()); err != nil {
			t.Fatal(err)
		}
		expectFailing(map[string]string{})

		h := p.health()
		demo := &demoBlog{blog: p.Store, log: testkit.Logger()}
		h.add(demo.check)
		if got, want := probeReady(t, h).failing(),
			map[string]string{"demo": "loading the demo blog"}; !cmp.Equal(got, want) {
			t.Error(cmp.Diff(want, got))
		}
		demo.load(t.Context(), func() {})
		if c := demo.check(); !c.OK {
			t.Errorf("after the load: %+v", c)
		}
		overloaded := true
		h.add(func() check { return checkOverload(overloaded) })
		if got, want := probeReady(t, h).failing(),
			map[string]string{"overload": "operations are being refused for lack of capacity"}; !cmp.Equal(got, want) {
			t.Error(cmp.Diff(want, got))
		}
		overloaded = false
		if r := probeReady(t, h); r.code != http.StatusOK || len(r.Checks) != 3 {
			t.Errorf("%+v", r)
		}

		// Probes share cached results.
		before := p.wire.n.Load()
		for range 1000 {
			probeReady(t, h)
			testkit.Advance(time.Millisecond)
		}
		if sent := p.wire.n.Load() - before; sent > 2 {
			t.Errorf("1000 probes in a second made %d requests", sent)
		}

		p.faults.Inject(func(faulttest.Operation) faulttest.Response {
			return faulttest.Response{Status: http.StatusTooManyRequests}
		})
		expectFailing(map[string]string{})
		p.faults.Inject(func(faulttest.Operation) faulttest.Response {
			return faulttest.Response{Status: http.StatusServiceUnavailable}
		})
		expectFailing(
			map[string]string{"cosmos": "Cosmos DB responds 503 Service Unavailable: injected"})
		h.stop()
		if got := probeReady(t, h).failing(); got["process"] != "stopping" {
			t.Error(got)
		}
	})
}

// TestReadiness_ThrottledWithRetries: a throttled probe does not wait for retries, since the response proves that
// Cosmos DB is reachable.
func TestReadiness_ThrottledWithRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbed(t)
		if err := p.Provision(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		p.faults.Inject(func(faulttest.Operation) faulttest.Response {
			return faulttest.Response{Status: http.StatusTooManyRequests, RetryAfter: time.Second}
		})
		h := p.health()
		if r := probeReady(t, h); r.code != http.StatusOK || r.Checks[0].Detail != "Cosmos DB throttles requests" {
			t.Errorf("%+v", r)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("waited %s", took)
		}
	})
}

// A credential without any source of tokens has an error of a type that azidentity does not export.
func TestReadiness_NoSourceOfTokens(t *testing.T) {
	t.Setenv("COSMOS_KEY", "")
	t.Setenv("AZURE_TOKEN_CREDENTIALS", "WorkloadIdentityCredential")
	flags := account.Flags{CosmosEndpoint: "https://localhost:1", CosmosDatabase: "blog"}
	a, err := flags.Open(t.Context(), testkit.Logger(), account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	s, err := flags.Store(a, testkit.Logger(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := checkCosmos(s.Ready(t.Context()), false); c.OK || c.Detail != "the identity gets no token for Cosmos DB" {
		t.Errorf("%+v", c)
	}
}

// TestReadiness_Causes: the detail names why Cosmos DB cannot serve, without what Azure's messages tell about the
// account.
func TestReadiness_Causes(t *testing.T) {
	respond := func(status int) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			body := io.NopCloser(strings.NewReader(`{"code":"Secret","message":"principal secret of account secret"}`))
			return &http.Response{StatusCode: status, Request: r, Body: body, Header: http.Header{}}, nil
		}
	}
	fail := func(err error) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) { return nil, err }
	}
	for name, tt := range map[string]struct {
		do       func(*http.Request) (*http.Response, error)
		embedded bool
		want     string
	}{
		"wrong key": {respond(401), false, "Cosmos DB refuses the key or the token (401)"},
		"no role": {respond(403), false,
			"Cosmos DB denies access (403): the identity lacks its role, or the firewall refuses this network"},
		"unavailable": {respond(503), false, "Cosmos DB responds 503 Service Unavailable"},
		"full disk": {respond(503), true,
			"Cosmos DB responds 503 Service Unavailable: principal secret of account secret"},
		"a bug": {respond(400), false, "Cosmos DB responds 400 Bad Request"},
		"connection refused": {fail(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), false,
			"Cosmos DB does not respond"},
		"no response in time": {func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, false, "Cosmos DB does not respond"},
		"no token": {fail(&account.NoTokenError{Err: errors.New("secret")}), false,
			"the identity gets no token for Cosmos DB"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProbed(t)
				if err := p.Provision(t.Context()); err != nil {
					t.Fatal(err)
				}
				p.wire.Transporter = transporterFunc(tt.do)
				ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
				defer cancel()
				if c := checkCosmos(p.Ready(ctx), tt.embedded); c.OK || c.Detail != tt.want {
					t.Errorf("got %+v, want %s", c, tt.want)
				}
			})
		})
	}
}

// transporterFunc is a function as a policy.Transporter.
type transporterFunc func(*http.Request) (*http.Response, error)

func (f transporterFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

// TestReadiness_ChangesAreLogged: a check is logged when it begins to fail, with the cause, and when it passes again.
func TestReadiness_ChangesAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProbed(t)
		if err := p.Provision(t.Context()); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		h := newHealth(p.Store, true, prometheus.NewRegistry(),
			slog.New(slog.NewTextHandler(io.MultiWriter(&log, testkit.LogWriter), nil)))
		demo := check{Name: "demo", Detail: "loading the demo blog"}
		h.add(func() check { return demo })
		probe := func(want ...string) {
			t.Helper()
			for range 3 {
				probeReady(t, h)
				testkit.Advance(checkTTL)
			}
			lines := slices.Collect(strings.Lines(log.String()))
			log.Reset()
			if len(lines) != len(want) {
				t.Fatalf("logged %q, want %q", lines, want)
			}
			for i, line := range lines {
				if !strings.Contains(line, want[i]) {
					t.Errorf("logged %q, want %q", line, want[i])
				}
			}
		}
		probe(`level=INFO msg="readiness check fails" check=demo detail="loading the demo blog"`)
		demo.OK = true
		probe(`level=INFO msg="readiness check passes" check=demo`)
		fault := func(*http.Request) (int, string) { return http.StatusUnauthorized, "" }
		p.wire.respond.Store(&fault)
		probe(`level=WARN msg="readiness check fails" check=cosmos detail="Cosmos DB refuses the key or the token (401)" error="check readiness: UNAVAILABLE: `)
		p.wire.respond.Store(nil)
		probe(`level=INFO msg="readiness check passes" check=cosmos`)
		h.passed = map[string]bool{"demo": true} // as if this were the first probe
		p.wire.respond.Store(&fault)
		probe(`level=WARN msg="readiness check fails" check=cosmos`)
		h.stop()
		probe()
	})
}

// TestReadiness_OutageIsOneWarning: while Cosmos DB does not respond, neither probes nor the loops that retry repeat it
// in the log.
func TestReadiness_OutageIsOneWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := newProbedLogging(t,
			slog.New(slog.NewTextHandler(io.MultiWriter(&log, testkit.LogWriter), nil)))
		if err := p.Provision(t.Context()); err != nil {
			t.Fatal(err)
		}
		p.run(t)
		h := newHealth(p.Store, true, prometheus.NewRegistry(), p.log)
		probe := func(d time.Duration) {
			for range d / checkTTL {
				probeReady(t, h)
				testkit.Advance(checkTTL)
			}
		}
		probe(time.Minute)
		log.Reset()
		p.wire.down.Store(true)
		probe(10 * time.Minute)
		if out := log.String(); strings.Count(out, "error=") != 1 || strings.Count(out, "level=WARN") != 1 || !regexp.MustCompile(
			`level=WARN msg="Cosmos DB does not respond" since=2000-01-01T00:01:\S+ error=".*connection refused`).MatchString(out) {
			t.Errorf("in the outage: %s", out)
		}
		log.Reset()
		p.wire.down.Store(false)
		probe(2 * time.Minute)
		if out := log.String(); strings.Contains(out, "level=WARN") || !regexp.MustCompile(
			`level=INFO msg="Cosmos DB responds again" after=\d+m\S+ failed-requests=\d{3,} suppressed=\d{3,}\n`).MatchString(out) {
			t.Errorf("after the outage: %s", out)
		}
	})
}

// TestReadiness_SharedFaults: faults of the account, which affect all instances, or of one author's data leave the
// instance ready.
func TestReadiness_SharedFaults(t *testing.T) {
	const stalled = 6 * time.Minute
	partition := func(r *http.Request) string { return r.Header.Get("X-Ms-Documentdb-Partitionkey") }
	for name, respond := range map[string]func(r *http.Request, author string) (int, string){
		"leases throttled": func(r *http.Request, _ string) (int, string) {
			if strings.Contains(r.URL.Path, "/colls/leases/") {
				return http.StatusTooManyRequests, "3200"
			}
			return 0, ""
		},
		"an author's partition throttled": func(r *http.Request, author string) (int, string) {
			if strings.Contains(partition(r), author) {
				return http.StatusTooManyRequests, "3200"
			}
			return 0, ""
		},
		"an author's partition full": func(r *http.Request, author string) (int, string) {
			if r.Method != http.MethodGet && strings.Contains(partition(r), author) {
				return http.StatusForbidden, "1014"
			}
			return 0, ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProbed(t)
				if err := p.Provision(t.Context()); err != nil {
					t.Fatal(err)
				}
				author, err := p.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "ada"), Username: "ada"})
				if err != nil {
					t.Fatal(err)
				}
				h := p.health()
				fault := func(r *http.Request) (int, string) { return respond(r, author.UserID) }
				p.wire.respond.Store(&fault)
				// its summary may be refused
				_, _ = p.CreatePost(t.Context(), store.NewPost{AuthorID: author.UserID, Title: "t", Content: "c"})
				p.run(t)
				before := p.wire.n.Load()
				testkit.Advance(stalled)
				if p.wire.n.Load() == before {
					t.Fatal("the projections do not run")
				}
				if r := probeReady(t, h); r.code != http.StatusOK {
					t.Errorf("%d %v", r.code, r.failing())
				}
			})
		})
	}
}

func TestCheckClock(t *testing.T) {
	for offset, ok := range map[time.Duration]bool{0: true, 29 * time.Second: true, -31 * time.Second: false,
		10 * time.Minute: false} {
		if c := checkClock(offset); c.OK != ok || ok != (c.Detail == "") {
			t.Errorf("offset %v: got %+v, want OK %t", offset, c, ok)
		}
	}
}

func TestCheckProvider(t *testing.T) {
	refused := &auth.KeysError{URL: "https://id.example/keys", Cause: "connection refused",
		Err: errors.New("dial tcp 10.0.0.1:443")}
	for name, tt := range map[string]struct {
		known bool
		err   error
		want  check
	}{
		"keys fetched": {true, nil, check{Name: "identity", OK: true}},
		"cannot be fetched": {false, refused,
			check{Name: "identity", Detail: "the identity provider's keys: connection refused"}},
		"fetched before, not now -> ok": {true, refused,
			check{Name: "identity", OK: true,
				Detail: "the identity provider's keys: connection refused; tokens signed with known keys are still " +
					"accepted"}},
	} {
		if got := checkProvider(tt.known, tt.err); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}
