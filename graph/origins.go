package graph

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/rs/cors"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// preflightMaxAge is how long a browser may remember what an origin may do.
const preflightMaxAge = 2 * time.Hour

// checkOrigins finds what is no origin as browsers write it (RFC 6454, section 6.2): a
// scheme, a host and, unless it is the scheme's own, a port.
func checkOrigins(origins []string) error {
	for _, origin := range origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || origin != u.Scheme+"://"+strings.ToLower(u.Host) ||
			strings.ContainsAny(origin, `*?[\`) || u.Port() == map[string]string{"http": "80", "https": "443"}[u.Scheme] {
			return fmt.Errorf("%q is not an origin as browsers send it, such as https://app.example.com or http://localhost:3000: there are no wildcards, paths and default ports in it", origin)
		}
	}
	return nil
}

// otherOrigins refuses what a page of another origin makes a browser send, except for
// reads; pages of the origins that are named may send everything, and read the answers.
func otherOrigins(next http.Handler, origins []string, p presenter) (http.Handler, error) {
	if err := checkOrigins(origins); err != nil {
		return nil, err
	}
	protection := http.NewCrossOriginProtection()
	for _, origin := range origins {
		if err := protection.AddTrustedOrigin(origin); err != nil {
			return nil, err
		}
	}
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		prepare(w.Header(), r)
		err := &refusal{code: forbidden, message: "pages of other origins may only read: use GET"}
		write(w, http.StatusForbidden, &graphql.Response{Errors: gqlerror.List{p.present(r.Context(), err)}})
	}))
	protected := protection.Handler(next)
	if len(origins) == 0 { // of which package cors would make all
		return protected, nil
	}
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{http.MethodGet, http.MethodPost},
		AllowedHeaders: []string{"*"}, // they are trusted, and no header does more than a query
		ExposedHeaders: []string{requestIDHeader, sessionHeader, "Retry-After"},
		MaxAge:         int(preflightMaxAge.Seconds()),
	}).Handler(protected), nil
}

// secured sets the headers that keep browsers from making more of an answer than it
// is. What could be a page has some more of them, and the playground a policy of its own.
func secured(next http.Handler) http.Handler {
	policy, resource, options := []string{"default-src 'none'; frame-ancestors 'none'"}, []string{"same-origin"}, []string{"nosniff"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Content-Security-Policy"] = policy
		h["Cross-Origin-Resource-Policy"] = resource // what CORS allows is not affected
		h["X-Content-Type-Options"] = options
		if r.URL.Path != "/graphql" {
			h.Set("Cross-Origin-Opener-Policy", "same-origin")
			h.Set("Referrer-Policy", "no-referrer")
			h.Set("X-Frame-Options", "DENY")
		}
		next.ServeHTTP(w, r)
	})
}
