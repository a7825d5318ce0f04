package transport

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/maypok86/otter/v2"

	"byline/graph/cost"
	"byline/store"
	"byline/store/cosmos/itemcache"
	"byline/store/cosmos/session"
)

// responseCache caches the responses to queries over HTTP, by the text of the request, which
// is not even parsed on a hit. A response is valid while nothing in its read set has changed.
// A response that depends on the viewer is cached for that viewer alone, and for the role of their token. Responses
// with errors or with a cost report are not cached: their queries execute, on cached items.
type responseCache struct {
	store   *store.Store
	entries *otter.Cache[cacheKey, *cachedResponse] // nil: nothing is cached
	hit     func(ctx context.Context, operation string, predicted float64)
}

// cacheKey identifies requests with the same response.
type cacheKey struct {
	viewer string // "" for all viewers; else see viewerKey
	text   string // as received
}

// viewerKey is the cacheKey.viewer of a response to the viewer of r alone. It has the role, which is of the token: the
// next token of the same viewer may have another.
func viewerKey(r *Request) string {
	if r.Moderator {
		return "moderator " + r.viewer
	}
	return "viewer " + r.viewer
}

// cachedResponse is a response without errors.
type cachedResponse struct {
	key       cacheKey
	body      *Body
	readSet   *itemcache.ReadSet
	tag       string  // the ETag, if HTTP caches may store it; else ""
	operation string  // the name of the operation
	predicted float64 // RU
}

const (
	maxCacheKey = 16 << 10 // bytes of the text of a request
	entryBytes  = 600      // memory of an entry, without key, body and read set
)

// newResponseCache returns a cache of so many bytes, 0 for none. It calls hit for each hit.
func newResponseCache(
	s *store.Store, bytes int, hit func(ctx context.Context, operation string, predicted float64),
) *responseCache {
	c := &responseCache{store: s, hit: hit}
	if bytes > 0 {
		c.entries = otter.Must(&otter.Options[cacheKey, *cachedResponse]{
			MaximumWeight: uint64(bytes),
			Weigher: func(k cacheKey, cached *cachedResponse) uint32 {
				return uint32(len(k.viewer) + len(k.text) + len(cached.operation) + cached.body.Bytes() + entryBytes +
					cached.readSet.Bytes())
			},
		})
	}
	return c
}

// get returns the cached response to a request, nil if it is missing or may be stale.
func (c *responseCache) get(r *http.Request, in requestBody) *cachedResponse {
	caller := RequestOf(r.Context())
	if c.entries == nil || caller.Meter.Detail != cost.None || len(in.text) > maxCacheKey ||
		c.store.Renamed(caller.Session) != "" {
		return nil // responses may have the old name
	}
	if !c.store.DeletionsKnown() {
		return nil // a user in the response may have been deleted
	}
	if r.Method == http.MethodPost && strings.HasPrefix(in.text, "?") {
		return nil // not JSON, but it may equal the text of a GET
	}
	cached := c.find(cacheKey{"", in.text}, caller.Session)
	if cached == nil { // or it depends on the viewer
		cached = c.find(cacheKey{viewerKey(caller), in.text}, caller.Session)
	}
	return cached
}

// find returns the entry of a key, nil if it is missing or may be stale.
func (c *responseCache) find(k cacheKey, s *session.Session) *cachedResponse {
	cached, ok := c.entries.GetIfPresent(k)
	if !ok || !cached.readSet.Valid(s) {
		return nil
	}
	return cached
}

// add encodes a response, and caches it if it may. It returns nil for a mutation and for a response
// with errors or extensions.
func (c *responseCache) add(r *http.Request, in requestBody, response *graphql.Response) *cachedResponse {
	caller := RequestOf(r.Context())
	if caller.readSet == nil || response.Data == nil || len(response.Errors)+len(response.Extensions) > 0 {
		return nil
	}
	personal := caller.personal.Load()
	// Without its text, the request has the hash or id of the document.
	public := !personal && r.Method == http.MethodGet && r.URL.Query().Get("query") == ""
	cached := &cachedResponse{body: NewBody(encode(response)), readSet: caller.readSet}
	if public {
		cached.tag = TagOf(cached.body.plain.bytes)
	}
	if c.entries == nil || caller.registers || caller.readSet.Uncached() || len(in.text) > maxCacheKey {
		return cached
	}
	k := cacheKey{text: in.text}
	if personal {
		k.viewer = viewerKey(caller)
	}
	cached.key, cached.operation, cached.predicted = k, caller.operation, caller.Meter.Prediction()
	c.entries.Set(k, cached)
	return cached
}

// encoded returns the body of a response in the coding that a client prefers. What it compresses stays with the entry.
func (c *responseCache) encoded(cached *cachedResponse, r *http.Request) *encodedBody {
	e, grown := cached.body.encoded(r)
	if grown && c.entries != nil {
		c.entries.ComputeIfPresent(cached.key, func(entry *cachedResponse) (*cachedResponse, otter.ComputeOp) {
			if entry == cached {
				return entry, otter.WriteOp // it weighs more now
			}
			return entry, otter.CancelOp
		})
	}
	return e
}

// write sends the response in a coding, with caching headers if HTTP caches may store it.
func (c *cachedResponse) write(w http.ResponseWriter, r *http.Request, body *encodedBody) {
	if c.tag != "" && isPublic(r) {
		if maxAge := c.maxAge(); maxAge >= time.Second && SetPublic(w, r, c.tag, maxAge) {
			return
		}
	}
	body.write(w, http.StatusOK)
}

// publicMaxAge is how old a public response from an HTTP cache may be. It is the lag that projections
// may have before they count as inconsistent, so that a cache is no staler than they are.
const publicMaxAge = 5 * time.Second

// maxAge returns for how long HTTP caches may serve a public response.
func (c *cachedResponse) maxAge() time.Duration { return publicMaxAge - c.readSet.Age() }

// isPublic reports whether HTTP caches may share the response to a request: a GET without a bearer
// token or a session, and without a cost report, which differs between requests.
func isPublic(r *http.Request) bool {
	return r.Method == http.MethodGet && len(r.Header.Values("Authorization")) == 0 &&
		r.Header.Get(sessionHeader) == "" &&
		RequestOf(r.Context()).Meter.Detail == cost.None
}

// TagOf returns the entity tag of a response body. It is weak, since it is that of all codings of the body.
func TagOf(body []byte) string {
	sum := sha256.Sum256(body)
	return `W/"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`
}

// SetPublic sets the headers of a response that HTTP caches may serve for maxAge. It responds with 304 Not Modified
// and returns true if the client has the response.
func SetPublic(w http.ResponseWriter, r *http.Request, tag string, maxAge time.Duration) (unchanged bool) {
	h := w.Header()
	h.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(maxAge.Seconds())))
	h.Set("ETag", tag)
	h.Del(requestIDHeader) // a cache would send it to other clients
	if !matches(r.Header.Values("If-None-Match"), tag) {
		return false
	}
	h.Del("Content-Type")
	w.WriteHeader(http.StatusNotModified)
	return true
}

// matches reports whether an If-None-Match header has the tag, by weak comparison (RFC 9110,
// section 13.1.2). The tag must not contain a comma.
func matches(header []string, tag string) bool {
	for item := range strings.SplitSeq(strings.Join(header, ","), ",") {
		if item = strings.TrimSpace(item); item == "*" ||
			strings.TrimPrefix(item, "W/") == strings.TrimPrefix(tag, "W/") {
			return true
		}
	}
	return false
}
