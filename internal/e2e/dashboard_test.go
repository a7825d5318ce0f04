package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"byline/internal/servertest"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// dashboard has the checked and drawn fields of docs/grafana-dashboard.json.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	FieldConfig              struct {
		Defaults struct{ Unit string }
	}
	Targets         []struct{ RefID, Expr, LegendFormat string }
	Transformations []struct {
		ID      string
		Options struct{ Regex, RenamePattern string }
	}
}

// rename returns the name of a series in the legend.
func (p panel) rename(series string) string {
	for _, t := range p.Transformations {
		series = regexp.MustCompile(t.Options.Regex).ReplaceAllString(series, t.Options.RenamePattern)
	}
	return series
}

func readDashboard(t testing.TB) dashboard {
	t.Helper()
	text, err := os.ReadFile(servertest.Path("docs/grafana-dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// alertRules is docs/alerts.yml.
type alertRules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert, Expr, For    string
			Labels, Annotations map[string]string
		}
	}
}

// vocabulary has the labels of each metric and their values.
type vocabulary map[string]map[string][]string

// vocabularyOf scrapes a server after accepted and refused requests and a probe, one with TLS, and one with a site.
// Prometheus adds the labels of the target, and the metric up.
func vocabularyOf(t testing.TB, i *instance) vocabulary {
	t.Helper()
	i.Do("ada", createUser, map[string]any{"name": "ada"})
	i.Do("ada", createPost, map[string]any{"title": "t", "content": "c"})
	i.Do("", q6, nil)
	for _, refused := range []string{`{ nonsense }`, `{ post(id: "nonsense") { title } }`} {
		if _, err := i.Post("", refused, nil); err != nil {
			t.Fatal(err)
		}
	}
	probeReadiness(t, i.Root)
	others := append(certificateMetrics(t), siteMetrics(t)...)
	v := vocabulary{}
	eventually(t, func() error {
		all, err := scrape(i.Root)
		if n, _ := total(all, "byline_projection_leases", nil); err != nil || n != 3 {
			return fmt.Errorf("%.0f leases are held: %v", n, err)
		}
		for _, s := range append(append(all, others...), series{name: "up"}) {
			if v[s.name] == nil {
				v[s.name] = map[string][]string{"job": {"byline"}, "instance": {"localhost:8080"}}
			}
			for label, value := range s.labels {
				v[s.name][label] = append(v[s.name][label], value)
			}
		}
		return nil
	})
	return v
}

// siteMetrics returns the metrics of a site.
func siteMetrics(t testing.TB) (found []series) {
	t.Helper()
	s := start(t, "--data", t.TempDir(), "--no-demo", "--site", "testdata/site", "--site-url", siteURL)
	visit(t, s, "/")
	all, err := scrape(s.Root)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if strings.HasPrefix(one.name, "byline_site_") {
			found = append(found, one)
		}
	}
	return found
}

// certificateMetrics returns the metrics of the certificate of a server with TLS.
func certificateMetrics(t testing.TB) (found []series) {
	t.Helper()
	cert, key := certificate(t, 1)
	dir := t.TempDir()
	files := map[string][]byte{"cert.pem": cert, "key.pem": key}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, "--data", t.TempDir(), "--no-demo", "--metrics-listen", "localhost:0",
		"--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"))
	m := regexp.MustCompile(`msg=metrics url=(\S+)/metrics`).FindStringSubmatch(s.Log.String())
	if m == nil {
		t.Fatal(s.Log)
	}
	all, err := scrape(m[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if strings.HasPrefix(one.name, "byline_certificate_") {
			found = append(found, one)
		}
	}
	// that of certificate expires in an hour
	if len(found) != 1 || time.Until(time.Unix(int64(found[0].value), 0)).Round(time.Hour) != time.Hour {
		t.Errorf("the metrics of the certificate are %v", found)
	}
	return found
}

var (
	promToken    = regexp.MustCompile(`"[^"]*"|\d+(?:\.\d+)?[smhd]?|[a-zA-Z_:][\w:]*|[=!]~|[=!<>]=|\S`)
	promName     = regexp.MustCompile(`^[a-zA-Z_:][\w:]*$`)
	promFunction = strings.Fields("absent sum max min avg count rate increase histogram_quantile time")
	promGrouping = strings.Fields("by without on ignoring group_left group_right")
	promOperator = strings.Fields("and or unless bool")
)

// check checks the names in a PromQL expression and returns its mistakes: every name must be a function,
// an existing metric, or one of its labels. The labels of an aggregation or a matching belong to the next
// metric. The value of a matcher must match a value of the label, codes excepted: a healthy server has
// few. The second result is the labels of the outermost aggregation.
func (v vocabulary) check(expr string) (wrong []string, outermost []string) {
	expr = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(expr)
	tokens := promToken.FindAllString(expr, -1)
	depth := 0
	var pending []string // labels of the next metric
	labels := func(at int) ([]string, int) {
		var names []string
		for at++; at < len(tokens) && tokens[at] != ")"; at++ {
			if promName.MatchString(tokens[at]) {
				names = append(names, tokens[at])
			}
		}
		return names, at
	}
	metrics := 0
	for at := 0; at < len(tokens); at++ {
		token := tokens[at]
		switch {
		case token == "(":
			depth++
		case token == ")":
			depth--
		case !promName.MatchString(token) || slices.Contains(promFunction, token) ||
			slices.Contains(promOperator, token):
		case slices.Contains(promGrouping, token):
			var names []string
			if names, at = labels(at + 1); metrics == 0 && outermost == nil {
				outermost = names
			}
			pending = append(pending, names...)
		default:
			metrics++
			has, ok := v[token]
			if !ok {
				wrong = append(wrong, "there is no metric "+token)
			}
			for _, label := range pending {
				if _, ok := has[label]; !ok {
					wrong = append(wrong, token+" has no label "+label)
				}
			}
			pending = nil
			if at+1 < len(tokens) && tokens[at+1] == "{" {
				for at++; at < len(tokens) && tokens[at] != "}"; at++ {
					if label := tokens[at]; promName.MatchString(label) {
						wrong = append(wrong,
							matches(token, label, tokens[at+1], strings.Trim(tokens[at+2], `"`), has)...)
						at += 2
					}
				}
			}
		}
	}
	if depth != 0 || metrics == 0 || len(pending) > 0 {
		wrong = append(wrong,
			fmt.Sprintf("%d metrics, %d parentheses left open, labels of no metric: %v", metrics, depth, pending))
	}
	return wrong, outermost
}

// matches returns the mistakes in a label matcher.
func matches(metric, label, op, value string, has map[string][]string) []string {
	values, ok := has[label]
	if !ok {
		return []string{metric + " has no label " + label}
	}
	if op == "!=" || op == "!~" || label == "code" {
		return nil
	}
	if op == "=" {
		value = regexp.QuoteMeta(value)
	}
	want, err := regexp.Compile("^(?:" + value + ")$")
	if err != nil || !slices.ContainsFunc(values, want.MatchString) {
		return []string{fmt.Sprintf("no %s has a %s that matches %q: %v", metric, label, value, err)}
	}
	return nil
}

// TestDashboardAndAlerts: docs/cost.md lists the metrics and their labels, the dashboard and the alert rules query
// existing ones, every alert is in the runbook, and panels do not overlap and have a description.
func TestDashboardAndAlerts(t *testing.T) {
	i := start(t, "--data", t.TempDir(), "--no-demo")
	v := vocabularyOf(t, i)
	for expr, want := range map[string]string{
		`sum by (pattern) (rate(byline_nonsense_total[5m]))`: "no metric byline_nonsense_total",
		`sum by (container) (rate(byline_access_total[5m]))`: "byline_access_total has no label container",
		`byline_access_total{nonsense="x"}`:                  "byline_access_total has no label nonsense",
		`byline_access_total{pattern="Q7"}`:                  "no byline_access_total has a pattern",
		`sum(byline_access_total`:                            "left open",
		`rate(sum)`:                                          "0 metrics",
		`byline_access_total and on (range) sum by (container) (byline_cosmos_range_request_units_total)`: "",
		`byline_access_total and on (nonsense) byline_subscribers`:                                        "byline_subscribers has no label nonsense",
	} {
		if wrong, _ := v.check(expr); want == "" && wrong != nil ||
			want != "" && !strings.Contains(strings.Join(wrong, "; "), want) {
			t.Errorf("the test finds in %s: %q, want %q", expr, wrong, want)
		}
	}

	t.Run("docs", func(t *testing.T) {
		docs, err := os.ReadFile(servertest.Path("docs/cost.md"))
		if err != nil {
			t.Fatal(err)
		}
		documented, exported := map[string]string{}, map[string]string{} // the labels by metric
		for _, row := range regexp.MustCompile("(?m)^\\| `(byline_\\w+)(?:{([\\w,]*)})?`").FindAllStringSubmatch(
			string(docs), -1) {
			documented[row[1]] = strings.Join(
				slices.Sorted(slices.Values(strings.Split(row[2], ","))), ", ")
		}
		for name, labels := range v {
			if name, ok := strings.CutPrefix(name, "byline_"); ok {
				names := slices.Sorted(maps.Keys(labels))
				names = slices.DeleteFunc(names, func(l string) bool {
					return l == "le" || l == "job" || l == "instance"
				})
				exported["byline_"+
					regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(name, "")] = strings.Join(names, ", ")
			}
		}
		if diff := cmp.Diff(exported, documented); diff != "" {
			t.Errorf("docs/cost.md (+) and /metrics (-) differ in metrics and labels:\n%s", diff)
		}
	})

	t.Run("dashboard", func(t *testing.T) {
		d := readDashboard(t)
		for _, variable := range d.Templating.List {
			if variable.Type != "query" {
				continue
			}
			call := regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`).FindStringSubmatch(variable.Definition)
			if call == nil || v[call[1]][call[2]] == nil {
				t.Errorf("$%s: unknown metric or label in %q", variable.Name, variable.Definition)
			}
		}
		ids, taken, queried := map[int]bool{}, map[[2]int]string{}, map[string]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: a second panel %d", p.Title, p.ID)
			}
			ids[p.ID] = true
			for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
				for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
					if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
						t.Fatalf("%s overlaps %q, or the edge", p.Title, other)
					}
					taken[[2]int{x, y}] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
				t.Errorf("%+v", p)
			}
			for _, change := range p.Transformations {
				if change.ID != "renameByRegex" {
					t.Errorf("%s: the transformation %s does not rename", p.Title, change.ID)
				}
			}
			for _, target := range p.Targets {
				if strings.HasPrefix(target.LegendFormat, "{{pattern}}") {
					for _, pattern := range []string{"writeUser", "writePost", "createComment", "likePost", "oneUser",
						"onePost", "userPosts", "comments", "likes", "feed", "changeFeed", "projectPosts"} {
						legend := p.rename(strings.ReplaceAll(target.LegendFormat, "{{pattern}}", pattern))
						if strings.HasPrefix(legend, pattern) {
							t.Errorf("%s: the legend of %s is %q", p.Title, pattern, legend)
						}
					}
				}
				wrong, groups := v.check(target.Expr)
				if wrong != nil {
					t.Errorf("%s: %s: %s", p.Title, target.Expr, wrong)
				}
				for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(target.LegendFormat,
					-1) {
					if !slices.Contains(groups, label[1]) {
						t.Errorf("%s: the legend names %s, which is not in %s", p.Title, label[1], target.Expr)
					}
				}
				for _, token := range promToken.FindAllString(target.Expr, -1) {
					queried[regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(token, "")] = true
				}
			}
		}
		if !slices.ContainsFunc(d.Panels, func(p panel) bool {
			return len(p.Targets) == 1 && strings.Contains(p.Targets[0].LegendFormat, "{{instance}} {{version}}")
		}) {
			t.Error("no panel shows the version of each instance")
		}
		for metric := range v {
			if name := regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(metric,
				""); strings.HasPrefix(metric, "byline_") && !queried[name] {
				t.Errorf("no panel shows %s", name)
			}
		}
	})

	t.Run("alerts", func(t *testing.T) {
		text, err := os.ReadFile(servertest.Path("docs/alerts.yml"))
		if err != nil {
			t.Fatal(err)
		}
		var all alertRules
		if err := yaml.UnmarshalWithOptions(text, &all, yaml.Strict()); err != nil {
			t.Fatal(err)
		}
		runbook, err := os.ReadFile(servertest.Path("docs/operations.md"))
		if err != nil {
			t.Fatal(err)
		}
		var alerts, explained []string
		for _, heading := range regexp.MustCompile("(?m)^### (Byline\\w+)\n\n\\S").FindAllSubmatch(runbook, -1) {
			explained = append(explained, string(heading[1]))
		}
		for _, group := range all.Groups {
			for _, rule := range group.Rules {
				alerts = append(alerts, rule.Alert)
				if wrong, _ := v.check(rule.Expr); wrong != nil {
					t.Errorf("%s: %s", rule.Alert, wrong)
				}
				for _, label := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(
					rule.Annotations["summary"], -1) {
					if !regexp.MustCompile(`\bby \([^)]*\b`+label[1]+`\b`).MatchString(rule.Expr) &&
						!strings.HasPrefix(rule.Expr, "up{") {
						t.Errorf("%s: the summary names %s, which is not in %s", rule.Alert, label[1], rule.Expr)
					}
				}
				severity, address := rule.Labels["severity"], "https://github.com/OWNER/byline/blob/main/docs/operations.md#"+
					strings.ToLower(rule.Alert)
				if severity != "critical" && severity != "warning" || rule.Annotations["summary"] == "" ||
					rule.Annotations["runbook_url"] != address {
					t.Errorf("%+v", rule)
				}
				// One of several instances is no emergency: what is critical is about all of them.
				if severity == "critical" && strings.Contains(rule.Annotations["summary"], "$labels.instance") {
					t.Errorf("%s is critical for one instance", rule.Alert)
				}
				checkFirstLook(t, v, i.Root, rule.Alert, rule.Annotations["command"])
			}
		}
		if !slices.Equal(alerts, explained) || len(alerts) == 0 {
			t.Errorf("the alerts are %v\ndocs/operations.md explains %v", alerts, explained)
		}
	})
}

// checkFirstLook checks the command of an alert: a query of Prometheus by its names, a request by sending it to a
// server at root, and a command of the program by its help.
func checkFirstLook(t *testing.T, v vocabulary, root, alert, command string) {
	t.Helper()
	first, _, _ := strings.Cut(command, " ")
	switch first {
	case "promtool":
		m := regexp.MustCompile(`^promtool query instant "\$PROMETHEUS" '(.*)'$`).FindStringSubmatch(command)
		if m == nil {
			t.Errorf("%s: %s", alert, command)
		} else if wrong, _ := v.check(m[1]); wrong != nil {
			t.Errorf("%s: %s: %s", alert, command, wrong)
		}
	case "curl":
		script := strings.ReplaceAll(command, "{{ $labels.instance }}", strings.TrimPrefix(root, "http://"))
		cmd := exec.Command("sh", "-euc", script)
		cmd.Env = append(os.Environ(), "PROMETHEUS="+prometheusStub(t))
		if out, err := cmd.CombinedOutput(); err != nil || len(out) == 0 {
			t.Errorf("%s: %s: %v %s", alert, script, err, out)
		}
	case "byline":
		var out output
		if status := run(t.Context(), append(strings.Fields(command)[1:], "--help"), &out, &out, nil); status != 0 {
			t.Errorf("%s: %s: %s", alert, command, &out)
		}
	case "chronyc", "openssl": // not part of Byline
	default:
		t.Errorf("%s: the command is %q", alert, command)
	}
}

// prometheusStub is a server with a target that failed.
func prometheusStub(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"success","data":{"activeTargets":[{"lastError":"connection refused"}]}}`)
	}))
	t.Cleanup(s.Close)
	return s.URL
}
