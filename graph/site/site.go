package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/maypok86/otter/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"byline/graph/refusal"
	"byline/graph/transport"
)

// Options of a Site. All but SignIn, Uploads and CacheBytes have to be set.
type Options struct {
	// Dir has the files of the front end, as its build left them, and its site.json.
	Dir fs.FS

	// URL is the address of the blog's front page without the last slash, such as https://blog.example: pages name no
	// other host, whatever a request says.
	URL string

	// Gateway executes queries. It must know the documents of Documents.
	Gateway *transport.Handler

	// SignIn are the origins of which the front end requests tokens, such as https://login.example.
	SignIn []string

	// Uploads are the origins, besides the site's own, to which the front end sends pictures, such as
	// https://account.blob.core.windows.net.
	Uploads []string

	// Deleted reports whether the post at a slug has been deleted, as long as that is known.
	Deleted func(ctx context.Context, slug string) (bool, error)

	// Logger gets a line for each page that failed.
	Logger *slog.Logger

	// Metrics is where the site registers its metrics.
	Metrics prometheus.Registerer

	// CacheBytes is the memory of rendered pages. Default: none is kept.
	CacheBytes int
}

// Site serves a blog on the web.
type Site struct {
	http.Handler
	url       string
	shell     shell
	routes    map[kind]route
	gateway   *transport.Handler
	deleted   func(context.Context, string) (bool, error)
	log       *slog.Logger
	responses *prometheus.CounterVec           // by page and code
	kept      *otter.Cache[address, *rendered] // nil: nothing is kept
	fixed     map[int]*transport.Body          // pages that show nothing of the blog, by their status

	perSitemap int // posts
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
	s := &Site{url: o.URL, routes: map[kind]route{}, gateway: o.Gateway, deleted: o.Deleted, log: o.Logger,
		perSitemap: maxSitemap,
		responses: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "byline_site_responses_total",
			Help: "Responses of the site, by what was requested and the status."}, []string{"page", "code"})}
	o.Metrics.MustRegister(s.responses)
	s.shell, err = readShell(o.Dir, m.Shell, slices.Concat(m.Connect, o.SignIn, o.Uploads))
	if err != nil {
		return nil, err
	}
	if o.CacheBytes > 0 {
		s.kept = otter.Must(&otter.Options[address, *rendered]{MaximumWeight: uint64(o.CacheBytes), Weigher: weigh})
	}
	mux, err := s.mux(m, o.Dir)
	if err == nil {
		err = s.renderFixed()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	s.Handler = s.secured(mux)
	return s, nil
}

// mux returns the handlers of all paths.
func (s *Site) mux(m manifest, dir fs.FS) (mux *http.ServeMux, err error) {
	defer func() { // http.ServeMux panics if patterns conflict
		if conflict := recover(); conflict != nil {
			err = fmt.Errorf("the paths of two routes conflict: %v", conflict)
		}
	}()
	mux = http.NewServeMux()
	for _, r := range m.Routes {
		if r.Page == "" {
			mux.Handle(r.pattern(""), s.counted("shell", http.HandlerFunc(s.serveShell)))
			continue
		}
		s.routes[r.Page] = r
	}
	for page, r := range s.routes {
		switch page {
		case postPage:
			mux.Handle(r.pattern(""), s.markdownOr(s.rendering(string(page), s.page(r))))
		case searchPage:
			mux.Handle(r.pattern(""), s.rendering(string(page), s.search(r), searchParameters...))
		default:
			mux.Handle(r.pattern(""), s.rendering(string(page), s.page(r), "after"))
			mux.Handle(r.pattern("/feed.atom"), s.rendering("feed", s.feed(r), "after"))
		}
	}
	mux.Handle("GET /oembed", inJSON(s.rendering("oembed", s.oEmbed, "url", "maxwidth", "maxheight")))
	mux.Handle("GET /sitemap.xml", s.rendering("sitemap", s.sitemap, "month", "part"))
	mux.Handle("GET /robots.txt", s.text("robots", s.robots(m)))
	mux.Handle("GET /llms.txt", s.text("llms", s.llms()))
	kept, err := readFiles(dir, m.Shell)
	if err != nil {
		return nil, err
	}
	mux.Handle("GET /", s.counted("file", s.files(dir, m.Shell, kept)))
	return mux, nil
}

// counted counts the responses of a page.
func (s *Site) counted(page string, next http.Handler) http.Handler {
	return promhttp.InstrumentHandlerCounter(s.responses.MustCurryWith(prometheus.Labels{"page": page}), next)
}

// secured sets the headers of all responses.
func (s *Site) secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", s.shell.policy)
		h.Set("Vary", "Accept-Encoding")
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

// absolute returns the absolute address of a picture, which may be on this server.
func (s *Site) absolute(address string) string {
	if strings.HasPrefix(address, "/") {
		return s.url + address
	}
	return address
}

// renderFixed renders the pages of errors, by their status, and that of the paths that are not for crawlers, as 200.
func (s *Site) renderFixed() (err error) {
	s.fixed = map[int]*transport.Body{}
	for status, text := range map[int][2]string{
		http.StatusOK:                  {s.shell.title, ""},
		http.StatusNotFound:            {"There is no such page", "It may have moved or never existed."},
		http.StatusGone:                {"This post was deleted", "Its author has deleted it."},
		http.StatusInternalServerError: {"Something went wrong", "Please try again later."},
		http.StatusServiceUnavailable:  {"Something went wrong", "Please try again in a moment."},
	} {
		p := s.newPage()
		p.Heading, p.Description, p.ForUsers = text[0], text[1], status == http.StatusOK
		html, err := p.render(s.shell)
		if err != nil {
			return err
		}
		s.fixed[status] = transport.NewBody(html)
	}
	return nil
}

// serveShell serves a path of the front end that is not for crawlers.
func (s *Site) serveShell(w http.ResponseWriter, r *http.Request) { s.sendFixed(w, r, http.StatusOK) }

// sendFixed sends a page that no cache may keep.
func (s *Site) sendFixed(w http.ResponseWriter, r *http.Request, status int) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", mediaHTML)
	h.Del("ETag") // of a page that could not be sent
	h.Del("Last-Modified")
	if id := transport.RequestOf(r.Context()).ID; id != "" {
		h.Set("X-Request-Id", id)
	}
	s.fixed[status].SendFixed(w, r, status)
}

// Why a page is not shown.
var (
	errNotFound = errors.New("not found")
	errGone     = errors.New("gone")
)

// fail serves a page that says why there is not the one that was asked for.
func (s *Site) fail(w http.ResponseWriter, r *http.Request, err error) {
	var query *transport.QueryError
	switch {
	case errors.Is(err, errNotFound), errors.As(err, &query) && query.Code == refusal.BadUserInput: // a cursor
		s.sendFixed(w, r, http.StatusNotFound)
	case errors.Is(err, errGone):
		s.sendFixed(w, r, http.StatusGone)
	case query != nil && (query.Code == refusal.Unavailable || query.Code == refusal.Throttled):
		w.Header().Set("Retry-After", cmp.Or(query.RetryAfter, "5"))
		s.sendFixed(w, r, http.StatusServiceUnavailable)
	default:
		s.log.Error("page failed", "path", r.URL.Path, "requestId", transport.RequestOf(r.Context()).ID, "error", err)
		s.sendFixed(w, r, http.StatusInternalServerError)
	}
}
