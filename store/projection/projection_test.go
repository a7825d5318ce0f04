package projection_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// onlyPatches reports whether a request is a batch with only patches.
func onlyPatches(t testing.TB, r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	n := bytes.Count(body, []byte(`{"operationType":`))
	return n > 0 && n == bytes.Count(body, []byte(`{"operationType":"Patch"`))
}

func TestFeed_KeepsNewest(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.Start()()
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		var posts []*blog.Post
		var want []string
		for i := range 170 {
			p := w.AddPost(ada, fmt.Sprintf("post %d", i))
			posts = append(posts, p)
			want = append([]string{p.Title}, want...)
		}
		membership := func() error {
			if diff := cmp.Diff(want[:100], storetest.Titles(w.AllFeed())); diff != "" {
				return errors.New(diff)
			}
			if n := w.FeedLength(); n != 150 {
				return fmt.Errorf("%d entries are kept", n)
			}
			return nil
		}
		testkit.Until(t, membership)
		testkit.Until(t, w.CaughtUp)

		// Changes of posts, old ones in particular, neither add nor remove entries.
		w.Wire.Intercept(func(r *http.Request) error {
			feed := strings.Contains(r.URL.Path, "/colls/feed/docs") && // not timelines and their counts
				strings.HasPrefix(r.Header.Get("X-Ms-Documentdb-Partitionkey"), `["post`)
			if feed && (r.Method == http.MethodDelete ||
				r.Method == http.MethodPost && r.Header.Get("x-ms-documentdb-query") == "" && !onlyPatches(t, r)) {
				t.Errorf("%s of an entry of the feed", r.Method)
			}
			return nil
		})
		for i, p := range posts {
			if i%3 == 0 {
				w.AddLike(grace, p)
				w.AddComment(grace, p, "still good")
			}
			if i%40 == 0 {
				if _, err := w.EditPost(t.Context(), ada.UserID, p.ID,
					store.PostEdit{Content: new("edited")}); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(w.AllFeed()); n != 100 {
				t.Fatalf("the feed shows %d posts, want 100", n)
			}
		}
		testkit.Until(t, func() error {
			if err := membership(); err != nil {
				return err
			}
			for _, p := range append(w.AllFeed(), w.AllUserPosts(ada)...) {
				source, err := w.Post(t.Context(), p.ID)
				if err != nil {
					return err
				}
				if p.LikeCount != source.LikeCount || p.CommentCount != source.CommentCount ||
					p.Revision != source.Revision || p.Content != source.Content {
					return fmt.Errorf("summary %+v of %+v", p, source)
				}
			}
			return nil
		})
	})
}

// The request of an author adds the last of many posts to the feed just after the projections have read it: the
// feed is still trimmed.
func TestFeed_TrimsForeignEntries(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	for i := range blog.FeedKept {
		w.AddPost(ada, fmt.Sprint("post ", i))
	}
	creates := func(r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/colls/feed/docs") &&
			r.Header.Get("x-ms-documentdb-query") == ""
	}
	w.Wire.Intercept(func(r *http.Request) error {
		if creates(r) {
			return errors.New("the feed cannot be written")
		}
		return nil
	})
	last := w.AddPost(ada, "the last")
	var added atomic.Bool
	w.Wire.Intercept(func(r *http.Request) error {
		if creates(r) && !added.Swap(true) {
			w.Upsert("feed", "post",
				fmt.Sprintf(
					`{"id":%q,"postId":%[1]q,"type":"post","userId":%q,"userUsername":"ada","title":"the last","content":"x","creationDate":%q,"commentCount":0,"likeCount":0,"version":1,"revision":1}`,
					last.ID, ada.UserID, last.CreatedAt))
		}
		return nil
	})
	if err := w.Views().ProjectSummaries(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if n := w.FeedLength(); !added.Load() || n != blog.FeedKept {
		t.Errorf("got %d entries, want %d", n, blog.FeedKept)
	}
}

// A post is deleted or changed while a refill adds it to the feed, and the projection of another range has
// handled the change by then: the refill does not restore the old version.
func TestRefill_ConcurrentDelete(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		var posts []*blog.Post
		for i := range 40 {
			posts = append(posts, w.AddPost(ada, fmt.Sprintf("post %d", i)))
		}
		w.begin(posts...)
		for _, p := range posts[:20] {
			w.Remove("feed", "post", p.ID)
		}
		var intercepted atomic.Bool
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/colls/feed/docs") &&
				r.Header.Get("x-ms-documentdb-query") == "" && !intercepted.Swap(true) {
				if err := w.DeletePost(t.Context(), ada.UserID, posts[0].ID); err != nil {
					t.Error(err)
				}
				w.AddLike(ada, posts[1])
				stop := w.Start()
				testkit.Until(t, w.CaughtUp)
				stop()
			}
			return nil
		})
		if err := w.Views().RefillFeed(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !intercepted.Load() {
			t.Fatal("the refill wrote nothing")
		}
		for _, d := range w.Differences(0) {
			t.Errorf("%+v", d)
		}
	})
}

func TestSummaries_NeverGoBack(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	p := w.AddPost(ada, "one")
	if _, err := w.EditPost(t.Context(), ada.UserID, p.ID, store.PostEdit{Title: new("two")}); err != nil {
		t.Fatal(err)
	}
	stale := *p // as read from the change feed long ago
	if err := w.Views().ProjectSummaries(t.Context(), &stale); err != nil {
		t.Fatal(err)
	}
	if w.AllFeed()[0].Title != "two" || w.AllUserPosts(ada)[0].Title != "two" {
		t.Error("an older revision overwrote a newer summary")
	}
}

func TestSummaries_Coalesced(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		p := w.AddPost(ada, "popular")
		for i := range 60 {
			w.AddLike(w.AddUser(fmt.Sprintf("user%d", i)), p)
		}
		var writes atomic.Int32
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPatch {
				writes.Add(1)
			}
			return nil
		})
		defer w.Start()()
		testkit.Until(t, func() error {
			if got := w.AllFeed()[0].LikeCount; got != 60 {
				return fmt.Errorf("likeCount is %d", got)
			}
			if got := w.AllUserPosts(ada)[0].LikeCount; got != 60 {
				return fmt.Errorf("likeCount is %d", got)
			}
			return nil
		})
		if n := writes.Load(); n > 4 {
			t.Errorf("got %d writes of two summaries, want at most 4", n)
		}
	})
}

// TestSummaries_Batched projects posts whose counts have changed, and then again with some summaries that a batch
// cannot update.
func TestSummaries_Batched(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	posts := make([]*blog.Post, 30) // more than a batch has
	for i := range posts {
		posts[i] = w.AddPost(ada, fmt.Sprint("post ", i))
	}
	project := func() (batches, patches int32) {
		t.Helper()
		for i, p := range posts {
			w.AddLike(w.AddUser(fmt.Sprintf("user%d-%d", p.Revision, i)), p)
			var err error
			if posts[i], err = w.Post(t.Context(), p.ID); err != nil {
				t.Fatal(err)
			}
		}
		var b, p atomic.Int32
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Header.Get("X-Ms-Cosmos-Is-Batch-Request") != "" {
				b.Add(1)
			}
			if r.Method == http.MethodPatch {
				p.Add(1)
			}
			return nil
		})
		defer w.Wire.Intercept(nil)
		if err := w.Views().ProjectSummaries(t.Context(), posts...); err != nil {
			t.Fatal(err)
		}
		return b.Load(), p.Load()
	}
	if batches, patches := project(); batches != 4 || patches != 0 {
		t.Errorf("got %d batches and %d patches for 30 summaries in each of two partitions, want 4 and 0", batches,
			patches)
	}
	const missing, edited, newer = 3, 7, 11
	w.Remove("feed", "post", posts[missing].ID)
	w.Wire.Intercept(func(r *http.Request) error {
		if r.Method == http.MethodPatch && !strings.Contains(r.URL.Path, "/colls/posts/") {
			return errors.New("summaries cannot be written")
		}
		return nil
	})
	if _, err := w.EditPost(t.Context(), ada.UserID, posts[edited].ID,
		store.PostEdit{Title: new("edited")}); err != nil {
		t.Fatal(err)
	}
	w.Wire.Intercept(nil)
	w.Corrupt("feed", "post", posts[newer].ID, "/title", "newer")
	w.Corrupt("feed", "post", posts[newer].ID, "/revision", 100)
	project()
	for name, copies := range map[string][]*blog.Post{"feed": w.AllFeed(), "user": w.AllUserPosts(ada)} {
		if len(copies) != len(posts) {
			t.Errorf("%s has %d posts, want %d", name, len(copies), len(posts))
		}
		for i, got := range slices.Backward(copies) {
			want := *posts[len(copies)-1-i]
			if name == "feed" && want.ID == posts[newer].ID {
				want.Title, want.Revision, want.LikeCount = "newer", 100, 1
			}
			if diff := cmp.Diff(&want, got, cmpopts.IgnoreUnexported(want)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

// writings are the items with the name of a user.
type writings struct {
	post           *blog.Post
	others         []*blog.Post
	author, reader *blog.User
}

func (w *world) write() writings {
	x := writings{author: w.AddUser("ada"), reader: w.AddUser("grace")}
	x.post = w.AddPost(x.author, "by ada")
	for i := range 12 {
		p := w.AddPost(x.reader, fmt.Sprintf("by grace %d", i))
		x.others = append(x.others, p)
		w.AddLike(x.author, p)
		w.AddComment(x.author, p, "first")
		w.AddComment(x.reader, p, "thanks")
		w.AddComment(x.author, p, "second")
	}
	w.AddLike(x.author, x.post)
	w.follow(x.author, x.reader)
	return x
}

// namesMatch returns an error unless all of the author's items have the name.
func (w *world) namesMatch(x writings, name string) error {
	var wrong []string
	check := func(what, userID, got string) {
		want := "grace"
		if userID == x.author.UserID {
			want = name
		}
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s: %s", what, got))
		}
	}
	for _, p := range append(w.AllFeed(), w.AllUserPosts(x.author)...) {
		check("summary of "+p.Title, p.UserID, p.Username)
	}
	for _, p := range append(x.others, x.post) {
		source, err := w.Post(w.T.Context(), p.ID)
		if err != nil {
			return err
		}
		check(p.Title, source.UserID, source.Username)
		for _, c := range w.AllComments(p) {
			check("comment on "+p.Title, c.UserID, c.Username)
		}
		for _, l := range w.AllLikes(p) {
			check("like of "+p.Title, l.UserID, l.Username)
		}
	}
	if wrong != nil {
		return fmt.Errorf("%d names are wrong: %s", len(wrong), strings.Join(wrong, ", "))
	}
	return nil
}

func TestRename_UpdatesEveryView(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.write()
		if err := w.namesMatch(x, "ada"); err != nil {
			t.Fatal(err)
		}
		defer w.Start()()
		if _, err := w.UpdateUser(t.Context(), x.author.UserID, store.UserEdit{Username: new("Countess")}); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, func() error { return w.namesMatch(x, "Countess") })
		if _, err := w.UpdateUser(t.Context(), x.author.UserID, store.UserEdit{Username: new("ada")}); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, func() error { return w.namesMatch(x, "ada") })
	})
}

func TestRename_ResumesAfterRestart(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		w := openWorld(t, dir)
		x := w.write()
		if _, err := w.UpdateUser(t.Context(), x.author.UserID, store.UserEdit{Username: new("Countess")}); err != nil {
			t.Fatal(err)
		}
		// The requests of the process fail in the middle of the rename.
		var renamed atomic.Int32
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPatch && renamed.Add(1) > 10 {
				return errors.New("gone")
			}
			return nil
		})
		stop := w.Start()
		testkit.Until(t, func() error {
			if renamed.Load() <= 10 {
				return errors.New("the rename has not begun")
			}
			return nil
		})
		stop()
		w.Wire.Intercept(nil)
		if err := w.namesMatch(x, "Countess"); err == nil {
			t.Fatal("the rename was not interrupted")
		}
		if err := w.Engine.Close(); err != nil {
			t.Fatal(err)
		}
		again := openWorld(t, dir)
		defer again.Start()()
		testkit.Until(t, func() error { return again.namesMatch(x, "Countess") })
	})
}

func TestRename_ConcurrentWrites(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		x := w.write()
		defer w.Start()()
		if _, err := w.UpdateUser(t.Context(), x.author.UserID, store.UserEdit{Username: new("Countess")}); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, func() error { return w.namesMatch(x, "Countess") })
		// A comment whose author was read before the rename, and which is written after it.
		posts, err := w.Client.NewContainer(w.Database, "posts")
		if err != nil {
			t.Fatal(err)
		}
		item := fmt.Sprintf(
			`{"id":"late","type":"comment","postId":%q,"userId":%q,"userUsername":"ada","content":"late","creationDate":"2026-03-02T00:00:00.000Z"}`,
			x.post.ID, x.author.UserID)
		if _, err := posts.CreateItem(t.Context(), azcosmos.NewPartitionKeyString(x.post.ID), []byte(item),
			nil); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, func() error { return w.namesMatch(x, "Countess") })
	})
}

func TestCheckpoints_Persist(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		w := openWorld(t, dir)
		ada := w.AddUser("ada")
		p := w.AddPost(ada, "one")
		w.AddLike(ada, p)
		w.Clock.Millis.Add(61_000) // so that the sweep of usernames does not wait
		stop := w.Start()
		testkit.Until(t, func() error {
			if w.AllFeed()[0].LikeCount != 1 || w.Checkpoints() != 3 {
				return errors.New("not yet")
			}
			return nil
		})
		stop()
		if err := w.Engine.Close(); err != nil {
			t.Fatal(err)
		}

		again := openWorld(t, dir)
		var fromStart, resumed atomic.Int32
		again.Wire.Intercept(func(r *http.Request) error {
			if r.Header.Get("A-IM") != "" && strings.HasSuffix(r.URL.Path, "/docs") {
				if r.Header.Get("If-None-Match") == "" {
					fromStart.Add(1)
				} else {
					resumed.Add(1)
				}
			}
			return nil
		})
		defer again.Start()()
		grace := again.AddUser("grace")
		again.AddLike(grace, p)
		testkit.Until(t, func() error {
			if again.AllFeed()[0].LikeCount != 2 {
				return errors.New("not yet")
			}
			return nil
		})
		if fromStart.Load() != 0 || resumed.Load() == 0 {
			t.Errorf("got %d reads from the start of the feed and %d from a checkpoint, want 0 and some",
				fromStart.Load(), resumed.Load())
		}
	})
}

// TestRun_RecreatedContainer deletes the posts container, but not the leases. New posts are projected; a rebuild
// deletes the summaries of the deleted ones.
func TestRun_RecreatedContainer(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		w := openWorld(t, dir)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		w.AddLike(grace, w.AddPost(ada, "before"))
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		stop()
		posts, err := w.Client.NewContainer(w.Database, "posts")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := posts.Delete(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if err := w.Engine.Close(); err != nil {
			t.Fatal(err)
		}
		w = openWorld(t, dir)
		p := w.AddPost(ada, "after")
		w.AddLike(grace, p)
		status, err := w.Views().Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range status {
			if r.Processor == "projections-posts" && r.Lag != 1 {
				t.Errorf("got a lag of %d transactions, want 1", r.Lag)
			}
		}
		defer w.Start()()
		testkit.Until(t, func() error {
			for _, have := range w.AllFeed() {
				if have.ID == p.ID && have.LikeCount == 1 {
					return nil
				}
			}
			return errors.New("the like has not arrived")
		})
		if err := w.Views().Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Rebuilt()
		for _, d := range w.Differences(0) {
			t.Errorf("%+v", d)
		}
	})
}
