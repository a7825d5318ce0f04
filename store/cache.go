package store

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/maypok86/otter/v2"
	"github.com/tidwall/gjson"
	"golang.org/x/sync/singleflight"

	"byline/store/changefeed"
)

const (
	// followedFor is how long what the change feed has told counts, beside two polls:
	// without news for longer, memory may be behind, and is not asked.
	followedFor = time.Second

	// throttledFor is how old something may be that is returned because Cosmos DB
	// throttles.
	throttledFor = 10 * time.Second

	// keptFor is how long something is remembered at most. What goes without a trace in the
	// change feed, such as the comments of a post that was deleted, is gone by then.
	keptFor = 30 * time.Second

	// rememberedBytes is about what an entry takes beside what was read.
	rememberedBytes = 300
)

// Cache is the memory of a Store: items, and pages of lists, as they were read. They
// are returned instead of reading again as long as the partition that they are of has
// not changed: by what this process writes, which it knows at once, or by what anybody
// writes, which the change feed tells within a poll. So reads cost nothing, and whoever
// writes through this process reads what they wrote. A request with a Session that is
// newer than what is remembered reads.
//
// It is a policy, per call, of both clients of the Store that it is given to, and works
// while that Store runs. It is safe for concurrent use.
type Cache struct {
	entries *otter.Cache[place, remembered]
	reads   singleflight.Group
	changes changes
	poll    time.Duration // of the Store
	meter   *Meter        // of the Store

	followed map[string]*following // by container
}

// following is how a container's changes come to be known.
type following struct {
	since, until atomic.Int64 // all changes between are known; Unix nanoseconds, 0 if none are

	mu     sync.Mutex
	ranges []followedRange // guarded by mu; by MinInclusive
}

// followedRange is a feed range of a container, and up to when its changes are known.
type followedRange struct {
	azcosmos.FeedRange
	until time.Time
}

// remembered is what was read of a partition.
type remembered struct {
	value any
	bytes int
	as    change // what was known of the partition when the read began
	token string // of the session, with which Cosmos DB answered
	began time.Time
	ended time.Time
}

// NewCache returns a Cache that takes so many bytes of memory, about.
func NewCache(bytes int) *Cache {
	return &Cache{followed: map[string]*following{usersContainer: {}, postsContainer: {}, feedContainer: {}}, entries: otter.Must(&otter.Options[place, remembered]{
		MaximumWeight: uint64(bytes),
		Weigher: func(p place, r remembered) uint32 {
			return uint32(len(p.partition) + len(p.what) + r.bytes + rememberedBytes)
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

// changed says that a partition has changed, or may have.
func (c *changes) changed(container, partition string) { c.at(container, partition).Add(1) }

// Do implements policy.Policy: a write changes its partition, whatever became of it.
func (c *Cache) Do(req *policy.Request) (*http.Response, error) {
	resp, err := req.Next()
	r := req.Raw()
	path := containerPath(r.URL.EscapedPath())
	if path == "" { // azcosmos reads accounts and containers in the context of what needs them
		return resp, err
	}
	if read, ok := r.Context().Value(readingKey{}).(*reading); !ok {
		noteElsewhere(r.Context())
	} else if err == nil {
		read.saw(resp)
	}
	if isWrite(r) {
		container := path[strings.LastIndexByte(path, '/')+1:]
		c.changes.changed(container, gjson.Get(r.Header.Get("X-Ms-Documentdb-Partitionkey"), "0").Str)
	}
	return resp, err
}

// reading is what the policy sees of a read.
type reading struct {
	mu        sync.Mutex
	responses int    // guarded by mu
	token     string // guarded by mu; of the session, in the last response
	bytes     int    // guarded by mu
}

func (r *reading) saw(resp *http.Response) {
	n := int(resp.ContentLength)
	if n < 0 {
		body, _ := runtime.Payload(resp) // who reads it gets the error, too
		n = len(body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.responses++
	r.token = resp.Header.Get(sessionHeader)
	r.bytes += n
}

// made counts what a page takes beside its text: so many items, pointers to them, and up
// to an eighth by which Go rounds large allocations up.
func made[T any](ctx context.Context, items, text int) {
	if r, ok := ctx.Value(readingKey{}).(*reading); ok {
		took := items * int(reflect.TypeFor[T]().Size()+reflect.TypeFor[*T]().Size())
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bytes += took + (took+text)/8
	}
}

// remember is what becomes of a value that was read with so many others: their bytes are
// shared alike. Several responses have no token in common.
func (r *reading) remember(value any, others int, as change, began time.Time) remembered {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := remembered{value: value, bytes: r.bytes / (1 + others), as: as, began: began, ended: time.Now()}
	if r.responses == 1 {
		known.token = r.token
	}
	return known
}

type readingKey struct{}

// place is what something that is remembered is: of which container and partition, and
// what of it. What is of different types must be called differently.
type place struct{ container, partition, what string }

// look returns what is remembered of a place, if nothing is known to have changed since:
// fresh if it may be returned instead of reading, stale if only because reading fails.
func (c *Cache) look(session *Session, p place) (known remembered, fresh, stale bool) {
	known, found := c.entries.GetIfPresent(p)
	age := time.Since(known.began)
	found = found && age < keptFor && known.as.holds() && session.Admits(p.container, known.token)
	return known, found && c.follows(p.container, known.began), found && age < throttledFor
}

// recall returns what read reads of a partition, from memory if that is as good. The
// same is read once for all who ask for it at the same time.
func recall[T any](ctx context.Context, c *Cache, container, partition, what string, read func(context.Context) (T, error)) (T, error) {
	if c == nil {
		return read(ctx)
	}
	session, _ := ctx.Value(sessionKey{}).(*Session)
	at := place{container, partition, what}
	if known, fresh, _ := c.look(session, at); fresh {
		c.meter.hit(ctx, container, partition)
		noteBasis(ctx, container, known)
		return known.value.(T), nil
	}
	began, as := time.Now(), c.changes.now(container, partition)
	mine := false // the read
	flight := c.reads.DoChan(fmt.Sprintf("%q %d", at, as.count), func() (got any, err error) {
		defer func() {
			if p := recover(); p != nil { // nobody else would, on this goroutine
				got, err = remembered{}, &Error{Code: Internal, Op: "read", Err: fmt.Errorf("panic: %v", p)}
			}
		}()
		mine = true
		// Others wait for it, too: it goes on if the first of them leaves, and does not
		// wait for what only the first one's session asks for.
		ctx, cancel := detached(ctx)
		defer cancel()
		r := &reading{}
		value, err := read(context.WithValue(ctx, readingKey{}, r))
		known := r.remember(value, 0, as, began)
		if err == nil {
			c.entries.Set(at, known)
		}
		return known, err
	})
	var none T
	select {
	case <-ctx.Done():
		return none, cosmosError("read", ctx.Err())
	case landed := <-flight:
		got, err := landed.Val.(remembered), landed.Err
		switch {
		case err != nil && CodeOf(err) == Throttled:
			known, _, stale := c.look(session, at) // it may have changed, or grown too old, since
			if !stale {
				return none, err
			}
			c.meter.hit(ctx, container, partition)
			noteBasis(ctx, container, known)
			return known.value.(T), nil
		case err != nil && !mine && ctx.Err() == nil && isCanceled(err): // its time was that of whoever began it
			return read(ctx)
		case err != nil:
			return none, err
		case !session.Admits(container, got.token): // it was for all
			return read(ctx)
		case !mine:
			c.meter.hit(ctx, container, partition)
		}
		noteBasis(ctx, container, got)
		return got.value.(T), nil
	}
}

// recallAll is recall for one item of each of several partitions, and what it is called
// there. read reads those that memory lacks, in one request.
func recallAll[T any](ctx context.Context, c *Cache, container string, partitions []string, what func(partition string) string, read func(_ context.Context, partitions []string) ([]T, error)) ([]T, error) {
	if c == nil {
		return read(ctx, partitions)
	}
	session, _ := ctx.Value(sessionKey{}).(*Session)
	all := make([]remembered, len(partitions))
	var missing []int // of all
	for i, partition := range partitions {
		known, fresh, _ := c.look(session, place{container, partition, what(partition)})
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
			as[j] = c.changes.now(container, partition)
		}
		r := &reading{}
		values, err := read(context.WithValue(ctx, readingKey{}, r), lacking)
		if err != nil && CodeOf(err) != Throttled {
			return nil, err
		}
		if err != nil {
			for _, i := range missing {
				var stale bool
				if all[i], _, stale = c.look(session, place{container, partitions[i], what(partitions[i])}); !stale {
					return nil, err
				}
			}
			missing = nil
		}
		for j, i := range missing {
			all[i] = r.remember(values[j], len(missing)-1, as[j], began)
			c.entries.Set(place{container, partitions[i], what(partitions[i])}, all[i])
		}
	}
	if len(missing) == 0 && len(partitions) > 0 {
		c.meter.hit(ctx, container, partitions[0])
	}
	noteBasis(ctx, container, all...)
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
	apart := context.WithoutCancel(ctx)
	if ctx.Value(sessionKey{}) != nil {
		apart = WithSession(apart, nil)
	}
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(apart, deadline)
	}
	return context.WithCancel(apart)
}

// follows reports whether all changes of a container since a moment are known.
func (c *Cache) follows(container string, since time.Time) bool {
	f := c.followed[container]
	from, until := f.since.Load(), f.until.Load()
	return from != 0 && from <= since.UnixNano() && time.Now().UnixNano()-until < int64(2*c.poll+followedFor)
}

// observe notes what a Tail has handled. As long as more is to be read, what has changed is
// not known.
func (f *following) observe(p changefeed.Progress) {
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
}

func (f *following) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ranges = nil
	f.since.Store(0)
}

// forget is for when no changes are followed any more.
func (c *Cache) forget() {
	for _, f := range c.followed {
		f.forget()
	}
}

// tail follows the changes of a container for the cache, and tells them to also, if
// that is set. partition is the property that names an item's partition.
func (s *Store) tail(name string, source *azcosmos.ContainerClient, partition string, also changefeed.Handler) *changefeed.Tail {
	tell := s.o.Meter.background.observer(name)
	o := changefeed.Options{PollInterval: s.o.PollInterval, Read: readChangeFeed, Logger: s.o.Logger, Observe: tell}
	handle := also
	if c := s.o.Cache; c != nil {
		o.Observe = func(p changefeed.Progress) {
			tell(p)
			c.followed[source.ID()].observe(p)
		}
		handle = func(ctx context.Context, items [][]byte) error {
			for _, raw := range items {
				c.changes.changed(source.ID(), gjson.GetBytes(raw, partition).Str)
			}
			if also == nil {
				return nil
			}
			return also(ctx, items)
		}
	}
	return changefeed.NewTail(source, handle, o)
}
