package site

import (
	"net/http"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"byline/store/blog"
)

func TestSnippet_Parts(t *testing.T) {
	type ranges = []struct{ Start, End int }
	for name, tt := range map[string]struct {
		text    string
		matches ranges
		want    []snippetPart
	}{
		"none":            {"a text", nil, []snippetPart{{"a text", false}}},
		"empty":           {"", nil, nil},
		"within":          {"a red bicycle", ranges{{2, 5}}, []snippetPart{{"a ", false}, {"red", true}, {" bicycle", false}}},
		"all":             {"red", ranges{{0, 3}}, []snippetPart{{"red", true}}},
		"adjacent":        {"redred!", ranges{{0, 3}, {3, 6}}, []snippetPart{{"red", true}, {"red", true}, {"!", false}}},
		"after surrogate": {"🎈é red", ranges{{4, 7}}, []snippetPart{{"🎈é ", false}, {"red", true}}},
		"a surrogate":     {"🎈 red", ranges{{0, 2}}, []snippetPart{{"🎈", true}, {" red", false}}},
		"beyond the end":  {"red", ranges{{1, 9}, {10, 12}}, []snippetPart{{"r", false}, {"ed", true}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := gocmp.Diff(tt.want, (snippet{tt.text, tt.matches}).parts()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSearch_NoContainer: without full-text search in the database the page of searches says so.
func TestSearch_NoContainer(t *testing.T) {
	account := newTestAccount(t)
	s, _ := newTestSiteWith(t, testDir, account, nil)
	if w := get(s, "/search?q=engines"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "No posts match") {
		t.Fatalf("with the container: %d %s", w.Code, w.Body)
	}
	container, err := account.Client().NewContainer("blog", blog.SearchContainer)
	if err == nil {
		_, err = container.Delete(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"q=engines", "q=engines&order=newest"} {
		if w := get(s, "/search?"+query); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "no search at present") {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

// TestSearch_Filter: the page says what limits a search, as the front end does, and links to the search without it.
func TestSearch_Filter(t *testing.T) {
	s, _ := newTestSite(t, testDir)
	for query, want := range map[string]string{
		"tag=bread": `<p class="hint">Only posts with the tag <bdi>#bread</bdi> · <a href="/search">Search all posts</a></p>`,
		"q=oven&order=newest&tag=%3Cb%3E": `Only posts with the tag <bdi>#&lt;b&gt;</bdi> · ` +
			`<a href="/search?order=newest&amp;q=oven">Search`,
		"q=oven&author=VXNlcjox":     `Only posts of one author · <a href="/search?q=oven">Search`,
		"tag=bread&author=VXNlcjox":  `Only posts with the tag <bdi>#bread</bdi> of one author · <a href="/search">Search`,
		"q=oven&order=newest":        "",
		"q=oven&tag=&author=&page=2": "",
	} {
		w := get(s, "/search?"+query)
		body := w.Body.String()
		if w.Code != http.StatusOK || !strings.Contains(body, want) || strings.Contains(body, "Only posts") != (want != "") {
			t.Errorf("%s: %d %s", query, w.Code, body)
		}
	}
}
