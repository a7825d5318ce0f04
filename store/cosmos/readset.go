package cosmos

import (
	"context"
	"sync"
	"time"

	"byline/store/cosmos/session"
)

// ReadSet holds the dependencies of a response: the items and pages that it read through the item cache.
// While it is valid, no change of them is known, and the response may be returned from a cache. A
// ReadSet is for one Account. The zero value is empty. It is safe for concurrent use.
type ReadSet struct {
	mu       sync.Mutex
	account  *shared           // guarded by mu; nil before the first use
	reads    []readSetRead     // guarded by mu
	begun    []*patternMetrics // guarded by mu
	hits     []*patternMetrics // guarded by mu; by read
	uncached bool              // guarded by mu; some read bypassed the cache

	conditions     []func() bool // guarded by mu
	conditionBytes int           // guarded by mu
}

type readSetRead struct {
	container *Container
	partition string
	stamp     changeStamp
	at        session.Position
	began     time.Time
	ended     time.Time
}

type readSetKey struct{}

// WithReadSet returns a context whose reads r records.
func WithReadSet(ctx context.Context, r *ReadSet) context.Context {
	return context.WithValue(ctx, readSetKey{}, r)
}

// recordBegun records the use of a pattern.
func recordBegun(ctx context.Context, account *shared, p Pattern) {
	if r, ok := ctx.Value(readSetKey{}).(*ReadSet); ok {
		r.mu.Lock()
		r.account, r.begun = account, append(r.begun, account.meter.of(p))
		r.mu.Unlock()
	}
}

// recordReads records one read of each partition, all in the same container.
func recordReads(ctx context.Context, c *Container, partitions []string, reads ...cached) {
	r, ok := ctx.Value(readSetKey{}).(*ReadSet)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.account, r.hits = c.shared, append(r.hits, c.meter.of(scopeOf(ctx).pattern))
	for i, read := range reads {
		r.reads = append(r.reads, readSetRead{c, partitions[i], read.stamp, read.at, read.began, read.ended})
	}
}

// recordUncached records a read whose changes the cache does not notice.
func recordUncached(ctx context.Context) {
	if r, ok := ctx.Value(readSetKey{}).(*ReadSet); ok {
		r.mu.Lock()
		r.uncached = true
		r.mu.Unlock()
	}
}

// Depend makes the read set of ctx invalid once still returns false. still is fast, and keeps so many bytes.
func Depend(ctx context.Context, still func() bool, bytes int) {
	if r, ok := ctx.Value(readSetKey{}).(*ReadSet); ok {
		r.mu.Lock()
		r.conditions, r.conditionBytes = append(r.conditions, still), r.conditionBytes+bytes
		r.mu.Unlock()
	}
}

// readBytes is the approximate memory of each item or page of a set.
const readBytes = 100

// Bytes returns the approximate memory of the set.
func (r *ReadSet) Bytes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return readBytes*len(r.reads) + r.conditionBytes
}

// Valid reports whether a response that depends on r may be returned to a session, and if so counts its
// reads as cache hits. Then the response is a consistent snapshot as of some moment, at most Age ago.
func (r *ReadSet) Valid(s *session.Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, still := range r.conditions {
		if !still() {
			return false
		}
	}
	if r.account == nil {
		return !r.uncached
	}
	if r.account.cache == nil || r.uncached {
		return false
	}
	last, until := r.span()
	now := time.Now()
	for i := range r.reads {
		read := &r.reads[i]
		if now.Sub(read.began) > maxCachedAge || !read.stamp.unchanged() || !read.container.following.confirms(read.began, now) || !read.container.admits(s, read.partition, read.at) {
			return false
		}
	}
	if len(r.reads) > 1 && last >= until {
		return false // something may have changed between its reads
	}
	for _, p := range r.begun {
		p.begun.Inc()
	}
	for _, p := range r.hits {
		p.hits.Inc()
	}
	return true
}

// span returns the end of the last read, and the time until which all changes of the containers are
// known, both in Unix nanoseconds. Reads that are still unchanged were so until then.
func (r *ReadSet) span() (last, until int64) {
	for i := range r.reads {
		read := &r.reads[i]
		last = max(last, read.ended.UnixNano())
		if known := read.container.following.until.Load(); i == 0 || known < until {
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
		known := read.began
		if read.stamp.unchanged() {
			known = read.container.following.current(read.began, now)
		}
		oldest = max(oldest, now.Sub(known))
	}
	return oldest
}
