package graph

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

func TestQueryCacheKeepsWhatWasAskedForLast(t *testing.T) {
	c, err := newQueryCache()
	if err != nil {
		t.Fatal(err)
	}
	kept := func(query string) bool {
		_, ok := c.Get(t.Context(), query)
		return ok
	}
	query := func(i int) string { return fmt.Sprintf("{ a%06d }", i) }
	most := maxCachedBytes / documentBytes(query(1000))
	long := "{ a" + strings.Repeat(" a", maxCachedQuery/bytesPerToken) + " }"
	c.Add(t.Context(), long, &ast.QueryDocument{})
	if kept(long) || c.bytes != 0 {
		t.Error("a long document was kept")
	}
	for i := 1000; i < 1000+most; i++ {
		c.Add(t.Context(), query(i), &ast.QueryDocument{})
		c.Add(t.Context(), query(i), &ast.QueryDocument{}) // as by two requests at once
	}
	if !kept(query(1000)) || c.documents.Len() != most || c.bytes != most*documentBytes(query(1000)) {
		t.Errorf("%d documents of %d bytes are kept, want %d", c.documents.Len(), c.bytes, most)
	}
	c.Add(t.Context(), "{ a }", &ast.QueryDocument{})
	if !kept("{ a }") || !kept(query(1000)) || kept(query(1001)) || c.bytes > maxCachedBytes {
		t.Errorf("another document, which does not fit: %t, what was asked for last: %t, what was not: %t", kept("{ a }"), kept(query(1000)), kept(query(1001)))
	}
}

// What the cache counts is no less than the memory that its documents take, whatever
// they are made of.
func TestQueryCacheIsBoundedInMemory(t *testing.T) {
	schema := readSchema(t)
	for name, format := range map[string]string{
		"fields":         `query Q%06d { viewer { %s } }|id `,
		"objects":        `query Q%06d { viewer { %s } }|posts{pageInfo{endCursor}}`,
		"short names":    `query Q%06d { viewer { %s } }|a:id `,
		"inline":         `query Q%06d { viewer { %s } }|...{id}`,
		"arguments":      `query Q%06d { viewer { %s } }|posts(first:1){__typename}`,
		"directives":     `query Q%06d { viewer { %s } }|id@skip(if:true)`,
		"a list":         `query Q%06d { nodes(ids: [%s]) { id } }|1 `,
		"texts":          `query Q%06d { nodes(ids: [%s]) { id } }|"\u0061"`,
		"comments":       "query Q%06d { viewer { id\n%s } }|#\n",
		"fields, rarely": "query Q%06d { viewer { %s } }|id#\n",
		"blanks":         "query Q%06d { viewer { id %s } }| ",
	} {
		t.Run(name, func(t *testing.T) {
			format, part, _ := strings.Cut(format, "|")
			const documents, parts = 20, 150
			before := heap()
			c, err := newQueryCache()
			if err != nil {
				t.Fatal(err)
			}
			for i := range documents {
				query := fmt.Sprintf(format, i, strings.Repeat(part, parts))
				document, err := gqlparser.LoadQueryWithRules(schema, query, validationRules())
				if err != nil {
					t.Fatal(err)
				}
				c.Add(t.Context(), query, document)
			}
			if c.documents.Len() != documents {
				t.Fatalf("%d documents are kept", c.documents.Len())
			}
			took := int64(heap()) - int64(before)
			t.Logf("%d bytes of text and %d of memory, counted as %d", documents*(len(format)+parts*len(part)), took, c.bytes)
			if took > int64(c.bytes) {
				t.Errorf("%d bytes of memory count as %d", took, c.bytes)
			}
			runtime.KeepAlive(c)
		})
	}
}

// heap is the memory in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

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
