package graph

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/99designs/gqlgen/graphql"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/lexer"
)

const (
	maxItems = 10_000 // that an operation may list, as predicted from its page sizes
	maxFirst = 100    // of a list; the store lists no more at a time

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

// itemLimit refuses operations whose lists could add up to more than maxItems.
// Nested lists multiply, so a short document can ask for millions.
type itemLimit struct{}

var _ graphql.OperationContextMutator = itemLimit{}

func (itemLimit) ExtensionName() string                   { return "ItemLimit" }
func (itemLimit) Validate(graphql.ExecutableSchema) error { return nil }

func (itemLimit) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	c := itemCount{variables: op.Variables, fragments: map[*ast.FragmentDefinition]int{}}
	if n := c.selection(op.Operation.SelectionSet); n > maxItems {
		return gqlerror.Wrap(&refusal{code: queryTooExpensive, message: fmt.Sprintf(
			"this operation could list %d items, and at most %d are allowed: ask for smaller pages, or for fewer lists inside lists", n, maxItems)})
	}
	return nil
}

// itemCount predicts how many items an operation lists. It counts each fragment
// once, however often it is spread, and stops counting at the largest int32.
type itemCount struct {
	variables map[string]any
	fragments map[*ast.FragmentDefinition]int
}

func (c itemCount) selection(set ast.SelectionSet) int {
	total := 0
	for _, selected := range set {
		n := 0
		switch s := selected.(type) {
		case *ast.Field:
			n = c.field(s)
		case *ast.InlineFragment:
			n = c.selection(s.SelectionSet)
		case *ast.FragmentSpread:
			known := false
			if n, known = c.fragments[s.Definition]; !known {
				n = c.selection(s.Definition.SelectionSet)
				c.fragments[s.Definition] = n
			}
		}
		total = min(total+n, math.MaxInt32)
	}
	return total
}

func (c itemCount) field(f *ast.Field) int {
	inside := c.selection(f.SelectionSet)
	size := c.pageSize(f)
	if size == 0 {
		return inside
	}
	return min(size*(1+inside), math.MaxInt32)
}

// pageSize is how many items a list field may return; 0 for all other fields.
func (c itemCount) pageSize(f *ast.Field) int {
	if f.Definition == nil {
		return 0
	}
	for _, argument := range f.Definition.Arguments {
		switch argument.Name {
		case "first":
			first, err := optional(f.ArgumentMap(c.variables)["first"], graphql.UnmarshalInt32)
			switch {
			case first == nil:
				return defaultFirst
			case err != nil || *first < 1 || *first > maxFirst:
				return 0 // it will be refused
			}
			return int(*first)
		case "ids":
			if ids, ok := f.ArgumentMap(c.variables)["ids"].([]any); ok {
				return len(ids)
			}
			return 1
		}
	}
	return 0
}
