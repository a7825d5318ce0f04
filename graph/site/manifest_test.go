package site

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/prometheus/client_golang/prometheus"

	"byline/internal/testkit"
)

// TestNew_Manifests: a front end whose routes cannot be served is an error that names what is wrong.
func TestNew_Manifests(t *testing.T) {
	const routes = `{"path": "/", "page": "front"}, {"path": "/posts/:slug", "page": "post"},
		{"path": "/tags/:name", "page": "tag"}, {"path": "/authors/:username", "page": "author"}`
	for name, tt := range map[string]struct{ manifest, wrong string }{
		"valid":             {`{"shell": "index.html", "routes": [` + routes + `, {"path": "/write"}]}`, ""},
		"searches":          {`{"shell": "index.html", "routes": [` + routes + `, {"path": "/find", "page": "search"}]}`, ""},
		"no JSON":           {`{`, "site.json"},
		"no post":           {`{"routes": [{"path": "/", "page": "front"}]}`, "no route has the page"},
		"twice":             {`{"routes": [` + routes + `, {"path": "/x", "page": "front"}]}`, "two routes"},
		"another kind":      {`{"routes": [` + routes + `, {"path": "/x", "page": "book"}]}`, `the page is "book"`},
		"another parameter": {strings.Replace(`{"routes": [`+routes+`]}`, ":slug", ":id", 1), ":slug"},
		"unknown document":  {`{"routes": [{"path": "/", "page": "front", "document": "x"}]}`, `no document has the id "x"`},
		"no slash":          {`{"routes": [{"path": "x"}]}`, `"x"`},
		"post within":       {strings.Replace(`{"routes": [`+routes+`]}`, "/posts/:slug", "/:slug/read", 1), ".md follows it"},
		"conflict":          {strings.Replace(`{"shell": "index.html", "routes": [`+routes+`]}`, "/posts/:slug", "/tags/:slug", 1), "conflict"},
		"conflict of a file": {`{"shell": "index.html", "routes": [` + routes + `, {"path": "/robots.txt"}]}`,
			"conflict"},
		"no shell": {`{"shell": "none.html", "routes": [` + routes + `]}`, "none.html"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := fstest.MapFS{"site.json": {Data: []byte(tt.manifest)},
				"index.html": {Data: []byte(`<title>The blog</title><div id="root"></div>`)}}
			_, err := New(Options{Dir: dir, URL: "https://blog.example", Logger: testkit.Logger(), Metrics: prometheus.NewRegistry()})
			if tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
				t.Errorf("error %v, want %q", err, tt.wrong)
			}
		})
	}
	for _, address := range []string{"", "blog.example", "ftp://blog.example", "https://blog.example/", "https://blog.example/x"} {
		if _, err := New(Options{Dir: fstest.MapFS{"site.json": {Data: []byte(`{"routes": [` + routes + `]}`)}}, URL: address}); err == nil ||
			!strings.Contains(err.Error(), "without a path") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
