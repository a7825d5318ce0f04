package document

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
)

func TestDocuments_EvictLeastRecentlyUsed(t *testing.T) {
	c := New(Options{})
	kept := func(query string) bool {
		_, ok := c.Get(t.Context(), query)
		return ok
	}
	query := func(i int) string { return fmt.Sprintf("{ a%06d }", i) }
	size := Bytes(query(1000)) + len(query(1000)) + cacheEntryBytes
	most := maxCachedBytes / size
	long := "{ a" + strings.Repeat(" a", maxCachedQuery/BytesPerToken) + " }"
	c.Add(t.Context(), long, &ast.QueryDocument{})
	if kept(long) || c.parsed.bytes != 0 {
		t.Error("a long document was kept")
	}
	for i := 1000; i < 1000+most; i++ {
		c.Add(t.Context(), query(i), &ast.QueryDocument{})
		c.Add(t.Context(), query(i), &ast.QueryDocument{}) // as by two requests at once
	}
	if !kept(query(1000)) || c.parsed.entries.Len() != most || c.parsed.bytes != most*size {
		t.Errorf("%d documents of %d bytes are kept, want %d", c.parsed.entries.Len(), c.parsed.bytes, most)
	}
	c.Add(t.Context(), "{ a }", &ast.QueryDocument{})
	if !kept("{ a }") || !kept(query(1000)) || kept(query(1001)) || c.parsed.bytes > maxCachedBytes {
		t.Errorf("another document, which does not fit: %t, what was asked for last: %t, what was not: %t", kept("{ a }"), kept(query(1000)), kept(query(1001)))
	}
}
