package playground

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// newPlayground returns a playground whose examples are about a post.
func newPlayground(t *testing.T, post string, cdn bool) http.Handler {
	t.Helper()
	h, err := New(Options{CDN: cdn, ExamplePost: func(context.Context) string { return post }})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func get(t *testing.T, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
	return w
}

func readPrepared(t *testing.T, h http.Handler) (p prepared) {
	t.Helper()
	if err := json.Unmarshal(get(t, h, Prefix+"prepared.json").Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// Whatever the page and its files name is served.
func TestNew_ServesItsFiles(t *testing.T) {
	h := newPlayground(t, "", false)
	asset := regexp.MustCompile(
		`(?:src|href)="(/[^"]*)"|["'](/playground/[^"']*)["']|from "\.(/[^"]*)"|import\("\.(/[^"]*)"\)`)
	seen, open := map[string]bool{}, []string{"/"}
	for len(open) > 0 {
		target := open[0]
		open = open[1:]
		if seen[target] {
			continue
		}
		seen[target] = true
		page := get(t, h, target)
		if page.Code != http.StatusOK || page.Body.Len() == 0 || page.Header().Get("Content-Type") == "" {
			t.Errorf("%s: status %d, %s", target, page.Code, page.Header())
		}
		if strings.HasSuffix(target, "/playground.js") {
			continue // of the package
		}
		for _, m := range asset.FindAllStringSubmatch(page.Body.String(), -1) {
			open = append(open, cmp.Or(m[1], m[2], Prefix[:len(Prefix)-1]+cmp.Or(m[3], m[4])))
		}
	}
	if len(seen) != 10 {
		t.Errorf("the page names %d files: %v", len(seen), seen)
	}
	for _, target := range []string{Prefix, "/elsewhere", Prefix + "nothing.js", Prefix + "index.html"} {
		if got := get(t, h, target); got.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", target, got.Code)
		}
	}
}

func TestNew_CDN(t *testing.T) {
	for name, tt := range map[string]struct {
		cdn    bool
		policy string
	}{
		"on":  {true, "script-src 'self' https://cdn.jsdelivr.net/npm/@graphql-yoga/graphiql@4.5.0/;"},
		"off": {false, "script-src 'self';"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newPlayground(t, "", tt.cdn)
			policy := get(t, h, "/").Header().Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy, tt.policy) ||
				strings.Contains(policy, "https:") != tt.cdn {
				t.Errorf("policy %s", policy)
			}
			if p := readPrepared(t, h); (p.CDN != nil) != tt.cdn {
				t.Errorf("CDN %+v", p.CDN)
			}
		})
	}
}

func TestNew_Examples(t *testing.T) {
	h := newPlayground(t, "the id", false)
	first, second, empty := readPrepared(t, h), readPrepared(t, h), readPrepared(t, newPlayground(t, "", false))
	if diff := gocmp.Diff(first, second); diff != "" {
		t.Errorf("the examples change: %s", diff)
	}
	if first.Version != empty.Version || first.Post != "the id" || empty.Post != "" {
		t.Errorf("version %s about %q, without a post %s about %q", first.Version, first.Post, empty.Version, empty.Post)
	}
	if e := first.Examples[0]; e.Operation != "SignUp" || !strings.Contains(e.Query, "createUser") {
		t.Errorf("the first example is %+v", e)
	}
	write := first.Examples[1]
	if write.Slug != "write-a-post" || write.Name != "Write a post" || write.Operation != "WritePost" {
		t.Errorf("%+v", write)
	}
	if strings.Contains(write.Query, "idempotencyKey") {
		t.Error("WritePost has a key: a second run publishes nothing, and Live shows nothing")
	}
	operations := map[string]bool{}
	for i, e := range first.Examples {
		if e.Operation == "" || operations[e.Operation] {
			t.Errorf("%s: the operation %q", e.Name, e.Operation)
		}
		operations[e.Operation] = true
		if strings.Contains(e.Query, postIDPlaceholder) {
			t.Errorf("%s has a placeholder", e.Name)
		}
		if filled := empty.Examples[i].Query; strings.Contains(e.Query, "the id") != strings.Contains(filled,
			postIDPlaceholder) {
			t.Errorf("%s without a post: %s", e.Name, filled)
		}
	}
}
