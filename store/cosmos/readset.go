package cosmos

import (
	"context"
	"sync"
	"time"
)

// ReadSet is what a response rests on: what was read for it through the item cache. As long
// as it is valid, reading again would give the same, so far as is known, and so the response
// may be cached. It is of one Account. The zero value rests on nothing.
//
// It is safe for concurrent use.
type ReadSet struct {
	mu       sync.Mutex
	account  *shared           // guarded by mu; nil: nothing was begun or read yet
	reads    []readSetRead     // guarded by mu
	begun    []*patternMetrics // guarded by mu
	hits     []*patternMetrics // guarded by mu; those of a read that the cache may answer
	uncached bool              // guarded by mu; something was read past the cache
}

type readSetRead struct {
	container *Container
	partition string
	as        change
	at        answered
	began     time.Time
	ended     time.Time
}

type readSetKey struct{}

// WithReadSet has r record what is read in ctx.
func WithReadSet(ctx context.Context, r *ReadSet) context.Context {
	return context.WithValue(ctx, readSetKey{}, r)
}

// noteBegun records the use of a pattern.
func noteBegun(ctx context.Context, account *shared, p Pattern) {
	if r, ok := ctx.Value(readSetKey{}).(*ReadSet); ok {
		r.mu.Lock()
		r.account, r.begun = account, append(r.begun, account.meter.of(p))
		r.mu.Unlock()
	}
}

// noteReads records what has been read of a container at once, one of each partition.
func noteReads(ctx context.Context, c *Container, partitions []string, reads ...cached) {
	r, ok := ctx.Value(readSetKey{}).(*ReadSet)
	if !ok {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.account, r.hits = c.shared, append(r.hits, c.meter.of(scopeOf(ctx).pattern))
	for i, read := range reads {
		r.reads = append(r.reads, readSetRead{c, partitions[i], read.as, read.at, read.began, read.ended})
	}
}

// noteUncached records that something was read of which the cache will not know when it
// has changed.
func noteUncached(ctx context.Context) {
	if r, ok := ctx.Value(readSetKey{}).(*ReadSet); ok {
		r.mu.Lock()
		r.uncached = true
		r.mu.Unlock()
	}
}

// Reads is how many items and pages the response rests on.
func (r *ReadSet) Reads() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.reads)
}

// Valid reports whether a response that rests on r may be returned again in a session, and
// accounts for its reads as the cache does if so. Then there was a moment, not longer ago
// than Age, when reading all of it at once would have given just that.
func (r *ReadSet) Valid(session *Session) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
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
		if now.Sub(read.began) > cachedFor || !read.as.holds() || !read.container.following.confirms(read.began, now) || !session.admits(read.container, read.partition, read.at) {
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

// span returns when the last read ended, and until when all changes of what was read are
// known, both in Unix nanoseconds. What is known to hold afterwards has held until then.
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

// Age is how long ago the oldest of what a response rests on was known to be current: at
// most so old it may be.
func (r *ReadSet) Age() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, oldest := time.Now(), time.Duration(0)
	for i := range r.reads {
		read := &r.reads[i]
		known := read.began
		if read.as.holds() {
			known = read.container.following.current(read.began, now)
		}
		oldest = max(oldest, now.Sub(known))
	}
	return oldest
}
