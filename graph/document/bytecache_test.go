package document

import (
	"fmt"
	"sync"
	"testing"
)

func TestByteCache(t *testing.T) {
	const size = 100
	cacheOf := func(n int) *byteCache[string] { return newByteCache[string](n * (size + len("a") + cacheEntryBytes)) }
	cached := func(c *byteCache[string], keys ...string) string {
		out := ""
		for _, k := range keys {
			if v, ok := c.get(k); ok {
				out += v
			}
		}
		return out
	}
	t.Run("full -> least recently used evicted", func(t *testing.T) {
		c := cacheOf(2)
		c.add("a", "A", size)
		c.add("b", "B", size)
		c.get("a")
		c.add("c", "C", size)
		if got := cached(c, "a", "b", "c"); got != "AC" {
			t.Errorf("cached %s, want AC", got)
		}
	})
	t.Run("large value -> several evicted", func(t *testing.T) {
		c := cacheOf(4)
		for _, k := range []string{"a", "b", "c", "d"} {
			c.add(k, k, size)
		}
		c.add("e", "e", 2*size+len("a")+cacheEntryBytes)
		if got := cached(c, "a", "b", "c", "d", "e"); got != "cde" {
			t.Errorf("cached %s, want cde", got)
		}
	})
	t.Run("value larger than the limit -> not cached, none evicted", func(t *testing.T) {
		c := cacheOf(1)
		c.add("a", "A", size)
		c.add("b", "B", size+1)
		if got := cached(c, "a", "b"); got != "A" {
			t.Errorf("cached %s, want A", got)
		}
	})
	t.Run("same key -> replaced", func(t *testing.T) {
		c := cacheOf(2)
		c.add("b", "B", size)
		for range 10 {
			c.add("a", "old", size)
		}
		c.add("a", "A", size)
		if got := cached(c, "a", "b"); got != "AB" {
			t.Errorf("cached %s, want AB", got)
		}
	})
	t.Run("small entries -> their overhead counts", func(t *testing.T) {
		c := newByteCache[string](1 << 20)
		for i := range 100_000 {
			c.add(fmt.Sprint(i), "", 0)
		}
		if n := c.entries.Len(); n == 0 || n > 1<<20/cacheEntryBytes {
			t.Errorf("%d entries, want 1 to %d", n, 1<<20/cacheEntryBytes)
		}
	})
	t.Run("concurrent use -> size consistent", func(t *testing.T) {
		c := cacheOf(10)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range 1000 {
					key := fmt.Sprint(i % 30)
					c.add(key, key, size)
					if v, ok := c.get(key); ok && v != key {
						t.Errorf("get(%q) = %q", key, v)
					}
				}
			})
		}
		wg.Wait()
		sum := 0
		for _, e := range c.entries.Values() {
			sum += e.bytes
		}
		if sum != c.bytes || sum > c.limit {
			t.Errorf("entries have %d bytes, counted %d; the limit is %d", sum, c.bytes, c.limit)
		}
	})
}
