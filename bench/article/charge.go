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

// charged returns a context that records its operations.
func charged(ctx context.Context) (context.Context, *charges) {
	c := &charges{}
	return cosmos.WithRecorder(ctx, func(_ context.Context, o *cosmos.Operation) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, *o)
	}), c
}

// of returns the RU of a request as the article has it, and the RU of all other operations.
func (c *charges) of(request string) (ru, beside float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.all {
		if ofArticle(request, o) {
			ru += o.RU
		} else {
			beside += o.RU
		}
	}
	return ru, beside
}

// readKinds are the kinds of operations that write nothing.
var readKinds = []cosmos.Kind{cosmos.KindPointRead, cosmos.KindQuery, cosmos.KindReadMany, cosmos.KindChangeFeed, cosmos.KindMetadata}

// ofArticle reports whether an operation belongs to a request as the article has it: all
// operations of a read, and the one of a write that creates the item.
func ofArticle(request string, o cosmos.Operation) bool {
	switch request {
	case "C1":
		return !slices.Contains(readKinds, o.Kind) && !strings.HasPrefix(o.PartitionKey, `["username:`)
	case "C2", "C3", "C4":
		return !slices.Contains(readKinds, o.Kind) && o.Container == "posts"
	}
	return true
}
