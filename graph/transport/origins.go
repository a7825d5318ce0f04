package transport

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/rs/cors"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"byline/graph/refusal"
	"byline/store/blog"
)

// preflightMaxAge is how long a browser may cache the response to a preflight request.
const preflightMaxAge = 2 * time.Hour

// checkOrigins refuses invalid origins. Browsers write an origin (RFC 6454, section 6.2) as a
// scheme, a host and, unless it is the scheme's own, a port.
func checkOrigins(origins []string) error {
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" ||
			origin != u.Scheme+"://"+strings.ToLower(u.Host) ||
			strings.ContainsAny(origin, `*?[\`) ||
			u.Port() == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
			return fmt.Errorf(
				"%q is not an origin as browsers send it, such as https://app.example.com or http://localhost:3000: "+
					"there are no wildcards, paths and default ports in it", origin)
		}
	}
	return nil
}

// maxRefused is how many refused origins are logged.
const maxRefused = 100

// maxOrigin is how many bytes of an origin are logged.
const maxOrigin = 300

// origins are the other origins whose pages may use the edge. It is safe for concurrent use.
type origins struct {
	named    []string
	loopback bool // origins on this machine are admitted, too
	log      *slog.Logger

	mu      sync.Mutex
	refused map[string]bool // guarded by mu; origins that have been logged
}

// admits reports whether pages of the origin have the access of the server's own pages.
func (o *origins) admits(origin string) bool {
	return origin != "" && (slices.Contains(o.named, origin) || o.loopback && isLoopbackOrigin(origin))
}

// isLoopbackOrigin reports whether an origin is on this machine, on any port. A name other than
// localhost is not, even if it resolves to a loopback address: anyone may own it.
func isLoopbackOrigin(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || origin != u.Scheme+"://"+u.Host {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// logRefused logs the first request from an origin that is not admitted, unless it is the server's
// own, and how to admit it. A query by GET is executed, but the browser hides the response from the
// page.
func (o *origins) logRefused(r *http.Request, origin string) {
	if origin == "" || isSameOrigin(r, origin) {
		return
	}
	short := refusal.Truncate(origin, maxOrigin)
	o.mu.Lock()
	first := !o.refused[short] && len(o.refused) < maxRefused
	if first {
		o.refused[short] = true
	}
	o.mu.Unlock()
	if !first {
		return
	}
	attrs := []slog.Attr{slog.String(logOrigin, short)}
	if checkOrigins([]string{short}) == nil { // not "null", for instance
		attrs = append(attrs,
			slog.String(logAdmit, "--cors-origins="+strings.Join(append(slices.Clip(o.named), short), ",")))
	}
	o.log.LogAttrs(r.Context(), slog.LevelWarn, "origin refused", attrs...)
}

// isSameOrigin reports whether the page that sent a request is the server's own, as
// http.CrossOriginProtection and package websocket decide it.
func isSameOrigin(r *http.Request, origin string) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && !isUpgrade(r) {
		return site == "same-origin" || site == "none"
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host)
}

// Keys of log attributes.
const (
	logOrigin = "origin"
	logAdmit  = "admit-with"
)

// guard refuses requests from pages of other origins, except for reads. Pages of admitted origins may
// send every request, and read the responses. It refuses what an element of any page loads: an image in a post, for
// instance, would make its readers send a query.
func (o *origins) guard(next http.Handler, present graphql.ErrorPresenterFunc) http.Handler {
	protection := http.NewCrossOriginProtection()
	deny := func(message string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			prepare(w.Header(), r)
			err := &refusal.Error{Code: refusal.Forbidden, Reason: blog.ReasonOrigin, Message: message}
			write(w, r, http.StatusForbidden, &graphql.Response{Errors: gqlerror.List{present(r.Context(), err)}})
		})
	}
	protection.SetDenyHandler(deny("requests from pages of this origin are not allowed"))
	element := deny("a page may not load this as an image, script or frame")
	admitted, others := next, protection.Handler(next)
	if o.loopback || len(o.named) > 0 {
		admitted, others = shareWith(everyOrigin).Handler(admitted), shareWith(noOrigin).Handler(others)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(elementDestinations, r.Header.Get("Sec-Fetch-Dest")) {
			element.ServeHTTP(w, r)
			return
		}
		origin := r.Header.Get("Origin")
		if o.admits(origin) {
			admitted.ServeHTTP(w, r)
			return
		}
		o.logRefused(r, origin)
		others.ServeHTTP(w, r)
	})
}

// sharePages lets pages of admitted origins read the responses of paths other than Path, so that a wrong URL gives a
// page a 404, not an error of CORS.
func (o *origins) sharePages(next http.Handler) http.Handler {
	if !o.loopback && len(o.named) == 0 {
		return next
	}
	return shareWith(o.admits).Handler(next)
}

func everyOrigin(string) bool { return true }
func noOrigin(string) bool    { return false }

// shareWith returns the policy that pages of the allowed origins may send every request and read the responses.
func shareWith(allowed func(origin string) bool) *cors.Cors {
	return cors.New(cors.Options{
		AllowOriginFunc: allowed,
		AllowedMethods:  []string{http.MethodGet, http.MethodPost},
		AllowedHeaders:  []string{"*"}, // they are trusted, and no header does more than a query
		ExposedHeaders:  []string{requestIDHeader, sessionHeader, "Retry-After"},
		MaxAge:          int(preflightMaxAge.Seconds()),
	})
}

// elementDestinations are the values of Sec-Fetch-Dest of what elements of a page load.
var elementDestinations = []string{"audio", "embed", "font", "frame", "iframe", "image", "object", "script", "style",
	"track", "video"}

// secured sets headers that keep browsers from interpreting a response as another type. Paths other than Path may be
// pages: these are not framed, nor loaded into pages of other origins. The playground replaces the policy. JSON of
// Path needs no more: a browser neither executes it, nor gives it to a page of an origin that is not admitted.
func secured(next http.Handler) http.Handler {
	policy, resource, options := []string{"default-src 'none'; frame-ancestors 'none'"}, []string{"same-origin"},
		[]string{"nosniff"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["X-Content-Type-Options"] = options
		if r.URL.Path != Path {
			h["Content-Security-Policy"] = policy
			h["Cross-Origin-Resource-Policy"] = resource // what CORS allows is not affected
			h.Set("Cross-Origin-Opener-Policy", "same-origin")
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("X-Frame-Options", "DENY")
		}
		next.ServeHTTP(w, r)
	})
}
