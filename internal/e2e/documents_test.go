package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"byline/internal/servertest"
	"byline/internal/testkit"
)

// notRun are commands of the documents that TestDocuments_CommandsRun does not run, with the reason. A command is
// matched by its document, or all for "", and its beginning.
var notRun = []struct{ document, command, reason string }{
	{"docs/deploy.md", "", "TestDeployDocument_CommandsRun runs them"},
	{"docs/graphql.md", "np", ".ci/clients installs the packages and runs what they are for"},
	{"docs/persisted-operations.md", "npm install ", ".ci/clients installs the packages"},
	{"docs/auth.md", "byline --auth-issuer ", "needs an identity provider: TestProvider_SignIn has one"},
	{"docs/operations.md", "export GROUP=$(az ", "needs Azure"},
	{"docs/operations.md", "yq ", "needs yq; TestDashboardAndAlerts reads what it converts"},
	{"docs/operations.md", "az ", "needs Azure"},
	{"deploy/proxies/README.md", "", "settings with placeholders; TestProxies serves with them"},
	{"docs/spa.md", "VITE_", "settings with placeholders of a build that .ci/spa makes"},
	{"store/emulator/README.md", "export BYLINE_TEST_ENDPOINT=", "needs an account"},
	{"docs/performance.md", ".ci/peer", "takes minutes; needs PostgreSQL, Node and Bun"},
	{"bench/peer/README.md", ".ci/peer", "takes minutes; needs PostgreSQL, Node and Bun"},
	{"", "go -C bench run ", "takes minutes; the tests of bench run the program"},
	{"", "go test ", "tests and benchmarks, this one among them"},
	{"", "go -C deploy/image run .", ".ci/image builds the image"},
	{"", "podman ", "needs podman; .ci/image runs the image like that"},
	{"deploy/kubernetes/README.md", "az ", "needs Azure"},
	{"CONTRIBUTING.md", ".ci/", "takes minutes"},
	{"CONTRIBUTING.md", "make", "prints the targets of the Makefile; needs make"},
	{"README.md", "export COSMOS_ENDPOINT=https://<account>", "needs an account: TestServe_EntraIdentityOnTemplate has one"},
	{"README.md", "./byline --listen :8443 ", "needs that account and a certificate: TestTLS has one"},
	{"examples/apollo/README.md", "npm ", ".ci/clients runs them"},
	{"examples/spa/README.md", "npm ", ".ci/spa runs them"},
	{"examples/spa/README.md", "byline schema > schema.graphqls", ".ci/spa runs it in a copy of the folder"},
	{"examples/spa/README.md", "go run -C ../.. . --trusted-documents ", "needs what npm run build writes: .ci/spa"},
}

// placeholder matches what a reader replaces in a command, such as <region>.
var placeholder = regexp.MustCompile(`<[a-z][a-zA-Z0-9() ]*>`)

// documentedCommand is a command in a document.
type documentedCommand struct{ document, text string }

// notDocuments are folders without documents; articles has posts of the demo blog.
var notDocuments = []string{"node_modules", ".git", "data", "dist", "articles"}

// documentedCommands returns the commands in the blocks of shell commands of all documents, and in the comments of
// the unit for systemd, by document and in their order.
func documentedCommands(t *testing.T) (documents []string, all map[string][]documentedCommand) {
	t.Helper()
	root := servertest.Path("")
	all = map[string][]documentedCommand{}
	add := func(file string, lines []string) {
		document, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		command := ""
		for _, line := range lines {
			if command += line; strings.TrimSpace(command) == "" || strings.HasPrefix(command, "#") {
				command = ""
			} else if strings.HasSuffix(line, "\\") ||
				exec.Command("sh", "-nc", placeholder.ReplaceAllString(command, "x")).Run() != nil {
				command += "\n" // it continues in the next line
			} else {
				all[document] = append(all[document], documentedCommand{document, command})
				command = ""
			}
		}
		if command != "" {
			t.Errorf("%s: the end of %s is missing", document, command)
		}
		if len(all[document]) > 0 {
			documents = append(documents, document)
		}
	}
	block := regexp.MustCompile("(?ms)^( *)```sh\n(.*?)^ *```")
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && slices.Contains(notDocuments, e.Name()):
			return filepath.SkipDir
		case filepath.Ext(file) != ".md" || e.IsDir():
			return nil
		}
		text, err := os.ReadFile(file)
		var lines []string
		for _, m := range block.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(m[2]) {
				lines = append(lines, strings.TrimPrefix(strings.TrimSuffix(line, "\n"), m[1]))
			}
		}
		add(file, lines)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	unit := servertest.Path("deploy/systemd/byline.service")
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range regexp.MustCompile(`(?m)^# (?:Then|To upgrade): (.*)$`).FindAllStringSubmatch(string(text), -1) {
		lines = append(lines, m[1])
	}
	add(unit, lines)
	return documents, all
}

// stopUnit ends the process of the unit, which is not a child of the shell, and waits for its end.
const stopUnit = `if [ -e "$ROOT/pid" ]; then pid=$(cat "$ROOT/pid"); kill "$pid"; while kill -0 "$pid" 2>/dev/null; do sleep .1; done; fi`

// documentPrograms replace what commands of the documents need, by name. They see the variables of the test: ROOT is
// the folder for what the commands would write to the machine, PROGRAM is byline, and CALLS a file with what is not
// run.
var documentPrograms = map[string]string{
	// go run and go build, of a program that is built
	"go": `while [ $# -gt 0 ]; do case $1 in run | .) shift ;; -C) cd "$2"; shift 2 ;; build) exec ln -sf "$PROGRAM" byline ;; *) break ;; esac; done
exec "$PROGRAM" "$@"`,
	"byline": `exec "$PROGRAM" "$@"`,
	"docker": `echo "docker $*" >>"$CALLS"`,
	// runs what the unit does, from the environment of the test instead of that of the unit
	"systemctl": `echo "systemctl $*" >>"$CALLS"
case "$*" in "enable --now byline" | "restart byline")
  ` + stopUnit + `
  sh -c 'echo $$ >"$ROOT/pid"; exec "$ROOT/bin/byline" serve --data "$ROOT/data" --no-demo' >>"$ROOT/log" 2>&1 & ;;
esac`,
}

// documentPrelude starts servers in the background, and waits until they listen. A server that a document runs in the
// foreground is stopped before the next one.
const documentPrelude = `
trap 'kill $(jobs -p) 2>/dev/null || true; wait; ` + stopUnit + `' EXIT
listens() { for _ in $(seq 300); do (exec 3<>"/dev/tcp/localhost/$1") 2>/dev/null && return; sleep .1; done; echo "nothing listens on $1"; exit 1; }
foreground=
serve() { port=$1; shift; [ -z "$foreground" ] || { kill "$foreground"; wait "$foreground" || true; }; "$@" & foreground=$!; listens "$port"; }
`

// servers are commands that serve until they are stopped, with their ports.
var servers = map[string]string{
	"go run .": "8080", "byline": "8080", "go run . emulator": "8081", "go run . emulator --http --data /tmp/db": "8081",
	"./byline emulator --http --data /tmp/byline &": "8081",
	"./byline &":                         "8080",
	"./byline --listen localhost:8082 &": "8082",
}

// TestDocuments_CommandsRun runs the commands of each document in the order in which it has them, with free ports.
// Those that cannot run here are in notRun.
func TestDocuments_CommandsRun(t *testing.T) {
	testkit.Heavy(t)
	for _, name := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("needs " + name)
		}
	}
	documents, all := documentedCommands(t)
	used := make([]bool, len(notRun))
	skipped := func(c documentedCommand) bool {
		n := slices.IndexFunc(notRun, func(r struct{ document, command, reason string }) bool {
			return (r.document == "" || r.document == c.document) && strings.HasPrefix(c.text, r.command)
		})
		if n >= 0 {
			used[n] = true
		}
		return n >= 0
	}
	prints := map[string][]string{ // what a document shows, or says that it does
		"README.md":              {`"likeCount":`, `{"data":{"updateUser":{"user":{"username":"countess"}}}}`},
		"deploy/local/README.md": {`{"data":{"viewer":{"username":"newcomer"}}}`},
		"docs/operations.md":     {`"status":"ready"`},
	}
	ran := map[string]bool{}
	for _, document := range documents {
		var run []string
		for _, c := range all[document] {
			if !skipped(c) {
				run = append(run, c.text)
			}
		}
		if len(run) == 0 {
			continue
		}
		ran[document] = true
		t.Run(document, func(t *testing.T) {
			t.Parallel()
			out, calls := runDocument(t, document, run)
			for _, want := range prints[document] {
				if !strings.Contains(out, want) {
					t.Errorf("no %s in %s", want, out)
				}
			}
			checkCalls(t, calls)
		})
	}
	for n, rule := range notRun {
		if !used[n] {
			t.Errorf("%s has no command %q: remove it from notRun", rule.document, rule.command)
		}
	}
	for document := range prints {
		if !ran[document] {
			t.Errorf("no command of %s was run", document)
		}
	}
}

// runDocument runs commands in one shell, in a folder that has what the repository has. It returns what they print, and
// the calls of programs that are not run.
func runDocument(t *testing.T, document string, commands []string) (printed string, calls []string) {
	t.Helper()
	bin, work, root := t.TempDir(), t.TempDir(), t.TempDir()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	write := func(file, text string) {
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(root, "program")
	write(program, fmt.Sprintf(`#!/bin/sh
case "$*" in
emulator*--listen*) ;;
emulator*) shift; set -- emulator --listen "$EMULATOR" "$@" ;;
esac
exec env %s %s "$@"
`, servertest.ProgramEnv, executable))
	for name, script := range documentPrograms {
		write(filepath.Join(bin, name), "#!/bin/bash\nset -eu\n"+script+"\n")
	}
	entries, err := os.ReadDir(servertest.Path(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == "data" || e.Name() == "byline" || strings.HasPrefix(e.Name(), ".git") {
			continue
		}
		if err := os.Symlink(filepath.Join(servertest.Path(""), e.Name()), filepath.Join(work, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	replace := []string{"/usr/local/bin/", root + "/bin/", "/tmp/", root + "/", "<version>", "0.1.0", "<new version>", "0.2.0"}
	ports := map[string]string{}
	for _, port := range []string{"8080", "8081", "8082"} {
		ports[port] = freePort(t)
		replace = append(replace, "localhost:"+port, "localhost:"+ports[port])
	}
	script := documentPrelude
	if strings.HasSuffix(document, ".service") {
		script += "go build .\ninstall -m 755 byline /usr/local/bin/byline\n" // as the document says before
	}
	if document == "docs/operations.md" { // the export is of the demo blog
		script += "serve 8080 go run .\n" +
			"until curl -fs localhost:8080/readyz; do sleep .1; done\nkill $foreground; wait $foreground || true; foreground=\n"
	}
	for _, c := range commands {
		command, _, _ := strings.Cut(c, " #")
		command = strings.TrimSpace(command)
		port, serves := servers[command]
		switch {
		case serves && strings.HasSuffix(command, "&"):
			script += command + " listens " + port + "\n"
		case serves:
			script += "serve " + port + " " + command + "\n"
		default:
			script += command + "\n"
		}
		if strings.Contains(command, "systemctl restart") || strings.Contains(command, "enable --now") {
			script += "listens 8080\n"
		}
	}
	script = strings.NewReplacer(replace...).Replace(script)
	for port, free := range ports {
		script = regexp.MustCompile(`\b(listens|serve) `+port+`\b`).ReplaceAllString(script, "$1 "+free)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euc", script)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "PROGRAM="+program, "ROOT="+root,
		"CALLS="+filepath.Join(root, "calls"), "BYLINE_LISTEN=localhost:"+ports["8080"],
		"EMULATOR=localhost:"+ports["8081"])
	cmd.WaitDelay = 10 * time.Second
	var out, log output
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		t.Errorf("%v:\n%s\n%s%s", err, script, &out, &log)
	}
	text, err := os.ReadFile(filepath.Join(root, "calls"))
	if err == nil {
		calls = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	return out.String(), calls
}

// freePort returns a port on which nothing listens. It is below those that systems choose themselves, for another
// server or a connection, before the program listens on it.
func freePort(t *testing.T) string {
	t.Helper()
	for {
		port := strconv.Itoa(20_000 + rand.IntN(12_000))
		if l, err := net.Listen("tcp", "localhost:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
}

// checkCalls checks that docker compose is called with services of compose.yaml, and that the blog is loaded before an
// instance serves it.
func checkCalls(t *testing.T, calls []string) {
	t.Helper()
	known, loaded := services(t), false
	for _, call := range calls {
		t.Log("not run here:", call)
		rest, ok := strings.CutPrefix(call, "docker compose -f deploy/local/compose.yaml ")
		if !ok {
			continue
		}
		words := strings.Fields(rest)
		for _, word := range words[1:] {
			if _, ok := known[word]; !ok && !strings.HasPrefix(word, "-") {
				t.Errorf("%s: compose.yaml has no service %s", call, word)
			}
		}
		switch words[0] {
		case "run":
			loaded = true
		case "up":
			if !loaded {
				t.Error("instances are started before the blog is loaded, which is then refused")
			}
		}
	}
}
