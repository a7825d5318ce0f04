package graph

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
)

func get(t testing.TB, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
	return w
}

func TestPlayground_InDevelopment(t *testing.T) {
	b := smallBlog(t, Options{Development: true})
	var h http.Handler = b
	page := get(t, h, "/")
	if page.Code != http.StatusOK || !strings.HasPrefix(page.Header().Get("Content-Type"), "text/html") {
		t.Fatalf("status %d, %s", page.Code, page.Header())
	}
	if !strings.Contains(page.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("policy %q", page.Header().Get("Content-Security-Policy"))
	}
	assets := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page.Body.String(), -1)
	if len(assets) != 4 {
		t.Errorf("%d assets", len(assets))
	}
	for _, asset := range assets {
		if !strings.HasPrefix(asset[1], "/playground/") {
			t.Errorf("%s is not of this server", asset[1])
		}
		if got := get(t, h, asset[1]); got.Code != http.StatusOK || got.Body.Len() == 0 {
			t.Errorf("%s: status %d", asset[1], got.Code)
		}
	}
	script := get(t, h, startScript).Body.String()
	for _, part := range []string{"GraphQLPlayground.init(", `"Authorization":"Bearer demo:ada"`, `"Byline-Cost":"summary"`, "query Feed", `post(id: \"` + b.names["post:moths"]} {
		if !strings.Contains(script, part) {
			t.Errorf("the script lacks %s", part)
		}
	}
	if again := get(t, h, startScript).Body.String(); again == script {
		t.Error("the idempotency keys are the same each time")
	}
	if strings.Contains(script, postIDPlaceholder) || strings.Contains(script, idempotencyKeyPlaceholder) {
		t.Error("the script has placeholders")
	}
	if strings.Contains(script, "http:") || strings.Contains(script, "https:") {
		t.Error("the script names another server")
	}
	for _, target := range []string{"/playground", "/elsewhere", "/playground/nothing.js"} {
		if got := get(t, h, target); got.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", target, got.Code)
		}
	}
	if a := post(t, h, "", "{ __schema { queryType { name } } }", nil); a.code() != "" {
		t.Errorf("introspection: %s", a.body)
	}
}

func TestPlayground_TabsAreValid(t *testing.T) {
	tabs, err := playgroundTabs()
	if err != nil {
		t.Fatal(err)
	}
	if len(tabs) != 6 || tabs[0].Name != "Feed" {
		t.Errorf("tabs %+v", tabs)
	}
	for _, tab := range tabs {
		t.Run(tab.Name, func(t *testing.T) {
			doc, err := gqlparser.LoadQueryWithRules(readSchema(t), tab.Query, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(doc.Operations) != 1 || tab.Headers["Authorization"] != "Bearer demo:ada" {
				t.Errorf("%d operations, headers %v", len(doc.Operations), tab.Headers)
			}
		})
	}
}

func TestPlayground_OutsideDevelopment(t *testing.T) {
	h := newTestHandler(t, Options{})
	for _, target := range []string{"/", startScript, "/playground/playground.js"} {
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
		if a := post(t, h, "demo:ada", query, nil); a.code() != "GRAPHQL_VALIDATION_FAILED" || strings.Contains(a.body, "Did you mean") {
			t.Errorf("suggestions: %s", a.body)
		}
		if a := post(t, development, "demo:ada", query, nil); !strings.Contains(a.body, "Did you mean") {
			t.Errorf("no suggestions in development: %s", a.body)
		}
	}
}
