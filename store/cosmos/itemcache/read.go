package itemcache

import (
	"context"
	"fmt"
	"sync"
	"time"

	"byline/store/cosmos/session"
)

// Read is a read of values of partitions, together. It collects the size and the positions of the responses.
type Read struct {
	of         *Container
	partitions []string
	stamps     []changeStamp // by partition
	began      time.Time

	mu    sync.Mutex
	at    []session.Position // guarded by mu; of each response
	bytes int                // guarded by mu
}

type readKey struct{}

// Begin begins a read, before its first request. Changes from now on invalidate its values.
func (c *Container) Begin(partitions ...string) *Read {
	r := &Read{of: c, partitions: partitions, began: time.Now()}
	for _, partition := range partitions {
		r.stamps = append(r.stamps, c.cache.changes.stamp(c.path, partition))
	}
	return r
}

// Key names the value what of the first partition, as of now: reads with equal keys may share one.
func (r *Read) Key(what string) string {
	return fmt.Sprintf("%q %d", cacheKey{r.of.path, r.partitions[0], what}, r.stamps[0].count)
}

// In returns the context of the read's requests.
func (r *Read) In(ctx context.Context) context.Context { return context.WithValue(ctx, readKey{}, r) }

// ReadOf returns the read that a request is part of, nil for none.
func ReadOf(ctx context.Context) *Read {
	r, _ := ctx.Value(readKey{}).(*Read)
	return r
}

// Add adds a response of so many bytes.
func (r *Read) Add(bytes int, at session.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = append(r.at, at)
	r.bytes += bytes
}

// AddSize adds bytes to the size of a cached value that is read in ctx: of the decoded value, beyond that
// of the response.
func AddSize(ctx context.Context, bytes int) {
	if r := ReadOf(ctx); r != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bytes += bytes
	}
}

// Store caches the value what of the partition with index i, and returns it. Each partition gets an equal share of the
// bytes.
func (r *Read) Store(i int, what string, value any) Value {
	v := r.value(i, value)
	r.of.cache.entries.Set(cacheKey{r.of.path, r.partitions[i], what}, v)
	return v
}

func (r *Read) value(i int, value any) Value {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Value{Value: value, Bytes: r.bytes / len(r.partitions), stamp: r.stamps[i], began: r.began,
		ended: time.Now(),
		at:    r.of.cache.sessions.Oldest(r.of.path, r.partitions[i], r.at)}
}
