package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/maypok86/otter/v2"
)

// Options of a Site. All but SignIn and CacheBytes have to be set.
type Options struct {
	// Dir has the files of the front end, as its build left them, and its site.json.
	Dir fs.FS

	// URL is the address of the blog's front page without the last slash, such as https://blog.example: pages name no
	// other host, whatever a request says.
	URL string

	// Gateway is the handler of the whole gateway, and GraphQL the path at which it executes queries. It must know
	// the documents of Documents.
	Gateway http.Handler
	GraphQL string

	// SignIn are the origins of which the front end requests tokens, such as https://login.example.
	SignIn []string

	// Deleted reports whether the post at a slug has been deleted, as long as that is known.
	Deleted func(ctx context.Context, slug string) (bool, error)

	// Logger gets a line for each page that failed.
	Logger *slog.Logger

	// CacheBytes is the memory of rendered pages. Default: none is kept.
	CacheBytes int
}

// Site serves a blog on the web.
type Site struct {
	http.Handler
	url     string
	shell   shell
	routes  map[kind]route
	gateway gateway
	deleted func(context.Context, string) (bool, error)
	log     *slog.Logger
	pages   *otter.Cache[pageKey, *rendered] // nil: none is kept
}

// Documents returns the documents that pages query, by their ids: those of this package, and those of the front end.
func Documents(dir fs.FS) (map[string]string, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(m.Documents)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, documents)
	return all, nil
}

// New returns a Site. It reads the manifest and the shell, and starts nothing.
func New(o Options) (*Site, error) {
	m, err := readManifest(o.Dir)
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(o.URL)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || o.URL != at.Scheme+"://"+at.Host {
		return nil, fmt.Errorf("%q is not an address like https://blog.example, without a path", o.URL)
	}
	s := &Site{url: o.URL, routes: map[kind]route{}, gateway: gateway{o.Gateway, o.GraphQL}, deleted: o.Deleted,
		log: o.Logger}
	if s.shell, err = readShell(o.Dir, m.Shell, append(m.Connect, o.SignIn...)); err != nil {
		return nil, err
	}
	if o.CacheBytes > 0 {
		s.pages = otter.Must(&otter.Options[pageKey, *rendered]{MaximumWeight: uint64(o.CacheBytes),
			Weigher: func(k pageKey, p *rendered) uint32 { return uint32(len(k.value) + len(k.after) + p.bytes()) }})
	}
	mux := http.NewServeMux()
	for _, r := range m.Routes {
		if r.Page == "" {
			mux.HandleFunc(r.pattern(""), s.serveShell)
			continue
		}
		s.routes[r.Page] = r
		mux.Handle(r.pattern(""), s.pageOf(r))
		if r.Page != postPage {
			mux.HandleFunc(r.pattern("/feed.atom"), s.serveFeed(r))
		}
	}
	mux.HandleFunc("GET /robots.txt", s.serveRobots(m))
	mux.HandleFunc("GET /sitemap.xml", s.serveSitemap)
	mux.HandleFunc("GET /llms.txt", s.serveLLMs)
	mux.HandleFunc("GET /oembed", s.serveOEmbed)
	kept, err := readFiles(o.Dir, m.Shell)
	if err != nil {
		return nil, err
	}
	mux.Handle("GET /", s.files(o.Dir, m.Shell, kept))
	s.Handler = s.secured(mux)
	return s, nil
}

// secured sets the headers of all responses.
func (s *Site) secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", s.shell.policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Referrer-Policy", "strict-origin-when-cross-origin")
		next.ServeHTTP(w, r)
	})
}

// pathOf returns the path of a page, with the value of its parameter.
func (s *Site) pathOf(page kind, value string) string {
	path := s.routes[page].Path
	if name := parameters[page]; name != "" {
		return strings.Replace(path, ":"+name, url.PathEscape(value), 1)
	}
	return path
}

// serveShell serves a path of the front end that is not for crawlers.
func (s *Site) serveShell(w http.ResponseWriter, r *http.Request) {
	p := s.newPage()
	p.Heading, p.ForUsers = s.shell.title, true
	s.writeUncached(w, r, p, http.StatusOK)
}

// Why a page is not shown.
var (
	errNotFound = errors.New("not found")
	errGone     = errors.New("gone")
)

// fail serves a page that says why there is not the one that was asked for.
func (s *Site) fail(w http.ResponseWriter, r *http.Request, err error) {
	p, status := s.newPage(), http.StatusInternalServerError
	p.Heading, p.Description = "Something went wrong", "Please try again later."
	var query *queryError
	switch {
	case errors.Is(err, errNotFound), errors.As(err, &query) && query.code == "BAD_USER_INPUT": // a cursor
		status = http.StatusNotFound
		p.Heading, p.Description = "There is no such page", "It may have moved or never existed."
	case errors.Is(err, errGone):
		status, p.Heading, p.Description = http.StatusGone, "This post was deleted", "Its author has deleted it."
	case errors.As(err, &query) && query.temporary():
		status = http.StatusServiceUnavailable
		after := query.retryAfter
		if after == "" {
			after = "5"
		}
		w.Header().Set("Retry-After", after)
	}
	if status == http.StatusInternalServerError {
		code := ""
		if query != nil {
			code = query.code
		}
		s.log.Error("page failed", "path", r.URL.Path, "code", code, "error", err)
	}
	s.writeUncached(w, r, p, status)
}

// writeUncached sends a page that no cache may keep.
func (s *Site) writeUncached(w http.ResponseWriter, r *http.Request, p *page, status int) {
	b, err := p.render(s.shell)
	if err != nil {
		s.log.Error("page failed", "path", r.URL.Path, "error", err)
		http.Error(w, "Something went wrong.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	b.write(w, r, status, "")
}
