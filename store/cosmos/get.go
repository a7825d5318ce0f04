package cosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/prometheus/client_golang/prometheus"

	"byline/store/cosmos/itemcache"
	"byline/store/cosmos/session"
)

// cacheCalls is a policy, per call. It collects the responses of reads for the item cache. A write invalidates its
// partition, whatever its outcome.
type cacheCalls struct{ *shared }

// Do implements policy.Policy.
func (s cacheCalls) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	r := req.Raw()
	path := containerPath(r.URL.EscapedPath())
	if path == "" { // azcosmos also reads accounts and containers in this context
		return resp, err
	}
	if read := itemcache.ReadOf(r.Context()); read == nil {
		itemcache.RecordUncached(r.Context())
	} else if err == nil {
		n := int(resp.ContentLength)
		if n < 0 {
			body, _ := runtime.Payload(resp) // the caller gets the error, too
			n = len(body)
		}
		read.Add(n, session.PositionOf(resp.Header.Get(session.Header)))
	}
	if isWrite(r) {
		var partition [1]string // "" for a query of all partitions
		_ = json.Unmarshal([]byte(r.Header.Get(partitionHeader)), &partition)
		s.cache.Container(path).Changed(partition[0])
	}
	return resp, err
}

// Invalidate invalidates all cached items, and every response that depends on them.
func (a *Account) Invalidate() { a.cache.Invalidate() }

// CachedBytes returns the approximate size of the cached items.
func (a *Account) CachedBytes() int { return a.cache.Bytes() }

// Caches reports whether the items of the container may be cached.
func (c *Container) Caches() bool { return c.cache.Caches() }

// Changed invalidates the cached items of a partition, and every response that depends on it.
func (c *Container) Changed(partition string) { c.cached.Changed(partition) }

// DependOn makes the response of ctx depend on a partition of which it reads nothing.
func (c *Container) DependOn(ctx context.Context, partition string) {
	c.cached.DependOn(ctx, partition)
}

// Get returns the value what of a partition: from the item cache if it is fresh, and otherwise with read.
// Concurrent reads of the same value share one.
func Get[T any](
	ctx context.Context, of *Container, partition, what string, read func(context.Context) (T, error),
) (T, error) {
	if !of.Caches() {
		return read(ctx)
	}
	s := SessionFrom(ctx)
	if known, fresh, _ := of.cached.Lookup(s, partition, what); fresh {
		return recordHit[T](ctx, of, partition, known), nil
	}
	r := of.cached.Begin(partition)
	mine := false // this caller began the read
	flight := of.reads.DoChan(r.Key(what), func() (got any, err error) {
		defer func() {
			if p := recover(); p != nil { // the goroutine is not the caller's
				got, err = itemcache.Value{},
					&Error{Status: http.StatusInternalServerError, Err: fmt.Errorf("panic: %v", p)}
			}
		}()
		mine = true
		// Other callers wait for it, too: it continues if the first caller's context ends, and does
		// not wait for the first caller's session.
		ctx, cancel := detached(ctx)
		defer cancel()
		ctx, release := forked(ctx)
		defer release()
		value, err := read(r.In(ctx))
		if err != nil {
			return itemcache.Value{}, err
		}
		return r.Store(0, what, value), nil
	})
	var none T
	select {
	case <-ctx.Done():
		return none, wrap(ctx.Err())
	case result := <-flight:
		got, err := result.Val.(itemcache.Value), result.Err
		switch {
		case HasStatus(err, http.StatusTooManyRequests):
			known, _, stale := of.cached.Lookup(s, partition, what) // it may have changed, or grown too old, since
			if !stale {
				return none, err
			}
			return recordHit[T](ctx, of, partition, known), nil
		// the deadline was that of the caller who began the read
		case err != nil && !mine && ctx.Err() == nil && isCanceled(err):
			return read(ctx)
		case err != nil:
			return none, err
		case !of.cached.Admits(s, partition, got): // the shared read had no session
			return read(ctx)
		case !mine:
			return recordHit[T](ctx, of, partition, got), nil
		}
		if err := memoryOf(ctx).Grow(got.Bytes); err != nil {
			return none, wrap(err)
		}
		of.cached.Record(ctx, of.hits(ctx), []string{partition}, got)
		return got.Value.(T), nil
	}
}

// recordHit returns a value that was not read for this caller, and counts it as a hit.
func recordHit[T any](ctx context.Context, of *Container, partition string, v itemcache.Value) T {
	of.meter.hit(ctx, of.Name(), partition)
	of.cached.Record(ctx, of.hits(ctx), []string{partition}, v)
	return v.Value.(T)
}

// hits returns the counter of hits of the context's pattern.
func (c *Container) hits(ctx context.Context) prometheus.Counter {
	return c.meter.of(scopeOf(ctx).pattern).hits
}

// GetMany is Get for the value what in each of several partitions. read reads the values missing in the
// cache, in one request.
func GetMany[T any](
	ctx context.Context, of *Container, partitions []string, what string,
	read func(_ context.Context, partitions []string) ([]T, error),
) ([]T, error) {
	if !of.Caches() {
		return read(ctx, partitions)
	}
	s := SessionFrom(ctx)
	all := make([]itemcache.Value, len(partitions))
	var missing []int // of all
	var lacking []string
	for i, partition := range partitions {
		known, fresh, _ := of.cached.Lookup(s, partition, what)
		if all[i] = known; !fresh {
			missing, lacking = append(missing, i), append(lacking, partition)
		}
	}
	if len(missing) > 0 {
		r := of.cached.Begin(lacking...)
		values, err := read(r.In(ctx), lacking)
		if err != nil && !HasStatus(err, http.StatusTooManyRequests) {
			return nil, err
		}
		if err != nil {
			for _, i := range missing {
				var stale bool
				if all[i], _, stale = of.cached.Lookup(s, partitions[i], what); !stale {
					return nil, err
				}
			}
			missing = nil
		}
		for j, i := range missing {
			all[i] = r.Store(j, what, values[j])
		}
	}
	if len(missing) == 0 && len(partitions) > 0 {
		of.meter.hit(ctx, of.Name(), partitions[0])
	}
	of.cached.Record(ctx, of.hits(ctx), partitions, all...)
	values := make([]T, len(all))
	for i, known := range all {
		values[i] = known.Value.(T)
	}
	return values, nil
}

func isCanceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// detached returns a context with the deadline of ctx, which is not canceled with it and has no
// session.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	without := withoutSession(context.WithoutCancel(ctx))
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(without, deadline)
	}
	return context.WithCancel(without)
}
