package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/lexer"
)

const (
	maxCachedBytes = 8 << 20             // of memory, by the documents that are kept
	maxCachedQuery = maxCachedBytes / 16 // of memory, by one of them; larger ones are parsed each time
	bytesPerToken  = 280                 // of memory that a parsed token takes at most
)

// queryCache keeps parsed and validated documents by their text.
type queryCache struct {
	documents *byteCache[*ast.QueryDocument]
}

var _ graphql.Cache[*ast.QueryDocument] = queryCache{}

func newQueryCache() queryCache {
	return queryCache{newByteCache[*ast.QueryDocument](maxCachedBytes)}
}

// Get implements graphql.Cache.
func (c queryCache) Get(_ context.Context, query string) (*ast.QueryDocument, bool) {
	return c.documents.get(query)
}

// Add implements graphql.Cache.
func (c queryCache) Add(_ context.Context, query string, document *ast.QueryDocument) {
	if size := documentBytes(query); size <= maxCachedQuery {
		c.documents.add(query, document, size)
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
