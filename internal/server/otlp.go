package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
)

// newExporter returns the exporter of traces that the environment variables of OpenTelemetry configure, or nil without
// an endpoint. OpenTelemetry only logs invalid values, so those that would send nothing are refused here.
func newExporter(ctx context.Context) (*otlptrace.Exporter, error) {
	endpoint := otlpSetting("ENDPOINT")
	if endpoint == "" {
		return nil, nil
	}
	if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT is not an http or https address")
	}
	if p := otlpSetting("PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: only http/protobuf is supported", p)
	}
	return otlptracehttp.New(ctx)
}

// otlpSetting returns a setting of the exporter for traces, or else for all signals.
func otlpSetting(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}
