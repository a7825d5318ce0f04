package cosmos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store/changefeed"
	"byline/store/cosmos/itemcache"
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
				var post struct{ Title string }
				if err == nil {
					err = json.Unmarshal(item.Value, &post)
				}
				return post.Title, err
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
		testkit.Until(t, func() error {
			if got := read(); got != "new" {
				return fmt.Errorf("%q is read", got)
			}
			return nil
		})
	})
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
	posts.Tail("postId", nil, changefeed.Options{PollInterval: time.Minute}) // as if it ran
	cached := func(ctx context.Context) error {
		_, err := Get(ctx, posts, "p", "post", func(ctx context.Context) (Item, error) {
			return posts.Read(ctx, Key{"p", "p"})
		})
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
		var set itemcache.ReadSet
		for _, read := range tt.reads {
			if err := read(itemcache.WithReadSet(t.Context(), &set)); err != nil {
				t.Fatal(err)
			}
		}
		if valid := set.Valid(nil); valid != tt.valid {
			t.Errorf("%s: got valid %t, want %t", name, valid, tt.valid)
		}
	}
}

// What a caller adds to the size of a value counts in the cache.
func TestAddSize(t *testing.T) {
	posts := newCached(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	size := func(partition string, add int) int {
		_, err := Get(ctx, posts, partition, "post", func(ctx context.Context) (int, error) {
			itemcache.AddSize(ctx, add/2)
			itemcache.AddSize(ctx, add/2)
			return 0, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return posts.cache.Bytes()
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
