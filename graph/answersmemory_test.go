package graph

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/prometheus/client_golang/prometheus"

	"byline/store"
)

var distinctAnswers = flag.Int("distinct", 50_000, "how many distinct queries TestAnswerMemory has answered")

// Any number of distinct answers takes no more memory than they may, and a tenth.
func TestAnswerMemory(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // what finalizers and pools held goes with the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const limit = 16 << 20
	for name, body := range map[string]int{"short": 100, "long": 10_000} {
		t.Run(name, func(t *testing.T) {
			a := newAnswers(Options{AnswerBytes: limit}, newMetrics(prometheus.NewRegistry()), tracing{})
			before := heap()
			for n := range *distinctAnswers {
				r := httptest.NewRequest(http.MethodPost, "/graphql", nil)
				asker := &request{basis: &store.Basis{}}
				text := fmt.Sprintf(`{"query":"query Post($id: ID!) { post(id: $id) { id title content } }","variables":{"id":"%d"}}`, n)
				a.keep(r.WithContext(withRequest(r.Context(), asker)), received{text: text}, &graphql.Response{Data: []byte(`"` + strings.Repeat("x", body+n%7) + `"`)})
			}
			a.kept.CleanUp()
			took := heap() - before
			t.Logf("%d answers, %.1f MB", a.kept.EstimatedSize(), float64(took)/(1<<20))
			if took > limit*11/10 || took < limit/4 {
				t.Errorf("%.1f MB, where %d may be", float64(took)/(1<<20), limit>>20)
			}
			runtime.KeepAlive(a)
		})
	}
}
