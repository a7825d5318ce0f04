package projection_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"

	"byline/internal/longtest"
	"byline/internal/waittest"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/projection"
)

// spread returns the world as an instance sees it whose feed has k partitions.
func (w *world) spread(k int) *world {
	w.T.Helper()
	v := *w.World
	var err error
	if v.Store, err = store.New(w.Account, store.Options{Database: w.Database, FeedPartitions: k, Clock: w.Clock.Now, PollInterval: time.Millisecond, Instance: "test"}); err != nil {
		w.T.Fatal(err)
	}
	return &world{&v}
}

// inAll compares what is in each of k partitions of the feed.
func (w *world) inAll(k int, want []string) error {
	for i := range k {
		if diff := cmp.Diff(want, w.FeedTitles(fmt.Sprintf("post.%d", i))); diff != "" {
			return fmt.Errorf("partition %d: %s", i, diff)
		}
	}
	return nil
}

// newestTitles are those of n posts before the one of a number.
func newestTitles(number, n int) (all []string) {
	for i := number - 1; len(all) < n; i-- {
		all = append(all, fmt.Sprintf("post %d", i))
	}
	return all
}

// reads notes which partition of the feed each query of it reads.
func (w *world) reads() func() []string {
	var mu sync.Mutex
	var all []string
	w.Wire.After(func(resp *http.Response) {
		r := resp.Request
		if strings.HasSuffix(r.URL.Path, "/colls/feed/docs") && r.Header.Get("x-ms-documentdb-query") != "" && !storetest.Refused(resp) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, strings.Trim(r.Header.Get("x-ms-documentdb-partitionkey"), `[]"`))
		}
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		was := all
		all = nil
		return was
	}
}

// Each partition has all of the feed: it is trimmed and filled up like the one of a
// feed that is not spread.
func TestFeedPartitions(t *testing.T) {
	longtest.Heavy(t)
	cosmostest.Run(t, func(t *testing.T) {
		const k = 2
		w := newWorld(t).spread(k)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		first := w.AddPost(ada, "post 0")
		if err := w.inAll(k, []string{"post 0"}); err != nil {
			t.Fatalf("an own write does not show at once: %v", err)
		}
		if _, err := w.EditPost(t.Context(), ada.ID, first.ID, store.PostEdit{Title: new("edited")}); err != nil {
			t.Fatal(err)
		}
		if err := w.inAll(k, []string{"edited"}); err != nil {
			t.Fatalf("an own edit does not show at once: %v", err)
		}
		if err := w.DeletePost(t.Context(), ada.ID, first.ID); err != nil {
			t.Fatal(err)
		}
		if err := w.inAll(k, nil); err != nil {
			t.Fatalf("an own delete does not show at once: %v", err)
		}

		defer w.Start()()
		posts := []*blog.Post{first}
		for i := 1; i < 165; i++ {
			posts = append(posts, w.AddPost(ada, fmt.Sprintf("post %d", i)))
		}
		waittest.Until(t, func() error { return w.inAll(k, newestTitles(165, 150)) })
		w.AddLike(grace, posts[164])
		waittest.Until(t, func() error {
			if found := w.Differences(0); found != nil {
				return fmt.Errorf("%+v", found)
			}
			return nil
		})
		for i := 164; i >= 136; i-- { // more than the margin
			if err := w.DeletePost(t.Context(), ada.ID, posts[i].ID); err != nil {
				t.Fatal(err)
			}
		}
		waittest.Until(t, func() error {
			for i := range k {
				got := w.FeedTitles(fmt.Sprintf("post.%d", i))
				if len(got) < 125 || !slices.Equal(got, newestTitles(136, len(got))) {
					return fmt.Errorf("partition %d: %v", i, got)
				}
			}
			return nil
		})
		if got := w.FeedTitles("post"); got != nil {
			t.Errorf("%d entries where a feed is that is not spread", len(got))
		}
	})
}

// Readers pick any partition; later pages are read from the partition of the first.
func TestFeedPartitions_Readers(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	four := w.spread(4)
	for i := range 20 {
		four.AddPost(ada, fmt.Sprintf("post %d", i))
	}
	reads := w.reads()
	picked := map[string]int{}
	for range 100 {
		if diff := cmp.Diff(newestTitles(20, 20), storetest.Titles(storetest.All(t, 7, four.Feed))); diff != "" {
			t.Fatal(diff)
		}
		pages := reads()
		if len(pages) != 3 || pages[0] != pages[1] || pages[0] != pages[2] {
			t.Fatalf("the pages came from %v", pages)
		}
		picked[pages[0]]++
	}
	if len(picked) != 4 {
		t.Errorf("in 100 times, readers picked %v", picked)
	}

	// A cursor outlives changes of the number.
	for _, from := range []int{1, 4, 64} {
		for _, to := range []int{1, 2, 64} {
			a, b := w.spread(from), w.spread(to)
			for _, v := range []*world{a, b} {
				if err := v.Views().FillFeed(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			page, err := a.Feed(t.Context(), store.Paging{First: 7})
			if err != nil {
				t.Fatal(err)
			}
			rest, err := b.Feed(t.Context(), store.Paging{First: 100, After: page.Cursor(6)})
			if err != nil {
				t.Fatalf("from %d to %d: %v", from, to, err)
			}
			if diff := cmp.Diff(newestTitles(13, 13), storetest.Titles(rest.Items)); diff != "" || rest.More {
				t.Errorf("from %d to %d: %s %v", from, to, diff, rest.More)
			}
		}
	}
}

// A change of the number of partitions is filled in before anybody reads, found by
// verify and fixed by repair; a feed with several partitions needs the option.
func TestFeedPartitions_NumberChanges(t *testing.T) {
	longtest.Heavy(t)
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		var posts []*blog.Post
		for i := range 40 {
			posts = append(posts, w.AddPost(ada, fmt.Sprintf("post %d", i)))
		}
		serve := func(k int) *world {
			t.Helper()
			v := w.spread(k)
			if err := v.Views().FillFeed(t.Context()); err != nil {
				t.Fatal(err)
			}
			return v
		}
		reads := w.reads()
		serve(0)
		if n, ranges := len(reads()), w.Ranges("feed"); n != ranges {
			t.Errorf("%d queries of %d ranges to find that nothing was changed", n, ranges)
		}

		four := serve(4)
		if err := four.inAll(4, newestTitles(40, 40)); err != nil {
			t.Fatal(err)
		}
		if got := w.FeedTitles("post"); len(got) != 40 {
			t.Errorf("what others still read is gone: %d entries", len(got))
		}
		storetest.WantCode(t, w.Views().FillFeed(t.Context()), blog.Conflict, "feedPartitions")
		storetest.WantCode(t, w.Views().Rebuild(t.Context()), blog.Conflict, "feedPartitions")
		storetest.WantCode(t, w.Views().Verify(t.Context(), 0, func(int, int) { t.Error("verify has read something before it is refused") }, nil), blog.Conflict, "feedPartitions")
		repair := func(w *world) (found []projection.Difference) {
			t.Helper()
			found = w.Differences(0)
			for _, d := range found {
				if err := w.Views().Repair(t.Context(), d); err != nil {
					t.Fatal(err)
				}
			}
			if left := w.Differences(0); left != nil {
				t.Fatalf("%d differences are left, such as %+v", len(left), left[0])
			}
			return found
		}
		// Life goes on with four; the one from before falls behind.
		stop := four.Start()
		if err := four.DeletePost(t.Context(), ada.ID, posts[30].ID); err != nil {
			t.Fatal(err)
		}
		if _, err := four.EditPost(t.Context(), ada.ID, posts[31].ID, store.PostEdit{Title: new("edited")}); err != nil {
			t.Fatal(err)
		}
		four.AddPost(ada, "post 40")
		want := slices.DeleteFunc(newestTitles(41, 41), func(title string) bool { return title == "post 30" })
		want[slices.Index(want, "post 31")] = "edited"
		waittest.Until(t, four.CaughtUp)
		stop()
		shows := func(w *world) {
			t.Helper()
			for range 10 {
				if diff := cmp.Diff(want, storetest.Titles(w.AllFeed())); diff != "" {
					t.Fatal(diff)
				}
			}
		}
		shows(four)
		one := serve(1)
		shows(one)
		for _, d := range repair(one) {
			if d.Kind != projection.FeedEntry || !strings.HasPrefix(d.Partition, "post.") || d.Want != "absent" {
				t.Errorf("%+v", d)
			}
		}
		if err := w.inAll(4, nil); err != nil {
			t.Errorf("what is not needed is still there: %v", err)
		}
		shows(serve(0))
		shows(serve(2))
		repair(w.spread(2))
		shows(serve(2))
		if got := w.FeedTitles("post"); got != nil {
			t.Errorf("%d entries are left over", len(got))
		}
		// Without anybody who fills it in first, repair alone does.
		repair(w.spread(3))
		shows(w.spread(3))

		_, err := store.New(w.Account, store.Options{Database: w.Database, FeedPartitions: blog.MaxFeedPartitions + 1})
		storetest.WantCode(t, err, blog.Invalid, "feedPartitions")
	})
}

// Of a feed that has more than it keeps, as it has until it is trimmed, the newest
// are filled in.
func TestFillFeed_NewestPosts(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	for i := range 155 {
		w.AddPost(ada, fmt.Sprintf("post %d", i))
	}
	two := w.spread(2)
	if err := two.Views().FillFeed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := two.inAll(2, newestTitles(155, 150)); err != nil {
		t.Error(err)
	}
}

func TestFeedPartitions_Import(t *testing.T) {
	w := newWorld(t).spread(2)
	var posts []*blog.Post
	for i := range 155 {
		posts = append(posts, &blog.Post{ID: fmt.Sprintf("post-%d", i), AuthorID: "ada", AuthorUsername: "ada", Title: fmt.Sprintf("post %d", i),
			CreatedAt: blog.NewDate(w.Clock.Now()), Version: 1, Revision: 1})
	}
	if err := w.ImportFeed(t.Context(), posts); err != nil {
		t.Fatal(err)
	}
	if err := w.inAll(2, newestTitles(155, 150)); err != nil {
		t.Error(err)
	}
}

// What differs in any partition is found, and fixed by repair and by rebuild.
func TestFeedPartitions_VerifyRepairRebuild(t *testing.T) {
	const k = 4
	for _, how := range []string{"repair", "rebuild"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t).spread(k)
			ada := w.AddUser("ada")
			var posts []*blog.Post
			var want []string
			for i := range 12 {
				posts = append(posts, w.AddPost(ada, fmt.Sprintf("post %d", i)))
				want = append([]string{posts[i].Title}, want...)
			}
			stop := w.Start()
			waittest.Until(t, w.CaughtUp)
			stop()
			w.Remove("feed", "post.0", posts[3].ID)
			w.Corrupt("feed", "post.1", posts[4].ID, "/title", "not the title")
			w.Corrupt("feed", "post.2", posts[5].ID, "/revision", 1_000)
			w.Corrupt("feed", "post.2", posts[7].ID, "/deleted", true)
			for _, p := range posts {
				w.Remove("feed", "post.3", p.ID)
			}
			stray := `{"id":"%s","userId":"x","postId":"x","type":"%s","title":"stray","content":"x","truncated":false,"userUsername":"x","commentCount":0,"likeCount":0,"creationDate":"2027-01-01T00:00:00.000Z","version":1,"revision":1}`
			w.Upsert("feed", "post.1", fmt.Sprintf(stray, "never-was", "post.1"))
			w.Upsert("feed", "post.7", fmt.Sprintf(stray, posts[6].ID, "post.7"))
			found := w.Differences(0)
			partitions := map[string]int{}
			for _, d := range found {
				if d.Kind != projection.FeedEntry {
					t.Errorf("%+v", d)
				}
				partitions[d.Partition]++
			}
			if diff := cmp.Diff(map[string]int{"post.0": 1, "post.1": 2, "post.2": 2, "post.3": 12, "post.7": 1}, partitions); diff != "" {
				t.Fatal(diff)
			}
			if how == "repair" {
				for _, d := range found {
					if err := w.Views().Repair(t.Context(), d); err != nil {
						t.Errorf("%+v: %v", d, err)
					}
				}
			} else {
				if err := w.Views().Rebuild(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.Start()
				w.Rebuilt()
			}
			if found := w.Differences(0); found != nil {
				t.Errorf("%+v", found)
			}
			if err := w.inAll(k, want); err != nil {
				t.Error(err)
			}
		})
	}
}

// A partition that cannot be written is late alone, and catches up.
func TestFeedPartitions_OneThrottled(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		const k = 4
		w := newWorld(t).spread(k)
		w.Wire.Intercept(func(r *http.Request) error {
			if strings.Contains(r.URL.Path, "/colls/feed/docs") && r.Header.Get("x-ms-documentdb-partitionkey") == `["post.1"]` {
				return errors.New("busy")
			}
			return nil
		})
		ada := w.AddUser("ada")
		p := w.AddPost(ada, "one")
		w.AddLike(ada, p)
		defer w.Start()()
		entry := func(i int) error {
			c, err := w.Client.NewContainer(w.Database, "feed")
			if err != nil {
				return err
			}
			r, err := c.ReadItem(t.Context(), azcosmos.NewPartitionKeyString(fmt.Sprintf("post.%d", i)), p.ID, nil)
			if err != nil {
				return err
			}
			if !strings.Contains(string(r.Value), `"likeCount":1`) {
				return fmt.Errorf("partition %d has %s", i, r.Value)
			}
			return nil
		}
		for _, i := range []int{0, 2, 3} {
			waittest.Until(t, func() error { return entry(i) })
		}
		w.Wire.Intercept(nil)
		waittest.Until(t, func() error { return entry(1) })
	})
}

// A start that was interrupted while it filled new partitions is gone on with by the next.
func TestFillFeed_Interrupted(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	two := w.spread(2)
	for i := range 40 {
		two.AddPost(ada, fmt.Sprintf("post %d", i))
	}
	var written atomic.Int32 // in the last partition
	w.Wire.Intercept(func(r *http.Request) error {
		if r.Header.Get("x-ms-documentdb-partitionkey") == `["post.3"]` && r.Method == http.MethodPost && written.Add(1) > 1 {
			return errors.New("killed")
		}
		return nil
	})
	if err := w.spread(4).Views().FillFeed(t.Context()); err == nil {
		t.Fatal("not interrupted")
	}
	w.Wire.Intercept(nil)
	again := w.spread(4)
	if err := again.Views().FillFeed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := again.inAll(4, newestTitles(40, 40)); err != nil {
		t.Error(err)
	}
}

// What others keep beside the feed does not stand in for a partition that is missing.
func TestFillFeed_ForeignItems(t *testing.T) {
	w := newWorld(t)
	w.AddPost(w.AddUser("ada"), "post 0")
	w.Upsert("feed", "other", `{"id":"x","type":"other"}`)
	two := w.spread(2)
	if err := two.Views().FillFeed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := two.inAll(2, []string{"post 0"}); err != nil {
		t.Error(err)
	}
}

// Partitions that the feed had long ago, and that nobody has removed, are brought up to date.
func TestFillFeed_BackToAnEarlierNumber(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		four := w.spread(4)
		var posts []*blog.Post
		for i := range 10 {
			posts = append(posts, four.AddPost(ada, fmt.Sprintf("post %d", i)))
		}
		two := w.spread(2)
		if err := two.Views().FillFeed(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop := two.Start()
		if err := two.DeletePost(t.Context(), ada.ID, posts[3].ID); err != nil {
			t.Fatal(err)
		}
		two.AddPost(ada, "post 10")
		waittest.Until(t, two.CaughtUp)
		stop()
		back := w.spread(4)
		if err := back.Views().FillFeed(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(newestTitles(11, 11), func(title string) bool { return title == "post 3" })
		if err := back.inAll(4, want); err != nil {
			t.Error(err)
		}
		reads, ranges := 0, w.Ranges("feed")
		w.Wire.After(func(r *http.Response) {
			if !storetest.Refused(r) {
				reads++
			}
		})
		if err := back.Views().FillFeed(t.Context()); err != nil || reads > 2+ranges {
			t.Errorf("%d requests when nothing has changed, %v", reads, err)
		}
	})
}

// A post that is deleted or changed while new partitions are filled is so in them, too.
func TestFillFeed_ConcurrentDelete(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	two := w.spread(2)
	var posts []*blog.Post
	for i := range 10 {
		posts = append(posts, two.AddPost(ada, fmt.Sprintf("post %d", i)))
	}
	var met sync.Once
	w.Wire.Intercept(func(r *http.Request) error {
		if r.Header.Get("x-ms-documentdb-partitionkey") == `["post.2"]` && r.Method == http.MethodPost && r.Header.Get("x-ms-documentdb-query") == "" {
			met.Do(func() {
				if err := two.DeletePost(t.Context(), ada.ID, posts[0].ID); err != nil {
					t.Error(err)
				}
				two.AddLike(ada, posts[1])
				stop := two.Start()
				waittest.Until(t, two.CaughtUp)
				stop()
			})
		}
		return nil
	})
	four := w.spread(4)
	if err := four.Views().FillFeed(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Wire.Intercept(nil)
	if err := four.inAll(4, newestTitles(10, 9)); err != nil {
		t.Error(err)
	}
	for _, d := range four.Differences(0) {
		t.Errorf("%+v", d)
	}
}
