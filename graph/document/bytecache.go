package document

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// cacheEntryBytes is about what an entry of a byteCache takes beside its key and value.
const cacheEntryBytes = 256

// byteCache keeps as many values as its limit has room for, and of those the most
// recently used. It may be used by any number of goroutines at once.
type byteCache[V any] struct {
	limit int // bytes

	mu      sync.Mutex
	bytes   int                                   // guarded by mu; of all entries
	entries *simplelru.LRU[string, cacheEntry[V]] // guarded by mu
}

type cacheEntry[V any] struct {
	value V
	bytes int
}

func newByteCache[V any](limit int) *byteCache[V] {
	c := &byteCache[V]{limit: limit}
	// It fails for no number of entries; their bytes are what counts here.
	c.entries, _ = simplelru.NewLRU(math.MaxInt, func(_ string, e cacheEntry[V]) { c.bytes -= e.bytes })
	return c
}

func (c *byteCache[V]) get(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries.Get(key)
	return e.value, ok
}

// add keeps a value of so many bytes, in place of what has its key. One that has no
// room even alone is not kept.
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
