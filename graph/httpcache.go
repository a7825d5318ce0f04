package graph

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"

	"byline/graph/cost"
)

// publicMaxAge is how old a public response from an HTTP cache may be. It is the lag that projections
// may have before they count as inconsistent, so that a cache is no staler than they are.
const publicMaxAge = 5 * time.Second

// isPublic reports whether HTTP caches may share the response to a request: a GET without a bearer
// token or a session, and without a cost report, which differs between requests.
func isPublic(r *http.Request) bool {
	return r.Method == http.MethodGet && len(r.Header.Values("Authorization")) == 0 && r.Header.Get(sessionHeader) == "" &&
		requestFrom(r.Context()).meter.Detail == cost.None
}

// tagOf returns the entity tag of a response body.
func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// writePublic writes a response that HTTP caches may serve for maxAge, or 304 Not Modified if the
// client has it.
func writePublic(w http.ResponseWriter, r *http.Request, body []byte, tag string, maxAge time.Duration) {
	h := w.Header()
	h.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(maxAge.Seconds())))
	h.Set("ETag", tag)
	h.Del(requestIDHeader) // a cache would send it to other clients
	if matches(r.Header.Values("If-None-Match"), tag) {
		h.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	writeBody(w, http.StatusOK, body)
}

// matches reports whether an If-None-Match header has the tag, by weak comparison (RFC 9110,
// section 13.1.2). The tag must not contain a comma.
func matches(header []string, tag string) bool {
	for item := range strings.SplitSeq(strings.Join(header, ","), ",") {
		if item = strings.TrimSpace(item); item == "*" || strings.TrimPrefix(item, "W/") == tag {
			return true
		}
	}
	return false
}
