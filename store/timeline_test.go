package store_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// addPosts imports a user with posts between two dates, at equal intervals, the oldest first.
func addPosts(w *world, name string, n int, from, to time.Time, tags func(i int) []string) (*blog.User, []*blog.Post) {
	w.T.Helper()
	u := &blog.User{Byline: blog.Byline{UserID: blog.UserID("test", name), Username: name},
		CreatedAt: blog.NewDate(from), Revision: 1}
	var posts []*blog.Post
	for i := range n {
		posts = append(posts,
			&blog.Post{ID: fmt.Sprintf("%s-%05d", name, i), Byline: blog.Byline{UserID: u.UserID, Username: name},
				Title:   fmt.Sprint("post ", i),
				Content: "text", Tags: tags(i),
				CreatedAt: blog.NewDate(from.Add(to.Sub(from) / time.Duration(n) * time.Duration(i))), Version: 1,
				Revision: 1})
	}
	threads := iter.Seq[store.Thread](func(yield func(store.Thread) bool) {
		for _, p := range posts {
			if !yield(store.Thread{Post: p}) {
				return
			}
		}
	})
	if err := w.Import(w.T.Context(), u, threads); err != nil {
		w.T.Fatal(err)
	}
	return u, posts
}

// requested counts the requests of an operation on the wire, see countRequests, and their charge.
type requested struct {
	mu                           sync.Mutex
	ru                           float64 // guarded by mu, as the others are
	queries, batches, pointReads int
	writes                       int
}

type requestedKey struct{}

// in returns a context whose requests are counted.
func (r *requested) in(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, requestedKey{}, r)
	return cosmos.WithRecorder(ctx, func(_ context.Context, o *cosmos.Operation) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ru += o.RU
	})
}

// all returns the number of all requests.
func (r *requested) all() int { return r.queries + r.batches + r.pointReads + r.writes }

// countRequests counts the requests of contexts of requested.in.
func countRequests(w *world) {
	w.Wire.Intercept(func(req *http.Request) error {
		r, ok := req.Context().Value(requestedKey{}).(*requested)
		if !ok {
			return nil
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		switch query := req.Header.Get("X-Ms-Documentdb-Query") != ""; {
		case req.Method == http.MethodGet:
			r.pointReads++
		case query && strings.Contains(req.URL.Path, "/colls/posts/"): // the posts of a page
			r.batches++
		case query:
			r.queries++
		default:
			r.writes++
		}
		return nil
	})
}

type listOfPosts func(context.Context, store.Paging) (*store.Page[*blog.Post], error)

// byDate returns the lists of posts by date: of a user, with a tag, and of all.
func byDate(w *world, u *blog.User, tag string) map[string]listOfPosts {
	return map[string]listOfPosts{
		"feed": w.Feed,
		"user": func(ctx context.Context, p store.Paging) (*store.Page[*blog.Post], error) {
			return w.UserPosts(ctx, u.UserID, p)
		},
		"tag": func(ctx context.Context, p store.Paging) (*store.Page[*blog.Post], error) {
			t, err := w.Tag(ctx, tag)
			if err != nil {
				return nil, err
			}
			return w.TagPosts(ctx, t, p)
		},
	}
}

// readAll reads a list in pages of n. It fails for a short page before the end, and a post that comes twice or in the
// wrong order. after is called after each page.
func readAll(t *testing.T, list listOfPosts, n int, after func(pages int, r *requested)) (ids map[string]bool) {
	t.Helper()
	ids = map[string]bool{}
	var last *blog.Post
	for p, pages := (store.Paging{First: n}), 1; ; pages++ {
		r := &requested{}
		page, err := list(r.in(t.Context()), p)
		if err != nil {
			t.Fatal(err)
		}
		for _, post := range page.Items {
			if last != nil &&
				(post.CreatedAt > last.CreatedAt || post.CreatedAt == last.CreatedAt && post.ID >= last.ID) {
				t.Errorf("%s of %s comes after %s of %s", post.ID, post.CreatedAt, last.ID, last.CreatedAt)
			}
			ids[post.ID], last = true, post
		}
		after(pages, r)
		if !page.More {
			return ids
		}
		if len(page.Items) != n {
			t.Fatalf("got a page of %d before the end, want %d", len(page.Items), n)
		}
		p.After = page.Cursor(n - 1)
	}
}

// Lists of 2,000 posts over three months are read completely, each page by at most one query and one batch, or two
// queries at a seam: between two months, or where the newest posts end. While others publish, edit and delete posts, no
// post comes twice, and none that exists all the time is missing.
func TestTimelines_Paging(t *testing.T) {
	testkit.Heavy(t)
	n := 2000
	if testing.Short() {
		n = 400
	}
	w := newWorld(t)
	ada, posts := addPosts(w, "ada", n, time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC), storetest.Epoch(),
		func(i int) []string {
			if i%4 == 0 {
				return []string{"go"}
			}
			return nil
		})
	w.Start()
	testkit.Until(t, w.CaughtUp)
	countRequests(w)
	batches := 0
	for name, list := range byDate(w, ada, "GO") {
		t.Run(name, func(t *testing.T) {
			seams := 0
			ids := readAll(t, list, 37, func(pages int, r *requested) {
				if r.queries > 2 || r.batches > 1 || r.pointReads > 1 || r.queries == 0 || r.writes > 0 {
					t.Errorf("page %d took %d queries, %d batches and %d requests in all", pages, r.queries, r.batches,
						r.all())
				}
				batches += r.batches
				if r.queries == 2 {
					seams++
				}
			})
			want, most := n, 3 // the end of the newest, and of two months
			if name == "tag" {
				want, most = n/4, 2
			}
			if len(ids) != want || seams > most {
				t.Errorf("got %d posts, want %d; and %d seams, want at most %d", len(ids), want, seams, most)
			}
		})
	}
	if batches < n/37-3 { // most pages of the feed, also if the posts with the tag are cached
		t.Errorf("%d batches in all", batches)
	}
	// Of each eight posts, churn edits one, takes the tag of one, and deletes one.
	for name, list := range byDate(w, ada, "go") {
		t.Run(name+", while others write", func(t *testing.T) {
			testkit.Until(t, w.CaughtUp) // entries of many deleted posts would make a page short
			w.withoutJobs(t)
			at := slices.Index([]string{"feed", "user", "tag"}, name)
			var wg sync.WaitGroup
			defer wg.Wait()
			churned := map[string]bool{}
			step := 0
			churn := func() {
				for range 4 {
					step++
					mine := n - 1 - 24*step - 8*at // from the newest to the oldest
					if mine < 8 {
						return
					}
					mine -= mine % 8
					edited, untagged, deleted := posts[mine-7], posts[mine-8], posts[mine-4]
					churned[untagged.ID], churned[deleted.ID] = true, true
					wg.Go(func() {
						_, err := w.CreatePost(t.Context(),
							store.NewPost{AuthorID: ada.UserID, Title: "new", Content: "new", Tags: []string{"go"}})
						_, err2 := w.EditPost(t.Context(), ada.UserID, edited.ID, store.PostEdit{Title: new("edited")})
						_, err3 := w.EditPost(t.Context(), ada.UserID, untagged.ID,
							store.PostEdit{Tags: &[]string{"other"}})
						err4 := w.DeletePost(t.Context(), ada.UserID, deleted.ID)
						for _, err := range []error{err, err2, err3, err4} {
							if err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			before := readAll(t, list, 100, func(int, *requested) {})
			ids := readAll(t, list, 37, func(int, *requested) { churn() })
			wg.Wait()
			for id := range before {
				if !ids[id] && !churned[id] {
					t.Errorf("%s is missing", id)
				}
			}
		})
	}
	testkit.Until(t, w.CaughtUp)
	w.noDifferences(t)
}

// noDifferences waits for the jobs and verifies all views.
func (w *world) noDifferences(t *testing.T) {
	t.Helper()
	w.withoutJobs(t)
	for _, d := range w.Differences(10 * time.Second) {
		t.Errorf("%s %s %s: have %s, want %s", d.Kind, d.Partition, d.ID, d.Have, d.Want)
	}
}

// withoutJobs waits until all jobs are done.
func (w *world) withoutJobs(t *testing.T) {
	t.Helper()
	testkit.Until(t, func() error {
		jobs, err := w.Views().Jobs(t.Context())
		if err == nil && len(jobs) > 0 {
			err = fmt.Errorf("%d jobs are left", len(jobs))
		}
		return err
	})
}

// The refill of the feed after deletions costs the same in a blog of any size.
func TestTimelines_Refill(t *testing.T) {
	cosmostest.NeedsEngine(t, "it compares charges")
	testkit.Heavy(t)
	sizes := []int{400, 1200}
	if testkit.Long() {
		sizes = append(sizes, 20_000)
	}
	var first float64
	for _, n := range sizes {
		w := newWorld(t)
		ada, posts := addPosts(w, "ada", n, storetest.Epoch().Add(-20*24*time.Hour), storetest.Epoch(),
			func(int) []string {
				return nil
			})
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		stop()
		for i := range 60 {
			if err := w.DeletePost(t.Context(), ada.UserID, posts[n-1-i].ID); err != nil {
				t.Fatal(err)
			}
		}
		w.AddLike(ada, posts[0])
		old, err := w.Post(t.Context(), posts[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		countRequests(w)
		r := &requested{}
		if err := w.Views().ProjectFeed(r.in(t.Context()), []*blog.Post{old}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%d posts: the refill of 60 takes %d requests and costs %.0f RU", n, r.all(), r.ru)
		if feed := storetest.All(t, 100, w.Feed); len(feed) != n-60 || feed[0].ID != posts[n-61].ID {
			t.Errorf("%d posts, the first is %s", len(feed), feed[0].ID)
		}
		if length := len(w.FeedTitles("post")); length != blog.FeedKept {
			t.Errorf("the feed has %d posts, want %d", length, blog.FeedKept)
		}
		if first == 0 {
			first = r.ru
		} else if r.ru > first*1.05 {
			t.Errorf("with %d posts it costs %.0f RU, with %d %.0f", n, r.ru, sizes[0], first)
		}
	}
}

// A deleted user leaves no entry, no month, no tag and no count.
func TestTimelines_DeletedUser(t *testing.T) {
	n := testkit.Pick(300, 5000)
	if testing.Short() {
		n = 100
	}
	w := newWorld(t)
	grace := w.AddUser("grace")
	ada, _ := addPosts(w, "ada", n, storetest.Epoch().Add(-80*24*time.Hour), storetest.Epoch(), func(i int) []string {
		return []string{fmt.Sprint("tag-", i%20), "grösse"}
	})
	if _, err := w.CreatePost(t.Context(),
		store.NewPost{AuthorID: grace.UserID, Title: "stays", Content: "stays", Tags: []string{"tag-1"}}); err != nil {
		t.Fatal(err)
	}
	w.Start()
	testkit.Until(t, w.CaughtUp)
	testkit.Until(t, func() error {
		tags, err := w.TopTags(t.Context(), 100)
		if err == nil &&
			(len(tags) != 21 || tags[0].Name != "grösse" || tags[0].PostCount != int32(n) || tags[1].Name != "tag-1" ||
				tags[1].PostCount != int32(n/20+1)) {
			err = fmt.Errorf("%d tags: %s", len(tags), jsonOf(t, tags))
		}
		return err
	})
	if err := w.DeleteUser(t.Context(), ada.UserID, "ada"); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, func() error {
		w.Clock.Millis.Add(time.Minute.Milliseconds()) // the second pass
		if left := mentioning(w.World, ada.UserID); len(left) > 0 {
			return fmt.Errorf("%d items are left", len(left))
		}
		return nil
	})
	testkit.Until(t, func() error {
		tags, err := w.TopTags(t.Context(), 100)
		if err == nil && (len(tags) != 1 || tags[0].PostCount != 1) {
			err = fmt.Errorf("%+v", tags)
		}
		return err
	})
	for _, trace := range []string{ada.UserID, "tag-0", "tag-19", "grösse", ".gr_", `"all.2025-12"`} {
		for container := range mentioning(w.World, trace) {
			t.Errorf("%s is left in %s", trace, container)
		}
	}
	w.noDifferences(t)
}

// Tags are stored in their first spelling, and the timelines follow their edits.
func TestTags_Edits(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	w.Start()
	create := func(tags ...string) (*blog.Post, error) {
		return w.CreatePost(t.Context(),
			store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c", Tags: tags, Key: "key"})
	}
	p, err := create("Go", "go", "Größe")
	if err != nil || strings.Join(p.Tags, " ") != "Go Größe" {
		t.Fatal(p, err)
	}
	if again, err := create(" Go", "GO", "Gro\u0308ße"); err != nil || again.ID != p.ID {
		t.Errorf("the same tags: %v, %v", again, err)
	}
	if _, err := create("go"); blog.CodeOf(err) != blog.Conflict {
		t.Errorf("other tags with the same key: %v", err)
	}
	if _, err := create("1", "2", "3", "4", "5", "6"); blog.CodeOf(err) != blog.Invalid {
		t.Errorf("six tags: %v", err)
	}
	tagged := func(tag string, want ...string) {
		t.Helper()
		testkit.Until(t, func() error {
			t, err := w.Tag(w.T.Context(), tag)
			if err != nil {
				return err
			}
			page, err := w.TagPosts(w.T.Context(), t, store.Paging{First: 10})
			if err != nil {
				return err
			}
			var got []string
			for _, p := range page.Items {
				got = append(got, p.ID)
			}
			if !slices.Equal(got, want) || int(t.PostCount) != len(want) {
				return fmt.Errorf("%s: got %v and %d, want %v", tag, got, t.PostCount, want)
			}
			return nil
		})
	}
	edit := func(version int32, tags ...string) {
		t.Helper()
		edited, err := w.EditPost(t.Context(), ada.UserID, p.ID, store.PostEdit{Tags: &tags})
		if err != nil || edited.Version != version || !slices.Equal(edited.Tags, tags) {
			t.Fatal(edited, err)
		}
	}
	tagged("go", p.ID)
	tagged("GRÖSSE", p.ID)
	edit(2, "go", "rust")
	tagged("größe")
	tagged("rust", p.ID)
	edit(3, "grösse")
	tagged("go")
	tagged("grösse", p.ID)
	for list, posts := range map[string][]*blog.Post{"feed": w.AllFeed(), "posts": w.AllUserPosts(ada)} {
		if len(posts) != 1 || !slices.Equal(posts[0].Tags, []string{"grösse"}) || posts[0].FormerTags != nil {
			t.Errorf("%s: %+v", list, posts)
		}
	}
	if _, err := w.EditPost(t.Context(), ada.UserID, p.ID,
		store.PostEdit{Tags: &[]string{}, Version: new(int32(2))}); blog.CodeOf(err) != blog.Conflict {
		t.Errorf("an edit of an older version: %v", err)
	}
	if err := w.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
		t.Fatal(err)
	}
	tagged("grösse")
	testkit.Until(t, func() error {
		for _, tag := range []string{"grösse", "gr_", `"go"`, "rust"} {
			if found := mentioning(w.World, tag); len(found) > 0 {
				return fmt.Errorf("%s is left in %v", tag, found)
			}
		}
		return nil
	})
	w.noDifferences(t)
}

// Posts that have just lost a tag, or were deleted, still have entries. They are not listed, and others fill the page.
func TestTimelines_OutdatedEntries(t *testing.T) {
	w := newWorld(t)
	ada, posts := addPosts(w, "ada", 12, storetest.Epoch().Add(-3*time.Hour), storetest.Epoch(), func(int) []string {
		return []string{"go"}
	})
	for i := range 2 {
		if _, err := w.EditPost(t.Context(), ada.UserID, posts[11-2*i].ID,
			store.PostEdit{Tags: &[]string{"rust"}}); err != nil {
			t.Fatal(err)
		}
		if err := w.DeletePost(t.Context(), ada.UserID, posts[10-2*i].ID); err != nil {
			t.Fatal(err)
		}
	}
	page, err := byDate(w, ada, "go")["tag"](t.Context(), store.Paging{First: 5})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Items) != 5 || page.Items[0].ID != posts[7].ID || !page.More {
		t.Errorf("%d posts, the first is %s, more: %t", len(page.Items), page.Items[0].ID, page.More)
	}
}

// While so many posts are being deleted that a page would read through many entries of them, it ends early, or is
// refused.
func TestTimelines_ManyHidden(t *testing.T) {
	for n, code := range map[int]blog.Code{0: "", 18: "", 25: blog.Unavailable} {
		w := newWorld(t)
		tags := func(int) []string { return []string{"go"} }
		ada, _ := addPosts(w, "ada", 2, storetest.Epoch().Add(-3*time.Hour), storetest.Epoch().Add(-2*time.Hour), tags)
		mallory, _ := addPosts(w, "mallory", n, storetest.Epoch().Add(-time.Hour), storetest.Epoch().Add(-time.Minute),
			tags)
		first, err := byDate(w, ada, "go")["tag"](t.Context(), store.Paging{First: 1})
		if err != nil {
			t.Fatal(err)
		}
		newest, _ := addPosts(w, "grace", 1, storetest.Epoch().Add(-time.Second), storetest.Epoch(), tags)
		if err := w.DeleteUser(t.Context(), mallory.UserID, mallory.Username); err != nil {
			t.Fatal(err)
		}
		page, err := byDate(w, ada, "go")["tag"](t.Context(), store.Paging{First: 2})
		if err != nil || len(page.Items) == 0 || page.Items[0].UserID != newest.UserID || !page.More {
			t.Errorf("%d hidden: %+v, %v", n, page, err)
		}
		if n == 0 {
			continue
		}
		_, err = byDate(w, ada, "go")["tag"](t.Context(), store.Paging{First: 1, After: first.Cursor(0)})
		if blog.CodeOf(err) != code {
			t.Errorf("%d hidden: %v, want %q", n, err, code)
		}
	}
}
