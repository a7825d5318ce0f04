package itemcache

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"byline/store/cosmos/session"
)

const (
	// confirmGrace, plus two polls, is how long a cached item is used without a confirmation by the
	// change feed. After that the cache may be behind, and items are read.
	confirmGrace = time.Second

	// maxThrottledAge is the largest age of a cached item that is returned because Cosmos DB
	// throttles.
	maxThrottledAge = 10 * time.Second

	// maxCachedAge is the largest age of a cached item. It bounds how long deletes that the change feed
	// does not show, such as those of the comments of a deleted post, go unnoticed.
	maxCachedAge = 30 * time.Second

	// entryBytes is the approximate size of an entry without its value.
	entryBytes = 300
)

// Cache is the item cache of an account.
type Cache struct {
	entries  *otter.Cache[cacheKey, Value] // nil: nothing is cached
	changes  changes
	sessions *session.State // of the account

	mu         sync.Mutex
	containers map[string]*Container // guarded by mu; by path
}

// Container is a container whose values are cached.
type Container struct {
	cache *Cache
	path  string
	following
}

// cacheKey identifies a cached value: by the path of its container, its partition, and what it is.
// Values of different types must have different names.
type cacheKey struct{ container, partition, what string }

// Value is a cached value of a partition.
type Value struct {
	Value any
	Bytes int // approximate size

	stamp changeStamp // of the partition when the read began
	at    session.Position
	began time.Time
	ended time.Time
}

// New returns a cache of approximately so many bytes; 0 caches nothing.
func New(bytes int, sessions *session.State) *Cache {
	c := &Cache{sessions: sessions, containers: map[string]*Container{}}
	if bytes > 0 {
		c.entries = otter.Must(&otter.Options[cacheKey, Value]{
			MaximumWeight: uint64(bytes),
			Weigher: func(p cacheKey, v Value) uint32 {
				return uint32(len(p.partition) + len(p.what) + v.Bytes + entryBytes)
			},
		})
	}
	return c
}

// Caches reports whether anything is cached.
func (c *Cache) Caches() bool { return c.entries != nil }

// Container returns the container with a path.
func (c *Cache) Container(path string) *Container {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.containers[path]
	if of == nil {
		of = &Container{cache: c, path: path}
		c.containers[path] = of
	}
	return of
}

// Bytes returns the approximate size of the cached values.
func (c *Cache) Bytes() int {
	if !c.Caches() {
		return 0
	}
	c.entries.CleanUp()
	return int(c.entries.WeightedSize())
}

// Invalidate invalidates all cached values, and every response that depends on them.
func (c *Cache) Invalidate() {
	for i := range c.changes.counts {
		c.changes.counts[i].Add(1)
	}
}

// Changed records that a partition has changed, or may have.
func (c *Container) Changed(partition string) { c.cache.changes.changed(c.path, partition) }

// Lookup returns the cached value of a partition. fresh reports that it may be returned instead of reading,
// stale that it may be returned if Cosmos DB throttles the read. The session may be nil.
func (c *Container) Lookup(s *session.Session, partition, what string) (v Value, fresh, stale bool) {
	v, found := c.cache.entries.GetIfPresent(cacheKey{c.path, partition, what})
	now := time.Now()
	age := now.Sub(v.began)
	found = found && age < maxCachedAge && v.stamp.unchanged() && c.Admits(s, partition, v)
	return v, found && c.confirms(v.began, now), found && age < maxThrottledAge
}

// Admits reports whether a value of a partition is as new as a session requires; nil requires nothing.
func (c *Container) Admits(s *session.Session, partition string, v Value) bool {
	return c.cache.sessions.Admits(s, c.path, partition, v.at)
}

// changes counts the changes of partitions. Several partitions share a counter: a change of one also
// invalidates the others.
type changes struct{ counts [1 << 14]atomic.Uint64 }

// changeStamp is the change count of a partition at some moment.
type changeStamp struct {
	of    *atomic.Uint64
	count uint64
}

// unchanged reports whether no change of the partition is known since.
func (c changeStamp) unchanged() bool { return c.of.Load() == c.count }

var changeSeed = maphash.MakeSeed()

func (c *changes) counter(container, partition string) *atomic.Uint64 {
	var h maphash.Hash
	h.SetSeed(changeSeed)
	h.WriteString(container)
	h.WriteByte(0)
	h.WriteString(partition)
	return &c.counts[h.Sum64()%uint64(len(c.counts))]
}

func (c *changes) stamp(container, partition string) changeStamp {
	count := c.counter(container, partition)
	return changeStamp{count, count.Load()}
}

// changed counts a change of a partition.
func (c *changes) changed(container, partition string) { c.counter(container, partition).Add(1) }
