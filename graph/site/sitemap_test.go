package site

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"byline/internal/testkit"
)

// largeMonth is a gateway whose blog has posts in two months, the older of which has so many.
type largeMonth struct {
	posts    int
	requests int
}

func (m *largeMonth) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.requests++
	var of struct{ Month, After string }
	if err := json.Unmarshal([]byte(r.URL.Query().Get("variables")), &of); err != nil {
		panic(err)
	}
	w.Header().Set("Cache-Control", "public, max-age=5")
	w.Header().Set("ETag", `W/"`+of.Month+of.After+`"`)
	if r.URL.Query().Get("documentId") == documentID("months") {
		fmt.Fprintf(w, `{"data":{"months":[{"month":"2026-03","postCount":1},{"month":"2026-02","postCount":%d}]}}`,
			m.posts)
		return
	}
	posts := map[string]int{"2026-03": 1, "2026-02": m.posts}[of.Month]
	from, _ := strconv.Atoi(of.After)
	to := min(from+99, posts) // a page may be shorter than it could be
	var edges []string
	for i := from; i < to; i++ {
		edges = append(edges, fmt.Sprintf(`{"node":{"slug":"%s-%d","createdAt":"%[1]s-01T00:00:00.000Z"}}`, of.Month, i))
	}
	fmt.Fprintf(w, `{"data":{"posts":{"edges":[%s],"pageInfo":{"hasNextPage":%t,"endCursor":"%d"}}}}`,
		strings.Join(edges, ","), to < posts, to)
}

// A month with many posts has several sitemaps, which have all of them once.
func TestSitemap_Parts(t *testing.T) {
	for posts, want := range map[int]int{1: 1, maxSitemap: 1, maxSitemap + 1: 2, 25_000: 3} {
		t.Run(fmt.Sprint(posts, " posts"), func(t *testing.T) {
			gateway := &largeMonth{posts: posts}
			s, err := New(Options{Dir: os.DirFS("../../internal/e2e/testdata/site"), URL: "https://blog.example",
				Gateway: gateway, GraphQL: "/graphql", Logger: testkit.Logger()})
			if err != nil {
				t.Fatal(err)
			}
			get := func(address string, into any) {
				path, ok := strings.CutPrefix(address, "https://blog.example/")
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+path, nil))
				if !ok || w.Code != http.StatusOK || w.Header().Get("ETag") == "" {
					t.Fatalf("%s: %d %v", address, w.Code, w.Header())
				}
				if err := xml.Unmarshal(w.Body.Bytes(), into); err != nil {
					t.Fatalf("%s: %v", address, err)
				}
			}
			var index sitemapIndex
			get("https://blog.example/sitemap.xml", &index)
			if len(index.Sitemaps) != 1+want || gateway.requests != 1 {
				t.Errorf("%d sitemaps by %d requests, want %d by one", len(index.Sitemaps), gateway.requests, 1+want)
			}
			seen := map[string]bool{}
			for _, at := range index.Sitemaps {
				var part sitemap
				if get(at.Loc, &part); len(part.URLs) > maxSitemap {
					t.Errorf("%s has %d posts", at.Loc, len(part.URLs))
				}
				for _, u := range part.URLs {
					if seen[u.Loc] {
						t.Errorf("%s comes twice", u.Loc)
					}
					seen[u.Loc] = true
				}
			}
			if len(seen) != posts+1 || !seen["https://blog.example/posts/2026-02-0"] {
				t.Errorf("%d posts, want %d", len(seen), posts+1)
			}
		})
	}
}
