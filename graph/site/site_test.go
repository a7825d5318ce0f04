package site

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/prometheus/client_golang/prometheus"

	"byline/graph"
	"byline/graph/document"
	"byline/internal/enginetest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/files"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// testDir is a small front end.
var testDir = os.DirFS("../../internal/e2e/testdata/site")

// newTestSite returns the site of an empty blog and a front end.
func newTestSite(t *testing.T, dir fs.FS) (*Site, *store.Store) {
	t.Helper()
	return newTestSiteWith(t, dir, newTestAccount(t), nil)
}

func newTestAccount(t *testing.T) *cosmos.Account {
	t.Helper()
	return enginetest.Open(t, emulator.Options{}, cosmos.Options{})
}

// newTestSiteWith is newTestSite for a blog on an account, with pictures.
func newTestSiteWith(t *testing.T, dir fs.FS, account *cosmos.Account, pictures *files.Files) (*Site, *store.Store) {
	t.Helper()
	blog, err := store.New(account, store.Options{Files: pictures, Logger: testkit.Logger()})
	if err == nil {
		err = blog.Provision(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
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
		Logger: testkit.Logger(), Metrics: prometheus.NewRegistry(), CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s, blog
}

// get requests a path of the site.
func get(s *Site, path string, header ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	s.ServeHTTP(w, r)
	return w
}

// TestPage_WithoutFirstResponse: a page without the response to the front end's query, which failed, is complete for
// readers, and no cache keeps it.
func TestPage_WithoutFirstResponse(t *testing.T) {
	for failing, kept := range map[string]bool{`query { post(id: \"nonsense\") { title } }`: false, `query { feed { edges { cursor } } }`: true} {
		s, _ := newTestSite(t, fstest.MapFS{"index.html": {Data: []byte(`<title>The blog</title><div id="root"></div>`)},
			"site.json": {Data: []byte(`{"shell": "index.html", "documents": {"d": "` + failing + `"}, "routes": [
				{"path": "/", "page": "front", "document": "d"}, {"path": "/posts/:slug", "page": "post"},
				{"path": "/tags/:name", "page": "tag"}, {"path": "/authors/:username", "page": "author"}]}`)}})
		w := get(s, "/")
		h := w.Header()
		public := strings.HasPrefix(h.Get("Cache-Control"), "public")
		if w.Code != http.StatusOK || public != kept || (h.Get("ETag") != "") != kept || (s.kept.EstimatedSize() == 1) != kept {
			t.Errorf("%s: %d %v, %d are cached", failing, w.Code, h, s.kept.EstimatedSize())
		}
	}
}

// TestPage_Addresses: addresses that are nearly the same are different pages.
func TestPage_Addresses(t *testing.T) {
	s, blog := newTestSite(t, testDir)
	author, err := blog.CreateUser(t.Context(), store.NewUser{ID: "u1", Username: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	post, err := blog.CreatePost(t.Context(), store.NewPost{AuthorID: author.UserID, Title: "On engines", Content: "x", Tags: []string{"go"}})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, func() error {
		if w := get(s, "/tags/go/feed.atom"); w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/atom") {
			return errNotFound
		}
		return nil
	})
	if w := get(s, "/tags/go%2Ffeed.atom"); w.Code != http.StatusNotFound {
		t.Errorf("a tag with a slash: %d", w.Code)
	}
	former := "/posts/former-" + post.ID
	if w := get(s, former, "If-None-Match", "*"); w.Code != http.StatusMovedPermanently {
		t.Errorf("a former slug, with If-None-Match: %d", w.Code)
	}
	before := s.kept.EstimatedSize()
	for _, query := range []string{"", "?after=1", "?after=2", "?x=3"} {
		if w := get(s, "/posts/"+post.Slug()+query); w.Code != http.StatusOK {
			t.Errorf("%s: %d", query, w.Code)
		}
	}
	if n := s.kept.EstimatedSize() - before; n != 1 {
		t.Errorf("a post is cached %d times", n)
	}
}
