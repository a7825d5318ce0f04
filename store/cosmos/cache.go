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
)

const (
	// followedFor is how long what was read, or what the change feed has told since, counts,
	// beside two polls: without news for longer, the cache may be behind, and is not asked.
	followedFor = time.Second

	// throttledFor is how old something may be that is returned because Cosmos DB
	// throttles.
	throttledFor = 10 * time.Second

	// cachedFor is how long something is cached at most. What goes without a trace in the
	// change feed, such as the comments of a post that was deleted, is gone by then.
	cachedFor = 30 * time.Second

	// entryBytes is about what an entry takes beside what was read.
	entryBytes = 300
)

// itemCache caches items, and pages of lists, as they were read. They are returned instead of
// reading again as long as their partition has not changed: by what this process writes,
// which it knows at once, or by what any other writes, which the change feed tells within a
// poll. So reads cost nothing, and callers who write through this process read what they
// wrote. A request with a Session that is newer than what is cached reads.
//
// It is a policy, per call, and works while the container of what is read is followed by a
// Tail.
type itemCache struct {
	entries *otter.Cache[place, cached]
	reads   singleflight.Group
	changes changes
	meter   *meter
}

// following is how a container's changes come to be known.
type following struct {
	since, until atomic.Int64 // all changes between are known; Unix nanoseconds, 0 if none are
	failing      atomic.Bool  // the last attempt to read changes has failed
	poll         atomic.Int64 // how often they are asked for while something is read, in nanoseconds; 0: they are not

	onDemand atomic.Pointer[func() bool] // of the Tail
	wanted   changefeed.Signal           // wakes the Tail
	writes   changefeed.Signal           // what this process has written
	news     changefeed.Signal           // until has grown

	mu     sync.Mutex
	ranges []followedRange // guarded by mu; by MinInclusive
}

// followedRange is a feed range of a container, and up to when its changes are known.
type followedRange struct {
	azcosmos.FeedRange
	until time.Time
}

// cached is what was read of a partition.
type cached struct {
	value any
	bytes int
	as    change // what was known of the partition when the read began
	at    answered
	began time.Time
	ended time.Time
}

// newItemCache returns a cache that takes so many bytes of memory, about.
func newItemCache(bytes int, m *meter) *itemCache {
	return &itemCache{meter: m, entries: otter.Must(&otter.Options[place, cached]{
		MaximumWeight: uint64(bytes),
		Weigher: func(p place, c cached) uint32 {
			return uint32(len(p.partition) + len(p.what) + c.bytes + entryBytes)
		},
	})}
}

// changes counts how often partitions have changed. Several share a count: a change of
// one makes what is known of the others unknown, and that is all.
type changes struct{ counts [1 << 14]atomic.Uint64 }

// change is the state of a partition, as far as it is known.
type change struct {
	of    *atomic.Uint64
	count uint64
}

// holds reports whether nothing is known to have changed since.
func (c change) holds() bool { return c.of.Load() == c.count }

var changeSeed = maphash.MakeSeed()

func (c *changes) at(container, partition string) *atomic.Uint64 {
	var h maphash.Hash
	h.SetSeed(changeSeed)
	h.WriteString(container)
	h.WriteByte(0)
	h.WriteString(partition)
	return &c.counts[h.Sum64()%uint64(len(c.counts))]
}

func (c *changes) now(container, partition string) change {
	count := c.at(container, partition)
	return change{count, count.Load()}
}

// Invalidate has nothing that is cached returned again, nor any response that rests on it.
func (a *Account) Invalidate() {
	if a.cache == nil {
		return
	}
	for i := range a.cache.changes.counts {
		a.cache.changes.counts[i].Add(1)
	}
}

// changed says that a partition has changed, or may have.
func (c *changes) changed(container, partition string) { c.at(container, partition).Add(1) }

// Do implements policy.Policy: a write changes its partition, whatever became of it.
func (c *itemCache) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	r := req.Raw()
	path := containerPath(r.URL.EscapedPath())
	if path == "" { // azcosmos reads accounts and containers in the context of what needs them
		return resp, err
	}
	if read, ok := r.Context().Value(readingKey{}).(*reading); !ok {
		noteUncached(r.Context())
	} else if err == nil {
		read.saw(resp)
	}
	if isWrite(r) {
		var partition [1]string // "" for a query of all partitions
		_ = json.Unmarshal([]byte(r.Header.Get(partitionHeader)), &partition)
		c.changes.changed(path, partition[0])
	}
	return resp, err
}

// reading is what the policy sees of a read.
type reading struct {
	mu    sync.Mutex
	at    []answered // guarded by mu; of each response
	bytes int        // guarded by mu
}

func (r *reading) saw(resp *http.Response) {
	n := int(resp.ContentLength)
	if n < 0 {
		body, _ := runtime.Payload(resp) // who reads it gets the error, too
		n = len(body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at, known := parseRange(resp.Header.Get(sessionHeader))
	r.at = append(r.at, answered{at, known})
	r.bytes += n
}

// Weigh has what is read in ctx count so many bytes more in the cache than it had on its way:
// what it is decoded into.
func Weigh(ctx context.Context, bytes int) {
	if r, ok := ctx.Value(readingKey{}).(*reading); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bytes += bytes
	}
}

// CachedBytes is how many bytes are cached, about.
func (a *Account) CachedBytes() int {
	if a.cache == nil {
		return 0
	}
	a.cache.entries.CleanUp()
	return int(a.cache.entries.WeightedSize())
}

// entry is what is cached of a value that was read of a partition with so many others: their bytes
// are shared alike.
func (r *reading) entry(of *Container, partition string, value any, others int, as change, began time.Time) cached {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := cached{value: value, bytes: r.bytes / (1 + others), as: as, began: began, ended: time.Now()}
	if mine := of.sessions.known.keys(of.path).holding(effectiveKey(partition)); mine != nil {
		c.at = oldest(r.at, mine.is)
	} else if len(r.at) > 0 {
		first := r.at[0].id // if all are of one range, it is the partition's
		if !slices.ContainsFunc(r.at, func(a answered) bool { return a.id != first }) {
			c.at = oldest(r.at, func(uint64) bool { return true })
		}
	}
	return c
}

// oldest returns the oldest of the responses of a range, the zero value if it cannot tell.
func oldest(all []answered, is func(id uint64) bool) (o answered) {
	for _, a := range all {
		switch {
		case !is(a.id):
		case !a.known:
			return answered{}
		case !o.known || o.covers(a.progress):
			o = a
		case !a.covers(o.progress):
			return answered{}
		}
	}
	return o
}

type readingKey struct{}

// place is where something is cached: its container, by path, and partition, and what of it.
// What is of different types must be called differently.
type place struct{ container, partition, what string }

// look returns what is cached at a place, if nothing is known to have changed since: fresh if
// it may be returned instead of reading, stale if only because reading fails.
func (c *itemCache) look(session *Session, of *Container, p place) (known cached, fresh, stale bool) {
	known, found := c.entries.GetIfPresent(p)
	now := time.Now()
	age := now.Sub(known.began)
	found = found && age < cachedFor && known.as.holds() && session.admits(of, p.partition, known.at)
	return known, found && of.following.confirms(known.began, now), found && age < throttledFor
}

// Caches reports whether what is read of the container may be cached.
func (c *Container) Caches() bool { return c.cache != nil }

// Get returns what read reads of a partition of a container, called what: from the item cache
// if that is as good. The same is read once for all who ask for it at the same time.
func Get[T any](ctx context.Context, of *Container, partition, what string, read func(context.Context) (T, error)) (T, error) {
	c := of.cache
	if c == nil {
		return read(ctx)
	}
	session := SessionFrom(ctx)
	at := place{of.path, partition, what}
	if known, fresh, _ := c.look(session, of, at); fresh {
		c.meter.hit(ctx, of.Name(), partition)
		noteReads(ctx, of, []string{partition}, known)
		return known.value.(T), nil
	}
	began, as := time.Now(), c.changes.now(of.path, partition)
	mine := false // the read
	flight := c.reads.DoChan(fmt.Sprintf("%q %d", at, as.count), func() (got any, err error) {
		defer func() {
			if p := recover(); p != nil { // nobody else would, on this goroutine
				got, err = cached{}, &Error{Status: http.StatusInternalServerError, Err: fmt.Errorf("panic: %v", p)}
			}
		}()
		mine = true
		// Others wait for it, too: it goes on if the first of them leaves, and does not
		// wait for what only the first one's session asks for.
		ctx, cancel := detached(ctx)
		defer cancel()
		r := &reading{}
		value, err := read(context.WithValue(ctx, readingKey{}, r))
		known := r.entry(of, partition, value, 0, as, began)
		if err == nil {
			c.entries.Set(at, known)
		}
		return known, err
	})
	var none T
	select {
	case <-ctx.Done():
		return none, wrap(ctx.Err())
	case landed := <-flight:
		got, err := landed.Val.(cached), landed.Err
		switch {
		case HasStatus(err, http.StatusTooManyRequests):
			known, _, stale := c.look(session, of, at) // it may have changed, or grown too old, since
			if !stale {
				return none, err
			}
			c.meter.hit(ctx, of.Name(), partition)
			noteReads(ctx, of, []string{partition}, known)
			return known.value.(T), nil
		case err != nil && !mine && ctx.Err() == nil && isCanceled(err): // its time was that of the caller who began it
			return read(ctx)
		case err != nil:
			return none, err
		case !session.admits(of, partition, got.at): // it was for all
			return read(ctx)
		case !mine:
			c.meter.hit(ctx, of.Name(), partition)
		}
		noteReads(ctx, of, []string{partition}, got)
		return got.value.(T), nil
	}
}

// GetMany is Get for one item of each of several partitions, and what it is called there.
// read reads those that the cache lacks, in one request.
func GetMany[T any](ctx context.Context, of *Container, partitions []string, what func(partition string) string, read func(_ context.Context, partitions []string) ([]T, error)) ([]T, error) {
	c := of.cache
	if c == nil {
		return read(ctx, partitions)
	}
	session := SessionFrom(ctx)
	all := make([]cached, len(partitions))
	var missing []int // of all
	for i, partition := range partitions {
		known, fresh, _ := c.look(session, of, place{of.path, partition, what(partition)})
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
		as := make([]change, len(missing))
		for j, partition := range lacking {
			as[j] = c.changes.now(of.path, partition)
		}
		r := &reading{}
		values, err := read(context.WithValue(ctx, readingKey{}, r), lacking)
		if err != nil && !HasStatus(err, http.StatusTooManyRequests) {
			return nil, err
		}
		if err != nil {
			for _, i := range missing {
				var stale bool
				if all[i], _, stale = c.look(session, of, place{of.path, partitions[i], what(partitions[i])}); !stale {
					return nil, err
				}
			}
			missing = nil
		}
		for j, i := range missing {
			all[i] = r.entry(of, partitions[i], values[j], len(missing)-1, as[j], began)
			c.entries.Set(place{of.path, partitions[i], what(partitions[i])}, all[i])
		}
	}
	if len(missing) == 0 && len(partitions) > 0 {
		c.meter.hit(ctx, of.Name(), partitions[0])
	}
	noteReads(ctx, of, partitions, all...)
	values := make([]T, len(all))
	for i, known := range all {
		values[i] = known.value.(T)
	}
	return values, nil
}

func isCanceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// detached is a context that lasts as long as ctx may, but does not end with it. It
// belongs to no session.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	apart := withoutSession(context.WithoutCancel(ctx))
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(apart, deadline)
	}
	return context.WithCancel(apart)
}

// follow has a Tail poll when it is woken.
func (f *following) follow(o *changefeed.Options) {
	f.poll.Store(int64(o.PollInterval))
	if o.OnDemand != nil {
		f.onDemand.Store(&o.OnDemand)
	}
	o.Wake = &f.wanted
}

// current returns until when something read at a moment is known to have been current, unless it is
// known to have changed. If that was last confirmed more than a poll ago, it wakes the Tail. Of two
// things at the same time by the clock, either may have been first.
func (f *following) current(read, now time.Time) time.Time {
	from, until := f.since.Load(), f.until.Load()
	if from != 0 && now.UnixNano()-until > f.poll.Load() {
		f.wanted.Set()
	}
	if from == 0 || from >= read.UnixNano() || until < read.UnixNano() {
		return read
	}
	return time.Unix(0, until)
}

// confirms reports whether something read at a moment is as good as read now. While the changes
// cannot be read, because Cosmos DB throttles, that is as long since it was read as it may take to
// learn of a change otherwise.
func (f *following) confirms(read, now time.Time) bool {
	poll := time.Duration(f.poll.Load())
	return poll != 0 && now.Sub(f.current(read, now)) < 2*poll+followedFor
}

// observe notes what a Tail has handled. As long as more is to be read, what has changed is
// not known.
func (f *following) observe(p changefeed.Progress) {
	f.failing.Store(p.Err != nil)
	if p.Err == nil && p.Lag == 0 {
		f.reached(p.Range, p.Asked)
	}
}

// reached notes that all changes of a range until then are known, and with it, perhaps,
// those of the container.
func (f *following) reached(r azcosmos.FeedRange, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ranges = slices.DeleteFunc(f.ranges, func(o followedRange) bool { // it was split, or is the parent of one that was
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
	f.news.Set()
}

// reset is for when changes are not followed any more.
func (f *following) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ranges = nil
	f.since.Store(0)
	f.poll.Store(0)
}
