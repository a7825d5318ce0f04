package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"byline/graph"
	"byline/graph/document"
	"byline/graph/site"
	"byline/graph/transport"
)

// siteFlags serve a blog on the web.
type siteFlags struct {
	Site    string `name:"site" env:"BYLINE_SITE" placeholder:"DIR" help:"Serve the front end in this folder, as its build left it, with pages for crawlers and feeds. The playground moves to /playground."`
	SiteURL string `name:"site-url" env:"BYLINE_SITE_URL" placeholder:"URL" help:"Address of the front page with --site, such as https://blog.example. Pages name it, whatever host a request names."`
}

func (c siteFlags) checkSite() error {
	if (c.Site == "") != (c.SiteURL == "") {
		return errors.New("--site and --site-url are needed together")
	}
	return nil
}

// siteDocuments returns the documents of the front end, nil without one.
func (c Config) siteDocuments() (*document.Trusted, error) {
	if c.Site == "" {
		return nil, nil
	}
	texts, err := site.Documents(os.DirFS(c.Site))
	if err != nil {
		return nil, fmt.Errorf("--site: %w", err)
	}
	known, err := document.NewTrusted(texts, graph.Schema(false))
	if err != nil {
		return nil, fmt.Errorf("--site: %w", err)
	}
	return known, nil
}

// originOf returns the origin of an address, and none of "".
func originOf(address string) []string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil
	}
	return []string{u.Scheme + "://" + u.Host}
}

// serveSite serves the front end at all paths that are not the gateway's.
func (g *gateway) serveSite(mux *http.ServeMux) error {
	o := site.Options{Dir: os.DirFS(g.Site), URL: g.SiteURL, Gateway: g.handler,
		Deleted: g.blog.IsDeletedSlug, Logger: g.log, Metrics: g.account.Metrics, CacheBytes: g.pageCache()}
	o.SignIn, o.Uploads = originOf(g.AuthIssuer), originOf(g.FilesEndpoint)
	s, err := site.New(o)
	if err != nil {
		return fmt.Errorf("--site: %w", err)
	}
	pages, playground := g.hosts(s), g.hosts(g.handler)
	mux.Handle("/", pages)
	mux.Handle(transport.Path, playground)
	mux.Handle("/playground/", playground)
	mux.HandleFunc("GET /playground", func(w http.ResponseWriter, r *http.Request) {
		r = r.Clone(r.Context())
		r.URL.Path = "/"
		playground.ServeHTTP(w, r)
	})
	return nil
}
