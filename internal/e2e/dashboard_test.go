package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

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

// vocabularyOf scrapes a server after accepted and refused requests and a probe. Prometheus adds the
// labels of the target, and the metric up.
func vocabularyOf(t testing.TB) vocabulary {
	t.Helper()
	i := start(t, "--data", t.TempDir(), "--no-demo")
	i.Do("ada", createUser, map[string]any{"name": "ada"})
	i.Do("ada", createPost, map[string]any{"title": "t", "content": "c"})
	i.Do("", q6, nil)
	for _, refused := range []string{`{ nonsense }`, `{ post(id: "nonsense") { title } }`} {
		if _, err := i.Post("", refused, nil); err != nil {
			t.Fatal(err)
		}
	}
	probeReadiness(t, i.Root)
	v := vocabulary{}
	eventually(t, func() error {
		all, err := scrape(i.Root)
		if n, _ := total(all, "byline_projection_leases", nil); err != nil || n != 3 {
			return fmt.Errorf("%.0f leases are held: %v", n, err)
		}
		for _, s := range append(all, series{name: "up"}) {
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

var (
	promToken    = regexp.MustCompile(`"[^"]*"|\d+(?:\.\d+)?[smhd]?|[a-zA-Z_:][\w:]*|[=!]~|[=!<>]=|\S`)
	promName     = regexp.MustCompile(`^[a-zA-Z_:][\w:]*$`)
	promFunction = strings.Fields("absent sum max min avg count rate increase histogram_quantile")
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
	v := vocabularyOf(t)
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
		for _, row := range regexp.MustCompile("(?m)^\\| `(byline_\\w+)` \\| ([\\w, ]*)\\|").FindAllStringSubmatch(
			string(docs), -1) {
			documented[row[1]] = strings.Join(
				slices.Sorted(slices.Values(strings.Split(strings.TrimSpace(row[2]), ", "))), ", ")
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
				if code := regexp.MustCompile(`^([CQ]\d|[a-z]+[A-Z]\w*)\b`); strings.HasPrefix(target.LegendFormat,
					"{{pattern}}") {
					for _, pattern := range []string{"C1", "C2", "C3", "C4", "Q1", "Q2", "Q3", "Q4", "Q5", "Q6",
						"changeFeed", "projectPosts"} {
						if legend := p.rename(strings.ReplaceAll(target.LegendFormat, "{{pattern}}",
							pattern)); code.MatchString(legend) {
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
		for _, line := range regexp.MustCompile("(?m)^\\| `(Byline\\w+)` \\| \\S").FindAllSubmatch(runbook, -1) {
			explained = append(explained, string(line[1]))
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
				if severity := rule.Labels["severity"]; severity != "critical" && severity != "warning" ||
					rule.Annotations["summary"] == "" || rule.Annotations["runbook"] != "docs/operations.md#alerts" {
					t.Errorf("%+v", rule)
				}
			}
		}
		if !slices.Equal(alerts, explained) || len(alerts) == 0 {
			t.Errorf("the alerts are %v\ndocs/operations.md explains %v", alerts, explained)
		}
	})
}
