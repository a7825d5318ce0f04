package projection_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/testkit"
	"byline/store/internal/cosmostest"
)

// Repeating a page whose views were written costs a few reads, and no writes.
func TestProjection_RepeatedPageWritesNothing(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		const posts = 60
		for i := range posts {
			w.AddLike(ada, w.AddPost(ada, fmt.Sprint("post ", i)))
		}
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		stop()
		// Simulate a crash before the checkpoint.
		leases, err := w.Client.NewContainer(w.Database, "leases")
		if err != nil {
			t.Fatal(err)
		}
		const id = "projections-posts.-FF"
		var p azcosmos.PatchOperations
		p.AppendSet("/continuation", "")
		if _, err := leases.PatchItem(t.Context(), azcosmos.NewPartitionKeyString(id), id, p, nil); err != nil {
			t.Fatal(err)
		}
		var writes, requests atomic.Int32
		w.Wire.Intercept(func(r *http.Request) error {
			if strings.Contains(r.URL.Path, "/colls/leases/") || r.Header.Get("A-Im") != "" ||
				!strings.Contains(r.URL.Path, "/docs") {
				return nil
			}
			requests.Add(1)
			if r.Method != http.MethodGet && r.Header.Get("x-ms-documentdb-query") == "" &&
				!strings.HasPrefix(body(t, r), `[{"operationType":"Read"`) {
				writes.Add(1)
			}
			return nil
		})
		w.Start()
		testkit.Advance(10 * time.Second)
		if err := w.CaughtUp(); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d requests for %d changes", requests.Load(), 2*posts)
		if writes.Load() > 0 || requests.Load() > 20 {
			t.Errorf("got %d requests, %d of them writes; want at most 20, and no writes", requests.Load(),
				writes.Load())
		}
	})
}
