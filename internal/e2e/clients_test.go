package e2e

import (
	"context"
	"encoding/json"
	"fmt"
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

	"byline/internal/enginetest"
	"byline/internal/servertest"
	"byline/internal/testkit"
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
	compileDocumented(t, folder, node, s.Root, "docs/graphql.md", "docs/auth.md")
	s.Do("ada", createUser, map[string]any{"name": "ada"})
	for _, program := range []string{"clients.test.mjs", "edges.test.mjs", "schema.test.mjs"} {
		t.Run(program, func(t *testing.T) { runProgram(t, folder, node, program, "GRAPHQL_URL="+s.Root+"/graphql") })
	}
}

// TestClients_Counts runs the documented setups of Apollo Client, urql and Relay on two instances while the views lag:
// lists have the counts that the client has written, on the instance that wrote and, with the session, on the other.
func TestClients_Counts(t *testing.T) {
	folder, node := clientsIn(t)
	engine, err := emulator.Open("", emulator.Options{Logger: testkit.Logger()})
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
		one.Do("ada", `mutation($t: String!) { createPost(input: {title: $t, content: "x"}) { post { id } } }`,
			map[string]any{"t": fmt.Sprint("one ", i)})
	}
	compileDocumented(t, folder, node, one.Root, "docs/graphql.md")
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
		to := filepath.Base(from)
		if strings.HasSuffix(to, ".ts") {
			to = filepath.Join("src", to)
		}
		writeFile(t, filepath.Join(folder, to), string(b))
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

// compileDocumented compiles the files of pages, of which later ones replace those of the same name, as an application
// in src that uses the server at root: with the documented configuration of graphql-codegen, and the options of
// testdata's tsconfig.json, which are strict. The output is in built.
func compileDocumented(t testing.TB, folder, node, root string, pages ...string) {
	t.Helper()
	files := map[string]string{}
	for _, page := range pages {
		maps.Copy(files, documentedFiles(t, page))
	}
	for name, code := range files {
		if name != "codegen.mjs" {
			name = filepath.Join("src", name)
		}
		code = strings.ReplaceAll(code, `"/graphql"`, `"`+root+`/graphql"`) // outside a page, a URL cannot be relative
		writeFile(t, filepath.Join(folder, name), code)
	}
	for _, tool := range [][]string{{"graphql-codegen", "--config", "codegen.mjs"}, {"tsc"}} {
		cmd := exec.CommandContext(t.Context(), node,
			append([]string{filepath.Join("node_modules", ".bin", tool[0])}, tool[1:]...)...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", tool[0], err, out)
		}
	}
	// Bundlers find the names that a package of CommonJS exports, Node does not.
	relay := filepath.Join(folder, "built", "relay.js")
	code, err := os.ReadFile(relay)
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`import (\{.*\}) from "relay-runtime";`)
	writeFile(t, relay, named.ReplaceAllString(string(code), `import relay from "relay-runtime"; const $1 = relay;`))
}

func writeFile(t testing.TB, name, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o777)
	if err == nil {
		err = os.WriteFile(name, []byte(text), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
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

// documentedFiles returns the blocks of a page that have a file name in their first line, by that name.
func documentedFiles(t testing.TB, page string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(servertest.Path(page))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)```[a-z]+\n// ([A-Za-z]+\\.[a-z]+)\n(.*?)```").FindAllStringSubmatch(
		string(b), -1) {
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
	var client struct{ Version string }
	b, err = os.ReadFile(servertest.Path("clients/js/package.json"))
	if err == nil {
		err = json.Unmarshal(b, &client)
	}
	if err != nil {
		t.Fatal(err)
	}
	tested.Dependencies["byline-client"] = client.Version // it is tested as a folder
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
			// An application that uses its bindings has React, and one that follows auth.md has followed graphql.md.
			if !slices.Contains([]string{"react", "byline-client"}, m[1]) && !packages[m[1]] {
				t.Errorf("%s: nothing installs %s", page, m[1])
			}
		}
	}
	if named < 10 {
		t.Errorf("only %d packages are named", named)
	}
}
