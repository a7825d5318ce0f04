package graph

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"

	"byline/graph/playground"
)

func get(t testing.TB, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
	return w
}

func TestPlayground_InDevelopment(t *testing.T) {
	b := smallBlog(t, Options{Development: true})
	if page := get(t, b, "/"); page.Code != http.StatusOK ||
		!strings.HasPrefix(page.Header().Get("Content-Type"), "text/html") {
		t.Fatalf("status %d, %s", page.Code, page.Header())
	}
	prepared := get(t, b, playground.Prefix+"prepared.json").Body.Bytes()
	if post := b.names["post:moths"]; !strings.Contains(string(prepared), post) {
		t.Errorf("no post %s in %s", post, prepared)
	}
	var page struct{ Examples []playground.Example }
	if err := json.Unmarshal(prepared, &page); err != nil || len(page.Examples) != 10 {
		t.Fatalf("%v: %s", err, prepared)
	}
	for _, example := range page.Examples {
		if _, err := gqlparser.LoadQueryWithRules(readSchema(t), example.Query, nil); err != nil {
			t.Errorf("%s: %v", example.Name, err)
		}
	}
	if a := post(t, b, "", "{ __schema { queryType { name } } }", nil); a.code() != "" {
		t.Errorf("introspection: %s", a.body)
	}
}

func TestPlayground_OutsideDevelopment(t *testing.T) {
	h := newTestHandler(t, Options{})
	for _, target := range []string{"/", playground.Prefix + "page.js", playground.Prefix + "playground.js"} {
		if got := get(t, h, target); got.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", target, got.Code)
		}
	}
	if a := post(t, h, "", "{ __schema { queryType { name } } }", nil); a.code() != "GRAPHQL_VALIDATION_FAILED" {
		t.Errorf("introspection: %s", a.body)
	}
	development := newTestHandler(t, Options{Development: true})
	for _, query := range []string{
		`{ fed { edges { cursor } } }`,
		`{ feed { edges } }`,
		`{ feed(frst: 1) { edges { cursor } } }`,
		`{ feed { edges { node { ...F } } } } fragment F on Pos { id }`,
		`{ node(id: "x") { ... on Post { comments(order: NEWEST_FIRS) { edges { cursor } } } } }`,
		`mutation { likePost(input: {postID: "x"}) { post { id } } }`,
	} {
		if a := post(t, h, "demo:ada", query, nil); a.code() != "GRAPHQL_VALIDATION_FAILED" ||
			strings.Contains(a.body, "Did you mean") {
			t.Errorf("suggestions: %s", a.body)
		}
		if a := post(t, development, "demo:ada", query, nil); !strings.Contains(a.body, "Did you mean") {
			t.Errorf("no suggestions in development: %s", a.body)
		}
	}
}
