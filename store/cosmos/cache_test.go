package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/waittest"
	"byline/store/changefeed"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

// newCached returns a container of an account with an item cache.
func newCached(t testing.TB) *Container {
	t.Helper()
	account, err := Open(Options{Endpoint: "https://localhost", Key: "a2V5", CacheBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c, err := account.Container("blog", "posts")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Cached items are valid for as long as docs/consistency.md says.
func TestItemCache_Lookup(t *testing.T) {
	posts := newCached(t)
	c, f, p := posts.cache, posts.following, cacheKey{posts.path, "p", "post"}
	f.poll.Store(int64(time.Second))
	for _, tt := range []struct {
		name         string
		age          time.Duration // since the read
		since, until time.Duration // all changes are known from so long ago until so long ago
		fresh, stale bool
	}{
		{"read just now", 0, time.Minute, 0, true, true},
		{"old", 29 * time.Second, time.Minute, 0, true, false},
		{"too old", 31 * time.Second, time.Minute, 0, false, false},
		{"feed behind for a while", 5 * time.Second, time.Minute, 2 * time.Second, true, true},
		{"feed behind for too long", 5 * time.Second, time.Minute, 4 * time.Second, false, true},
		{"feed behind for too long, but read since", 2 * time.Second, time.Minute, 4 * time.Second, true, true},
		{"read before the Tail began", 5 * time.Second, time.Second, 0, false, true},
		{"read at the moment when the Tail began", 5 * time.Second, 5 * time.Second, 0, false, true},
		{"read shortly before the Tail began", 2 * time.Second, time.Second, 0, true, true},
		{"read before the Tail began, too old", 11 * time.Second, time.Second, 0, false, false},
	} {
		now := time.Now()
		f.since.Store(now.Add(-tt.since).UnixNano())
		f.until.Store(now.Add(-tt.until).UnixNano())
		c.entries.Set(p, cached{stamp: c.changes.stamp(p.container, p.partition), began: now.Add(-tt.age)})
		if _, fresh, stale := c.lookup(nil, posts, p); fresh != tt.fresh || stale != tt.stale {
			t.Errorf("%s: got fresh %t, stale %t, want %t, %t", tt.name, fresh, stale, tt.fresh, tt.stale)
		}
	}
}

// A change between a read and the start of the Tail is noticed, although all have the same time.
func TestCache_ChangeBeforeTail(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		on := cosmostest.Open(t, emulator.Options{})
		on.CreateContainer(t, "posts", "/postId")
		open := func(cacheBytes int) *Container {
			o := options(on)
			o.CacheBytes = cacheBytes
			account, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(account.Close)
			c, err := account.Container(on.Database, "posts")
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		reader, writer := open(1<<20), open(0)
		read := func() string {
			title, err := Get(t.Context(), reader, "p", "post", func(ctx context.Context) (string, error) {
				item, err := reader.Read(ctx, Key{"p", "p"})
				return stringOf(item.Value, "title"), err
			})
			if err != nil {
				t.Fatal(err)
			}
			return title
		}
		if err := writer.Create(t.Context(), "p", []byte(`{"id":"p","postId":"p","title":"old"}`)); err != nil {
			t.Fatal(err)
		}
		tail := reader.Tail("postId", nil, changefeed.Options{PollInterval: 50 * time.Millisecond})
		read()
		var p Patch
		p.Set("/title", "new")
		if _, err := writer.Patch(t.Context(), Key{"p", "p"}, p); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		wg.Go(func() { _ = tail.Run(ctx) })
		waittest.Until(t, func() error {
			if got := read(); got != "new" {
				return fmt.Errorf("%q is read", got)
			}
			return nil
		})
	})
}

// Several reads form a snapshot if all changes until after the last read are known.
func TestReadSet_Snapshot(t *testing.T) {
	posts := newCached(t)
	posts.following.poll.Store(int64(time.Second))
	now := time.Now()
	posts.following.since.Store(now.Add(-time.Minute).UnixNano())
	posts.following.until.Store(now.UnixNano())
	for _, tt := range []struct {
		ended time.Time
		valid bool
	}{{now.Add(-1), true}, {now, false}, {now.Add(1), false}} {
		r := ReadSet{account: posts.shared}
		for range 2 {
			r.reads = append(r.reads, readSetRead{container: posts, partition: "p", stamp: posts.cache.changes.stamp(posts.path, "p"),
				began: now.Add(-time.Second), ended: tt.ended})
		}
		if valid := r.Valid(nil); valid != tt.valid {
			t.Errorf("last read ended %v after the known changes: got valid %t, want %t", tt.ended.Sub(now), valid, tt.valid)
		}
	}
}

// A response is not returned from a cache if one of its reads bypassed the item cache, which then does not notice its
// changes.
func TestReadSet_UncachedRead(t *testing.T) {
	on := cosmostest.Open(t, emulator.Options{})
	o := options(on)
	o.CacheBytes = 1 << 20
	account, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	on.CreateContainer(t, "posts", "/postId")
	posts, err := account.Container(on.Database, "posts")
	if err != nil {
		t.Fatal(err)
	}
	posts.following.poll.Store(int64(time.Minute)) // as if a Tail followed the container
	cached := func(ctx context.Context) error {
		_, err := Get(ctx, posts, "p", "post", func(ctx context.Context) (Item, error) { return posts.Read(ctx, Key{"p", "p"}) })
		return err
	}
	point := func(ctx context.Context) error {
		_, err := posts.Read(ctx, Key{"p", "p"})
		return err
	}
	query := func(ctx context.Context) error {
		_, _, err := posts.QueryPage(ctx, Query{Text: "SELECT * FROM c", Partition: "p"})
		return err
	}
	for name, tt := range map[string]struct {
		reads []func(context.Context) error
		valid bool
	}{
		"no read":                           {nil, true},
		"cached read":                       {[]func(context.Context) error{cached}, true},
		"point read":                        {[]func(context.Context) error{point}, false},
		"query":                             {[]func(context.Context) error{query}, false},
		"cached read, then point read":      {[]func(context.Context) error{cached, point}, false},
		"query, then cached read":           {[]func(context.Context) error{query, cached}, false},
		"cached read, twice the same query": {[]func(context.Context) error{cached, query, query}, false},
	} {
		var set ReadSet
		for _, read := range tt.reads {
			if err := read(WithReadSet(t.Context(), &set)); err != nil {
				t.Fatal(err)
			}
		}
		if valid := set.Valid(nil); valid != tt.valid {
			t.Errorf("%s: got valid %t, want %t", name, valid, tt.valid)
		}
	}
}

// Every change of a partition is noticed.
func TestChanges_Stamp(t *testing.T) {
	changes := &newCached(t).cache.changes
	for i := range 10 {
		partition := fmt.Sprint(i)
		before := changes.stamp("posts", partition)
		if !before.unchanged() {
			t.Fatal("changed before a change")
		}
		if changes.changed("posts", partition); before.unchanged() {
			t.Errorf("partition %s is unchanged after a change", partition)
		}
	}
}

// What a caller adds to the size of a value counts in the cache.
func TestAddSize(t *testing.T) {
	posts := newCached(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	size := func(partition string, add int) uint64 {
		_, err := Get(ctx, posts, partition, "post", func(ctx context.Context) (int, error) {
			AddSize(ctx, add/2)
			AddSize(ctx, add/2)
			return 0, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		posts.cache.entries.CleanUp()
		return posts.cache.entries.WeightedSize()
	}
	one := size("p", 0)
	if both := size("q", 1000); both != 2*one+1000 {
		t.Errorf("got %d bytes, want %d", both, 2*one+1000)
	}
}

// A panic of a read is an error for all callers that wait for it.
func TestGet_PanickingRead(t *testing.T) {
	_, err := Get(t.Context(), newCached(t), "p", "post", func(context.Context) (*int, error) { panic("here") })
	if !HasStatus(err, http.StatusInternalServerError) {
		t.Errorf("got %v, want status 500", err)
	}
}

// A shared read has the deadline of the caller that began it.
func TestGet_KeepsDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	want, _ := ctx.Deadline()
	_, err := Get(ctx, newCached(t), "p", "post", func(ctx context.Context) (*int, error) {
		if got, ok := ctx.Deadline(); !ok || !got.Equal(want) {
			t.Errorf("got deadline %v, want %v", got, want)
		}
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// All changes of a container are known once those of all its ranges are, until the earliest time of any
// range.
func TestFollowing_Ranges(t *testing.T) {
	var f following
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	whole, left, right := azcosmos.FeedRange{MaxExclusive: "FF"}, azcosmos.FeedRange{MaxExclusive: "1F"}, azcosmos.FeedRange{MinInclusive: "1F", MaxExclusive: "FF"}
	for i, step := range []struct {
		of           azcosmos.FeedRange
		reached      int64
		since, until int64 // 0: not known
	}{
		{left, 1, 0, 0},
		{right, 2, 1, 1},
		{right, 3, 1, 1},
		{left, 4, 1, 3},
		{whole, 5, 1, 5}, // they were merged
		{right, 6, 1, 5}, // and split again
		{left, 7, 1, 6},
	} {
		f.reached(step.of, at(step.reached))
		if since, until := f.since.Load()/1e9, f.until.Load()/1e9; since != step.since || until != step.until {
			t.Errorf("step %d: got known from %d until %d, want from %d until %d", i, since, until, step.since, step.until)
		}
	}
	for _, p := range []changefeed.Progress{{Lag: 1}, {Err: errors.New("not read")}, {}} {
		p.Range, p.Began = whole, at(8)
		f.observe(p)
		if known := f.until.Load()/1e9 == 8; known != (p.Lag == 0 && p.Err == nil) {
			t.Errorf("%+v: got known %t", p, known)
		}
	}
	f.reset()
	if f.since.Load() != 0 {
		t.Error("changes are known after reset")
	}
	if f.reached(left, at(9)); f.since.Load() != 0 {
		t.Error("after reset, a part of the ranges counts as all of them")
	}
}
