package graph

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2"

	"byline/graph/document"
	"byline/graph/plan"
	"byline/internal/testkit"
)

// The bytes that the cache counts are at least the memory of its documents and their plans, for all kinds of documents.
func TestDocumentCache_MemoryIsBounded(t *testing.T) {
	testkit.Heavy(t)
	schema := readSchema(t)
	for name, format := range map[string]string{
		"fields":              `query Q%06d { viewer { %s } }|id `,
		"objects":             `query Q%06d { viewer { %s } }|posts{pageInfo{endCursor}}`,
		"short names":         `query Q%06d { viewer { %s } }|a:id `,
		"inline":              `query Q%06d { viewer { %s } }|...{id}`,
		"arguments":           `query Q%06d { viewer { %s } }|posts(first:1){__typename}`,
		"directives":          `query Q%06d { viewer { %s } }|id@skip(if:true)`,
		"conditions":          `query Q%06d($a: Boolean!, $b: Boolean!) { viewer { %s id @skip(if: $a) username @include(if: $b) } }|id `,
		"many conditions":     `query Q%06d($a: Boolean!, $b: Boolean!) { viewer { username @include(if: $b) %s } }|id@skip(if:$a) `,
		"a list":              `query Q%06d { nodes(ids: [%s]) { id } }|1 `,
		"texts":               `query Q%06d { nodes(ids: [%s]) { id } }|"\u0061"`,
		"comments":            "query Q%06d { viewer { id\n%s } }|#\n",
		"fields and comments": "query Q%06d { viewer { %s } }|id#\n",
		"blanks":              "query Q%06d { viewer { id %s } }| ",
	} {
		t.Run(name, func(t *testing.T) {
			format, part, _ := strings.Cut(format, "|")
			const documents, parts = 20, 150
			before := heap()
			c := document.New(document.Options{Schema: schema})
			for i := range documents {
				query := fmt.Sprintf(format, i, strings.Repeat(part, parts))
				doc, err := gqlparser.LoadQueryWithRules(schema, query, nil)
				if err != nil {
					t.Fatal(err)
				}
				c.Add(t.Context(), query, doc)
				op := &graphql.OperationContext{RawQuery: query, Doc: doc, Operation: doc.Operations[0]}
				plans := c.Memo(op, func(op *graphql.OperationContext) any { return plan.Compile(op) })
				for combination := range 4 {
					op.Variables = map[string]any{"a": combination&1 == 1, "b": combination&2 == 2}
					plans.(*plan.Plans).Of(op)
				}
			}
			cached, bytes := c.Cached()
			if cached != documents {
				t.Fatalf("%d documents are cached", cached)
			}
			took := int64(heap()) - int64(before)
			t.Logf("%d bytes of text and %d of memory, counted as %d", documents*(len(format)+parts*len(part)), took,
				bytes)
			if took > int64(bytes) {
				t.Errorf("%d bytes of memory count as %d", took, bytes)
			}
			runtime.KeepAlive(c)
		})
	}
}

// heap returns the bytes of live heap memory.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
