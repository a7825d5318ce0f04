package projection_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"golang.org/x/sync/errgroup"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
)

// manyWritings makes BenchmarkRename large, as in
//
//	go test ./store/projection -run '^$' -bench Rename -writings 10000
var manyWritings = flag.Int("writings", 500,
	"number of comments, each on another post, of the user who is renamed in BenchmarkRename")

// insert creates items directly in a container, many at a time.
func (w *world) insert(container string, n int, item func(i int) (partition string, body map[string]any)) {
	w.T.Helper()
	c, err := w.Client.NewContainer(w.Database, container)
	if err != nil {
		w.T.Fatal(err)
	}
	w.each(16, n, func(i int) error {
		partition, body := item(i)
		raw, err := json.Marshal(body)
		if err == nil {
			_, err = c.CreateItem(context.Background(), azcosmos.NewPartitionKeyString(partition), raw, nil)
		}
		return err
	})
}

// each calls f for the numbers below n, some at a time.
func (w *world) each(workers, n int, f func(i int) error) {
	w.T.Helper()
	var g errgroup.Group
	g.SetLimit(workers)
	for i := range n {
		g.Go(func() error { return f(i) })
	}
	if err := g.Wait(); err != nil {
		w.T.Fatal(err)
	}
}

// BenchmarkRename renames a user who has commented on many posts, and reports how long it takes until every
// comment has the new name, and the cost. In the second case, the process is killed half-way, and another
// continues.
func BenchmarkRename(b *testing.B) {
	b.Run("at once", func(b *testing.B) { benchmarkRename(b, false) })
	b.Run("killed half-way", func(b *testing.B) { benchmarkRename(b, true) })
}

func benchmarkRename(b *testing.B, killed bool) {
	for b.Loop() {
		b.StopTimer()
		w := newWorld(b)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		date := string(blog.NewDate(w.Clock.Now()))
		w.insert("posts", *manyWritings, func(i int) (string, map[string]any) {
			id := fmt.Sprintf("post-%d", i)
			return id, map[string]any{"id": id, "postId": id, "type": "post", "userId": grace.UserID,
				"userUsername": "grace", "title": id, "content": "x",
				"commentCount": 1, "likeCount": 0, "creationDate": date, "version": 1, "revision": 2}
		})
		w.insert("posts", *manyWritings, func(i int) (string, map[string]any) {
			return fmt.Sprintf("post-%d", i),
				map[string]any{"id": fmt.Sprintf("comment-%d", i), "postId": fmt.Sprintf("post-%d", i),
					"type":   "comment",
					"userId": ada.UserID, "userUsername": "ada", "content": "x", "creationDate": date}
		})
		stop := w.Start()
		for range time.Tick(10 * time.Millisecond) {
			if w.Checkpoints() == 3 && w.CaughtUp() == nil {
				break
			}
		}
		inner := *w.World // for reads that are not counted
		aside := &world{&inner}
		aside.Use(w.NewAccount(cosmos.Options{Transport: w.Transport}))
		var charge, patches atomic.Int64
		w.Wire.After(func(r *http.Response) { charge.Add(milliRU(r)) })
		half := make(chan struct{})
		if killed {
			w.Wire.Intercept(func(r *http.Request) error {
				n := patches.Load()
				if r.Method == http.MethodPatch {
					n = patches.Add(1)
				}
				if n == int64(*manyWritings/2) && r.Method == http.MethodPatch {
					close(half)
				}
				if n >= int64(*manyWritings/2) {
					return errors.New("gone") // all further requests fail, the checkpoint included
				}
				return nil
			})
		}
		b.StartTimer()
		began := time.Now()
		if _, err := w.UpdateUser(b.Context(), ada.UserID, store.UserEdit{Username: new("countess")}); err != nil {
			b.Fatal(err)
		}
		if killed {
			<-half
			b.StopTimer()
			stop()
			w.Wire.Intercept(nil)
			left := len(aside.misnamed("countess", ada.UserID))
			if left < *manyWritings/2 || left == *manyWritings {
				b.Errorf("%d of %d names are old after the kill", left, *manyWritings)
			}
			b.StartTimer()
			w.Start()
		}
		for range time.Tick(50 * time.Millisecond) {
			if len(aside.misnamed("countess", ada.UserID)) == 0 {
				break
			}
		}
		b.StopTimer()
		b.ReportMetric(float64(charge.Load())/1000/float64(*manyWritings), "RU/comment")
		b.ReportMetric(float64(*manyWritings)/time.Since(began).Seconds(), "comments/s")
		b.StartTimer()
	}
}

func milliRU(r *http.Response) int64 {
	var ru float64
	_, _ = fmt.Sscan(r.Header.Get("x-ms-request-charge"), &ru)
	return int64(ru * 1000)
}

// misnamed lists the items of a user with another name.
func (w *world) misnamed(name, userID string) []string {
	w.T.Helper()
	posts, err := w.Client.NewContainer(w.Database, "posts")
	if err != nil {
		w.T.Fatal(err)
	}
	var ids []string
	pager := posts.NewQueryItemsPager("SELECT VALUE c.id FROM c WHERE c.userId = @user AND c.userUsername != @name",
		azcosmos.NewPartitionKey(),
		&azcosmos.QueryOptions{QueryParameters: []azcosmos.QueryParameter{{Name: "@user", Value: userID},
			{Name: "@name", Value: name}}})
	for pager.More() {
		r, err := pager.NextPage(context.Background())
		if err != nil {
			w.T.Fatal(err)
		}
		for _, raw := range r.Items {
			ids = append(ids, string(raw))
		}
	}
	return ids
}

// BenchmarkLag writes 1,000 times a second, independent of the latency, and measures the time from the
// acknowledgment of a write until the feed shows it: of likes, or of edits, which are every tenth write.
func BenchmarkLag(b *testing.B) {
	b.Run("likes", func(b *testing.B) { benchmarkLag(b, 0) })
	b.Run("edits", func(b *testing.B) { benchmarkLag(b, 10) })
}

// benchmarkLag is a case of BenchmarkLag. If edits is not 0, every edits-th write is an edit, and only edits are
// measured.
func benchmarkLag(b *testing.B, edits int) {
	const rate, posts = 1_000, 50
	w := newWorldWith(b, store.Options{PollInterval: 100 * time.Millisecond}) // as embedded
	defer w.Start()()
	author := w.AddUser("author")
	var targets []*blog.Post
	for i := range posts {
		targets = append(targets, w.AddPost(author, fmt.Sprintf("post %d", i)))
	}
	type write struct {
		revision int64
		at       time.Time
	}
	var mu sync.Mutex
	waiting := map[string][]write{} // guarded by mu; by post, oldest first
	var lags []time.Duration        // guarded by mu
	watching, stop := context.WithCancel(b.Context())
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for watching.Err() == nil {
			feed, err := w.Feed(context.Background(), store.Paging{First: 100})
			if err != nil {
				b.Error(err)
				return
			}
			now := time.Now()
			mu.Lock()
			for _, p := range feed.Items {
				list := waiting[p.ID]
				for len(list) > 0 && list[0].revision <= p.Revision {
					lags = append(lags, now.Sub(list[0].at))
					list = list[1:]
				}
				waiting[p.ID] = list
			}
			mu.Unlock()
			<-time.After(20 * time.Millisecond)
		}
	})
	users := make([]*blog.User, 64)
	for i := range users {
		users[i] = w.AddUser(fmt.Sprintf("user%d", i))
	}
	acknowledged := func(p *blog.Post) {
		mu.Lock()
		defer mu.Unlock()
		waiting[p.ID] = append(waiting[p.ID], write{p.Revision, time.Now()})
	}
	b.ResetTimer()
	var wg sync.WaitGroup
	var n atomic.Int64
	total := max(b.N, 5*rate)
	if testing.Short() {
		total = max(b.N, rate)
	}
	began := time.Now()
	for due := range total {
		<-time.After(time.Until(began.Add(time.Duration(due) * time.Second / rate)))
		i := int(n.Add(1))
		wg.Go(func() {
			u, p := users[i/posts%len(users)], targets[i%posts]
			if edits > 0 && i%edits == 0 {
				title := fmt.Sprint("edit ", i)
				after, err := w.EditPost(context.Background(), author.UserID, targets[i/edits%posts].ID,
					store.PostEdit{Title: &title})
				if err != nil {
					b.Error(err)
					return
				}
				acknowledged(after)
				return
			}
			like := w.LikePost
			if i/posts/len(users)%2 == 1 {
				like = func(ctx context.Context, user, post string) (*blog.Like, *blog.Post, error) {
					p, err := w.UnlikePost(ctx, user, post)
					return nil, p, err
				}
			}
			_, after, err := like(context.Background(), u.UserID, p.ID)
			if err != nil {
				b.Error(err)
				return
			}
			if edits == 0 {
				acknowledged(after)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	testkit.Until(b, func() error {
		mu.Lock()
		defer mu.Unlock()
		for _, list := range waiting {
			if len(list) > 0 {
				return fmt.Errorf("%d writes are not shown", len(list))
			}
		}
		return nil
	})
	stop()
	watcher.Wait()
	slices.Sort(lags)
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "writes/s")
	b.ReportMetric(float64(lags[len(lags)/2].Milliseconds()), "p50-ms")
	b.ReportMetric(float64(lags[len(lags)*99/100].Milliseconds()), "p99-ms")
}

// TestLikes_Coalesced likes one post a thousand times within about a second while the projections run.
func TestLikes_Coalesced(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorldWith(t, store.Options{PollInterval: 100 * time.Millisecond}) // as embedded
		defer w.Start()()
		author := w.AddUser("author")
		p := w.AddPost(author, "popular")
		likers := make([]string, 1000)
		w.insert("users", len(likers), func(i int) (string, map[string]any) {
			likers[i] = fmt.Sprintf("liker-%d", i)
			return likers[i],
				map[string]any{"id": likers[i], "userId": likers[i], "type": "user", "username": likers[i],
					"creationDate": "2026-03-01T00:00:00.000Z", "revision": 1}
		})
		var writes sync.Map // of summaries, by container
		w.Wire.Intercept(func(r *http.Request) error {
			for _, container := range []string{"users", "feed"} {
				if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/colls/"+container+"/docs/"+p.ID) {
					n, _ := writes.LoadOrStore(container, new(atomic.Int32))
					n.(*atomic.Int32).Add(1)
				}
			}
			return nil
		})
		began := time.Now()
		var wg sync.WaitGroup
		var next atomic.Int64
		for range 16 {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < len(likers); i = int(next.Add(1)) - 1 {
					if _, _, err := w.LikePost(context.Background(), likers[i], p.ID); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		took := time.Since(began)
		testkit.Until(t, w.CaughtUp) // lists show the instance's own counts before
		testkit.Until(t, func() error {
			if f, u := w.AllFeed()[0].LikeCount, w.AllUserPosts(author)[0].LikeCount; f != 1000 || u != 1000 {
				return fmt.Errorf("%d and %d likes", f, u)
			}
			return nil
		})
		for _, container := range []string{"users", "feed"} {
			v, ok := writes.Load(container)
			if !ok {
				t.Fatalf("no writes of the summary in %s", container)
			}
			// On a slow machine the likes take longer than a second.
			n, limit := v.(*atomic.Int32).Load(), int32(20*max(1, took.Seconds()))
			t.Logf("%d writes of the summary in %s for 1,000 likes within %v", n, container, took)
			if n > limit {
				t.Errorf("got %d writes of the summary in %s, want at most %d", n, container, limit)
			}
		}
	})
}
