package projection_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/projection"
)

// like adds a like of a user.
func (w *world) like(u *blog.User, p *blog.Post) {
	w.T.Helper()
	if _, _, err := w.LikePost(w.T.Context(), u.UserID, p.ID); err != nil {
		w.T.Fatal(err)
	}
}

func (w *world) unlike(u *blog.User, p *blog.Post) {
	w.T.Helper()
	if _, err := w.UnlikePost(w.T.Context(), u.UserID, p.ID); err != nil {
		w.T.Fatal(err)
	}
}

// wantLiked checks the list of the posts that a user likes, by their titles.
func (w *world) wantLiked(u *blog.User, want ...string) {
	w.T.Helper()
	var got []string
	for p := (store.Paging{First: 2}); ; {
		page, err := w.LikedPosts(w.T.Context(), u.UserID, p)
		if err != nil {
			w.T.Fatal(err)
		}
		for _, p := range page.Items {
			got = append(got, p.Title)
		}
		if !page.More {
			break
		}
		p.After = page.Cursor(len(page.Items) - 1)
	}
	if !slices.Equal(got, want) {
		w.T.Errorf("%s likes %v, want %v", u.Username, got, want)
	}
}

// wantLikesVerified verifies the views of likes.
func (w *world) wantLikesVerified() {
	w.T.Helper()
	for _, d := range w.Differences(0) {
		if d.Kind == projection.Liked {
			w.T.Errorf("%+v", d)
		}
	}
}

// handlePosts calls the handler of changes of posts in a new process.
func (w *world) handlePosts(items ...[]byte) {
	w.T.Helper()
	other, err := store.New(w.Account, store.Options{Database: w.Database, Clock: w.Clock.Now})
	if err != nil {
		w.T.Fatal(err)
	}
	handlers, _ := other.Views().Handlers()
	if err := handlers["projections-posts"](w.T.Context(), items); err != nil {
		w.T.Fatal(err)
	}
}

// A process that was paused with the change of a like neither sets back the date of a later like, nor shows a like that
// has ended: the list hides the view, and has it deleted.
func TestLikes_LateChange(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		a, b := w.AddPost(grace, "a"), w.AddPost(grace, "b")
		w.like(ada, a)
		w.like(ada, b)
		late := [][]byte{w.rawItem("posts", a.ID, blog.LikeID(ada.UserID)), w.rawItem("posts", b.ID, blog.LikeID(ada.UserID))}
		w.unlike(ada, a)
		w.unlike(ada, b)
		w.like(ada, a)
		stop := w.Start()
		defer func() { stop() }()
		testkit.Until(t, w.CaughtUp)
		w.pass(5 * time.Second)
		for range 2 {
			w.handlePosts(late...)
		}
		if w.rawItem("users", ada.UserID, blog.LikedID(b.ID)) == nil {
			t.Fatal("the late handler has written nothing")
		}
		w.wantLiked(ada, "a")
		testkit.Until(t, func() error {
			if w.rawItem("users", ada.UserID, blog.LikedID(b.ID)) != nil {
				return errors.New("not deleted yet")
			}
			return nil
		})
		w.wantLiked(ada, "a")
		w.wantNoDifferences()
	})
}

// The process that ends a like deletes the view, also if no list meets it.
func TestLikes_Ended(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		a := w.AddPost(ada, "a")
		w.like(ada, a)
		defer w.Start()()
		testkit.Until(t, w.CaughtUp)
		if w.rawItem("users", ada.UserID, blog.LikedID(a.ID)) == nil {
			t.Fatal("no view")
		}
		w.unlike(ada, a)
		testkit.Until(t, func() error {
			if w.rawItem("users", ada.UserID, blog.LikedID(a.ID)) != nil {
				return errors.New("not deleted yet")
			}
			return nil
		})
	})
}

// A view that is deleted while its like comes back is written again.
func TestLikes_BackMeanwhile(t *testing.T) {
	cosmostest.NeedsEngine(t, "it writes between two requests")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		a := w.AddPost(ada, "a")
		w.like(ada, a)
		w.handlePosts(w.rawItem("posts", a.ID, blog.LikeID(ada.UserID)))
		w.unlike(ada, a)
		done := false
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodDelete && !done {
				done = true
				w.like(ada, a)
				w.handlePosts(w.rawItem("posts", a.ID, blog.LikeID(ada.UserID)))
			}
			return nil
		})
		if err := w.Views().DeleteOrphanNow(t.Context(), blog.TypeLiked, ada.UserID, a.ID); err != nil {
			t.Fatal(err)
		}
		if !done {
			t.Fatal("nothing was deleted")
		}
		w.wantLiked(ada, "a")
		w.wantLikesVerified()
	})
}

// A rename changes all likes of a user, and writes none of the views.
func TestLikes_Renamed(t *testing.T) {
	cosmostest.NeedsEngine(t, "it counts requests")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		var items [][]byte
		for i := range 20 {
			p := w.AddPost(ada, fmt.Sprint(i))
			w.like(ada, p)
			items = append(items, w.rawItem("posts", p.ID, blog.LikeID(ada.UserID)))
		}
		w.handlePosts(items...)
		for i, raw := range items { // as written a minute after the like
			l, err := blog.DecodeLike("read", raw)
			if err != nil {
				t.Fatal(err)
			}
			written := fmt.Sprintf(`"_ts":%d`, l.CreatedAt.Time().Add(time.Minute).Unix())
			items[i] = regexp.MustCompile(`"_ts":\d+`).ReplaceAll(raw, []byte(written))
		}
		var requests []string
		w.Wire.Intercept(func(r *http.Request) error {
			if strings.Contains(r.URL.Path, "/docs") {
				requests = append(requests, r.Method+" "+r.URL.Path)
			}
			return nil
		})
		w.handlePosts(items...)
		w.Wire.Intercept(nil)
		if len(requests) > 2 { // the user, and the views of one partition
			t.Errorf("%d requests:\n%s", len(requests), strings.Join(requests, "\n"))
		}
	})
}

// A user who is deleted before the change of a like is handled gets no view.
func TestLikes_DeletedUser(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		a := w.AddPost(grace, "a")
		w.like(ada, a)
		late := w.rawItem("posts", a.ID, blog.LikeID(ada.UserID))
		if _, err := w.BookmarkPost(t.Context(), ada.UserID, a.ID); err != nil {
			t.Fatal(err)
		}
		w.handlePosts(late)
		w.markDeleted(ada)
		w.handlePosts(late)
		w.mustDelete(ada)
		w.handlePosts(late)
		w.wantNothingOf(ada.UserID)
		w.wantLikesVerified()
	})
}

// A rebuild writes missing views. Those without likes, and of deleted posts, are left to the lists, and no differences.
func TestLikes_Rebuild(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		a, b, gone := w.AddPost(grace, "a"), w.AddPost(grace, "b"), w.AddPost(grace, "gone")
		w.like(ada, a)
		w.like(ada, gone)
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		w.deletePost(gone)
		testkit.Until(t, w.jobsLeft)
		stop()
		w.wantNoDifferences()
		w.Remove("users", ada.UserID, blog.LikedID(a.ID))
		ended := blog.Like{PostID: b.ID, Byline: ada.Byline, CreatedAt: b.CreatedAt}
		w.Upsert("users", ada.UserID, string(blog.Encode(ended.Liked())))
		if got := w.verified(); len(got) != 1 || !strings.HasPrefix(got[0], "liked post") {
			t.Errorf("verify found %q", got)
		}
		if err := w.Views().Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		stop = w.Start()
		w.Rebuilt()
		testkit.Until(t, w.CaughtUp)
		w.wantNoDifferences()
		w.wantLiked(ada, "a")
		testkit.Until(t, func() error {
			for _, p := range []*blog.Post{b, gone} {
				if w.rawItem("users", ada.UserID, blog.LikedID(p.ID)) != nil {
					return fmt.Errorf("the view of %s, which a list has met, is not deleted yet", p.Title)
				}
			}
			return nil
		})
		stop()
	})
}

// Likes, their ends and renames, whose changes are handled late, in any order and repeatedly, by requests some of which
// fail, or take effect and fail: the lists are those of the likes.
func TestLikes_Model(t *testing.T) {
	cosmostest.NeedsEngine(t, "it injects faults")
	for range testkit.Pick(5, 100) {
		seed := rand.Uint64()
		cosmostest.Run(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			w := newFaultWorld(t, store.Options{})
			var users []*blog.User
			var posts []*blog.Post
			for i := range 3 {
				users = append(users, w.AddUser(fmt.Sprint("user", i)))
			}
			for i := range 5 {
				posts = append(posts, w.AddPost(users[i%3], fmt.Sprint("post", i)))
			}
			handlers, _ := w.Views().Handlers()
			handle := handlers["projections-posts"]
			var pages [][][]byte
			likes := map[*blog.User][]string{} // titles, most recently liked first
			w.Wire.Intercept(func(req *http.Request) error {
				if req.Method != http.MethodGet && req.Header.Get("x-ms-cosmos-priority-level") == "Low" && rand.IntN(20) == 0 {
					return errors.New("gone")
				}
				return nil
			})
			for range 100 {
				u, p := users[r.IntN(3)], posts[r.IntN(5)]
				i := slices.Index(likes[u], p.Title)
				switch n := r.IntN(12); {
				case n < 4:
					if w.like(u, p); i < 0 {
						likes[u] = slices.Insert(likes[u], 0, p.Title)
					}
				case n < 7:
					if w.unlike(u, p); i >= 0 {
						likes[u] = slices.Delete(likes[u], i, i+1)
					}
				case n < 9:
					pages = append(pages, w.items("posts"))
				case len(pages) > 0:
					_ = handle(t.Context(), pages[r.IntN(len(pages))])
				}
				testkit.Advance(time.Second)
			}
			w.Wire.Intercept(nil)
			w.settle()
			for _, u := range users {
				w.wantLiked(u, likes[u]...)
			}
			stop := w.Start() // what the lists have met is deleted
			testkit.Until(t, w.CaughtUp)
			w.pass(10 * time.Minute)
			stop()
			w.wantNoDifferences()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
}
