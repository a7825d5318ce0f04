package site

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"byline/graph"
	"byline/graph/document"
	"byline/internal/enginetest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/cosmos"
	"byline/store/emulator"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// newTestSite returns the site of an empty blog.
func newTestSite(t *testing.T) (*Site, *store.Store) {
	t.Helper()
	blog, err := store.New(enginetest.Open(t, emulator.Options{}, cosmos.Options{}), store.Options{Logger: testkit.Logger()})
	if err == nil {
		err = blog.Provision(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := os.DirFS("../../internal/e2e/testdata/site")
	texts, err := Documents(dir)
	if err != nil {
		t.Fatal(err)
	}
	known, err := document.NewTrusted(texts, graph.Schema(false))
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := graph.NewHandler(graph.Options{Store: blog, KnownDocuments: known, Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Dir: dir, URL: "https://blog.example", Gateway: gateway, Deleted: blog.IsDeletedSlug,
		Logger: testkit.Logger(), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return s, blog
}

// A month with many posts has several sitemaps, which have all of them once.
func TestSitemap_Parts(t *testing.T) {
	s, blog := newTestSite(t)
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
