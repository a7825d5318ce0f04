package graph

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

func TestItemLimit(t *testing.T) {
	schema := readSchema(t)
	for name, tt := range map[string]struct {
		query     string
		variables map[string]any
		items     int
	}{
		"no list":                     {`{ viewer { id } }`, nil, 0},
		"the default page":            {`{ feed { edges { cursor } } }`, nil, 20},
		"null is the default page":    {`{ feed(first: null) { edges { cursor } } }`, nil, 20},
		"a page":                      {`{ feed(first: 7) { edges { cursor } } }`, nil, 7},
		"a page from a variable":      {`query($n: Int) { feed(first: $n) { edges { cursor } } }`, map[string]any{"n": int64(9)}, 9},
		"lists side by side":          {`{ a: feed(first: 7) { edges { cursor } } b: feed(first: 5) { edges { cursor } } }`, nil, 12},
		"lists in lists":              {`{ feed(first: 10) { edges { node { comments(first: 5) { edges { cursor } } } } } }`, nil, 60},
		"in fragments":                {`{ ...F ... on Query { ...F } } fragment F on Query { feed(first: 7) { edges { cursor } } }`, nil, 14},
		"nodes":                       {`{ nodes(ids: ["a", "b"]) { ... on Post { comments(first: 10) { edges { cursor } } } } }`, nil, 22},
		"a page that will be refused": {`{ feed(first: 1000000) { edges { node { comments { edges { cursor } } } } } }`, nil, 20},
		"more than there are numbers": {`{ feed(first: 100) {` + strings.Repeat(`edges { node { author { posts(first: 100) {`, 12) + `edges { cursor }` +
			strings.Repeat(`} } } }`, 12) + `} }`, nil, 1<<31 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := gqlparser.LoadQuery(schema, tt.query)
			if err != nil {
				t.Fatal(err)
			}
			c := itemCount{variables: tt.variables, fragments: map[*ast.FragmentDefinition]int{}}
			if got := c.selection(doc.Operations[0].SelectionSet); got != tt.items {
				t.Errorf("%d items, want %d", got, tt.items)
			}
			op := &graphql.OperationContext{Operation: doc.Operations[0], Variables: tt.variables}
			if refused := (itemLimit{}).MutateOperationContext(t.Context(), op) != nil; refused != (tt.items > maxItems) {
				t.Errorf("refused: %t", refused)
			}
		})
	}
}

func TestTooManyItemsAreRefusedWithTheirNumber(t *testing.T) {
	a := post(t, deaf(t, Options{}), "", `{ feed(first: 100) { edges { node { comments(first: 100) { edges { cursor } } } } } }`, nil)
	if a.code() != "QUERY_TOO_EXPENSIVE" || a.Data != nil || !strings.Contains(a.Errors[0].Message, "10100") {
		t.Error(a.body)
	}
}

// Each fragment spreads the next one twice, so that they unfold to 2^24 lists.
func TestFragmentsThatDoubleAreCountedOnce(t *testing.T) {
	var query strings.Builder
	query.WriteString("{ viewer { ...F0 } }")
	for i := range 24 {
		fmt.Fprintf(&query, " fragment F%d on User { a: posts { edges { node { author { ...F%d } } } } b: posts { edges { node { author { ...F%d } } } } }", i, i+1, i+1)
	}
	query.WriteString(" fragment F24 on User { id }")
	doc, err := gqlparser.LoadQuery(readSchema(t), query.String())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	c := itemCount{fragments: map[*ast.FragmentDefinition]int{}}
	if got := c.selection(doc.Operations[0].SelectionSet); got <= maxItems {
		t.Errorf("%d items", got)
	}
	if took := time.Since(start); took > 50*time.Millisecond {
		t.Errorf("counting took %s", took)
	}
}

func TestQueryCacheKeepsShortDocuments(t *testing.T) {
	c, err := newQueryCache()
	if err != nil {
		t.Fatal(err)
	}
	short, long := "{a}", strings.Repeat(" ", maxCachedQuery)+"{a}"
	for _, query := range []string{short, long} {
		c.Add(t.Context(), query, &ast.QueryDocument{})
	}
	if _, ok := c.Get(t.Context(), short); !ok {
		t.Error("a short document was not kept")
	}
	if _, ok := c.Get(t.Context(), long); ok {
		t.Error("a long document was kept")
	}
	for i := range 2 * cachedQueries {
		c.Add(t.Context(), fmt.Sprint(i), &ast.QueryDocument{})
	}
	if n := c.documents.Len(); n != cachedQueries {
		t.Errorf("%d documents are kept", n)
	}
}
