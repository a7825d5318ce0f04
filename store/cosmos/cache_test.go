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

// What is cached is valid for as long as docs/consistency.md says.
func TestLook(t *testing.T) {
	posts := newCached(t)
	c, f, p := posts.cache, posts.following, place{posts.path, "p", "post"}
	f.poll.Store(int64(time.Second))
	for _, tt := range []struct {
		name         string
		age, since   time.Duration // ago: it was read, and all changes are known
		until        time.Duration // ago: up to when they are known
		fresh, stale bool
	}{
		{"read just now", 0, time.Minute, 0, true, true},
		{"old", 29 * time.Second, time.Minute, 0, true, false},
		{"too old", 31 * time.Second, time.Minute, 0, false, false},
		{"no news for a while", 5 * time.Second, time.Minute, 2 * time.Second, true, true},
		{"no news for too long", 5 * time.Second, time.Minute, 4 * time.Second, false, true},
		{"no news for too long, but read since", 2 * time.Second, time.Minute, 4 * time.Second, true, true},
		{"read before anything was known", 5 * time.Second, time.Second, 0, false, true},
		{"read at the moment from which all is known", 5 * time.Second, 5 * time.Second, 0, false, true},
		{"read before anything was known, just now", 2 * time.Second, time.Second, 0, true, true},
		{"too old for what is not followed", 11 * time.Second, time.Second, 0, false, false},
	} {
		now := time.Now()
		f.since.Store(now.Add(-tt.since).UnixNano())
		f.until.Store(now.Add(-tt.until).UnixNano())
		c.entries.Set(p, cached{as: c.changes.now(p.container, p.partition), began: now.Add(-tt.age)})
		if _, fresh, stale := c.look(nil, posts, p); fresh != tt.fresh || stale != tt.stale {
			t.Errorf("%s: fresh %t, stale %t", tt.name, fresh, stale)
		}
	}
}

// What changes between a read and the Tail's beginning is seen, though the clock shows the same time.
func TestCache_ChangeBeforeTail(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		on := cosmostest.Open(t, emulator.Options{})
		open := func(cacheBytes int) *Container {
			o := options(on)
			o.CacheBytes = cacheBytes
			account, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(account.Close)
			if err := account.Provision(t.Context(), DatabaseSpec{Name: on.Database, Containers: []ContainerSpec{{Name: "posts", PartitionKey: "/postId"}}}); err != nil {
				t.Fatal(err)
			}
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

// Several reads are of one moment if all changes until later than the last of them are known.
func TestReadSet_IsOfOneMoment(t *testing.T) {
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
			r.reads = append(r.reads, readSetRead{container: posts, partition: "p", as: posts.cache.changes.now(posts.path, "p"),
				began: now.Add(-time.Second), ended: tt.ended})
		}
		if valid := r.Valid(nil); valid != tt.valid {
			t.Errorf("ended %v after that: valid %t", tt.ended.Sub(now), valid)
		}
	}
}

// A read that panics is an error to all who wait for it.
func TestReadThatPanics(t *testing.T) {
	_, err := Get(t.Context(), newCached(t), "p", "post", func(context.Context) (*int, error) { panic("here") })
	if !HasStatus(err, http.StatusInternalServerError) {
		t.Error(err)
	}
}

// A read for several has the time of who began it.
func TestReadEndsInTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	want, _ := ctx.Deadline()
	_, err := Get(ctx, newCached(t), "p", "post", func(ctx context.Context) (*int, error) {
		if got, ok := ctx.Deadline(); !ok || !got.Equal(want) {
			t.Errorf("it may take until %v, not %v", got, want)
		}
		return nil, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// What was read of several ranges is as new as the range of its partition was, if that is known.
func TestProgressOfSeveralAnswers(t *testing.T) {
	posts := newCached(t)
	var r reading
	answer := func(token string) { r.saw(&http.Response{Header: http.Header{sessionHeader: {token}}}) }
	progress := func() string {
		at := r.entry(posts, "ada", nil, 0, change{}, time.Time{}).at
		return fmt.Sprintf("%t %s", at.known, at.appendTo(nil))
	}
	answer("1:-1#7")
	if got := progress(); got != "true 1:-1#7" {
		t.Error("of one answer", got)
	}
	answer("2:-1#7")
	answer("2:-1#8")
	if got := progress(); got != "false 0:0#0" {
		t.Error("of unknown ranges", got)
	}
	posts.sessions.known.change(posts.path, func(t *tokens) { t.keys = t.keys.with(keyRange{id: 2, max: "FF"}) })
	if got := progress(); got != "true 2:-1#7" {
		t.Error("of known ranges", got)
	}
}

// All changes of a container are known when those of all its ranges are, and up to when
// those of the last of them are.
func TestFollowedRanges(t *testing.T) {
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
			t.Errorf("step %d: known from %d until %d, not from %d until %d", i, since, until, step.since, step.until)
		}
	}
	for _, p := range []changefeed.Progress{{Lag: 1}, {Err: errors.New("not read")}, {}} {
		p.Range, p.Asked = whole, at(8)
		f.observe(p)
		if known := f.until.Load()/1e9 == 8; known != (p.Lag == 0 && p.Err == nil) {
			t.Errorf("%+v: known %t", p, known)
		}
	}
	f.reset()
	if f.since.Load() != 0 {
		t.Error("changes are known after it was forgotten")
	}
	if f.reached(left, at(9)); f.since.Load() != 0 {
		t.Error("a part alone is taken for all, after it was forgotten")
	}
}
