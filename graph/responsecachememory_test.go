package graph

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"byline/store/cosmos/itemcache"

	"github.com/99designs/gqlgen/graphql"
	"github.com/prometheus/client_golang/prometheus"

	"byline/internal/heaptest"
	"byline/internal/longtest"
)

var distinctResponses = flag.Int("distinct", 50_000, "number of distinct responses that TestResponseCache_MemoryIsBounded adds")

// Any number of distinct responses takes at most the limit and a tenth of it.
func TestResponseCache_MemoryIsBounded(t *testing.T) {
	longtest.Heavy(t)
	const limit = 16 << 20
	for name, body := range map[string]int{"short": 100, "long": 10_000} {
		t.Run(name, func(t *testing.T) {
			heaptest.Bounded(t, limit, func() any {
				a := newResponseCache(Options{ResponseCacheBytes: limit}, newMetrics(prometheus.NewRegistry()), tracing{})
				for n := range *distinctResponses {
					r := httptest.NewRequest(http.MethodPost, "/graphql", nil)
					caller := &request{readSet: &itemcache.ReadSet{}}
					text := fmt.Sprintf(`{"query":"query Post($id: ID!) { post(id: $id) { id title content } }","variables":{"id":"%d"}}`, n)
					a.add(r.WithContext(withRequest(r.Context(), caller)), requestBody{text: text}, &graphql.Response{Data: []byte(`"` + strings.Repeat("x", body+n%7) + `"`)})
				}
				a.entries.CleanUp()
				return a
			})
		})
	}
}
