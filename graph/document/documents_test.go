package document

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
)

func TestDocuments_EvictLeastRecentlyUsed(t *testing.T) {
	c := New(Options{})
	cached := func(query string) bool {
		_, ok := c.Get(t.Context(), query)
		return ok
	}
	query := func(i int) string { return fmt.Sprintf("{ a%06d }", i) }
	size := Bytes(query(1000)) + len(query(1000)) + cacheEntryBytes
	most := maxCachedBytes / size
	long := "{ a" + strings.Repeat(" a", maxCachedQuery/BytesPerToken) + " }"
	c.Add(t.Context(), long, &ast.QueryDocument{})
	if cached(long) || c.parsed.bytes != 0 {
		t.Error("a document over the limit is cached")
	}
	for i := 1000; i < 1000+most; i++ {
		c.Add(t.Context(), query(i), &ast.QueryDocument{})
		c.Add(t.Context(), query(i), &ast.QueryDocument{}) // as by two requests at once
	}
	if !cached(query(1000)) || c.parsed.entries.Len() != most || c.parsed.bytes != most*size {
		t.Errorf("%d documents of %d bytes are cached, want %d of %d", c.parsed.entries.Len(), c.parsed.bytes, most,
			most*size)
	}
	c.Add(t.Context(), "{ a }", &ast.QueryDocument{})
	if !cached("{ a }") || !cached(query(1000)) || cached(query(1001)) || c.parsed.bytes > maxCachedBytes {
		t.Errorf("cached: new document %t, recently used %t, least recently used %t; want true, true, false",
			cached("{ a }"), cached(query(1000)), cached(query(1001)))
	}
}
