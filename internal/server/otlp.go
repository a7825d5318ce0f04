package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	azruntime "github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// otlpClient sends traces by OTLP over HTTP (https://opentelemetry.io/docs/specs/otlp/#otlphttp), configured by
// the environment variables of OpenTelemetry. OpenTelemetry's own client would link gRPC, 2 MB, and
// html/template (packageFiles of graph).
type otlpClient struct {
	url     *url.URL
	headers http.Header
	timeout time.Duration
	http    azruntime.Pipeline // retries transient failures after Retry-After
}

// defaultExportTimeout is the default of the specification.
const defaultExportTimeout = 10 * time.Second

// newOTLPClient returns nil without an endpoint.
func newOTLPClient() (*otlpClient, error) {
	endpoint := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if base := os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"); endpoint == "" && base != "" {
		endpoint = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if endpoint == "" {
		return nil, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT is not an http or https address")
	}
	c := &otlpClient{url: u, headers: http.Header{}, timeout: defaultExportTimeout}
	if p := otlpSetting("PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: only http/protobuf is supported", p)
	}
	if name := otlpSetting("CERTIFICATE"); name != "" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE is not supported: SSL_CERT_FILE can name a file with %s and the public certificates", name)
	}
	if otlpSetting("CLIENT_CERTIFICATE") != "" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE is not supported")
	}
	if t := otlpSetting("TIMEOUT"); t != "" {
		ms, err := strconv.Atoi(t)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q, not a number of milliseconds", t)
		}
		c.timeout = time.Duration(ms) * time.Millisecond
	}
	for pair := range strings.SplitSeq(otlpSetting("HEADERS"), ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil {
			return nil, errors.New("OTEL_EXPORTER_OTLP_HEADERS: a header is not name=value")
		}
		c.headers.Add(strings.TrimSpace(name), value)
	}
	c.http = azruntime.NewPipeline("traces", "", azruntime.PipelineOptions{}, &policy.ClientOptions{
		Telemetry: policy.TelemetryOptions{Disabled: true},
		Retry: policy.RetryOptions{
			MaxRetries:  2, // within flushTimeout, and so that the error is the last upload's, not the context's
			StatusCodes: []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout},
		},
	})
	return c, nil
}

// otlpSetting returns a setting of the exporter for traces, or else for all signals.
func otlpSetting(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// Start implements otlptrace.Client.
func (c *otlpClient) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *otlpClient) Stop(context.Context) error { return nil }

// UploadTraces implements otlptrace.Client.
func (c *otlpClient) UploadTraces(ctx context.Context, spans []*otlp.ResourceSpans) error {
	body, err := proto.Marshal(&otlp.TracesData{ResourceSpans: spans}) // encoded as an ExportTraceServiceRequest is
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	r, err := azruntime.NewRequest(ctx, http.MethodPost, c.url.String())
	if err != nil {
		return err
	}
	for name, values := range c.headers {
		r.Raw().Header[name] = values
	}
	if err := r.SetBody(streaming.NopCloser(bytes.NewReader(body)), "application/x-protobuf"); err != nil {
		return err
	}
	response, err := c.http.Do(r)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err // without the URL, which may contain a key
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.url.Host, err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", c.url.Host, response.Status)
	}
	return nil
}
