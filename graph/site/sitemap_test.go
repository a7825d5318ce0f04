package site

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"byline/internal/testkit"
	"byline/store"
)

// A month with many posts has several sitemaps, which have all of them once.
func TestSitemap_Parts(t *testing.T) {
	s, blog := newTestSite(t, testDir)
	s.perSitemap = 3
	get := func(address string, into any) {
		t.Helper()
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
	author, err := blog.CreateUser(t.Context(), store.NewUser{ID: "u1", Username: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	for posts := 1; posts <= 8; posts++ {
		if _, err := blog.CreatePost(t.Context(),
			store.NewPost{AuthorID: author.UserID, Title: fmt.Sprint("Post ", posts), Content: "x"}); err != nil {
			t.Fatal(err)
		}
		var index sitemapIndex
		seen := map[string]bool{}
		testkit.Until(t, func() error { // the timelines have the post
			index = sitemapIndex{}
			get("https://blog.example/sitemap.xml", &index)
			clear(seen)
			for _, at := range index.Sitemaps {
				var part urlset
				if get(at.Loc, &part); len(part.URLs) > s.perSitemap {
					t.Errorf("%s has %d posts", at.Loc, len(part.URLs))
				}
				for _, u := range part.URLs {
					if seen[u.Loc] {
						t.Errorf("%s comes twice", u.Loc)
					}
					seen[u.Loc] = true
				}
			}
			if len(seen) != posts {
				return fmt.Errorf("%d posts in sitemaps, want %d", len(seen), posts)
			}
			return nil
		})
		if want := (posts + 2) / 3; len(index.Sitemaps) != want {
			t.Errorf("%d sitemaps of %d posts, want %d", len(index.Sitemaps), posts, want)
		}
	}
}
