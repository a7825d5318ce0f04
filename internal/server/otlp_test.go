package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// TestExporter_Retries: an upload is sent again while the receiver is unavailable, with the headers of the environment.
func TestExporter_Retries(t *testing.T) {
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/otlp/v1/traces" || r.Header.Get("api-key") != "a b" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		if requests.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL+"/otlp/")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b,other=x")
	e, err := newExporter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := e.ExportSpans(t.Context(), tracetest.SpanStubs{{Name: "query"}}.Snapshots()); err != nil ||
		requests.Load() != 2 {
		t.Errorf("%d requests: %v", requests.Load(), err)
	}
}

// TestExporter_HidesSecrets: the error of an upload does not quote what may be a key.
func TestExporter_HidesSecrets(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := strings.TrimPrefix(server.URL, "http://")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:secret@"+address+"/otlp?key=secret")
	upload := func(timeout time.Duration) {
		t.Helper()
		e, err := newExporter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		if err := e.ExportSpans(ctx, tracetest.SpanStubs{{Name: "query"}}.Snapshots()); err == nil ||
			strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
	upload(time.Minute)
	server.Close()
	upload(50 * time.Millisecond)
}

func TestNewExporter(t *testing.T) {
	const all, traces = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
	for name, tt := range map[string]struct {
		environment map[string]string
		exports     bool
		wantErr     string // "" for none
	}{
		"no endpoint":            {nil, false, ""},
		"endpoint":               {map[string]string{all + "ENDPOINT": "http://localhost:4318"}, true, ""},
		"endpoint of the traces": {map[string]string{traces + "ENDPOINT": "https://localhost:4318/path"}, true, ""},
		"address without scheme": {map[string]string{all + "ENDPOINT": "user:secret@localhost:4318"}, false,
			"not an http or https address"},
		"gRPC": {map[string]string{all + "ENDPOINT": "http://localhost:1", traces + "PROTOCOL": "grpc"}, false,
			"only http/protobuf"},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range tt.environment {
				t.Setenv(name, value)
			}
			e, err := newExporter(t.Context())
			if tt.wantErr == "" && err != nil ||
				tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("got %v, want %q", err, tt.wantErr)
			}
			if (e != nil) != tt.exports {
				t.Errorf("got %v", e)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%v quotes a secret", err)
			}
		})
	}
}
