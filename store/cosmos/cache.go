package cosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"

	"byline/store/changefeed"
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

// itemCache caches items, and pages of lists, until their partition changes: by a write of this
// process, which invalidates at once, or by a write of another, which the change feed shows within a
// poll. So cached reads cost nothing, and callers who write through this process read their own
// writes. A Session newer than the cached item bypasses the cache.
//
// It is a policy, per call. It returns items only while a Tail follows their container.
type itemCache struct {
	entries *otter.Cache[cacheKey, cached]
	reads   singleflight.Group
	changes changes
	meter   *meter
}

// following is the state of following a container's change feed.
type following struct {
	since, until atomic.Int64 // all changes between them are known; Unix nanoseconds, 0 if none are
	failing      atomic.Bool  // the last attempt to read changes has failed
	poll         atomic.Int64 // PollInterval of the Tail, in nanoseconds; 0 without a Tail

	unwatched atomic.Pointer[func() bool] // Options.Unwatched of the Tail
	wake      changefeed.Signal           // wakes the Tail
	writes    changefeed.Signal           // set after writes of this process
	advanced  changefeed.Signal           // set when until has grown

	mu     sync.Mutex
	ranges []followedRange // guarded by mu; by MinInclusive
}

// followedRange is a feed range of a container. Its changes are known up to until.
type followedRange struct {
	azcosmos.FeedRange
	until time.Time
}

// cached is a cached value of a partition.
type cached struct {
	value any
	bytes int
	stamp changeStamp // of the partition when the read began
	at    session.Position
	began time.Time
	ended time.Time
}

// newItemCache returns a cache of approximately so many bytes.
func newItemCache(bytes int, m *meter) *itemCache {
	return &itemCache{meter: m, entries: otter.Must(&otter.Options[cacheKey, cached]{
		MaximumWeight: uint64(bytes),
		Weigher: func(p cacheKey, c cached) uint32 {
			return uint32(len(p.partition) + len(p.what) + c.bytes + entryBytes)
		},
	})}
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

// Invalidate invalidates all cached items, and every response that depends on them.
func (a *Account) Invalidate() {
	if a.cache == nil {
		return
	}
	for i := range a.cache.changes.counts {
		a.cache.changes.counts[i].Add(1)
	}
}

// changed records that a partition has changed, or may have.
func (c *changes) changed(container, partition string) { c.counter(container, partition).Add(1) }

// Do implements policy.Policy. A write invalidates its partition, whatever its outcome.
func (c *itemCache) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	r := req.Raw()
	path := containerPath(r.URL.EscapedPath())
	if path == "" { // azcosmos also reads accounts and containers in this context
		return resp, err
	}
	if read, ok := r.Context().Value(readingKey{}).(*reading); !ok {
		recordUncached(r.Context())
	} else if err == nil {
		read.add(resp)
	}
	if isWrite(r) {
		var partition [1]string // "" for a query of all partitions
		_ = json.Unmarshal([]byte(r.Header.Get(partitionHeader)), &partition)
		c.changes.changed(path, partition[0])
	}
	return resp, err
}

// reading collects the responses of a read.
type reading struct {
	mu    sync.Mutex
	at    []session.Position // guarded by mu; of each response
	bytes int                // guarded by mu
}

func (r *reading) add(resp *http.Response) {
	n := int(resp.ContentLength)
	if n < 0 {
		body, _ := runtime.Payload(resp) // the caller gets the error, too
		n = len(body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at = append(r.at, session.PositionOf(resp.Header.Get(sessionHeader)))
	r.bytes += n
}

// AddSize adds bytes to the size of a cached value that is read in ctx: of the decoded value, beyond that
// of the response.
func AddSize(ctx context.Context, bytes int) {
	if r, ok := ctx.Value(readingKey{}).(*reading); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bytes += bytes
	}
}

// CachedBytes returns the approximate size of the cached items.
func (a *Account) CachedBytes() int {
	if a.cache == nil {
		return 0
	}
	a.cache.entries.CleanUp()
	return int(a.cache.entries.WeightedSize())
}

// entry returns the cache entry of a value of a partition that was read together with others; each gets
// an equal share of the bytes.
func (r *reading) entry(of *Container, partition string, value any, others int, stamp changeStamp, began time.Time) cached {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := cached{value: value, bytes: r.bytes / (1 + others), stamp: stamp, began: began, ended: time.Now()}
	c.at = of.sessions.known.Oldest(of.path, partition, r.at)
	return c
}

type readingKey struct{}

// cacheKey identifies a cached value: by the path of its container, its partition, and what it is.
// Values of different types must have different names.
type cacheKey struct{ container, partition, what string }

// lookup returns the cached value of a key. fresh reports that it may be returned instead of reading,
// stale that it may be returned if Cosmos DB throttles the read.
func (c *itemCache) lookup(s *session.Session, of *Container, p cacheKey) (known cached, fresh, stale bool) {
	known, found := c.entries.GetIfPresent(p)
	now := time.Now()
	age := now.Sub(known.began)
	found = found && age < maxCachedAge && known.stamp.unchanged() && of.admits(s, p.partition, known.at)
	return known, found && of.following.confirms(known.began, now), found && age < maxThrottledAge
}

// Caches reports whether the items of the container may be cached.
func (c *Container) Caches() bool { return c.cache != nil }

// Get returns the value what of a partition: from the item cache if it is fresh, and otherwise with read.
// Concurrent reads of the same value share one.
func Get[T any](ctx context.Context, of *Container, partition, what string, read func(context.Context) (T, error)) (T, error) {
	c := of.cache
	if c == nil {
		return read(ctx)
	}
	s := SessionFrom(ctx)
	at := cacheKey{of.path, partition, what}
	if known, fresh, _ := c.lookup(s, of, at); fresh {
		c.meter.hit(ctx, of.Name(), partition)
		recordReads(ctx, of, []string{partition}, known)
		return known.value.(T), nil
	}
	began, stamp := time.Now(), c.changes.stamp(of.path, partition)
	mine := false // this caller began the read
	flight := c.reads.DoChan(fmt.Sprintf("%q %d", at, stamp.count), func() (got any, err error) {
		defer func() {
			if p := recover(); p != nil { // the goroutine is not the caller's
				got, err = cached{}, &Error{Status: http.StatusInternalServerError, Err: fmt.Errorf("panic: %v", p)}
			}
		}()
		mine = true
		// Other callers wait for it, too: it continues if the first caller's context ends, and does
		// not wait for the first caller's session.
		ctx, cancel := detached(ctx)
		defer cancel()
		ctx, release := forked(ctx)
		defer release()
		r := &reading{}
		value, err := read(context.WithValue(ctx, readingKey{}, r))
		known := r.entry(of, partition, value, 0, stamp, began)
		if err == nil {
			c.entries.Set(at, known)
		}
		return known, err
	})
	var none T
	select {
	case <-ctx.Done():
		return none, wrap(ctx.Err())
	case result := <-flight:
		got, err := result.Val.(cached), result.Err
		switch {
		case HasStatus(err, http.StatusTooManyRequests):
			known, _, stale := c.lookup(s, of, at) // it may have changed, or grown too old, since
			if !stale {
				return none, err
			}
			c.meter.hit(ctx, of.Name(), partition)
			recordReads(ctx, of, []string{partition}, known)
			return known.value.(T), nil
		case err != nil && !mine && ctx.Err() == nil && isCanceled(err): // the deadline was that of the caller who began the read
			return read(ctx)
		case err != nil:
			return none, err
		case !of.admits(s, partition, got.at): // the shared read had no session
			return read(ctx)
		case !mine:
			c.meter.hit(ctx, of.Name(), partition)
		default:
			if err := memoryOf(ctx).Grow(got.bytes); err != nil {
				return none, wrap(err)
			}
		}
		recordReads(ctx, of, []string{partition}, got)
		return got.value.(T), nil
	}
}

// GetMany is Get for the value what in each of several partitions. read reads the values missing in the
// cache, in one request.
func GetMany[T any](ctx context.Context, of *Container, partitions []string, what string, read func(_ context.Context, partitions []string) ([]T, error)) ([]T, error) {
	c := of.cache
	if c == nil {
		return read(ctx, partitions)
	}
	s := SessionFrom(ctx)
	all := make([]cached, len(partitions))
	var missing []int // of all
	for i, partition := range partitions {
		known, fresh, _ := c.lookup(s, of, cacheKey{of.path, partition, what})
		if all[i] = known; !fresh {
			missing = append(missing, i)
		}
	}
	if len(missing) > 0 {
		began := time.Now()
		var lacking []string
		for _, i := range missing {
			lacking = append(lacking, partitions[i])
		}
		stamps := make([]changeStamp, len(missing))
		for j, partition := range lacking {
			stamps[j] = c.changes.stamp(of.path, partition)
		}
		r := &reading{}
		values, err := read(context.WithValue(ctx, readingKey{}, r), lacking)
		if err != nil && !HasStatus(err, http.StatusTooManyRequests) {
			return nil, err
		}
		if err != nil {
			for _, i := range missing {
				var stale bool
				if all[i], _, stale = c.lookup(s, of, cacheKey{of.path, partitions[i], what}); !stale {
					return nil, err
				}
			}
			missing = nil
		}
		for j, i := range missing {
			all[i] = r.entry(of, partitions[i], values[j], len(missing)-1, stamps[j], began)
			c.entries.Set(cacheKey{of.path, partitions[i], what}, all[i])
		}
	}
	if len(missing) == 0 && len(partitions) > 0 {
		c.meter.hit(ctx, of.Name(), partitions[0])
	}
	recordReads(ctx, of, partitions, all...)
	values := make([]T, len(all))
	for i, known := range all {
		values[i] = known.value.(T)
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

// follow sets the options of a Tail that follows the container.
func (f *following) follow(o *changefeed.Options) {
	f.poll.Store(int64(o.PollInterval))
	if o.Unwatched != nil {
		f.unwatched.Store(&o.Unwatched)
	}
	o.Wake = &f.wake
}

// current returns the time until which an unchanged item is known to be current, given when it was
// read. If the change feed was last read more than a poll ago, it wakes the Tail. Events with equal
// times may have happened in either order.
func (f *following) current(read, now time.Time) time.Time {
	from, until := f.since.Load(), f.until.Load()
	if from != 0 && now.UnixNano()-until > f.poll.Load() {
		f.wake.Set()
	}
	if from == 0 || from >= read.UnixNano() || until < read.UnixNano() {
		return read
	}
	return time.Unix(0, until)
}

// confirms reports whether an unchanged item, given when it was read, is recent enough to return. While
// the change feed cannot be read, because Cosmos DB throttles, an item stays recent enough for as long
// after its read as a change may take to be noticed otherwise.
func (f *following) confirms(read, now time.Time) bool {
	poll := time.Duration(f.poll.Load())
	return poll != 0 && now.Sub(f.current(read, now)) < 2*poll+confirmGrace
}

// observe records the progress of a Tail. Only a page at the end of the feed counts: before it, changes
// are still unknown.
func (f *following) observe(p changefeed.Progress) {
	f.failing.Store(p.Err != nil)
	if p.Err == nil && p.Lag == 0 {
		f.reached(p.Range, p.Began)
	}
}

// reached records that all changes of a range until now are known, and advances until to the earliest
// such time of all ranges.
func (f *following) reached(r azcosmos.FeedRange, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ranges = slices.DeleteFunc(f.ranges, func(o followedRange) bool { // a parent or a child of the range
		return o.MinInclusive < r.MaxExclusive && r.MinInclusive < o.MaxExclusive
	})
	f.ranges = append(f.ranges, followedRange{r, now})
	slices.SortFunc(f.ranges, func(a, b followedRange) int { return strings.Compare(a.MinInclusive, b.MinInclusive) })
	at, until := "", now
	for _, o := range f.ranges {
		if o.MinInclusive != at {
			return // a part is not followed yet
		}
		at = o.MaxExclusive
		if o.until.Before(until) {
			until = o.until
		}
	}
	if at != "FF" {
		return
	}
	f.since.CompareAndSwap(0, until.UnixNano())
	f.until.Store(until.UnixNano())
	f.advanced.Set()
}

// reset forgets the progress when the Tail ends.
func (f *following) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ranges = nil
	f.since.Store(0)
	f.poll.Store(0)
}
