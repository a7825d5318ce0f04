package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// TestOTLPClient_Retries: an upload is retried while the receiver is unavailable, with the headers of the
// environment.
func TestOTLPClient_Retries(t *testing.T) {
	var mu sync.Mutex
	var names []string // guarded by mu; of the spans of each request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, err := io.ReadAll(r.Body)
		var export collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &export)
		}
		if err != nil || r.URL.Path != "/otlp/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" || r.Header.Get("api-key") != "a b" {
			t.Errorf("%v: %s %v", err, r.URL, r.Header)
		}
		if names = append(names, export.ResourceSpans[0].ScopeSpans[0].Spans[0].Name); len(names) == 1 {
			w.Header().Set("Retry-After-Ms", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL+"/otlp/")
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b,other=x")
	c, err := newOTLPClient()
	if err != nil {
		t.Fatal(err)
	}
	spans := []*otlp.ResourceSpans{{ScopeSpans: []*otlp.ScopeSpans{{Spans: []*otlp.Span{{Name: "query"}}}}}}
	if err := c.UploadTraces(t.Context(), spans); err != nil {
		t.Error(err)
	}
	if got := strings.Join(names, " "); got != "query query" {
		t.Errorf("the receiver got the spans %s, want query twice", got)
	}
}

// TestOTLPClient_Refused: an upload that the receiver refuses is not retried, and the error names only the host.
func TestOTLPClient_Refused(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusInternalServerError} {
		var requests atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.WriteHeader(status)
		}))
		defer server.Close()
		host := strings.TrimPrefix(server.URL, "http://")
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:secret@"+host+"/otlp?key=secret")
		c, err := newOTLPClient()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.UploadTraces(t.Context(), nil); err == nil || err.Error() != fmt.Sprintf("%s: %d %s", host, status, http.StatusText(status)) || requests.Load() != 1 {
			t.Errorf("%d requests: %v", requests.Load(), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.UploadTraces(ctx, nil); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "secret") {
			t.Errorf("a canceled upload: %v", err)
		}
	}
}

func TestOTLPClient_Environment(t *testing.T) {
	const all, traces = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
	for name, tt := range map[string]struct {
		environment map[string]string
		url         string // "" for no client
		wantErr     string // "" for none
	}{
		"no endpoint":            {nil, "", ""},
		"endpoint":               {map[string]string{all + "ENDPOINT": "http://localhost:4318"}, "http://localhost:4318/v1/traces", ""},
		"endpoint of the traces": {map[string]string{all + "ENDPOINT": "http://localhost:1", traces + "ENDPOINT": "https://localhost:4318/path"}, "https://localhost:4318/path", ""},
		"address without scheme": {map[string]string{all + "ENDPOINT": "user:secret@localhost:4318"}, "", "not an http or https address"},
		"gRPC":                   {map[string]string{all + "ENDPOINT": "http://localhost:1", traces + "PROTOCOL": "grpc"}, "", "only http/protobuf"},
		"certificate":            {map[string]string{all + "ENDPOINT": "https://localhost:1", all + "CERTIFICATE": "ca.pem"}, "", "SSL_CERT_FILE can name a file with ca.pem"},
		"client certificate":     {map[string]string{all + "ENDPOINT": "https://localhost:1", all + "CLIENT_CERTIFICATE": "c.pem"}, "", "_CLIENT_CERTIFICATE is not supported"},
		"timeout":                {map[string]string{all + "ENDPOINT": "http://localhost:1", all + "TIMEOUT": "10s"}, "", "milliseconds"},
		"header":                 {map[string]string{all + "ENDPOINT": "http://localhost:1", all + "HEADERS": "a=b,secret"}, "", "name=value"},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range tt.environment {
				t.Setenv(name, value)
			}
			c, err := newOTLPClient()
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("got %v, want %q", err, tt.wantErr)
			}
			got := ""
			if c != nil {
				got = c.url.String()
			}
			if got != tt.url {
				t.Errorf("got the URL %s, want %s", got, tt.url)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%v quotes a secret", err)
			}
		})
	}
}
