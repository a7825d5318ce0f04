package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"byline/graph"
	"byline/graph/auth"
	"byline/graph/cost"
	"byline/internal/account"
	"byline/internal/load"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/seed"
)

// blogServer is a server with a blog of 2 users, and with metrics.
func blogServer(t *testing.T) *httptest.Server {
	t.Helper()
	flags, log := account.Flags{Data: t.TempDir(), CosmosDatabase: "blog"}, testkit.Logger()
	db, err := flags.Open(t.Context(), log, account.Options{Cache: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	blog, err := flags.Store(db, log, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	content := seed.Article(1, 2, auth.DemoUserID)
	if err := errors.Join(blog.Provision(t.Context()), blog.Views().FillFeed(t.Context()),
		seed.Load(t.Context(), content, blog, nil)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	projecting := make(chan error, 1)
	go func() { projecting <- blog.Run(ctx) }()
	t.Cleanup(func() { stop(); <-projecting })
	handler, err := graph.NewHandler(graph.Options{Store: blog, Verifier: auth.DemoVerifier(), Streams: ctx,
		Logger: log, Metrics: db.Metrics,
		RUPerRequest: cost.Budget{RU: 400}, ResponseCacheBytes: 8 << 20, Development: true})
	if err != nil {
		t.Fatal(err)
	}
	db.Metrics.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	mux.Handle("/metrics", promhttp.HandlerFor(db.Metrics, promhttp.HandlerOpts{}))
	server := httptest.NewServer(mux)
	t.Cleanup(func() { server.Close(); handler.Wait() })
	return server
}

// TestBenchLoad sends requests to a server that has what `byline seed` loads.
func TestBenchLoad(t *testing.T) {
	t.Parallel()
	var out, log output
	server := blogServer(t)
	args := []string{"load", "--url", server.URL, "--users", "2", "--duration", "300ms", "--connections", "4",
		"--writes", "20"}
	// on a slow machine the first half second may end before a repeated read
	for deadline := time.Now().Add(time.Minute); ; {
		out, log = output{}, output{}
		if status := run(t.Context(), append(args, "--json"), &out, &log); status != 0 {
			t.Fatalf("status %d: %s", status, &log)
		}
		var r load.Report
		if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
		if r.Errors > 0 || r.Requests == 0 || r.All.Requests != r.Requests || r.All.P50 <= 0 || r.All.P50 > r.All.Max {
			t.Errorf("%s", &out)
		}
		s := r.Server
		if s == nil || s.CPUMicros <= 0 || s.RUPerThousand <= 0 || s.HitRatio < 0 || s.HitRatio > 1 ||
			s.ResponseHitRatio < 0 || s.ResponseHitRatio > 1 {
			t.Fatalf("%+v", s)
		}
		if s.HitRatio > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", s)
		}
	}
	text := output{}
	if status := run(t.Context(), args, &text, &log); status != 0 ||
		!strings.Contains(text.String(), "RU per 1,000 requests") {
		t.Errorf("status %d: %s", status, &text)
	}
	for name, args := range map[string][]string{
		"no server":          {"--url", "http://localhost:1"},
		"no metrics there":   {"--url", server.URL, "--metrics-url", server.URL + "/nothing"},
		"not a URL":          {"--url", "localhost"},
		"no users":           {"--users", "0"},
		"no connections":     {"--url", server.URL, "--connections", "0"},
		"no skew":            {"--url", server.URL, "--skew", "1"},
		"no time":            {"--url", server.URL, "--duration", "0s"},
		"over 100 percent":   {"--writes", "101"},
		"of another seed":    {"--url", server.URL, "--seed", "2", "--writes", "100", "--duration", "300ms"},
		"a negative share":   {"--writes", "-1"},
		"not a number":       {"--skew", "NaN", "--url", server.URL},
		"infinite skew":      {"--skew", "Inf", "--url", server.URL},
		"share not a number": {"--writes", "NaN", "--url", server.URL, "--duration", "300ms"},
		"too many users":     {"--users", "1000000000", "--url", server.URL},
		"a bad duration":     {"--duration", "soon"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, log output
			if status := run(t.Context(), append([]string{"load"}, args...), &out, &log); status == 0 {
				t.Errorf("status 0, want an error: %s", &out)
			}
		})
	}
}
