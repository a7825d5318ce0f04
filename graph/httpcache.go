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

// publicMaxAge is how old an answer may be that is the same for everybody, for caches
// to give it. It is what a copy may take to follow its source before it counts as
// different, so that a cache adds no staleness of another kind than readers meet anyway.
const publicMaxAge = 5 * time.Second

// isPublic reports whether a request asks for what may be the same for everybody who
// asks for the URL: a GET by nobody who is signed in or goes on with a session. What an
// answer has cost, if the client asks for it, is not the same for everybody.
func isPublic(r *http.Request) bool {
	return r.Method == http.MethodGet && len(r.Header.Values("Authorization")) == 0 && r.Header.Get(sessionHeader) == "" &&
		requestFrom(r.Context()).meter.Detail == cost.None
}

// tagOf is the entity tag of an answer.
func tagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// writePublic answers with what caches may keep for so long, or that the client has it
// already.
func writePublic(w http.ResponseWriter, r *http.Request, body []byte, tag string, maxAge time.Duration) {
	h := w.Header()
	h.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(maxAge.Seconds())))
	h.Set("ETag", tag)
	h.Del(requestIDHeader) // a cache would answer other requests with it
	if matches(r.Header.Values("If-None-Match"), tag) {
		h.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	writeBody(w, http.StatusOK, body)
}

// matches compares a tag with those of an If-None-Match header, weakly (RFC 9110,
// section 13.1.2). The tag itself must have no comma.
func matches(header []string, tag string) bool {
	for item := range strings.SplitSeq(strings.Join(header, ","), ",") {
		if item = strings.TrimSpace(item); item == "*" || strings.TrimPrefix(item, "W/") == tag {
			return true
		}
	}
	return false
}
