package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"byline/internal/account"
	"byline/internal/servertest"
	"byline/internal/testkit"
)

func TestServe_InvalidConfiguration(t *testing.T) {
	taken, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	inUse := t.TempDir()
	start(t, "--data", inUse, "--no-demo")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(t.TempDir(), "manifest.json")
	if err := os.WriteFile(manifest, []byte(`{"good":"{ __typename }","bad":"query Feed { feed { nodes { id } } }"}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	const badKey = "an invalid key: %"
	for _, c := range []struct {
		name    string
		args    []string
		wantErr string
	}{
		{"data directory in use", []string{"--data", inUse}, inUse},
		{"occupied port", []string{"--listen", taken.Addr().String(), "--data", t.TempDir()}, "--listen: listen tcp "},
		{"port without a host", []string{"--listen", "8080", "--data", t.TempDir()},
			"--listen: address 8080: missing port in address"},
		{"occupied port for metrics", []string{"--metrics-listen", taken.Addr().String(), "--data", t.TempDir()},
			"--metrics-listen: "},
		{"unwritable directory", []string{"--data", filepath.Join(file, "data")}, file},
		{"endpoint of another service", []string{"--cosmos-endpoint", other.URL}, other.URL},
		{"invalid endpoint", []string{"--cosmos-endpoint", "cosmos"}, "not an http or https address"},
		{"invalid key", []string{"--cosmos-endpoint", "http://localhost:1"}, "base64"},
		{"key in a flag", []string{"--cosmos-key=" + badKey}, "unknown flag --cosmos-key"},
		{"connection string",
			[]string{"--cosmos-endpoint", "AccountEndpoint=https://localhost:1/;AccountKey=" + badKey},
			"connection string"},
		{"key in the address", []string{"--cosmos-endpoint", "http://me:" + url.QueryEscape(badKey) + "@localhost:1"},
			"more than an address"},
		{"open to the network with demo tokens", []string{"--listen", ":0", "--data", t.TempDir()}, "--auth-issuer"},
		{"account in the cloud with demo tokens", []string{"--cosmos-endpoint", "https://example.documents.azure.com"},
			"--auth-issuer"},
		{"address other than loopback", []string{"--listen", "0.0.0.0:0", "--data", t.TempDir()}, "--auth-issuer"},
		{"issuer over plain HTTP",
			[]string{"--auth-issuer", "http://example.com", "--auth-audience", "byline", "--data", t.TempDir()},
			"must be an https address"},
		{"invalid issuer",
			[]string{"--auth-issuer", "https:example.com", "--auth-audience", "byline", "--data", t.TempDir()},
			"--auth-issuer"},
		{"moderators without an issuer", []string{"--auth-moderator-role", "moderator", "--data", t.TempDir()},
			"needs --auth-issuer"},
		{"open to the network over plain HTTP",
			[]string{"--listen", ":0", "--auth-issuer", "https://example.com", "--auth-audience", "x"},
			"plain HTTP would expose tokens on the network"},
		{"behind a proxy with demo tokens", []string{"--behind-proxy", "10.0.0.0/8"},
			"--behind-proxy needs --auth-issuer"},
		{"invalid network of proxies", []string{"--behind-proxy", "10.0.0.0/8,proxy"},
			`"proxy" is neither an address nor a network`},
		{"certificate without a key", []string{"--tls-cert", manifest}, "--tls-cert and --tls-key are needed together"},
		{"missing certificate", []string{"--tls-cert", file + "s", "--tls-key", file},
			"--tls-cert and --tls-key: stat " + file + "s"},
		{"invalid certificate", []string{"--tls-cert", file, "--tls-key", file},
			"--tls-cert and --tls-key: tls: failed to find any PEM data"},
		{"invalid origin", []string{"--cors-origins", "*", "--cosmos-endpoint", other.URL}, `"*" is not an origin`},
		{"negative rate", []string{"--requests-per-viewer=-1"}, "cannot be negative"},
		{"no connections", []string{"--max-connections", "0"}, "--max-connections must be at least 1"},
		{"a negative drain", []string{"--drain=-1s"}, "--drain cannot be negative"},
		{"issuer without an audience", []string{"--auth-issuer", "https://example.com", "--data", t.TempDir()},
			"--auth-audience"},
		{"missing manifest", []string{"--trusted-documents", file + "s", "--data", t.TempDir()},
			"--trusted-documents: open " + file + "s"},
		{"invalid manifest", []string{"--trusted-documents", file, "--data", t.TempDir()},
			file + ": the manifest is not a JSON object"},
		{"invalid document", []string{"--trusted-documents", manifest, "--data", t.TempDir()},
			manifest + `: document "bad", line 1, column 21: Cannot query field "nodes"`},
		{"regions of the embedded engine", []string{"--data", t.TempDir(), "--cosmos-regions", "West US"},
			"the embedded engine has no regions"},
		{"region without a name", []string{"--cosmos-endpoint", other.URL, "--cosmos-regions", "West US,,East US"},
			"the name of a region is empty"},
		{"too many partitions of the feed", []string{"--data", t.TempDir(), "--feed-partitions", "65"},
			"1 to 64 partitions, not 65"},
		{"pictures over plain HTTP", []string{"--files-endpoint", "http://localhost:1", "--data", t.TempDir()},
			"--files-endpoint is not an https address"},
		{"signature for pictures", []string{"--files-endpoint", "https://localhost:1?sig=x", "--data", t.TempDir()},
			"--files-endpoint is not an https address without a query"},
		{"address of pictures without an account", []string{"--files-url", "https://localhost", "--data", t.TempDir()},
			"--files-url needs --files-endpoint"},
		{"no pictures", []string{"--files-quota", "0", "--data", t.TempDir()}, "there can be 1 to 1000000 megabytes"},
		{"no request units", []string{"--ru-per-request", "0", "--data", t.TempDir()},
			"--ru-per-request must be at least 1"},
		{"unknown mode of a budget", []string{"--ru-per-viewer-mode", "refuse", "--data", t.TempDir()},
			`--ru-per-viewer-mode must be one of "enforce","measure" but got "refuse"`},
		{"no budget for retries", []string{"--retry-budget", "0s", "--data", t.TempDir()},
			"--retry-budget must be more than 0"},
		{"a negative rate of jobs", []string{"--background-ru=-1", "--data", t.TempDir()},
			"--background-ru must be at least 0"},
		{"renames without a period", []string{"--rename-cooldown", "0s", "--data", t.TempDir()},
			"--rename-cooldown must be more than 0"},
		{"negative memory", []string{"--cache=-1", "--data", t.TempDir(), "--no-demo"},
			"--cache -1: there can be 0 to 1048576 megabytes"},
		{"an index without posts", []string{"--recency=0", "--data", t.TempDir(), "--no-demo"},
			"--recency 0: there can be 1 to 1000000 posts"},
		{"a cache of more than half of the memory", []string{"--cache", "1000000", "--data", t.TempDir(), "--no-demo"},
			"--cache 1000000 and --recency 100000 take 1000006 MB, more than half of the memory, "},
		{"more memory than the maximum", []string{"--cache", "17592186044416", "--data", t.TempDir(), "--no-demo"},
			"--cache 17592186044416"},
		{"unknown flag", []string{"--no-such-flag"}, "no-such-flag"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := c.args
			if !slices.Contains(args, "--listen") {
				args = append([]string{"--listen", "localhost:0"}, args...)
			}
			if c.name == "invalid key" {
				t.Setenv("COSMOS_KEY", badKey)
			}
			if log := checkRefused(t, c.wantErr, args...); strings.Contains(log, badKey) {
				t.Errorf("the log shows the key: %s", log)
			}
		})
	}
}

// checkRefused checks that the program does not start and prints one line with wantErr. It returns its log.
func checkRefused(t *testing.T, wantErr string, args ...string) string {
	t.Helper()
	var log output
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	status := run(ctx, args, io.Discard, &log, func(net.Addr) { cancel() })
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if strings.Contains(lines[0], `level=INFO msg="data is in `) { // logged before the account is opened
		lines = lines[1:]
	}
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.Contains(line, `level=INFO msg="slow operation on Cosmos DB"`) ||
			strings.Contains(line, `level=WARN msg="Cosmos DB does not respond"`)
	})
	last := lines[len(lines)-1]
	if status != 1 || len(lines) != 1 || !strings.HasPrefix(last, "byline: ") || !strings.Contains(last, wantErr) {
		t.Errorf("status %d: %s", status, log.String())
	}
	t.Log(last)
	return log.String()
}

// TestServe_UnreachableAccount waits for the retries of the client.
func TestServe_UnreachableAccount(t *testing.T) {
	t.Parallel()
	checkRefused(t, "localhost:1", "--listen", "localhost:0", "--cosmos-endpoint", "http://localhost:1")
}

// TestCommands_EmptyName: an empty --data or --cosmos-database is refused. No command falls back to an engine in
// memory or to another database.
func TestCommands_EmptyName(t *testing.T) {
	withData := []string{"serve --listen localhost:0", "seed --users 1", "views status", "views verify",
		"views repair", "views rebuild", "export --user ada"}
	for _, c := range []struct {
		flag, variable string
		commands       []string
		wantErr        error
	}{
		{"--data", "BYLINE_DATA", append(withData, "emulator --listen localhost:0 --http"), account.ErrNoData},
		{"--cosmos-database", "COSMOS_DATABASE", withData, account.ErrNoDatabase},
	} {
		for _, command := range c.commands {
			for _, from := range []string{c.flag, c.variable} {
				t.Run(command+" "+from, func(t *testing.T) {
					t.Chdir(t.TempDir())
					args := strings.Fields(command)
					if from == c.flag {
						args = append(args, from, "")
					} else {
						t.Setenv(from, "")
					}
					var log output
					ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
					defer cancel()
					if status := run(ctx, args, io.Discard, &log, func(net.Addr) {
						cancel()
					}); status != 1 || log.String() != "byline: "+c.wantErr.Error()+"\n" {
						t.Errorf("status %d: %s", status, log.String())
					}
					if left, err := os.ReadDir("."); len(left) > 0 || err != nil {
						t.Errorf("files left: %v %v", left, err)
					}
				})
			}
		}
	}
}

// TestHelp: docs/configuration.md has the flags and variables of the server. Those of the other commands are in --help
// alone.
func TestHelp(t *testing.T) {
	readme, err := os.ReadFile(servertest.Path("docs/configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(--[a-z-]+)`").FindAllStringSubmatch(string(readme), -1)
	documented := map[string]bool{}
	for _, r := range rows {
		documented[r[1]] = true
	}
	shown, all := map[string]bool{}, ""
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"emulator", "--help"}, {"provision", "--help"},
		{"views", "verify", "--help"}, {"seed", "--help"}, {"export", "--help"}, {"explain", "--help"}} {
		var out output
		if status := run(t.Context(), args, &out, io.Discard, nil); status != 0 {
			t.Errorf("exit status %d", status)
		}
		if n := strings.Count(out.String(), "Usage: "); n > 1 && args[0] != "--help" {
			t.Errorf("%s prints the help of %d commands", args, n)
		}
		if strings.Contains(out.String(), ",...,...") {
			t.Errorf("%s prints the ellipsis of a list twice", args)
		}
		all += out.String()
		if args[0] != "serve" {
			continue
		}
		for _, name := range regexp.MustCompile(`--(?:\[no-\])?[a-z][a-z-]*`).FindAllString(out.String(), -1) {
			if name = strings.Replace(name, "[no-]", "", 1); name != "--help" {
				shown[name] = true
			}
		}
		for _, name := range regexp.MustCompile(`\$[A-Z_]+`).FindAllString(out.String(), -1) {
			if !bytes.Contains(readme, []byte("`"+name[1:])) {
				t.Errorf("docs/configuration.md does not name %s", name)
			}
		}
	}
	for _, flag := range []string{"--cache=64", "--max-connections=20000", `--auth-role-claim="roles"`,
		"--partitions=1"} {
		if !strings.Contains(all, flag+" ") {
			t.Errorf("--help does not show the default %s", flag)
		}
	}
	if len(shown) < 8 || !maps.Equal(shown, documented) {
		t.Errorf("--help shows %v\ndocs/configuration.md has %v", slices.Sorted(maps.Keys(shown)),
			slices.Sorted(maps.Keys(documented)))
	}
}

func TestServe_FlagOverridesEnvironment(t *testing.T) {
	t.Setenv("BYLINE_DATA", filepath.Join(t.TempDir(), "environment"))
	t.Setenv("BYLINE_DEMO", "false")
	s := start(t)
	if !strings.Contains(s.Log.String(), "environment") || strings.Contains(s.Log.String(), "demo blog") {
		t.Errorf("the environment is ignored: %s", s.Log)
	}
	s = start(t, "--data", filepath.Join(t.TempDir(), "flag"))
	if !strings.Contains(s.Log.String(), "flag") {
		t.Errorf("the flag does not override the environment: %s", s.Log)
	}
}

// TestServe_LogFormat: with --log-format json each line is an object with the attributes of the text.
func TestServe_LogFormat(t *testing.T) {
	s := start(t, "--data", t.TempDir(), "--no-demo", "--log-format", "json")
	if status := s.Stop(); status != 0 {
		t.Fatalf("exit status %d: %s", status, s.Log)
	}
	found := map[string]string{}
	for line := range strings.Lines(s.Log.String()) {
		var record struct{ Time, Level, Msg, URL, Drain string }
		if err := json.Unmarshal([]byte(line), &record); err != nil || record.Time == "" || record.Level == "" {
			t.Errorf("%s: %v", line, err)
		}
		found[record.Msg] = record.URL + record.Drain
	}
	if !strings.HasPrefix(found["listening"], "http://localhost:") || found["stopping"] != "0s" {
		t.Error(s.Log)
	}
}

// TestServe_LogLevel: with --log-level debug an error of a client is found by its requestId, whatever refused it;
// without, it is not logged.
func TestServe_LogLevel(t *testing.T) {
	for _, level := range []string{"info", "debug"} {
		s := start(t, "--data", t.TempDir(), "--no-demo", "--log-level", level)
		for _, wrong := range []string{`{ nonsense }`, `{ post(id: "nonsense") { title } }`, `{`,
			`mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`} {
			out, err := s.Post("", wrong, nil)
			if err != nil || len(out.Errors) == 0 {
				t.Fatalf("%s: %v %+v", wrong, err, out)
			}
			id, _ := out.Errors[0].Extensions["requestId"].(string)
			line := regexp.MustCompile(`level=DEBUG msg="operation failed" .*requestId=` + id + `\b`)
			if found := line.MatchString(s.Log.String()); id == "" || found != (level == "debug") {
				t.Errorf("--log-level %s: the error of %s is logged: %t\n%s", level, wrong, found, s.Log)
			}
		}
	}
}

// TestServe_UnknownVariable: the log names a misspelt variable, even if the server does not start without it; never
// its value, and no variable that is read.
func TestServe_UnknownVariable(t *testing.T) {
	const value, key = "https://private.example", "a key of the sessions, long enough"
	t.Setenv("BYLINE_CORS_ORIGIN", value)
	t.Setenv("BYLINE_SESSION_KEY", testkit.Secret(key))
	t.Setenv("BYLINE_EMULATOR_KEY", testkit.Secret("the key of another command"))
	s := start(t, "--data", t.TempDir(), "--no-demo")
	var refused output
	run(t.Context(), []string{"--listen", ":0"}, io.Discard, &refused, nil)
	for _, log := range []string{s.Log.String(), refused.String()} {
		first, rest, _ := strings.Cut(log, "\n")
		if !strings.HasSuffix(first,
			`level=WARN msg="unknown environment variables" variables="BYLINE_CORS_ORIGIN (did you mean BYLINE_CORS_ORIGINS?)"`) ||
			strings.Contains(rest, "BYLINE_CORS_ORIGIN") || strings.Contains(log, value) {
			t.Error(log)
		}
	}
}
