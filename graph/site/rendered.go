package site

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"byline/graph/transport"
)

// rendered is the response to a request: a page, a feed, the Markdown of a post, or a redirect. It is the same until a
// response that it is made of changes.
type rendered struct {
	of       []*transport.Response
	uncached bool      // no cache may keep it, also if what it is made of does not change
	location string    // of a redirect; else there is a body
	media    string    // Content-Type
	modified time.Time // Last-Modified; zero: there is none
	tag      string    // its entity tag
	body     *transport.Body
}

const (
	mediaHTML     = "text/html; charset=utf-8"
	mediaAtom     = "application/atom+xml; charset=utf-8"
	mediaXML      = "application/xml; charset=utf-8"
	mediaMarkdown = "text/markdown; charset=utf-8"
	mediaJSON     = "application/json; charset=utf-8"
	mediaText     = "text/plain; charset=utf-8"
)

// newRendered returns the response with a text, made of responses.
func newRendered(media string, text []byte, of ...*transport.Response) *rendered {
	return &rendered{of: of, media: media, tag: transport.TagOf(text), body: transport.NewBody(text)}
}

// cacheable reports whether caches may keep the response: all that it is made of is for everybody, and is there.
func (p *rendered) cacheable() bool {
	return !p.uncached && !slices.ContainsFunc(p.of, func(r *transport.Response) bool { return r.Tag() == "" })
}

// current reports whether the response is the same as one rendered now.
func (p *rendered) current() bool {
	return !slices.ContainsFunc(p.of, func(r *transport.Response) bool { return !r.Current() })
}

// maxAge returns for how long HTTP caches may serve a response that they may keep.
func (p *rendered) maxAge() time.Duration {
	age := p.of[0].MaxAge()
	for _, r := range p.of[1:] {
		age = min(age, r.MaxAge())
	}
	return max(age, 0)
}

// address identifies a rendered response: what it is, its path, and the parameters of the query that it depends on.
type address struct{ page, path, query string }

// renderer renders the response to a request, given the parameters that it depends on.
type renderer func(r *http.Request, q url.Values) (*rendered, error)

// weigh returns the memory of a rendered response.
func weigh(a address, p *rendered) uint32 {
	const entry = 600
	n := entry + len(a.path) + len(a.query) + len(p.location)
	for _, r := range p.of {
		n += r.Bytes() // also if the response cache has dropped it
	}
	if p.body != nil {
		n += 2 * p.body.Bytes() // in all codings: compressed, it is less than half as long
	}
	return uint32(n)
}

// rendering serves what render returns for a path and some parameters of the query, and caches it as long as it is
// current. page names it in metrics.
func (s *Site) rendering(page string, render renderer, query ...string) http.Handler {
	return s.counted(page, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, done, err := s.gateway.Admit(w, r)
		defer done()
		if err != nil {
			s.fail(w, r, err)
			return
		}
		at, q := address{page: page, path: r.URL.EscapedPath()}, url.Values{}
		if r.URL.RawQuery != "" {
			all := r.URL.Query()
			for _, name := range query {
				if all.Has(name) {
					q.Set(name, all.Get(name))
				}
			}
			at.query = q.Encode()
		}
		p := s.find(at)
		if p == nil {
			if p, err = render(r, q); err != nil {
				s.fail(w, r, err)
				return
			}
			if s.kept != nil && p.cacheable() {
				s.kept.Set(at, p)
			}
		}
		s.write(w, r, p)
	}))
}

// find returns what was rendered before and is current, or nil.
func (s *Site) find(at address) *rendered {
	if s.kept == nil {
		return nil
	}
	p, ok := s.kept.GetIfPresent(at)
	if !ok || !p.current() {
		return nil
	}
	return p
}

// write sends a rendered response.
func (s *Site) write(w http.ResponseWriter, r *http.Request, p *rendered) {
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	if p.location != "" {
		if p.cacheable() {
			h.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(p.maxAge().Seconds())))
		}
		http.Redirect(w, r, p.location, http.StatusMovedPermanently)
		return
	}
	if !p.modified.IsZero() {
		h.Set("Last-Modified", p.modified.UTC().Format(http.TimeFormat))
	}
	if p.cacheable() && transport.SetPublic(w, r, p.tag, p.maxAge()) {
		return
	}
	h.Set("Content-Type", p.media)
	if err := p.body.Send(w, r, http.StatusOK); err != nil {
		s.fail(w, r, err)
	}
}

// text serves a text that never changes.
func (s *Site) text(page, text string) http.Handler {
	body := transport.NewBody([]byte(text))
	return s.counted(page, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaText)
		body.SendFixed(w, r, http.StatusOK)
	}))
}

// redirectTo returns a permanent redirect. Caches ask again soon, since names and titles may change again.
func redirectTo(location string, of *transport.Response) *rendered {
	return &rendered{of: []*transport.Response{of}, location: location}
}
