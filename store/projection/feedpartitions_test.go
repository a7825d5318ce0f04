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

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos/session"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/projection"
)

// withPartitions returns the world of an instance with k feed partitions.
func (w *world) withPartitions(k int) *world {
	w.T.Helper()
	v := *w.World
	var err error
	if v.Store, err = store.New(w.Account,
		store.Options{Database: w.Database, FeedPartitions: k, Clock: w.Clock.Now, PollInterval: time.Millisecond,
			Instance: "test"}); err != nil {
		w.T.Fatal(err)
	}
	return &world{&v}
}

// eachPartitionHas compares the titles in each of k partitions of the feed.
func (w *world) eachPartitionHas(k int, want []string) error {
	for i := range k {
		if diff := cmp.Diff(want, w.FeedTitles(fmt.Sprintf("post.%d", i))); diff != "" {
			return fmt.Errorf("partition %d: %s", i, diff)
		}
	}
	return nil
}

// newestTitles returns the titles of the n posts before post number.
func newestTitles(number, n int) (all []string) {
	for i := number - 1; len(all) < n; i-- {
		all = append(all, fmt.Sprintf("post %d", i))
	}
	return all
}

// recordReads records the partitions of feed queries. The returned function returns and clears them.
func (w *world) recordReads() func() []string {
	var mu sync.Mutex
	var all []string
	w.Wire.After(func(resp *http.Response) {
		r := resp.Request
		if strings.HasSuffix(r.URL.Path, "/colls/feed/docs") && r.Header.Get("x-ms-documentdb-query") != "" &&
			!session.IsBehind(resp) {
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

// Each partition has the whole feed, and is trimmed and refilled like that of a feed with a single partition.
func TestFeedPartitions(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.Run(t, func(t *testing.T) {
		const k = 2
		w := newWorld(t).withPartitions(k)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		first := w.AddPost(ada, "post 0")
		if err := w.eachPartitionHas(k, []string{"post 0"}); err != nil {
			t.Fatalf("a new post is not shown at once: %v", err)
		}
		if _, err := w.EditPost(t.Context(), ada.UserID, first.ID, store.PostEdit{Title: new("edited")}); err != nil {
			t.Fatal(err)
		}
		if err := w.eachPartitionHas(k, []string{"edited"}); err != nil {
			t.Fatalf("an edit is not shown at once: %v", err)
		}
		if err := w.DeletePost(t.Context(), ada.UserID, first.ID); err != nil {
			t.Fatal(err)
		}
		if err := w.eachPartitionHas(k, nil); err != nil {
			t.Fatalf("a delete is not shown at once: %v", err)
		}

		defer w.Start()()
		posts := []*blog.Post{first}
		for i := 1; i < 165; i++ {
			posts = append(posts, w.AddPost(ada, fmt.Sprintf("post %d", i)))
		}
		testkit.Until(t, func() error { return w.eachPartitionHas(k, newestTitles(165, 150)) })
		w.AddLike(grace, posts[164])
		testkit.Until(t, func() error {
			if found := w.Differences(0); found != nil {
				return fmt.Errorf("%+v", found)
			}
			return nil
		})
		for i := 164; i >= 136; i-- { // more than the margin
			if err := w.DeletePost(t.Context(), ada.UserID, posts[i].ID); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Until(t, func() error {
			for i := range k {
				got := w.FeedTitles(fmt.Sprintf("post.%d", i))
				if len(got) < 125 || !slices.Equal(got, newestTitles(136, len(got))) {
					return fmt.Errorf("partition %d: %v", i, got)
				}
			}
			return nil
		})
		if got := w.FeedTitles("post"); got != nil {
			t.Errorf("got %d entries in the partition of a single-partition feed, want 0", len(got))
		}
	})
}

// Readers pick a random partition, and read later pages from the same one.
func TestFeedPartitions_Readers(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	four := w.withPartitions(4)
	for i := range 20 {
		four.AddPost(ada, fmt.Sprintf("post %d", i))
	}
	reads := w.recordReads()
	picked := map[string]int{}
	for range 100 {
		if diff := cmp.Diff(newestTitles(20, 20), storetest.Titles(storetest.All(t, 7, four.Feed))); diff != "" {
			t.Fatal(diff)
		}
		pages := reads()
		if len(pages) != 3 || pages[0] != pages[1] || pages[0] != pages[2] {
			t.Fatalf("the pages came from %v, want 3 from one partition", pages)
		}
		picked[pages[0]]++
	}
	if len(picked) != 4 {
		t.Errorf("100 readers picked %v, want all 4 partitions", picked)
	}

	// A cursor stays valid after changes of the number of partitions.
	for _, from := range []int{1, 4, 64} {
		for _, to := range []int{1, 2, 64} {
			a, b := w.withPartitions(from), w.withPartitions(to)
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

// After a change of the number of partitions, FillFeed copies the feed, Verify finds differences and Repair
// fixes them. A feed with several partitions needs the option.
func TestFeedPartitions_NumberChanges(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		var posts []*blog.Post
		for i := range 40 {
			posts = append(posts, w.AddPost(ada, fmt.Sprintf("post %d", i)))
		}
		fill := func(k int) *world {
			t.Helper()
			v := w.withPartitions(k)
			if err := v.Views().FillFeed(t.Context()); err != nil {
				t.Fatal(err)
			}
			return v
		}
		reads := w.recordReads()
		fill(0)
		if n, ranges := len(reads()), w.Ranges("feed"); n != ranges {
			t.Errorf("an unchanged number took %d queries, want one for each of %d ranges", n, ranges)
		}

		four := fill(4)
		if err := four.eachPartitionHas(4, newestTitles(40, 40)); err != nil {
			t.Fatal(err)
		}
		if got := w.FeedTitles("post"); len(got) != 40 {
			t.Errorf("got %d entries in the old partition, which others still read, want 40", len(got))
		}
		storetest.WantCode(t, w.Views().FillFeed(t.Context()), blog.Conflict, "feedPartitions")
		storetest.WantCode(t, w.Views().Rebuild(t.Context()), blog.Conflict, "feedPartitions")
		storetest.WantCode(t, w.Views().Verify(t.Context(), 0, func(int, int) {
			t.Error("verify has read items before the conflict")
		}, nil), blog.Conflict, "feedPartitions")
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
		// Changes go to the four partitions; the old one falls behind.
		stop := four.Start()
		if err := four.DeletePost(t.Context(), ada.UserID, posts[30].ID); err != nil {
			t.Fatal(err)
		}
		if _, err := four.EditPost(t.Context(), ada.UserID, posts[31].ID,
			store.PostEdit{Title: new("edited")}); err != nil {
			t.Fatal(err)
		}
		four.AddPost(ada, "post 40")
		want := slices.DeleteFunc(newestTitles(41, 41), func(title string) bool { return title == "post 30" })
		want[slices.Index(want, "post 31")] = "edited"
		testkit.Until(t, four.CaughtUp)
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
		one := fill(1)
		shows(one)
		for _, d := range repair(one) {
			if d.Kind != projection.FeedEntry || !strings.HasPrefix(d.Partition, "post.") || d.Want != "absent" {
				t.Errorf("%+v", d)
			}
		}
		if err := w.eachPartitionHas(4, nil); err != nil {
			t.Errorf("unused partitions are not deleted: %v", err)
		}
		shows(fill(0))
		shows(fill(2))
		repair(w.withPartitions(2))
		shows(fill(2))
		if got := w.FeedTitles("post"); got != nil {
			t.Errorf("%d entries are left over", len(got))
		}
		// Repair alone also fills new partitions.
		repair(w.withPartitions(3))
		shows(w.withPartitions(3))

		_, err := store.New(w.Account, store.Options{Database: w.Database, FeedPartitions: blog.MaxFeedPartitions + 1})
		storetest.WantCode(t, err, blog.Invalid, "feedPartitions")
	})
}

// If the feed has more than blog.FeedKept entries, before it is trimmed, FillFeed copies the newest.
func TestFillFeed_NewestPosts(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	for i := range 155 {
		w.AddPost(ada, fmt.Sprintf("post %d", i))
	}
	two := w.withPartitions(2)
	if err := two.Views().FillFeed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := two.eachPartitionHas(2, newestTitles(155, 150)); err != nil {
		t.Error(err)
	}
}

func TestFeedPartitions_Import(t *testing.T) {
	w := newWorld(t).withPartitions(2)
	var posts []*blog.Post
	for i := range 155 {
		posts = append(posts,
			&blog.Post{ID: fmt.Sprintf("post-%d", i), Byline: blog.Byline{UserID: "ada", Username: "ada"},
				Title:     fmt.Sprintf("post %d", i),
				CreatedAt: blog.NewDate(w.Clock.Now()), Version: 1, Revision: 1})
	}
	if err := w.ImportFeed(t.Context(), posts); err != nil {
		t.Fatal(err)
	}
	if err := w.eachPartitionHas(2, newestTitles(155, 150)); err != nil {
		t.Error(err)
	}
}

// Verify finds differences in any partition, and Repair and Rebuild fix them.
func TestFeedPartitions_VerifyRepairRebuild(t *testing.T) {
	const k = 4
	for _, how := range []string{"repair", "rebuild"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t).withPartitions(k)
			ada := w.AddUser("ada")
			var posts []*blog.Post
			var want []string
			for i := range 12 {
				posts = append(posts, w.AddPost(ada, fmt.Sprintf("post %d", i)))
				want = append([]string{posts[i].Title}, want...)
			}
			stop := w.Start()
			testkit.Until(t, w.CaughtUp)
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
			if diff := cmp.Diff(map[string]int{"post.0": 1, "post.1": 2, "post.2": 2, "post.3": 12, "post.7": 1},
				partitions); diff != "" {
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
			if err := w.eachPartitionHas(k, want); err != nil {
				t.Error(err)
			}
		})
	}
}

// A partition that cannot be written does not delay the others, and catches up later.
func TestFeedPartitions_OneThrottled(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		const k = 4
		w := newWorld(t).withPartitions(k)
		w.Wire.Intercept(func(r *http.Request) error {
			if strings.Contains(r.URL.Path, "/colls/feed/docs") &&
				r.Header.Get("x-ms-documentdb-partitionkey") == `["post.1"]` {
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
			testkit.Until(t, func() error { return entry(i) })
		}
		w.Wire.Intercept(nil)
		testkit.Until(t, func() error { return entry(1) })
	})
}

// The next FillFeed completes an interrupted one.
func TestFillFeed_Interrupted(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	two := w.withPartitions(2)
	for i := range 40 {
		two.AddPost(ada, fmt.Sprintf("post %d", i))
	}
	var written atomic.Int32 // in the last partition
	w.Wire.Intercept(func(r *http.Request) error {
		if r.Header.Get("x-ms-documentdb-partitionkey") == `["post.3"]` && r.Method == http.MethodPost &&
			written.Add(1) > 1 {
			return errors.New("killed")
		}
		return nil
	})
	if err := w.withPartitions(4).Views().FillFeed(t.Context()); err == nil {
		t.Fatal("FillFeed was not interrupted")
	}
	w.Wire.Intercept(nil)
	again := w.withPartitions(4)
	if err := again.Views().FillFeed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := again.eachPartitionHas(4, newestTitles(40, 40)); err != nil {
		t.Error(err)
	}
}

// Foreign items in the feed container do not count as a missing partition.
func TestFillFeed_ForeignItems(t *testing.T) {
	w := newWorld(t)
	w.AddPost(w.AddUser("ada"), "post 0")
	w.Upsert("feed", "other", `{"id":"x","type":"other"}`)
	two := w.withPartitions(2)
	if err := two.Views().FillFeed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := two.eachPartitionHas(2, []string{"post 0"}); err != nil {
		t.Error(err)
	}
}

// FillFeed updates old partitions of an earlier configuration that were not removed.
func TestFillFeed_EarlierPartitionNumber(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		four := w.withPartitions(4)
		var posts []*blog.Post
		for i := range 10 {
			posts = append(posts, four.AddPost(ada, fmt.Sprintf("post %d", i)))
		}
		two := w.withPartitions(2)
		if err := two.Views().FillFeed(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop := two.Start()
		if err := two.DeletePost(t.Context(), ada.UserID, posts[3].ID); err != nil {
			t.Fatal(err)
		}
		two.AddPost(ada, "post 10")
		testkit.Until(t, two.CaughtUp)
		stop()
		back := w.withPartitions(4)
		if err := back.Views().FillFeed(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := slices.DeleteFunc(newestTitles(11, 11), func(title string) bool { return title == "post 3" })
		if err := back.eachPartitionHas(4, want); err != nil {
			t.Error(err)
		}
		reads, ranges := 0, w.Ranges("feed")
		w.Wire.After(func(r *http.Response) {
			if !session.IsBehind(r) {
				reads++
			}
		})
		if err := back.Views().FillFeed(t.Context()); err != nil || reads > 2+ranges {
			t.Errorf("got %d requests for an unchanged feed, want at most %d: %v", reads, 2+ranges, err)
		}
	})
}

// A post that is deleted or changed while FillFeed runs is also deleted or changed in the new partitions.
func TestFillFeed_ConcurrentDelete(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	two := w.withPartitions(2)
	var posts []*blog.Post
	for i := range 10 {
		posts = append(posts, two.AddPost(ada, fmt.Sprintf("post %d", i)))
	}
	var intercepted sync.Once
	w.Wire.Intercept(func(r *http.Request) error {
		if r.Header.Get("x-ms-documentdb-partitionkey") == `["post.2"]` && r.Method == http.MethodPost &&
			r.Header.Get("x-ms-documentdb-query") == "" {
			intercepted.Do(func() {
				if err := two.DeletePost(t.Context(), ada.UserID, posts[0].ID); err != nil {
					t.Error(err)
				}
				two.AddLike(ada, posts[1])
				stop := two.Start()
				testkit.Until(t, two.CaughtUp)
				stop()
			})
		}
		return nil
	})
	four := w.withPartitions(4)
	if err := four.Views().FillFeed(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Wire.Intercept(nil)
	if err := four.eachPartitionHas(4, newestTitles(10, 9)); err != nil {
		t.Error(err)
	}
	for _, d := range four.Differences(0) {
		t.Errorf("%+v", d)
	}
}
