package server

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// An upload is repeated while the receiver is not available, with the headers of the environment.
func TestOTLPClient_Repeats(t *testing.T) {
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
		t.Errorf("the receiver got %s", got)
	}
	refused := httptest.NewServer(http.NotFoundHandler())
	defer refused.Close()
	c.url = refused.URL
	if err := c.UploadTraces(t.Context(), spans); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("a refused upload: %v", err)
	}
}

func TestOTLPClient_Environment(t *testing.T) {
	const all, traces = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"
	for name, tt := range map[string]struct {
		environment map[string]string
		url         string // "" for no client
		says        string // of an error
	}{
		"no endpoint":            {nil, "", ""},
		"endpoint":               {map[string]string{all + "ENDPOINT": "http://localhost:4318"}, "http://localhost:4318/v1/traces", ""},
		"endpoint of the traces": {map[string]string{all + "ENDPOINT": "http://localhost:1", traces + "ENDPOINT": "https://localhost:4318/path"}, "https://localhost:4318/path", ""},
		"address without scheme": {map[string]string{all + "ENDPOINT": "localhost:4318"}, "", "not an http or https address"},
		"gRPC":                   {map[string]string{all + "ENDPOINT": "http://localhost:1", traces + "PROTOCOL": "grpc"}, "", "only http/protobuf"},
		"certificate":            {map[string]string{all + "ENDPOINT": "https://localhost:1", all + "CERTIFICATE": "ca.pem"}, "", "SSL_CERT_FILE"},
		"timeout":                {map[string]string{all + "ENDPOINT": "http://localhost:1", all + "TIMEOUT": "10s"}, "", "milliseconds"},
		"header":                 {map[string]string{all + "ENDPOINT": "http://localhost:1", all + "HEADERS": "a=b,secret"}, "", "name=value"},
	} {
		t.Run(name, func(t *testing.T) {
			for name, value := range tt.environment {
				t.Setenv(name, value)
			}
			c, err := newOTLPClient()
			if tt.says == "" && err != nil || tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("%v, want %q", err, tt.says)
			}
			if c == nil {
				c = &otlpClient{}
			}
			if c.url != tt.url {
				t.Errorf("%s, want %s", c.url, tt.url)
			}
		})
	}
}
