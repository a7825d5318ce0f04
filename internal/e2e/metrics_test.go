package e2e

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"byline/internal/servertest"
)

// series is a line of the metrics.
type series struct {
	name   string
	labels map[string]string
	value  float64
}

// scrape reads the metrics; it returns an error if there are none.
func scrape(root string) ([]series, error) {
	r, err := http.Get(root + "/metrics")
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %v", r.Status, err)
	}
	var all []series
	for _, line := range regexp.MustCompile(`(?m)^([a-z]\w*)(?:\{(.*)\})? (\S+)$`).FindAllStringSubmatch(string(body),
		-1) {
		value, err := strconv.ParseFloat(line[3], 64)
		if err != nil {
			return nil, err
		}
		s := series{line[1], map[string]string{}, value}
		for _, label := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(line[2], -1) {
			s.labels[label[1]] = label[2]
		}
		all = append(all, s)
	}
	return all, nil
}

// total returns the sum of the series of a metric; the second result reports whether there are any.
func total(all []series, name string, counts func(map[string]string) bool) (sum float64, ok bool) {
	for _, s := range all {
		if s.name == name {
			ok = true
			if counts == nil || counts(s.labels) {
				sum += s.value
			}
		}
	}
	return sum, ok
}

// TestMetrics: responses and metrics report the same request charges, and background work is separate. Labels have
// closed sets of values.
func TestMetrics(t *testing.T) {
	i := start(t, "--data", t.TempDir(), "--no-demo")
	i.Cost = "summary"
	reported := 0.0
	send := func(user, query string, variables map[string]any) map[string]any {
		out, err := i.Post(user, query, variables)
		if err != nil {
			t.Fatal(err)
		}
		reported += at(t, out.Extensions, "cost.actualRU").(float64)
		return out.Data
	}
	send("ada", createUser, map[string]any{"name": "ada"})
	post := at(t, send("ada", createPost, map[string]any{"title": "t", "content": "c"}), "createPost.post.id")
	send("", `query($id: ID!) { post(id: $id) { title comments { edges { node { content } } } } }`,
		map[string]any{"id": post})
	send("ada", q6, nil)
	send("", `{ post(id: "nonsense") { title } }`, nil)
	send("", `{ nonsense }`, nil)
	probeReadiness(t, i.Root)

	all, err := scrape(i.Root)
	if err != nil {
		t.Fatal(err)
	}
	if ru, _ := total(all, "byline_graphql_request_units_total", nil); math.Abs(ru-reported) > .005 {
		t.Errorf("responses report %.2f RU, the metric %.2f", reported, ru)
	}
	ofRequests := func(labels map[string]string) bool {
		return slices.Contains([]string{"writeUser", "writePost", "onePost", "comments", "feed"}, labels["pattern"])
	}
	if ru, _ := total(all, "byline_cosmos_request_units_total", ofRequests); math.Abs(ru-reported) > .005 {
		t.Errorf("responses report %.2f RU, the metric of the patterns %.2f", reported, ru)
	}
	for _, name := range []string{"byline_access_total", "byline_cosmos_requests_total", "byline_cosmos_errors_total",
		"byline_cosmos_throttles_total",
		"byline_cosmos_request_seconds_bucket", "byline_cosmos_range_request_units_total",
		"byline_projection_lag_transactions", "byline_projection_stalled_seconds",
		"byline_projection_changes_total", "byline_projection_failures_total", "byline_projection_skipped_total",
		"byline_subscribers", "byline_graphql_seconds_bucket", "byline_graphql_predicted_request_units_total",
		"go_goroutines", "process_cpu_seconds_total"} {
		if _, ok := total(all, name, nil); !ok {
			t.Errorf("no metric %s", name)
		}
	}
	for _, code := range []string{"OK", "BAD_USER_INPUT", "GRAPHQL_VALIDATION_FAILED"} {
		if n, _ := total(all, "byline_graphql_responses_total", func(l map[string]string) bool {
			return l["code"] == code
		}); n == 0 {
			t.Errorf("no response with the code %s", code)
		}
	}
	eventually(t, func() error {
		all, err := scrape(i.Root)
		if n, _ := total(all, "byline_projection_leases", nil); err != nil || n != 3 {
			return fmt.Errorf("%.0f leases are held: %v", n, err)
		}
		return nil
	})
	readme, err := os.ReadFile(servertest.Path("docs/cost.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, name := range regexp.MustCompile("(?m)^\\| `(byline_\\w+)").FindAllSubmatch(readme, -1) {
		documented[string(name[1])] = true
	}
	delete(documented, "byline_certificate_expiry_timestamp_seconds") // only with a certificate
	delete(documented, "byline_site_responses_total")                 // only with a site
	served := map[string]bool{}
	for _, s := range all {
		if strings.HasPrefix(s.name, "byline_") {
			served[regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(s.name, "")] = true
		}
		if pattern := s.labels["pattern"]; pattern != "" && !strings.Contains(string(readme), pattern) {
			t.Errorf("docs/cost.md does not name the pattern %s", pattern)
		}
	}
	if !maps.Equal(documented, served) {
		t.Errorf("docs/cost.md has %v\n/metrics has %v", slices.Sorted(maps.Keys(documented)),
			slices.Sorted(maps.Keys(served)))
	}
	closed := map[string]string{
		"pattern": `\w+`, "range": `\d*`, "container": `|users|posts|feed|search|leases`,
		"projection": `projections-posts|projections-users|usernames|events|cache-users|cache-feed`,
		"type":       `query|mutation|subscription|none`, "code": `OK|[A-Z_]+`, "budget": `request|viewer`,
		"kind": `rename|deletePost|deleteUser|sweepFiles`, "status": `449|40[34]/\d{4}`, "check": `clock|cosmos|overload`,
		"reason": `malformed|unknownKey|signature|issuer|audience|expired|notYetValid|claims`, "le": `.*`,
		"result": `created|published|refused`, "from": `uploads|files`,
	}
	for _, s := range all {
		for label, value := range s.labels {
			if strings.HasPrefix(s.name, "byline_") &&
				!regexp.MustCompile(`^(?:`+closed[label]+`)$`).MatchString(value) {
				t.Errorf("%s has %s=%q", s.name, label, value)
			}
		}
	}
}

// probeReadiness probes a server, which sets its metric of readiness.
func probeReadiness(t testing.TB, root string) {
	t.Helper()
	r, err := http.Get(root + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
}

// TestMetricsListen: metrics are for operators: beyond loopback and behind a proxy they need --metrics-listen.
func TestMetricsListen(t *testing.T) {
	for name, listen := range map[string]string{"beyond loopback": "0.0.0.0:0",
		"behind a proxy on this machine": "localhost:0"} {
		t.Run(name, func(t *testing.T) {
			i := start(t, "--listen", listen, "--drain", "0s", "--behind-proxy", "127.0.0.1/32", "--auth-issuer",
				"https://example.com", "--auth-audience", "byline", "--data", t.TempDir(), "--no-demo")
			if all, err := scrape(i.Root); err == nil || !strings.Contains(err.Error(), "404") {
				t.Errorf("%d series, %v", len(all), err)
			}
		})
	}
	t.Run("--metrics-listen", func(t *testing.T) {
		i := start(t, "--metrics-listen", "localhost:0", "--data", t.TempDir(), "--no-demo")
		if all, err := scrape(i.Root); err == nil || !strings.Contains(err.Error(), "404") {
			t.Errorf("on --listen: %d series, %v", len(all), err)
		}
		root := regexp.MustCompile(`msg=metrics url=(\S+)/metrics`).FindStringSubmatch(i.Log.String())
		if root == nil {
			t.Fatal(i.Log)
		}
		all, err := scrape(root[1])
		if err != nil || !slices.ContainsFunc(all, func(s series) bool { return s.name == "byline_subscribers" }) {
			t.Errorf("%d series, %v", len(all), err)
		}
		if r, err := http.Get(root[1] + "/graphql"); err != nil || r.StatusCode != http.StatusNotFound {
			t.Error(r, err)
		}
		if status := i.Stop(); status != 0 {
			t.Error(status, i.Log)
		}
		if _, err := scrape(root[1]); err == nil {
			t.Error("served after the server has stopped")
		}
	})
}
