package document

import (
	"fmt"
	"sync"
	"testing"
)

func TestByteCache(t *testing.T) {
	const size = 100
	room := func(n int) *byteCache[string] { return newByteCache[string](n * (size + len("a") + cacheEntryBytes)) }
	kept := func(c *byteCache[string], keys ...string) string {
		out := ""
		for _, k := range keys {
			if v, ok := c.get(k); ok {
				out += v
			}
		}
		return out
	}
	t.Run("the least recently used goes first", func(t *testing.T) {
		c := room(2)
		c.add("a", "A", size)
		c.add("b", "B", size)
		c.get("a")
		c.add("c", "C", size)
		if got := kept(c, "a", "b", "c"); got != "AC" {
			t.Errorf("kept %s", got)
		}
	})
	t.Run("a large one takes the room of many", func(t *testing.T) {
		c := room(4)
		for _, k := range []string{"a", "b", "c", "d"} {
			c.add(k, k, size)
		}
		c.add("e", "e", 2*size+len("a")+cacheEntryBytes)
		if got := kept(c, "a", "b", "c", "d", "e"); got != "cde" {
			t.Errorf("kept %s", got)
		}
	})
	t.Run("one without room is not kept, and costs no other its place", func(t *testing.T) {
		c := room(1)
		c.add("a", "A", size)
		c.add("b", "B", size+1)
		if got := kept(c, "a", "b"); got != "A" {
			t.Errorf("kept %s", got)
		}
	})
	t.Run("a new value takes the place of the old one", func(t *testing.T) {
		c := room(2)
		c.add("b", "B", size)
		for range 10 {
			c.add("a", "old", size)
		}
		c.add("a", "A", size)
		if got := kept(c, "a", "b"); got != "AB" {
			t.Errorf("kept %s", got)
		}
	})
	t.Run("entries that are small are counted as what they take", func(t *testing.T) {
		c := newByteCache[string](1 << 20)
		for i := range 100_000 {
			c.add(fmt.Sprint(i), "", 0)
		}
		if n := c.entries.Len(); n == 0 || n > 1<<20/cacheEntryBytes {
			t.Errorf("%d entries", n)
		}
	})
	t.Run("many goroutines", func(t *testing.T) {
		c := room(10)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := range 1000 {
					key := fmt.Sprint(i % 30)
					c.add(key, key, size)
					if v, ok := c.get(key); ok && v != key {
						t.Errorf("%q for %q", v, key)
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
			t.Errorf("%d bytes, counted %d, of %d", sum, c.bytes, c.limit)
		}
	})
}
