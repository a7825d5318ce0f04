package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"byline/internal/enginetest"
	"byline/internal/secrettest"
	"byline/internal/servertest"
	"byline/store/emulator"
)

// clientsFolder has the programs of TestClients and, unless the environment names another folder, their
// packages. With the environment variable, the packages and a browser are required, and the tests in a browser run.
const (
	clientsFolder = "graph/testdata/clients"
	clientsEnv    = "BYLINE_TEST_CLIENTS"
)

// TestClients runs the clients and tools of single-page applications, which are
// JavaScript, against the server and its schema.
func TestClients(t *testing.T) {
	folder, node := clientsIn(t)
	s := start(t, "--data", t.TempDir(), "--no-demo")
	for name, code := range documentedFiles(t, "docs/auth.md") {
		code = strings.ReplaceAll(code, `"/graphql"`, `"`+s.Root+`/graphql"`) // outside a page, a URL cannot be relative
		if err := os.WriteFile(filepath.Join(folder, name), []byte(code), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	for _, program := range []string{"clients.test.mjs", "schema.test.mjs"} {
		t.Run(program, func(t *testing.T) { runProgram(t, folder, node, program, "GRAPHQL_URL="+s.Root+"/graphql") })
	}
}

// TestClients_Counts runs the documented setups of Apollo Client, urql and Relay on two instances while the views lag:
// lists have the counts that the client has written, on the instance that wrote and, with the session, on the other.
func TestClients_Counts(t *testing.T) {
	folder, node := clientsIn(t)
	engine, err := emulator.Open("", emulator.Options{Logger: secrettest.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	views := &enginetest.HeldViews{}
	account := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if views.Holds(r) {
			w.Header().Set("X-Ms-Retry-After-Ms", "100")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		engine.ServeHTTP(w, r)
	}))
	t.Cleanup(account.Close)
	cosmos := []string{"--cosmos-endpoint", account.URL}
	one, two := start(t, cosmos...), start(t, cosmos...)
	one.Do("ada", createUser, map[string]any{"name": "ada"})
	const posts = 6 // one for each test
	for i := range posts {
		one.Do("ada", `mutation($t: String!) { createPost(input: {title: $t, content: "x"}) { post { id } } }`, map[string]any{"t": fmt.Sprint("one ", i)})
	}
	for name, block := range map[string]struct{ with, export string }{
		"apollo-setup.js": {`from "@apollo/client"`, "client"},
		"urql-setup.js":   {`from "@urql/core"`, "client"},
		"relay-setup.js":  {`from "relay-runtime"`, "environment"},
	} {
		code := documentedBlock(t, "docs/graphql.md", block.with)
		code = strings.ReplaceAll(code, `"/graphql"`, `"`+one.Root+`/graphql"`)
		// Bundlers find the names that a package of CommonJS exports, Node does not.
		code = regexp.MustCompile(`import (\{.*\}) from "relay-runtime";`).ReplaceAllString(code, `import relay from "relay-runtime"; const $1 = relay;`)
		code = "const token = \"demo:ada\";\n" + code + "export { " + block.export + " };\n"
		if err := os.WriteFile(filepath.Join(folder, name), []byte(code), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	session := strings.Replace(documentedBlock(t, "docs/consistency.md", "async function send("), "await fetch(", "await globalThis.instance(", 1)
	if err := os.WriteFile(filepath.Join(folder, "session.js"), []byte(session+"export { send };\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	runProgram(t, folder, node, "counts.test.mjs", "GRAPHQL_URLS="+one.Root+" "+two.Root)

	feed := start(t, cosmos...).Do("", `{ feed { edges { node { likeCount } } } }`, nil)
	for i := range posts {
		if n := servertest.At(t, feed, fmt.Sprintf("feed.edges.%d.node.likeCount", i)); n != 0.0 {
			t.Errorf("the view has not lagged: it has %v likes", n)
		}
	}
}

// clientsIn returns a folder with the programs, their packages and the schema, and the path of Node. It skips the
// test if they are missing and not required.
func clientsIn(t testing.TB) (folder, node string) {
	t.Helper()
	packages, required := clientPackages(t)
	node, err := exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(packages)
	}
	switch {
	case err != nil && required:
		t.Fatal(err)
	case err != nil:
		t.Skipf("needs Node and its packages, which `npm ci --prefix %s` installs: %v", clientsFolder, err)
	}

	// The tools write to their working directory.
	folder = t.TempDir()
	if err := os.Symlink(packages, filepath.Join(folder, "node_modules")); err != nil {
		t.Fatal(err)
	}
	programs, err := filepath.Glob(servertest.Path(clientsFolder + "/*.*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range append(programs, servertest.Path("schema.graphqls")) {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, filepath.Base(from)), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return folder, node
}

// runProgram runs a program of the folder with an environment variable.
func runProgram(t testing.TB, folder, node, program, variable string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "--test-reporter=spec", program)
	cmd.Dir, cmd.WaitDelay = folder, 10*time.Second
	cmd.Env = append(os.Environ(), variable)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
}

// documentedBlock returns the first JavaScript block of a page that has a text.
func documentedBlock(t testing.TB, page, with string) string {
	t.Helper()
	b, err := os.ReadFile(servertest.Path(page))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```js\n(.*?)```").FindAllStringSubmatch(string(b), -1) {
		if strings.Contains(m[1], with) {
			return m[1]
		}
	}
	t.Fatalf("%s has no block with %s", page, with)
	return ""
}

// clientPackages returns the folder of the packages, and whether they are required.
func clientPackages(t testing.TB) (folder string, required bool) {
	t.Helper()
	folder, required = os.LookupEnv(clientsEnv)
	if !required {
		folder = servertest.Path(clientsFolder)
	}
	folder, err := filepath.Abs(filepath.Join(folder, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	return folder, required
}

// documentedFiles returns the JavaScript blocks of a page by the file name in their first line.
func documentedFiles(t testing.TB, page string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(servertest.Path(page))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```js\n// ([a-z]+\\.js)\n(.*?)```").FindAllStringSubmatch(string(b), -1) {
		files[m[1]] = m[2]
	}
	if len(files) == 0 {
		t.Fatalf("%s has no files", page)
	}
	return files
}

// TestDocumentedPackages_TestedVersions: the documentation installs the versions that TestClients uses, and every
// package that the examples import.
func TestDocumentedPackages_TestedVersions(t *testing.T) {
	var tested struct{ Dependencies, Overrides map[string]string }
	b, err := os.ReadFile(servertest.Path(clientsFolder + "/package.json"))
	if err == nil {
		err = json.Unmarshal(b, &tested)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(tested.Overrides) > 0 {
		t.Errorf("readers have no overrides: %v", tested.Overrides)
	}
	pages, err := filepath.Glob(servertest.Path("docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	installed := regexp.MustCompile(`(?m)^npm install (.*)$`)
	imported := regexp.MustCompile(`from "((?:@[a-z-]+/)?[a-z][a-z-]*)`)
	named := 0
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		packages := map[string]bool{}
		for _, line := range installed.FindAllStringSubmatch(string(b), -1) {
			for _, word := range strings.Fields(line[1]) {
				if strings.HasPrefix(word, "--") {
					continue
				}
				at := strings.LastIndex(word, "@")
				name, version := word[:max(at, 0)], word[at+1:]
				if want := tested.Dependencies[name]; version != want || want == "" {
					t.Errorf("%s: %s is tested at version %q", page, word, want)
				}
				packages[name] = true
				named++
			}
		}
		for _, m := range imported.FindAllStringSubmatch(string(b), -1) {
			if !packages[m[1]] {
				t.Errorf("%s: nothing installs %s", page, m[1])
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d packages are named", named)
	}
}

// TestDocumentedClients_Reconnect: graphql-ws reconnects also if the connection is refused, as while a server restarts.
func TestDocumentedClients_Reconnect(t *testing.T) {
	pages, err := filepath.Glob(servertest.Path("docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```js\n(.*?)```")
	clients := 0
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllStringSubmatch(string(b), -1) {
			if !strings.Contains(m[1], `from "graphql-ws"`) {
				continue
			}
			clients++
			if !strings.Contains(m[1], "shouldRetry: () => true") {
				t.Errorf("%s: a client does not reconnect:\n%s", page, m[1])
			}
		}
	}
	if clients < 5 {
		t.Errorf("only %d clients", clients)
	}
}
