package itemcache

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"byline/store/cosmos/session"
)

// ReadSet holds the dependencies of a response: the items and pages that it read through the item cache.
// While it is valid, no change of them is known, and the response may be returned from a cache. A
// ReadSet is for one Cache. The zero value is empty. It is safe for concurrent use.
type ReadSet struct {
	mu       sync.Mutex
	cache    *Cache               // guarded by mu; nil before the first use
	reads    []readSetRead        // guarded by mu
	counters []prometheus.Counter // guarded by mu; that Valid increments
	uncached bool                 // guarded by mu; some read bypassed the cache
	stamps   []changeStamp        // guarded by mu; see DependOn
}

type readSetRead struct {
	container *Container
	partition string
	value     Value // without Value.Value
}

type readSetKey struct{}

// WithReadSet returns a context whose reads r records.
func WithReadSet(ctx context.Context, r *ReadSet) context.Context {
	return context.WithValue(ctx, readSetKey{}, r)
}

// RecordUse has Valid increment the counter of an access pattern, which the response of ctx uses.
func RecordUse(ctx context.Context, c *Cache, count prometheus.Counter) {
	if r, ok := ctx.Value(readSetKey{}).(*ReadSet); ok {
		r.mu.Lock()
		r.cache, r.counters = c, append(r.counters, count)
		r.mu.Unlock()
	}
}

// Record records one read of each partition, which Valid counts as one hit.
func (c *Container) Record(ctx context.Context, hit prometheus.Counter, partitions []string, reads ...Value) {
	r, ok := ctx.Value(readSetKey{}).(*ReadSet)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cache, r.counters = c.cache, append(r.counters, hit)
	for i, read := range reads {
		read.Value = nil // the set does not retain it
		r.reads = append(r.reads, readSetRead{c, partitions[i], read})
	}
}

// RecordUncached records a read whose changes the cache does not notice.
func RecordUncached(ctx context.Context) {
	if r, ok := ctx.Value(readSetKey{}).(*ReadSet); ok {
		r.mu.Lock()
		r.uncached = true
		r.mu.Unlock()
	}
}

// Uncached reports whether a read has bypassed the cache, so that the set is never valid.
func (r *ReadSet) Uncached() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.uncached
}

// DependOn makes the read set of ctx invalid once a partition changes, although the response has read nothing of it.
func (c *Container) DependOn(ctx context.Context, partition string) {
	if r, ok := ctx.Value(readSetKey{}).(*ReadSet); ok {
		r.mu.Lock()
		r.stamps = append(r.stamps, c.cache.changes.stamp(c.path, partition))
		r.mu.Unlock()
	}
}

// Approximate memory of each item or page of a set, and of each partition that it depends on.
const (
	readBytes  = 100
	stampBytes = 16
)

// Bytes returns the approximate memory of the set.
func (r *ReadSet) Bytes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return readBytes*len(r.reads) + stampBytes*len(r.stamps)
}

// Valid reports whether a response that depends on r may be returned to a session, and if so counts its
// reads as cache hits. Then the response is a consistent snapshot as of some moment, at most Age ago.
func (r *ReadSet) Valid(s *session.Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, stamp := range r.stamps {
		if !stamp.unchanged() {
			return false
		}
	}
	if r.cache == nil {
		return !r.uncached
	}
	if !r.cache.Caches() || r.uncached {
		return false
	}
	last, until := r.span()
	now := time.Now()
	for i := range r.reads {
		read := &r.reads[i]
		if now.Sub(read.value.began) > maxCachedAge || !read.value.stamp.unchanged() ||
			!read.container.confirms(read.value.began, now) || !read.container.Admits(s, read.partition, read.value) {
			return false
		}
	}
	if len(r.reads) > 1 && last >= until {
		return false // something may have changed between its reads
	}
	for _, c := range r.counters {
		c.Inc()
	}
	return true
}

// span returns the end of the last read, and the time until which all changes of the containers are
// known, both in Unix nanoseconds. Reads that are still unchanged were so until then.
func (r *ReadSet) span() (last, until int64) {
	for i := range r.reads {
		read := &r.reads[i]
		last = max(last, read.value.ended.UnixNano())
		if known := read.container.until.Load(); i == 0 || known < until {
			until = known
		}
	}
	return last, until
}

// Age returns the time since the oldest read was known to be current: an upper bound of the age of the
// response.
func (r *ReadSet) Age() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, oldest := time.Now(), time.Duration(0)
	for i := range r.reads {
		read := &r.reads[i]
		known := read.value.began
		if read.value.stamp.unchanged() {
			known = read.container.current(read.value.began, now)
		}
		oldest = max(oldest, now.Sub(known))
	}
	return oldest
}
