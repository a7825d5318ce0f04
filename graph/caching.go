package graph

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
)

// publicMaxAge is how long caches may answer with what is the same for everybody. It
// is what a copy may take to follow its source before it counts as different, so that
// a cache adds no staleness of another kind than readers meet anyway. It is the same
// for all answers: each is read for its request, and anything may change at any time.
const publicMaxAge = 5 * time.Second

// isPublic reports whether the answer is the same for everybody who asks for the URL:
// that of a query which named its document by hash or id, from nobody who is signed
// in or goes on with a session, of which no field asked who the viewer is, and which went
// well. What an answer has cost, if the client asks for it, is not the same for everybody.
func isPublic(r *http.Request, response *graphql.Response) bool {
	asker := requestFrom(r.Context())
	return r.Method == http.MethodGet && r.URL.Query().Get("query") == "" && len(r.Header.Values("Authorization")) == 0 && r.Header.Get(sessionHeader) == "" &&
		response.Data != nil && len(response.Errors) == 0 && !asker.personal.Load() && !asker.tally.asked
}

// writePublic answers with what caches may keep, or that the client has it already.
func writePublic(w http.ResponseWriter, r *http.Request, response *graphql.Response) {
	body := encode(response)
	sum := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
	h := w.Header()
	h.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(publicMaxAge.Seconds())))
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
