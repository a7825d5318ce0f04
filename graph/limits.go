package graph

import (
	"context"
	"fmt"
	"math"

	"github.com/99designs/gqlgen/graphql"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

const (
	maxItems = 10_000 // that an operation may list, as predicted from its page sizes
	maxFirst = 100    // of a list; the store lists no more at a time

	cachedQueries  = 500
	maxCachedQuery = 4 << 10 // bytes; longer ones are parsed each time
)

// queryCache keeps parsed and validated documents by their text. Long ones are
// not kept, so that what it holds is bounded.
type queryCache struct {
	documents *lru.Cache[string, *ast.QueryDocument]
}

var _ graphql.Cache[*ast.QueryDocument] = queryCache{}

func newQueryCache() (queryCache, error) {
	documents, err := lru.New[string, *ast.QueryDocument](cachedQueries)
	return queryCache{documents}, err
}

func (c queryCache) Get(_ context.Context, query string) (*ast.QueryDocument, bool) {
	return c.documents.Get(query)
}

func (c queryCache) Add(_ context.Context, query string, document *ast.QueryDocument) {
	if len(query) <= maxCachedQuery {
		c.documents.Add(query, document)
	}
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
