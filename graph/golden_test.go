package graph

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	goast "go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/cost"
	"byline/graph/refusal"
	"byline/internal/testkit"
	"byline/store"
)

var update = flag.Bool("update", false, "write the goldens instead of comparing with them")

// TestGoldens sends each testdata/golden/<case>.graphql to the small blog, and compares the response with <case>.json.
// Comments at the top of the file set options:
//
//	# token: demo:ada                         the token of the client
//	# variables: {"id": "<post:engines>"}
//	# then: mutation { ... }                  executed by ada once the subscription is open
//	# cosmos: 429                             the status, or status/substatus, of all responses of Cosmos DB
//	# full: engines                           a post with the maximum number of comments
//	# development: true
//	# cost: detail                            the detail of the reported cost
//	# extensions: {"persistedQuery": {"version": 1, "sha256Hash": "0"}}
//	# trusted: {"id": "query { __typename }"}  the trusted documents
//
// where <post:engines> is the global id with that name in smallBlog. A file that has only comments sends no document.
func TestGoldens(t *testing.T) {
	shared := smallBlog(t, Options{})
	for _, g := range goldens(t) {
		t.Run(g.name, func(t *testing.T) {
			var body string
			o := Options{Development: g.comments["development"] != ""}
			if manifest := g.comments["trusted"]; manifest != "" {
				o.TrustedDocuments = trust(t, []byte(manifest))
			}
			switch {
			case g.comments["then"] != "":
				body = g.event(t, o)
			case g.comments["cosmos"] != "":
				synctest.Test(t, func(t *testing.T) { // requests are retried
					body = g.send(t, smallBlogInBubble(t, o))
				})
			case strings.Contains(g.query, "mutation") || o.Development || o.TrustedDocuments != nil:
				body = g.send(t, smallBlog(t, o))
			default:
				body = g.send(t, shared)
			}
			body = regexp.MustCompile(`"ms":[0-9.]+`).ReplaceAllString(body, `"ms":0`) // it varies
			// and so do the seconds of its date
			if strings.Contains(g.query, "mutation") {
				body = regexp.MustCompile(`T09:00:\d\d\.`).ReplaceAllString(body, "T09:00:00.")
			}
			var got bytes.Buffer
			if err := json.Indent(&got, []byte(body), "", "  "); err != nil {
				t.Fatal(err)
			}
			if *update {
				if err := os.WriteFile(g.responseFile, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(g.responseFile)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("(-golden +got):\n%s", diff)
			}
		})
	}
}

// send returns the response to the document.
func (g golden) send(t *testing.T, b *testBlog) string {
	t.Helper()
	if title := g.comments["full"]; title != "" {
		b.rewrite(t, "posts", b.postID(t, title), b.postID(t, title), "/commentCount", 100_000)
	}
	b.wire.reset()
	first, substatus, _ := strings.Cut(g.comments["cosmos"], "/")
	if status, err := strconv.Atoi(first); err == nil {
		b.wire.fail = func(*http.Request) (*http.Response, error) {
			resp := newResponse(status, `{"code":"secret","message":"secret"}`)
			resp.Header.Set("X-Ms-Substatus", substatus)
			return resp, nil
		}
	}
	body := send(t, b, g.request(t, b)).body
	b.wire.checkPartitions(t)
	return body
}

// event subscribes to the document and returns the first event.
func (g golden) event(t *testing.T, o Options) string {
	t.Helper()
	b, server := liveBlog(t, o)
	stream := openEvents(t, server, http.MethodPost, mediaEvents, g.comments["token"], b.fill(g.query))
	opened(t, b, 1)
	if strings.Contains(g.query, "<post:") {
		testkit.Until(t, func() error { // the post is read before the mutation may delete it
			if sumOf(t, b.metrics, "byline_cosmos_requests_total", isSubscribe)+
				sumOf(t, b.metrics, "byline_cache_hits_total", isSubscribe) == 0 {
				return errors.New("the subscription has not read its post")
			}
			return nil
		})
	}
	if a := post(t, b, "demo:ada", b.fill(g.comments["then"]), nil); a.code() != "" {
		t.Fatal(a.body)
	}
	return strings.TrimPrefix(stream.next(), "next ") + "\n"
}

func isSubscribe(pattern string) bool { return pattern == string(store.Subscribe) }

// Every field of the root types and every error code is in a golden.
func TestGoldens_AreComplete(t *testing.T) {
	schema := readSchema(t)
	missing := map[string]bool{}
	for _, root := range []*ast.Definition{schema.Query, schema.Mutation, schema.Subscription} {
		for _, f := range root.Fields {
			missing[root.Name+"."+f.Name] = f.Name != "__type"
		}
	}
	for _, code := range errorCodes(t) {
		missing[code] = true
	}
	for _, g := range goldens(t) {
		if document,
			err := gqlparser.LoadQueryWithRules(schema, g.query, nil); err == nil && len(document.Operations) > 0 {
			for _, selected := range document.Operations[0].SelectionSet {
				if f, ok := selected.(*ast.Field); ok {
					missing[f.ObjectDefinition.Name+"."+f.Name] = false
				}
			}
		}
		response, err := os.ReadFile(g.responseFile)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range regexp.MustCompile(`"code": "(\w+)"`).FindAllSubmatch(response, -1) {
			missing[string(code[1])] = false
		}
	}
	for what, yes := range missing {
		if yes {
			t.Errorf("%s is in no golden", what)
		}
	}
}

// errorCodes returns the error codes that refusal.go declares.
func errorCodes(t *testing.T) []string {
	t.Helper()
	// Two are declared by another name.
	return append(constants(t, "refusal/refusal.go", "Code"), string(refusal.ParseFailed),
		string(refusal.ValidationFailed))
}

// constants returns the strings that a file declares as constants of a type.
func constants(t *testing.T, path, name string) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	goast.Inspect(file, func(n goast.Node) bool {
		if spec, ok := n.(*goast.ValueSpec); ok && len(spec.Values) == 1 {
			typ, _ := spec.Type.(*goast.Ident)
			if value, ok := spec.Values[0].(*goast.BasicLit); ok && typ != nil && typ.Name == name {
				text, err := strconv.Unquote(value.Value)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, text)
			}
		}
		return true
	})
	if len(all) < 9 {
		t.Fatalf("found only %v", all)
	}
	return all
}

// golden is a .graphql file of testdata/golden and the path of its .json file.
type golden struct {
	name, query, responseFile string
	comments                  map[string]string
}

func goldens(t *testing.T) []golden {
	t.Helper()
	files, err := filepath.Glob("testdata/golden/*.graphql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var all []golden
	for _, file := range files {
		query, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		base := strings.TrimSuffix(file, ".graphql")
		g := golden{name: filepath.Base(base), query: string(query), responseFile: base + ".json",
			comments: map[string]string{}}
		for line := range strings.Lines(g.query) {
			text, ok := strings.CutPrefix(line, "# ")
			if !ok {
				break
			}
			key, value, _ := strings.Cut(strings.TrimSpace(text), ": ")
			g.comments[key] = value
		}
		all = append(all, g)
	}
	return all
}

func (g golden) request(t *testing.T, b *testBlog) *http.Request {
	t.Helper()
	body := map[string]any{}
	for line := range strings.Lines(g.query) {
		if !strings.HasPrefix(line, "#") {
			body["query"] = b.fill(g.query)
		}
	}
	for _, member := range []string{"variables", "extensions"} {
		if value := g.comments[member]; value != "" {
			body[member] = json.RawMessage(b.fill(value))
		}
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/graphql", bytes.NewReader(encoded))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", mediaResponse)
	r.Header.Set(requestIDHeader, "golden")
	if detail := g.comments["cost"]; detail != "" {
		r.Header.Set(cost.Header, detail)
	}
	if token := g.comments["token"]; token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}
