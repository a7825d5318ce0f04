package graph

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
)

func TestQueryCacheKeepsWhatWasAskedForLast(t *testing.T) {
	c := newQueryCache()
	kept := func(query string) bool {
		_, ok := c.Get(t.Context(), query)
		return ok
	}
	query := func(i int) string { return fmt.Sprintf("{ a%06d }", i) }
	size := documentBytes(query(1000)) + len(query(1000)) + cacheEntryBytes
	most := maxCachedBytes / size
	long := "{ a" + strings.Repeat(" a", maxCachedQuery/bytesPerToken) + " }"
	c.Add(t.Context(), long, &ast.QueryDocument{})
	if kept(long) || c.documents.bytes != 0 {
		t.Error("a long document was kept")
	}
	for i := 1000; i < 1000+most; i++ {
		c.Add(t.Context(), query(i), &ast.QueryDocument{})
		c.Add(t.Context(), query(i), &ast.QueryDocument{}) // as by two requests at once
	}
	if !kept(query(1000)) || c.documents.entries.Len() != most || c.documents.bytes != most*size {
		t.Errorf("%d documents of %d bytes are kept, want %d", c.documents.entries.Len(), c.documents.bytes, most)
	}
	c.Add(t.Context(), "{ a }", &ast.QueryDocument{})
	if !kept("{ a }") || !kept(query(1000)) || kept(query(1001)) || c.documents.bytes > maxCachedBytes {
		t.Errorf("another document, which does not fit: %t, what was asked for last: %t, what was not: %t", kept("{ a }"), kept(query(1000)), kept(query(1001)))
	}
}

// What the cache counts is no less than the memory that its documents take, with their
// plans, whatever they are made of.
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
			c := newQueryCache()
			for i := range documents {
				query := fmt.Sprintf(format, i, strings.Repeat(part, parts))
				document, err := gqlparser.LoadQueryWithRules(schema, query, validationRules())
				if err != nil {
					t.Fatal(err)
				}
				c.Add(t.Context(), query, document)
				op := &graphql.OperationContext{RawQuery: query, Doc: document, Operation: document.Operations[0]}
				c.plansOf(op)
			}
			if c.documents.entries.Len() != documents {
				t.Fatalf("%d documents are kept", c.documents.entries.Len())
			}
			took := int64(heap()) - int64(before)
			t.Logf("%d bytes of text and %d of memory, counted as %d", documents*(len(format)+parts*len(part)), took, c.documents.bytes)
			if took > int64(c.documents.bytes) {
				t.Errorf("%d bytes of memory count as %d", took, c.documents.bytes)
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
