package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jedib0t/go-pretty/v6/table"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Report is the result of Run. Latencies are in milliseconds.
type Report struct {
	Seconds   float64 `json:"seconds"`
	Requests  int64   `json:"requests"` // with a response
	PerSecond float64 `json:"perSecond"`
	Errors    int     `json:"errors"`
	Error     string  `json:"error,omitempty"` // one of them
	Patterns  []Row   `json:"patterns"`
	All       Row     `json:"all"`
	Server    *Server `json:"server,omitempty"` // nil without metrics
}

// Row has the latencies of a pattern.
type Row struct {
	Pattern  string  `json:"pattern"`
	Requests int64   `json:"requests"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
	P999     float64 `json:"p999"`
	Max      float64 `json:"max"`
}

// Server has the cost of the requests on the server, projections included, from its metrics.
type Server struct {
	CPUMicros        float64 `json:"cpuMicros"`        // per request
	RUPerThousand    float64 `json:"ruPerThousand"`    // requests
	HitRatio         float64 `json:"hitRatio"`         // share of items and pages from the item cache
	ResponseHitRatio float64 `json:"responseHitRatio"` // share of responses from the response cache
	MemoryMB         float64 `json:"memoryMB"`         // resident, at the end
}

func newReport(workers []*worker, took time.Duration, before, after *sample) (*Report, error) {
	r := &Report{Seconds: took.Seconds()}
	all := hdrhistogram.New(shortest, longest, digits)
	patterns := map[string]*hdrhistogram.Histogram{}
	for _, w := range workers {
		r.Errors += w.errors
		if w.example != nil {
			r.Error = w.example.Error()
		}
		for name, h := range w.took {
			if patterns[name] == nil {
				patterns[name] = hdrhistogram.New(shortest, longest, digits)
			}
			patterns[name].Merge(h)
			all.Merge(h)
		}
	}
	r.Requests = all.TotalCount()
	if r.Requests == 0 {
		return nil, errors.New("load: no response: " + cmp.Or(r.Error, "the duration was too short"))
	}
	r.PerSecond = float64(r.Requests) / r.Seconds
	for name, h := range patterns {
		r.Patterns = append(r.Patterns, rowOf(name, h))
	}
	slices.SortFunc(r.Patterns, func(a, b Row) int { return cmp.Compare(a.Pattern, b.Pattern) })
	r.All = rowOf("all", all)
	if before != nil && after != nil {
		n := float64(r.Requests + int64(r.Errors))
		hits, reads := after.hits-before.hits, after.reads-before.reads
		r.Server = &Server{
			CPUMicros:        (after.cpu - before.cpu) * 1e6 / n,
			RUPerThousand:    (after.ru - before.ru) * 1000 / n,
			HitRatio:         hits / max(hits+reads, 1),
			ResponseHitRatio: (after.responseHits - before.responseHits) / n,
			MemoryMB:         after.memory / (1 << 20),
		}
	}
	return r, nil
}

func rowOf(name string, h *hdrhistogram.Histogram) Row {
	ms := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1000 }
	return Row{name, h.TotalCount(), ms(50), ms(99), ms(99.9), float64(h.Max()) / 1000}
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }

// WriteText writes the report as text.
func (r *Report) WriteText(w io.Writer) error {
	t := table.NewWriter()
	t.AppendHeader(table.Row{"pattern", "requests", "p50 ms", "p99 ms", "p99.9 ms", "max ms"})
	row := func(p Row) {
		ms := func(v float64) string { return fmt.Sprintf("%.2f", v) }
		t.AppendRow(table.Row{p.Pattern, p.Requests, ms(p.P50), ms(p.P99), ms(p.P999), ms(p.Max)})
	}
	for _, p := range r.Patterns {
		row(p)
	}
	t.AppendSeparator()
	row(r.All)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%.0f requests/s for %.1f s", t.Render(), r.PerSecond, r.Seconds)
	if r.Errors > 0 {
		fmt.Fprintf(&b, "; %d failed, such as %s", r.Errors, r.Error)
	}
	b.WriteString("\n")
	if s := r.Server; s != nil {
		fmt.Fprintf(&b,
			"server: %.0f µs CPU a request, %.1f RU per 1,000 requests, %.1f%% item cache hits, %.1f%% response "+
				"cache hits, %.0f MB resident\n",
			s.CPUMicros, s.RUPerThousand, 100*s.HitRatio, 100*s.ResponseHitRatio, s.MemoryMB)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// sample is the server's metrics at one time.
type sample struct{ cpu, ru, hits, reads, responseHits, memory float64 }

// scrape reads the metrics; nil without a URL.
func scrape(ctx context.Context, url string) (*sample, error) {
	if url == "" {
		return nil, nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, res.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	sum := func(name string, of func(pattern string) bool) (total float64) {
		for _, m := range families[name].GetMetric() {
			if of(labelOf(m, "pattern")) {
				total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
		return total
	}
	everything := func(string) bool { return true }
	reads := func(pattern string) bool {
		return slices.Contains([]string{"oneUser", "onePost", "userPosts", "comments", "likes", "feed"}, pattern)
	}
	return &sample{
		cpu:          sum("process_cpu_seconds_total", everything),
		ru:           sum("byline_cosmos_request_units_total", everything),
		hits:         sum("byline_cache_hits_total", reads),
		reads:        sum("byline_cosmos_requests_total", reads),
		responseHits: sum("byline_graphql_cached_responses_total", everything),
		memory:       sum("process_resident_memory_bytes", everything),
	}, nil
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
