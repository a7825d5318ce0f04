package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"byline/bench/load"
)

// TestBenchLoad asks a server that was filled by `byline seed`.
func TestBenchLoad(t *testing.T) {
	data := t.TempDir()
	var out, log output
	if status := run(t.Context(), []string{"seed", "--users", "2", "--data", data}, &out, &log, nil); status != 0 {
		t.Fatalf("status %d: %s", status, &log)
	}
	i := start(t, "--data", data)
	args := []string{"bench", "load", "--url", i.root, "--users", "2", "--duration", "500ms", "--connections", "4", "--writes", "20"}
	eventually(t, func() error { // on a slow machine the first half second may end before anything is read twice
		out, log = output{}, output{}
		if status := run(t.Context(), append(args, "--json"), &out, &log, nil); status != 0 {
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
		if s == nil || s.CPUMicros <= 0 || s.RUPerThousand <= 0 || s.HitRatio < 0 || s.HitRatio > 1 || s.Kept < 0 || s.Kept > 1 {
			t.Fatalf("%+v", s)
		}
		if s.HitRatio == 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	text := output{}
	if status := run(t.Context(), args, &text, &log, nil); status != 0 || !strings.Contains(text.String(), "RU per 1,000 requests") {
		t.Errorf("status %d: %s", status, &text)
	}
	t.Run("a server that stops answering", func(t *testing.T) {
		const stop = 800 * time.Millisecond
		began := time.Now()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if since := time.Since(began); since > stop/8 {
				time.Sleep(stop - since)
			}
			fmt.Fprint(w, `{"data":{}}`)
		}))
		defer server.Close()
		var out, log output
		var r load.Report
		status := run(t.Context(), []string{"bench", "load", "--url", server.URL, "--metrics-url", "none", "--duration", "300ms", "--json"}, &out, &log, nil)
		if err := json.Unmarshal([]byte(out.String()), &r); status != 0 || err != nil || r.All.Max < 500 {
			t.Errorf("status %d, %v: %s%s", status, err, &out, &log)
		}
	})
	t.Run("a server that ends", func(t *testing.T) {
		var scraped atomic.Bool
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" && scraped.Swap(true) {
				http.Error(w, "ended", http.StatusServiceUnavailable)
			} else if r.URL.Path == "/graphql" {
				fmt.Fprint(w, `{"data":{}}`)
			}
		}))
		defer server.Close()
		var out, log output
		status := run(t.Context(), []string{"bench", "load", "--url", server.URL, "--duration", "100ms"}, &out, &log, nil)
		if status != 1 || !strings.Contains(out.String(), "requests/s") || !strings.Contains(log.String(), "/metrics: 503") {
			t.Errorf("status %d: %s%s", status, &out, &log)
		}
	})
	for name, args := range map[string][]string{
		"no server":        {"--url", "http://localhost:1"},
		"no metrics there": {"--url", i.root, "--metrics-url", i.root + "/nothing"},
		"not a URL":        {"--url", "localhost"},
		"no users":         {"--users", "0"},
		"no connections":   {"--url", i.root, "--connections", "0"},
		"no skew":          {"--url", i.root, "--skew", "1"},
		"no time":          {"--url", i.root, "--duration", "0s"},
		"more than all":    {"--writes", "101"},
		"of another seed":  {"--url", i.root, "--seed", "2", "--writes", "100", "--duration", "300ms"},
		"a negative share": {"--writes", "-1"},
		"not a number":     {"--skew", "NaN", "--url", i.root},
		"no end of skew":   {"--skew", "Inf", "--url", i.root},
		"no share":         {"--writes", "NaN", "--url", i.root, "--duration", "300ms"},
		"too many users":   {"--users", "1000000000", "--url", i.root},
		"a bad duration":   {"--duration", "soon"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, log output
			if status := run(t.Context(), append([]string{"bench", "load"}, args...), &out, &log, nil); status == 0 {
				t.Errorf("%s", &out)
			}
		})
	}
}
