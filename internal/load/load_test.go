package load_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"byline/graph/auth"
	"byline/internal/load"
	"byline/store/seed"
)

func options(server *httptest.Server) load.Options {
	return load.Options{URL: server.URL + "/graphql", Blog: seed.Article(1, 2, auth.DemoUserID),
		Token: func(string) string { return "" }, Connections: 2, Duration: 200 * time.Millisecond, Skew: 1.1}
}

// TestRun_ServerStopsResponding: the latency of a request counts from when it was due.
func TestRun_ServerStopsResponding(t *testing.T) {
	const stop = 600 * time.Millisecond
	began, over := time.Now(), make(chan struct{})
	defer time.AfterFunc(stop, func() { close(over) }).Stop()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if time.Since(began) > stop/8 {
			<-over
		}
		fmt.Fprint(w, `{"data":{}}`)
	}))
	defer server.Close()
	r, err := load.Run(t.Context(), options(server))
	if err != nil || r.All.Max < 350 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestRun_ServerEnds: there is a report of the requests, and an error about the metrics.
func TestRun_ServerEnds(t *testing.T) {
	var scraped atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" && scraped.Swap(true) {
			http.Error(w, "ended", http.StatusServiceUnavailable)
		} else if r.URL.Path == "/graphql" {
			fmt.Fprint(w, `{"data":{}}`)
		}
	}))
	defer server.Close()
	o := options(server)
	o.Metrics = server.URL + "/metrics"
	r, err := load.Run(t.Context(), o)
	if r == nil || r.Requests == 0 || err == nil || !strings.Contains(err.Error(), "/metrics: 503") {
		t.Errorf("%+v, %v", r, err)
	}
}
