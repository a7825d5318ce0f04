package itemcache

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store/changefeed"
	"byline/store/emulator/jsonpart"
)

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

// Tail follows the changes of a container while it runs. Meanwhile its values are cached.
type Tail struct {
	*changefeed.Tail
	following *following
}

// Tail returns a Tail of the container's change feed, which calls handle with the changes unless it is nil. property is
// the partition key property of items.
func (c *Container) Tail(
	feed changefeed.Container, property string, handle changefeed.Handler, o changefeed.Options,
) *Tail {
	observe := o.Observe
	o.Observe = func(p changefeed.Progress) {
		if observe != nil {
			observe(p)
		}
		c.observe(p)
	}
	if !c.cache.Caches() {
		if handle == nil {
			handle = func(context.Context, [][]byte) error { return nil }
		}
		o.UnwatchedInterval, o.Wake = o.PollInterval, &c.wake // only writes would wake it
		return &Tail{changefeed.NewTail(feed, handle, o), &c.following}
	}
	c.follow(&o)
	return &Tail{changefeed.NewTail(feed, func(ctx context.Context, items [][]byte) error {
		for _, raw := range items {
			c.Changed(stringOf(raw, property))
		}
		if handle == nil {
			return nil
		}
		return handle(ctx, items)
	}, o), &c.following}
}

// Wrote wakes the Tail after a write of this process, unless nobody watches, and sets Writes.
func (c *Container) Wrote() {
	c.writes.Set()
	if unwatched := c.unwatched.Load(); unwatched == nil || !(*unwatched)() {
		c.wake.Set()
	}
}

// Writes returns the signal that Wrote sets.
func (c *Container) Writes() *changefeed.Signal { return &c.writes }

// stringOf returns a string property of an item, "" if it is missing or of another type.
func stringOf(item []byte, property string) (value string) {
	for p := range jsonpart.Children(item) {
		if string(p.Name) == property {
			_ = json.Unmarshal(p.Value, &value)
			return value
		}
	}
	return ""
}

// CaughtUp reports whether the Tail has handled all changes older than ago. If it lags by more than half
// of ago, CaughtUp wakes it.
func (t *Tail) CaughtUp(ago time.Duration) bool {
	age := time.Now().UnixNano() - t.following.until.Load()
	if age > int64(ago/2) {
		t.following.wake.Set()
	}
	return age <= int64(ago)
}

// Failing reports whether the last attempt to read changes has failed.
func (t *Tail) Failing() bool { return t.following.failing.Load() }

// minRewake is the shortest interval after which CatchUp wakes the Tail again.
const minRewake = 10 * time.Millisecond

// CatchUp waits until the Tail has handled all changes older than ago.
func (t *Tail) CatchUp(ctx context.Context, ago time.Duration) error {
	since := time.Now().Add(-ago).UnixNano()
	for {
		reached := t.following.advanced.Next()
		if t.following.since.Load() != 0 && t.following.until.Load() > since {
			return nil
		}
		t.following.wake.Set()
		select {
		case <-reached:
		// the Tail was not waiting for wake yet
		case <-time.After(max(ago, time.Duration(t.following.poll.Load()), minRewake)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Run runs the changefeed.Tail. When it ends, caching ends.
func (t *Tail) Run(ctx context.Context) error {
	defer t.following.reset()
	return t.Tail.Run(ctx)
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

// confirms reports whether a cached item, which was read at a time and has not changed in the change feed since, is
// recent enough to return. It is if the feed, or the item itself, was read within the last two polls and
// confirmGrace. So while the feed cannot be read, because Cosmos DB throttles, an item is returned for as long after
// its own read.
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
