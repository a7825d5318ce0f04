package e2e

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"byline/internal/servertest"
)

// service has the tested fields of a service in compose.yaml.
type service struct {
	Command     []string
	Environment map[string]string
	Volumes     []string
}

// readYAML decodes a file of deploy/local.
func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(servertest.Path("deploy/local/" + name))
	if err == nil {
		err = yaml.Unmarshal(b, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func services(t *testing.T) map[string]service {
	t.Helper()
	var compose struct{ Services map[string]service }
	readYAML(t, "compose.yaml", &compose)
	return compose.Services
}

// TestLocal_ServicesServe runs the commands of compose.yaml with other ports and fewer users.
func TestLocal_ServicesServe(t *testing.T) {
	all := services(t)
	// command returns a service's command on a free port, after its environment is set.
	command := func(name string, replace ...string) []string {
		for variable, value := range all[name].Environment {
			t.Setenv(variable, strings.NewReplacer(replace...).Replace(value))
		}
		args := slices.Clone(all[name].Command)
		if n := slices.Index(args, "--listen"); n >= 0 {
			args[n+1] = "localhost:0"
		}
		return args
	}
	t.Setenv("BYLINE_DATA", t.TempDir())
	engine := start(t, command("emulator")...)
	address := []string{"http://localhost:8081", engine.Root}
	seed := command("seed", address...)
	seed[slices.Index(seed, "--users")+1] = "1"
	var out output
	if status := run(t.Context(), seed, io.Discard, &out, nil); status != 0 {
		t.Fatalf("exit status %d: %s", status, &out)
	}
	for _, name := range []string{"byline-1", "byline-2", "byline-3"} {
		i := start(t, command(name, address...)...)
		i.WaitReady()
		if servertest.At(t, i.Do("ada", "{ viewer { username } feed(first: 1) { edges { node { title } } } }", nil),
			"feed.edges.0.node.title") == "" {
			t.Errorf("%s: no post", name)
		}
	}
}

// TestLocal_Monitoring: Prometheus scrapes the instances, evaluates the alerts, and is Grafana's data source.
func TestLocal_Monitoring(t *testing.T) {
	all := services(t)
	var prometheus struct {
		ScrapeConfigs []struct {
			JobName       string                       `yaml:"job_name"`
			StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
		RuleFiles []string `yaml:"rule_files"`
	}
	readYAML(t, "prometheus.yml", &prometheus)
	var listening []string
	for _, name := range []string{"byline-1", "byline-2", "byline-3"} {
		listening = append(listening, all[name].Command[slices.Index(all[name].Command, "--listen")+1])
	}
	if s := prometheus.ScrapeConfigs[0]; s.JobName != "byline" || !slices.Equal(s.StaticConfigs[0].Targets, listening) {
		t.Errorf("job %s scrapes %s, want %s", s.JobName, s.StaticConfigs[0].Targets, listening)
	}

	var sources struct{ Datasources []struct{ URL string } }
	readYAML(t, "grafana.yml", &sources)
	if want := "--web.listen-address=" +
		strings.TrimPrefix(sources.Datasources[0].URL, "http://"); !slices.Contains(all["prometheus"].Command, want) {
		t.Errorf("%s lacks %s", all["prometheus"].Command, want)
	}
	var dashboards struct {
		Providers []struct{ Options struct{ Path string } }
	}
	readYAML(t, "dashboards.yml", &dashboards)

	mounted := map[string]string{} // in the repository, by the place in a container
	for _, name := range []string{"prometheus", "grafana"} {
		for _, v := range all[name].Volumes {
			parts := strings.Split(v, ":")
			mounted[parts[1]] = filepath.Join("deploy/local", parts[0])
			if _, err := os.Stat(servertest.Path(mounted[parts[1]])); err != nil {
				t.Error(err)
			}
		}
	}
	for place, want := range map[string]string{
		filepath.Join("/etc/prometheus", prometheus.RuleFiles[0]):          "docs/alerts.yml",
		filepath.Join(dashboards.Providers[0].Options.Path, "byline.json"): "docs/grafana-dashboard.json",
	} {
		if mounted[place] != want {
			t.Errorf("%s is %q, want %s", place, mounted[place], want)
		}
	}
}

var variables = regexp.MustCompile(`\b(COSMOS|BYLINE)_[A-Z_]+|\bGOMEMLIMIT\b`)

// TestKubernetes_DocumentedVariables: the variables in the manifest are those of docs/configuration.md, which
// TestHelp compares with the flags.
func TestKubernetes_DocumentedVariables(t *testing.T) {
	manifest, err := os.ReadFile(servertest.Path("deploy/kubernetes/byline.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	documented, err := os.ReadFile(servertest.Path("docs/configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := variables.FindAllString(string(manifest), -1)
	if len(names) < 8 {
		t.Errorf("found %s", names)
	}
	for _, name := range names {
		if !strings.Contains(string(documented), "`"+name+"`") {
			t.Errorf("docs/configuration.md does not name %s", name)
		}
	}
}
