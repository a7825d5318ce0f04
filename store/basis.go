package store

import (
	"context"
	"sync"
	"time"
)

// Basis is what an answer rests on: what was read for it through a Cache. As long as
// that holds, reading again would give the same, so far as is known, and so the answer
// may be given again. It is of one Store. The zero value rests on nothing.
//
// It is safe for concurrent use.
type Basis struct {
	mu        sync.Mutex
	reads     []basisRead // guarded by mu
	begun     []Pattern   // guarded by mu
	hits      []Pattern   // guarded by mu; those of a read that memory may answer
	elsewhere bool        // guarded by mu; something was read past the cache
}

type basisRead struct {
	container string
	as        change
	token     string
	began     time.Time
	ended     time.Time
}

type basisKey struct{}

// WithBasis has b note what is read in ctx.
func WithBasis(ctx context.Context, b *Basis) context.Context {
	return context.WithValue(ctx, basisKey{}, b)
}

// noteBegun notes the use of a pattern.
func noteBegun(ctx context.Context, p Pattern) {
	if b, ok := ctx.Value(basisKey{}).(*Basis); ok {
		b.mu.Lock()
		b.begun = append(b.begun, p)
		b.mu.Unlock()
	}
}

// noteBasis notes what has been read of a container at once.
func noteBasis(ctx context.Context, container string, reads ...remembered) {
	b, ok := ctx.Value(basisKey{}).(*Basis)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hits = append(b.hits, scopeOf(ctx).pattern)
	for _, r := range reads {
		b.reads = append(b.reads, basisRead{container, r.as, r.token, r.began, r.ended})
	}
}

// noteElsewhere notes that something was read of which the cache will not know when it
// has changed.
func noteElsewhere(ctx context.Context) {
	if b, ok := ctx.Value(basisKey{}).(*Basis); ok {
		b.mu.Lock()
		b.elsewhere = true
		b.mu.Unlock()
	}
}

// Reads is how many items and pages the answer rests on.
func (b *Basis) Reads() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.reads)
}

// Holds reports whether an answer that rests on b may be given again in a session, and
// accounts for its reads as the cache does if so. Then there was a moment, not longer ago
// than Age, when reading all of it at once would have given just that.
func (s *Store) Holds(b *Basis, session *Session) bool {
	c := s.o.Cache
	b.mu.Lock()
	defer b.mu.Unlock()
	if c == nil || b.elsewhere {
		return false
	}
	last, until := b.span(c)
	for i := range b.reads {
		r := &b.reads[i]
		if time.Since(r.began) > keptFor || !r.as.holds() || !c.follows(r.container, r.began) || !session.Admits(r.container, r.token) {
			return false
		}
	}
	if len(b.reads) > 1 && last > until {
		return false // something may have changed between its reads
	}
	for _, p := range b.begun {
		s.o.Meter.patterns[p].begun.Inc()
	}
	for _, p := range b.hits {
		s.o.Meter.patterns[p].hits.Inc()
	}
	return true
}

// span returns when the last read ended, and until when all changes of what was read are
// known, both in Unix nanoseconds. What is known to hold afterwards has held until then.
func (b *Basis) span(c *Cache) (last, until int64) {
	for i := range b.reads {
		r := &b.reads[i]
		last = max(last, r.ended.UnixNano())
		if known := c.followed[r.container].until.Load(); i == 0 || known < until {
			until = known
		}
	}
	return last, until
}

// Age is how long ago the oldest of what an answer rests on was known to be what there
// is: at most so old it may be.
func (s *Store) Age(b *Basis) time.Duration {
	c := s.o.Cache
	if c == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, oldest := time.Now(), time.Duration(0)
	for i := range b.reads {
		r := &b.reads[i]
		known, until := r.began, time.Unix(0, c.followed[r.container].until.Load())
		if r.as.holds() && c.follows(r.container, r.began) && until.After(known) {
			known = until
		}
		oldest = max(oldest, now.Sub(known))
	}
	return oldest
}
