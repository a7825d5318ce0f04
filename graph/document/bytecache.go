package document

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// cacheEntryBytes is the approximate memory of an entry of a byteCache, without key and value.
const cacheEntryBytes = 256

// byteCache caches the most recently used values, within a limit in bytes. It is safe for
// concurrent use.
type byteCache[V any] struct {
	limit int // bytes

	mu      sync.Mutex
	bytes   int                                   // guarded by mu; the size of all entries
	entries *simplelru.LRU[string, cacheEntry[V]] // guarded by mu
}

type cacheEntry[V any] struct {
	value V
	bytes int
}

func newByteCache[V any](limit int) *byteCache[V] {
	c := &byteCache[V]{limit: limit}
	// The cache is limited in bytes, not in entries, so NewLRU cannot fail.
	c.entries, _ = simplelru.NewLRU(math.MaxInt, func(_ string, e cacheEntry[V]) { c.bytes -= e.bytes })
	return c
}

func (c *byteCache[V]) get(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries.Get(key)
	return e.value, ok
}

// add caches a value of the given size, and replaces one with the same key. A value larger than the
// limit is not cached.
func (c *byteCache[V]) add(key string, value V, bytes int) {
	bytes += len(key) + cacheEntryBytes
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries.Remove(key)
	if bytes > c.limit {
		return
	}
	c.entries.Add(key, cacheEntry[V]{value, bytes})
	c.bytes += bytes
	for c.bytes > c.limit {
		c.entries.RemoveOldest()
	}
}
