package store_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// home returns the titles of a user's home feed, in pages of two.
func (w *world) home(u *blog.User) string {
	w.T.Helper()
	return homeOf(w.T, w.Store, u)
}

func homeOf(t testing.TB, s *store.Store, u *blog.User) string {
	t.Helper()
	var titles []string
	for p := (store.Paging{First: 2}); ; {
		page, err := s.Home(t.Context(), u.UserID, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, post := range page.Items {
			titles = append(titles, post.Title)
		}
		if !page.More {
			return strings.Join(titles, " ")
		}
		p.After = page.End()
	}
}

func TestHome(t *testing.T) {
	for name, runs := range map[string]bool{"with the index": true, "without a tail": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if runs {
				w.Start()
			}
			ada, bob, eve := w.AddUser("ada"), w.AddUser("bob"), w.AddUser("eve")
			if got := w.home(ada); got != "" {
				t.Errorf("without follows: %s", got)
			}
			for _, title := range []string{"b1", "b2", "b3"} {
				w.AddPost(bob, title)
				w.AddPost(eve, "e"+title[1:])
			}
			if _, err := w.FollowUser(t.Context(), ada.UserID, bob.UserID); err != nil {
				t.Fatal(err)
			}
			if got := w.home(ada); got != "b3 b2 b1" {
				t.Errorf("of one author: %s", got)
			}
			if _, err := w.FollowUser(t.Context(), ada.UserID, eve.UserID); err != nil {
				t.Fatal(err)
			}
			if got := w.home(ada); got != "e3 b3 e2 b2 e1 b1" {
				t.Errorf("of two authors: %s", got)
			}
			if _, err := w.UnfollowUser(t.Context(), ada.UserID, bob.UserID); err != nil {
				t.Fatal(err)
			}
			w.AddPost(eve, "e4")
			w.AddPost(bob, "b4")
			if got := w.home(ada); got != "e4 e3 e2 e1" {
				t.Errorf("after the end of a follow: %s", got)
			}
			if runs {
				testkit.Until(t, w.CaughtUp)
			}
		})
	}
}

// instance returns another store of the world's database on an account of its own, which runs.
func (w *world) instance(name string, cacheBytes int, o store.Options) *store.Store {
	w.T.Helper()
	o.Database, o.Instance, o.Clock, o.Logger = w.Database, name, w.Clock.Now, testkit.Logger()
	o.PollInterval, o.RenameCooldown = cmp.Or(o.PollInterval, 10*time.Millisecond), time.Millisecond
	s, err := store.New(w.NewAccount(cosmos.Options{CacheBytes: cacheBytes}), o)
	if err != nil {
		w.T.Fatal(err)
	}
	other := &storetest.World{T: w.T, Store: s}
	other.Start()
	return s
}

// recentPosts returns how many posts the index of a store has.
func recentPosts(s *store.Store) int {
	n, _ := store.Recent(s)
	return n
}

// addFollows writes items of a user's follows of n authors, who need not exist, as the views have them.
func (w *world) addFollows(u *blog.User, authors ...string) {
	w.T.Helper()
	c, err := w.Client.NewContainer(w.Database, blog.UsersContainer)
	if err != nil {
		w.T.Fatal(err)
	}
	for ids := range slices.Chunk(authors, 100) {
		b := c.NewTransactionalBatch(azcosmos.NewPartitionKeyString(u.UserID))
		for _, id := range ids {
			b.CreateItem(blog.Encode(blog.NewFollow(id, u.Byline, blog.NewDate(storetest.Epoch()), 1).Following()), nil)
		}
		if r, err := c.ExecuteTransactionalBatch(w.T.Context(), b, nil); err != nil || !r.Success {
			w.T.Fatal(err)
		}
	}
}

func unknownAuthors(n int) (ids []string) {
	for i := range n {
		ids = append(ids, blog.UserID("unknown", fmt.Sprint(i)))
	}
	return ids
}

// A page of 20 that is not cached takes a query and a batch. One that is cached takes nothing. The query costs 0.0245
// RU for each follow, whose item has some 440 bytes with Cosmos DB's own properties; the batch 4.4 RU.
func TestHome_Costs(t *testing.T) {
	cosmostest.NeedsEngine(t, "its charges")
	for follows, limit := range map[int]float64{50: 8, 200: 12, 2000: 56} {
		t.Run(fmt.Sprint(follows), func(t *testing.T) {
			w := newWorld(t)
			ada, bob := w.AddUser("ada"), w.AddUser("bob")
			for i := range 30 {
				if _, err := w.CreatePost(t.Context(), store.NewPost{AuthorID: bob.UserID, Title: fmt.Sprint("post ", i),
					Content: strings.Repeat("text ", 270)}); err != nil {
					t.Fatal(err)
				}
			}
			w.addFollows(ada, append(unknownAuthors(follows-1), bob.UserID)...)
			reader := w.AddUser("reader")
			w.addFollows(reader, bob.UserID)
			s := w.instance("cached", 8<<20, store.Options{})
			if got := len(strings.Fields(homeOf(t, s, reader))); got != 60 { // loads the index
				t.Fatalf("got %d words, want those of 30 titles", got)
			}
			uncached := w.instance("uncached", 0, store.Options{})
			testkit.Until(t, func() error { // its tail begins
				_, err := uncached.Home(t.Context(), reader.UserID, store.Paging{First: 20})
				if err == nil && recentPosts(uncached) == 0 {
					err = fmt.Errorf("no index")
				}
				return err
			})
			countRequests(w)
			for name, of := range map[string]*store.Store{"uncached": uncached, "cached": s} {
				read := func() *requested {
					r := &requested{}
					page, err := of.Home(r.in(t.Context()), ada.UserID, store.Paging{First: 20})
					if err != nil || len(page.Items) != 20 || !page.More {
						t.Fatalf("%d posts, more: %t, %v", len(page.Items), page.More, err)
					}
					return r
				}
				read()
				r := read()
				t.Logf("%s: %.2f RU, %d queries, %d batches", name, r.ru, r.queries, r.batches)
				if name == "cached" && r.all() > 0 {
					t.Errorf("%s: %d requests", name, r.all())
				}
				if name == "uncached" && (r.queries != 1 || r.batches != 1 || r.all() != 2 || r.ru > limit) {
					t.Errorf("%s: %d queries, %d batches, %d requests, %.2f RU; want 1, 1, 2 and at most %g RU", name,
						r.queries, r.batches, r.all(), r.ru, limit)
				}
			}
		})
	}
}

// A post costs what it costs without followers, whatever their number.
func TestHome_NoFanOut(t *testing.T) {
	cosmostest.NeedsEngine(t, "its charges")
	w := newWorld(t)
	w.Start()
	bob := w.AddUser("bob")
	publish := func() float64 {
		r := &requested{}
		if _, err := w.CreatePost(r.in(t.Context()), store.NewPost{AuthorID: bob.UserID, Title: "post", Content: "text"}); err != nil {
			t.Fatal(err)
		}
		return r.ru
	}
	publish() // the first one of the blog also creates the timeline
	alone := publish()
	for i := range 50 {
		if _, err := w.FollowUser(t.Context(), w.AddUser(fmt.Sprint("user", i)).UserID, bob.UserID); err != nil {
			t.Fatal(err)
		}
	}
	if followed := publish(); followed > 1.01*alone || followed < .99*alone {
		t.Errorf("%.2f RU with followers, %.2f without", followed, alone)
	}
}

// A follow through one instance is in the next page of that instance, and in those of others once the view has it.
func TestHome_FollowsElsewhere(t *testing.T) {
	w := newWorld(t)
	one, two := w.instance("one", 1<<20, store.Options{}), w.instance("two", 1<<20, store.Options{})
	ada, bob := w.AddUser("ada"), w.AddUser("bob")
	w.AddPost(bob, "b1")
	for range 3 {
		if got := homeOf(t, two, ada); got != "" { // and caches it
			t.Fatalf("before: %s", got)
		}
		if _, err := one.FollowUser(t.Context(), ada.UserID, bob.UserID); err != nil {
			t.Fatal(err)
		}
		if got := homeOf(t, one, ada); got != "b1" {
			t.Errorf("after a follow here: %q", got)
		}
		untilTrue(t, "a follow elsewhere is not known", func() bool { return homeOf(t, two, ada) == "b1" })
		if _, err := one.UnfollowUser(t.Context(), ada.UserID, bob.UserID); err != nil {
			t.Fatal(err)
		}
		if got := homeOf(t, one, ada); got != "" {
			t.Errorf("after the end of a follow here: %q", got)
		}
		untilTrue(t, "the end of a follow elsewhere is not known", func() bool { return homeOf(t, two, ada) == "" })
	}
}

// A repetition of a follow, and of its end, is seen by the next page of the instance that has read the follow, although
// another one has written it, and no view has it.
func TestHome_FollowRepeated(t *testing.T) {
	for _, count := range []int{1, blog.MaxFollowed} {
		w := newWorld(t)
		ada, bob := w.AddUser("ada"), w.AddUser("bob")
		w.AddPost(bob, "b1")
		if _, err := w.FollowUser(t.Context(), ada.UserID, bob.UserID); err != nil {
			t.Fatal(err)
		}
		w.Corrupt(blog.UsersContainer, ada.UserID, ada.UserID, "/followingCount", count)
		other, err := store.New(w.NewAccount(cosmos.Options{}), store.Options{Database: w.Database, Clock: w.Clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.FollowUser(t.Context(), ada.UserID, bob.UserID); err != nil {
			t.Fatal(err)
		}
		if got := homeOf(t, other, ada); got != "b1" {
			t.Errorf("who follows %d: %q", count, got)
		}
		if _, err := w.UnfollowUser(t.Context(), ada.UserID, bob.UserID); err != nil {
			t.Fatal(err)
		}
		if _, err := other.UnfollowUser(t.Context(), ada.UserID, bob.UserID); err != nil {
			t.Fatal(err)
		}
		if got := homeOf(t, other, ada); got != "" {
			t.Errorf("after the end: %q", got)
		}
	}
}

// A follow whose response is lost, and its end, are seen by the next page.
func TestHome_FollowResponseLost(t *testing.T) {
	w := newWorld(t)
	ada, bob := w.AddUser("ada"), w.AddUser("bob")
	w.AddPost(bob, "b1")
	for _, change := range []struct {
		do   func(context.Context, string, string) (*blog.User, error)
		want string
	}{{w.FollowUser, "b1"}, {w.UnfollowUser, ""}} {
		w.lossy(false).armed.Store(true)
		if _, err := change.do(t.Context(), ada.UserID, bob.UserID); err != nil {
			t.Fatal(err)
		}
		if got := w.home(ada); got != change.want {
			t.Errorf("got %q, want %q", got, change.want)
		}
	}
}

// While the change feed cannot be read, a page has the posts of other instances nevertheless.
func TestHome_TailFails(t *testing.T) {
	for name, cacheBytes := range map[string]int{"with a cache": 1 << 20, "without a cache": 0} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			ada, bob := w.AddUser("ada"), w.AddUser("bob")
			w.AddPost(bob, "b1")
			w.addFollows(ada, append(unknownAuthors(100), bob.UserID)...)
			s := w.instance("reader", cacheBytes, store.Options{})
			untilTrue(t, "the index is not used", func() bool { return homeOf(t, s, ada) == "b1" && recentPosts(s) == 1 })
			w.Inject(func(o faulttest.Operation) faulttest.Response {
				if o.Kind != faulttest.ChangeFeed {
					return faulttest.Response{}
				}
				return faulttest.Response{Status: http.StatusServiceUnavailable}
			})
			w.AddPost(bob, "b2")
			untilTrue(t, "the post of another instance is missing", func() bool { return homeOf(t, s, ada) == "b2 b1" })
			w.Inject(nil)
		})
	}
}

// An entry that the projections create long after the post is in the next pages, although nothing else reports it.
func TestHome_LateEntry(t *testing.T) {
	w := newWorld(t)
	ada, bob := w.AddUser("ada"), w.AddUser("bob")
	w.AddPost(bob, "b1")
	late := w.AddPost(bob, "b2")
	stop := w.Start() // so that the reader projects nothing
	testkit.Until(t, w.CaughtUp)
	stop()
	partition := blog.AllPosts.Partition(late.CreatedAt.Month())
	w.Remove(blog.FeedContainer, partition, late.ID)
	w.addFollows(ada, append(unknownAuthors(100), bob.UserID)...)
	s := w.instance("reader", 1<<20, store.Options{})
	untilTrue(t, "the index is not used", func() bool { return homeOf(t, s, ada) == "b1" && recentPosts(s) == 1 })
	w.load(blog.FeedContainer, partition, 1, func(int) []byte {
		return blog.Encode(blog.NewEntry(late, blog.AllPosts))
	})
	untilTrue(t, "the post is missing", func() bool { return homeOf(t, s, ada) == "b2 b1" })
}

// A deleted author disappears from home feeds at once, before any of the posts is deleted.
func TestHome_DeletedAuthor(t *testing.T) {
	w := newWorld(t)
	s := w.instance("reader", 1<<20, store.Options{})
	ada, bob, eve := w.AddUser("ada"), w.AddUser("bob"), w.AddUser("eve")
	w.addFollows(ada, bob.UserID, eve.UserID)
	for i := range 5 {
		w.AddPost(bob, fmt.Sprint("b", i))
		w.AddPost(eve, fmt.Sprint("e", i))
	}
	untilTrue(t, "posts are missing", func() bool { return homeOf(t, s, ada) == "e4 b4 e3 b3 e2 b2 e1 b1 e0 b0" })
	w.Inject(func(o faulttest.Operation) faulttest.Response {
		if o.Container != blog.LeasesContainer || o.Kind == faulttest.ChangeFeed {
			return faulttest.Response{}
		}
		return faulttest.Response{Status: http.StatusServiceUnavailable} // no job begins
	})
	if err := s.DeleteUser(t.Context(), bob.UserID, "bob"); err != nil {
		t.Fatal(err)
	}
	if got := homeOf(t, s, ada); got != "e4 e3 e2 e1 e0" {
		t.Errorf("got %s", got)
	}
	w.Inject(nil)
}

// A page whose posts are far beyond the index ends early, even without a post, and the list goes on after it.
func TestHome_EmptyPage(t *testing.T) {
	w := newWorld(t)
	w.Start()
	bob, first := addPosts(w, "bob", 1, storetest.Epoch().AddDate(0, 0, -1), storetest.Epoch(),
		func(int) []string { return nil })
	c, err := w.Client.NewContainer(w.Database, blog.FeedContainer)
	if err != nil {
		t.Fatal(err)
	}
	const others = 4500
	partition := blog.AllPosts.Partition(first[0].CreatedAt.Month())
	for i := 0; i < others; i += 100 {
		batch := c.NewTransactionalBatch(azcosmos.NewPartitionKeyString(partition))
		for n := range 100 {
			batch.CreateItem(blog.Encode(blog.NewEntry(&blog.Post{ID: fmt.Sprint("other", i+n),
				Byline: blog.Byline{UserID: "other"}, CreatedAt: first[0].CreatedAt}, blog.AllPosts)), nil)
		}
		if r, err := c.ExecuteTransactionalBatch(t.Context(), batch, nil); err != nil || !r.Success {
			t.Fatal(err)
		}
	}
	reader := w.AddUser("reader")
	w.addFollows(reader, append(unknownAuthors(60), bob.UserID)...)
	s := w.instance("small", 0, store.Options{Recency: 1})
	pages := 0
	for p := (store.Paging{First: 2}); ; pages++ {
		page, err := s.Home(t.Context(), reader.UserID, p)
		if err != nil {
			t.Fatal(err)
		}
		if !page.More {
			if len(page.Items) != 1 || page.Items[0].ID != first[0].ID || pages == 0 {
				t.Errorf("the last page, after %d others, has %d posts", pages, len(page.Items))
			}
			return
		}
		if len(page.Items) > 0 || page.End() == "" || page.End() == p.After {
			t.Fatalf("page %d has %d posts, and ends at %q", pages, len(page.Items), page.End())
		}
		p.After = page.End()
	}
}

// A home feed without posts is served from a cache until another instance has published a post.
func TestHome_EmptyIsCurrent(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, bob := w.AddUser("ada"), w.AddUser("bob")
		w.addFollows(ada, bob.UserID)
		s := w.instance("reader", 1<<20, store.Options{})
		testkit.Advance(time.Minute)
		var reads itemcache.ReadSet
		page, err := s.Home(itemcache.WithReadSet(t.Context(), &reads), ada.UserID, store.Paging{First: 2})
		if err != nil || len(page.Items) > 0 {
			t.Fatal(page, err)
		}
		within := func(valid bool) bool {
			for range 30 {
				if reads.Valid(nil) == valid { // it also wakes the tails
					return true
				}
				testkit.Advance(100 * time.Millisecond)
			}
			return false
		}
		if !within(true) {
			t.Fatal("an empty home is not cached")
		}
		w.AddPost(bob, "b1")
		if !within(false) {
			t.Error("the empty home is cached although there is a post")
		}
		if got := homeOf(t, s, ada); got != "b1" {
			t.Errorf("then it has %q", got)
		}
	})
}
