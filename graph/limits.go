package graph

import (
	"context"
	"math"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/lexer"
)

const (
	maxCachedBytes = 8 << 20             // of memory, by the documents that are kept
	maxCachedQuery = maxCachedBytes / 16 // of memory, by one of them; larger ones are parsed each time
	bytesPerToken  = 280                 // of memory that a parsed token takes at most
)

// queryCache keeps parsed and validated documents by their text, those that were asked
// for last, as many as take maxCachedBytes. It is safe for concurrent use.
type queryCache struct {
	mu        sync.Mutex
	documents *simplelru.LRU[string, cachedQuery] // guarded by mu
	bytes     int                                 // guarded by mu; of all documents
}

type cachedQuery struct {
	document *ast.QueryDocument
	bytes    int
}

var _ graphql.Cache[*ast.QueryDocument] = (*queryCache)(nil)

func newQueryCache() (*queryCache, error) {
	c := &queryCache{}
	forget := func(_ string, q cachedQuery) { c.bytes -= q.bytes }
	documents, err := simplelru.NewLRU(math.MaxInt, forget)
	c.documents = documents
	return c, err
}

// Get implements graphql.Cache.
func (c *queryCache) Get(_ context.Context, query string) (*ast.QueryDocument, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q, ok := c.documents.Get(query)
	return q.document, ok
}

// Add implements graphql.Cache.
func (c *queryCache) Add(_ context.Context, query string, document *ast.QueryDocument) {
	size := documentBytes(query)
	if size > maxCachedQuery {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.documents.Remove(query)
	c.documents.Add(query, cachedQuery{document, size})
	c.bytes += size
	for c.bytes > maxCachedBytes {
		c.documents.RemoveOldest()
	}
}

// documentBytes is the memory that a document takes at most: its text, which its names
// are parts of, and what is made of each token.
func documentBytes(query string) int {
	size := len(query)
	l := lexer.New(&ast.Source{Input: query})
	for size <= maxCachedQuery {
		token, err := l.ReadToken()
		if err != nil || token.Kind == lexer.EOF {
			break
		}
		size += bytesPerToken
	}
	return size
}
