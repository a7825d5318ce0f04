package graph

import (
	"context"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/lexer"
)

const (
	maxCachedBytes = 12 << 20            // of memory, by the documents that are kept
	maxCachedQuery = maxCachedBytes / 16 // of memory, by one of them; larger ones are parsed each time
	bytesPerToken  = 400                 // of memory that a parsed token takes at most, with its part in a plan
)

// queryCache keeps parsed and validated documents by their text.
type queryCache struct {
	documents *byteCache[*cachedDocument]
}

// cachedDocument is a document and the plans of its operations' root fields.
type cachedDocument struct {
	*ast.QueryDocument
	plans sync.Map // of []*plan by *ast.OperationDefinition
}

var _ graphql.Cache[*ast.QueryDocument] = queryCache{}

func newQueryCache() queryCache {
	return queryCache{newByteCache[*cachedDocument](maxCachedBytes)}
}

// Get implements graphql.Cache.
func (c queryCache) Get(_ context.Context, query string) (*ast.QueryDocument, bool) {
	d, ok := c.documents.get(query)
	if !ok {
		return nil, false
	}
	return d.QueryDocument, true
}

// Add implements graphql.Cache.
func (c queryCache) Add(_ context.Context, query string, document *ast.QueryDocument) {
	if size := documentBytes(query); size <= maxCachedQuery {
		c.documents.add(query, &cachedDocument{QueryDocument: document}, size)
	}
}

// plansOf returns the plans of an operation's root fields: see newPlans.
func (c queryCache) plansOf(op *graphql.OperationContext) []*plan {
	d, ok := c.documents.get(op.RawQuery)
	if !ok || d.QueryDocument != op.Doc { // too large to be kept, or kept once more by another request
		return newPlans(op)
	}
	if plans, ok := d.plans.Load(op.Operation); ok {
		return plans.([]*plan)
	}
	plans := newPlans(op)
	d.plans.Store(op.Operation, plans)
	return plans
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
