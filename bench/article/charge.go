package article

import (
	"context"
	"slices"
	"strings"
	"sync"

	"byline/store/cosmos"
)

// charges records the operations on Cosmos DB of one request of the article.
type charges struct {
	mu  sync.Mutex
	all []cosmos.Operation // guarded by mu
}

// withCharges returns a context whose operations are recorded in the returned charges.
func withCharges(ctx context.Context) (context.Context, *charges) {
	c := &charges{}
	return cosmos.WithRecorder(ctx, func(_ context.Context, o *cosmos.Operation) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, *o)
	}), c
}

// split returns the RU of the operations that the article counts for a request, and the RU of all others.
func (c *charges) split(request string) (ru, other float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.all {
		if countedByArticle(request, o) {
			ru += o.RU
		} else {
			other += o.RU
		}
	}
	return ru, other
}

// readKinds are the kinds of read operations.
var readKinds = []cosmos.Kind{cosmos.KindPointRead, cosmos.KindQuery, cosmos.KindReadMany, cosmos.KindChangeFeed,
	cosmos.KindMetadata}

// countedByArticle reports whether the article counts an operation for a request: every operation of a
// read, and the one of a write that creates the item.
func countedByArticle(request string, o cosmos.Operation) bool {
	switch request {
	case "C1":
		return !slices.Contains(readKinds, o.Kind) && !strings.HasPrefix(o.PartitionKey, `["username:`)
	case "C2", "C3", "C4":
		return !slices.Contains(readKinds, o.Kind) && o.Container == "posts"
	}
	return true
}
