package sql

import (
	"fmt"
	"strings"
	"testing"
)

// TestCache_LongTexts: long texts are not cached.
func TestCache_LongTexts(t *testing.T) {
	c := NewCache(Parse)
	for i := range 3 {
		if _, err := c.Parse(fmt.Sprintf("SELECT * FROM c WHERE c.x = '%s%d'", strings.Repeat("x", maxCachedText),
			i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.cache.Len(); n != 0 {
		t.Errorf("%d long queries are cached", n)
	}
	if _, err := c.Parse("SELECT * FROM c"); err != nil || c.cache.Len() != 1 {
		t.Errorf("a short query is not cached: %v", err)
	}
}
