package graph

import (
	"net/http"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/maypok86/otter/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/cost"
	"byline/graph/limit"
	"byline/store"
	"byline/store/cosmos"
)

// responseCache caches the responses to queries over HTTP, by the text of the request, which
// is not even parsed on a hit. A response is valid while nothing in its read set has changed.
// A response for which a field asked who the viewer is, is cached for that viewer alone.
// Responses with errors or with a cost report are not cached: their queries execute, on cached
// items.
type responseCache struct {
	store   *store.Store
	entries *otter.Cache[cacheKey, *cachedResponse] // nil: none are
	metrics cacheMetrics
	tracing tracing // without a tracer: none
}

// cacheKey identifies requests with the same response.
type cacheKey struct {
	viewer string // "" for all viewers; else see viewerKey
	text   string // as received
}

// viewerKey is the cacheKey.viewer of a response to one viewer alone, "" if anonymous.
func viewerKey(viewer string) string { return "viewer " + viewer }

// cachedResponse is a response without errors.
type cachedResponse struct {
	body      []byte
	readSet   *cosmos.ReadSet
	tag       string  // its ETag, if HTTP caches may have it; else ""
	operation string  // its name
	predicted float64 // RU

	held limit.Shared // the memory of body, while it is being sent
}

const (
	maxCacheKey     = 16 << 10 // bytes of a request that is cached
	entryBytes      = 600      // of memory of an entry, beside its key and body
	dependencyBytes = 100      // and for each item of its read set
)

func newResponseCache(o Options, m metrics, t tracing) *responseCache {
	a := &responseCache{store: o.Store, metrics: m.cached, tracing: t}
	if o.ResponseCacheBytes > 0 {
		a.entries = otter.Must(&otter.Options[cacheKey, *cachedResponse]{
			MaximumWeight: uint64(o.ResponseCacheBytes),
			Weigher: func(q cacheKey, k *cachedResponse) uint32 {
				return uint32(len(q.viewer) + len(q.text) + len(k.operation) + cap(k.body) + entryBytes + dependencyBytes*k.readSet.Reads())
			},
		})
	}
	return a
}

// get returns the cached response to a request, nil if it is missing or may be stale.
func (a *responseCache) get(r *http.Request, in requestBody) *cachedResponse {
	caller := requestFrom(r.Context())
	if a.entries == nil || caller.meter.Detail != cost.None || len(in.text) > maxCacheKey || a.store.Renamed(caller.session) != "" {
		return nil // responses may have the old name
	}
	if !a.store.DeletionsKnown() {
		return nil // a user who is in the response may have been deleted
	}
	if r.Method == http.MethodPost && strings.HasPrefix(in.text, "?") {
		return nil // not JSON, but it may be the text of a GET
	}
	k := a.find(cacheKey{"", in.text}, caller.session)
	if k == nil { // or it depends on the viewer
		k = a.find(cacheKey{viewerKey(caller.viewer), in.text}, caller.session)
	}
	return k
}

// observe records a cache hit.
func (a *responseCache) observe(r *http.Request, k *cachedResponse) {
	a.metrics.observe(time.Since(requestFrom(r.Context()).began), k.predicted)
	if a.tracing.tracer != nil {
		_, span := a.tracing.operation(r.Context(), ast.Query, k.operation)
		traceCost(span, cost.Report{PredictedRU: cost.Rounded(k.predicted)})
		span.End()
	}
}

// find returns the entry of a key, nil if it is missing or may be stale.
func (a *responseCache) find(q cacheKey, s *cosmos.Session) *cachedResponse {
	k, ok := a.entries.GetIfPresent(q)
	if !ok || !k.readSet.Valid(s) {
		return nil
	}
	return k
}

// add caches a response, if it may be cached, and returns it encoded; nil if it has errors.
func (a *responseCache) add(r *http.Request, in requestBody, response *graphql.Response) *cachedResponse {
	caller := requestFrom(r.Context())
	if caller.readSet == nil || response.Data == nil || len(response.Errors) > 0 {
		return nil
	}
	personal := caller.personal.Load()
	public := !personal && r.Method == http.MethodGet && r.URL.Query().Get("query") == "" // the document is named by hash or id
	k := &cachedResponse{body: encode(response), readSet: caller.readSet}
	if public {
		k.tag = tagOf(k.body)
	}
	if a.entries == nil || caller.registers || len(response.Extensions) > 0 || len(in.text) > maxCacheKey {
		return k
	}
	q := cacheKey{text: in.text}
	if personal {
		q.viewer = viewerKey(caller.viewer)
	}
	k.operation, k.predicted = caller.operation, caller.meter.Prediction()
	a.entries.Set(q, k)
	return k
}

// write sends it.
func (k *cachedResponse) write(w http.ResponseWriter, r *http.Request) {
	if k.tag != "" && isPublic(r) {
		if maxAge := publicMaxAge - k.readSet.Age(); maxAge >= time.Second {
			writePublic(w, r, k.body, k.tag, maxAge)
			return
		}
	}
	writeBody(w, http.StatusOK, k.body)
}
