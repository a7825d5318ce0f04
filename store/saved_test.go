package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// saved returns the titles of a user's own list, read in pages of two.
func (w *world) saved(
	list func(context.Context, string, store.Paging) (*store.Page[*blog.Post], error), u *blog.User,
) string {
	w.T.Helper()
	var titles []string
	for p := (store.Paging{First: 2}); ; {
		page, err := list(w.T.Context(), u.UserID, p)
		if err != nil {
			w.T.Fatal(err)
		}
		for _, p := range page.Items {
			titles = append(titles, p.Title)
		}
		if !page.More {
			return strings.Join(titles, " ")
		}
		p.After = page.Cursor(len(page.Items) - 1)
	}
}

func TestBookmarks(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ada, bob := w.AddUser("ada"), w.AddUser("bob")
	var ids []string
	for i := range 5 {
		p := w.AddPost(ada, fmt.Sprint("post", i))
		ids = append(ids, p.ID)
		for range 2 {
			got, err := w.BookmarkPost(ctx, bob.UserID, p.ID)
			if err != nil || got.ID != p.ID {
				t.Fatalf("got %+v, %v", got, err)
			}
		}
	}
	if got := w.saved(w.Bookmarks, bob); got != "post4 post3 post2 post1 post0" {
		t.Errorf("bookmarks: %s", got)
	}
	if got := w.saved(w.Bookmarks, ada); got != "" {
		t.Errorf("of another: %s", got)
	}
	if n, err := w.BookmarkCount(ctx, bob.UserID); n != 5 || err != nil {
		t.Errorf("count %d, %v", n, err)
	}
	for range 2 {
		if got, err := w.RemoveBookmark(ctx, bob.UserID, ids[1]); err != nil || got.ID != ids[1] {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	if got, err := w.Bookmarked(ctx, bob.UserID, []string{ids[1], ids[0], "absent", ids[0]}); err != nil ||
		fmt.Sprint(got) != "[false true false true]" {
		t.Errorf("bookmarked: %v, %v", got, err)
	}
	for _, change := range []func(context.Context, string, string) (*blog.Post, error){
		w.BookmarkPost, w.RemoveBookmark} {
		_, err := change(ctx, bob.UserID, "absent")
		storetest.WantCode(t, err, blog.NotFound, "")
		_, err = change(ctx, bob.UserID, "not/an id")
		storetest.WantCode(t, err, blog.NotFound, "")
		_, err = change(ctx, "unknown", ids[0])
		storetest.WantCode(t, err, blog.Forbidden, "")
	}
}

// until waits until a list of a user's own has the posts with some titles.
func (w *world) until(
	list func(context.Context, string, store.Paging) (*store.Page[*blog.Post], error), u *blog.User, want string,
) {
	w.T.Helper()
	testkit.Until(w.T, func() error {
		if got := w.saved(list, u); got != want {
			return errors.New(got)
		}
		return nil
	})
}

func TestLikedPosts(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ada, bob := w.AddUser("ada"), w.AddUser("bob")
	var ids []string
	like := func(id string) {
		t.Helper()
		if _, _, err := w.LikePost(ctx, bob.UserID, id); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		p := w.AddPost(ada, fmt.Sprint("post", i))
		ids = append(ids, p.ID)
		like(p.ID)
	}
	stop := w.Start()
	testkit.Until(t, w.CaughtUp)
	if got := w.saved(w.LikedPosts, bob); got != "post4 post3 post2 post1 post0" {
		t.Errorf("liked posts: %s", got)
	}
	if _, err := w.UnlikePost(ctx, bob.UserID, ids[2]); err != nil {
		t.Fatal(err)
	}
	if got := w.saved(w.LikedPosts, bob); got != "post4 post3 post1 post0" {
		t.Errorf("at once after the end of a like: %s", got)
	}
	like(ids[2])
	like(ids[1])
	w.until(w.LikedPosts, bob, "post2 post4 post3 post1 post0")
	if n, err := w.LikedCount(ctx, bob.UserID); n != 5 || err != nil {
		t.Errorf("count %d, %v", n, err)
	}
	stop()
	w.wantNoDifferences()
}

// A user at the limit bookmarks no other post; a repetition of a bookmark that exists is not refused.
func TestBookmarks_Limit(t *testing.T) {
	testkit.Heavy(t)
	w := newWorld(t)
	ada := w.AddUser("ada")
	first, second := w.AddPost(ada, "first"), w.AddPost(ada, "second")
	if _, err := w.BookmarkPost(t.Context(), ada.UserID, first.ID); err != nil {
		t.Fatal(err)
	}
	users, err := w.Account.Container(w.Database, blog.UsersContainer)
	if err != nil {
		t.Fatal(err)
	}
	var items [][]byte
	for i := range blog.MaxBookmarks - 1 {
		items = append(items, blog.Encode(blog.NewBookmark(ada.UserID, fmt.Sprint("p", i), ada.CreatedAt)))
	}
	if _, _, err := users.CreateAll(t.Context(), ada.UserID, items); err != nil {
		t.Fatal(err)
	}
	other, err := store.New(w.Account, store.Options{Database: w.Database, Clock: w.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.BookmarkPost(t.Context(), ada.UserID, first.ID); err != nil {
		t.Errorf("repeated: %v", err)
	}
	_, err = other.BookmarkPost(t.Context(), ada.UserID, second.ID)
	storetest.WantCode(t, err, blog.LimitReached, "")
	if _, err := other.RemoveBookmark(t.Context(), ada.UserID, first.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := other.BookmarkPost(t.Context(), ada.UserID, second.ID); err != nil {
		t.Errorf("after one was removed: %v", err)
	}
}

// Pages of both lists are full and complete while posts are deleted and marks removed, and what they have met of
// deleted posts is deleted.
func TestSaved_Churn(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ada, bob := w.AddUser("ada"), w.AddUser("bob")
	stop := w.Start()
	defer stop()
	var posts []*blog.Post
	for i := range 40 {
		p := w.AddPost(ada, fmt.Sprint("post", i))
		posts = append(posts, p)
		if _, err := w.BookmarkPost(ctx, bob.UserID, p.ID); err != nil {
			t.Fatal(err)
		}
		if _, _, err := w.LikePost(ctx, bob.UserID, p.ID); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Until(t, w.CaughtUp)
	for name, list := range map[string]func(context.Context, string, store.Paging) (*store.Page[*blog.Post], error){
		"bookmarks": w.Bookmarks, "likedPosts": w.LikedPosts,
	} {
		gone, seen := map[string]bool{}, map[string]int{}
		r := rand.New(rand.NewPCG(1, 2))
		for p := (store.Paging{First: 5}); ; {
			page, err := list(ctx, bob.UserID, p)
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Items) < 5 && page.More {
				t.Errorf("%s: %d posts in a page that is not the last", name, len(page.Items))
			}
			for _, p := range page.Items {
				if seen[p.ID]++; gone[p.ID] {
					t.Errorf("%s: a page has %s, which is gone", name, p.Title)
				}
			}
			if !page.More {
				break
			}
			p.After = page.Cursor(len(page.Items) - 1)
			p := posts[r.IntN(len(posts))]
			switch r.IntN(3) {
			case 0:
				err = w.DeletePost(ctx, ada.UserID, p.ID)
			case 1:
				_, err = w.RemoveBookmark(ctx, bob.UserID, p.ID)
				gone[p.ID] = name == "bookmarks"
			default:
				_, err = w.UnlikePost(ctx, bob.UserID, p.ID)
				gone[p.ID] = name == "likedPosts"
			}
			if err != nil && blog.CodeOf(err) != blog.NotFound {
				t.Fatal(err)
			}
		}
		for id, n := range seen {
			if n > 1 {
				t.Errorf("%s: %s is there %d times", name, id, n)
			}
		}
		if len(seen) < 25 {
			t.Errorf("%s: %d posts", name, len(seen))
		}
	}
	if err := w.DeletePost(ctx, ada.UserID, posts[0].ID); err != nil && blog.CodeOf(err) != blog.NotFound {
		t.Fatal(err)
	}
	testkit.Until(t, func() error {
		var counts [2]int32
		for i, count := range []func(context.Context, string) (int32, error){w.BookmarkCount, w.LikedCount} {
			var err error
			if counts[i], err = count(ctx, bob.UserID); err != nil {
				return err
			}
		}
		have := [2]int32{int32(len(strings.Fields(w.saved(w.Bookmarks, bob)))),
			int32(len(strings.Fields(w.saved(w.LikedPosts, bob))))}
		if have != counts {
			return fmt.Errorf("counted %v, listed %v", counts, have)
		}
		return nil
	})
}

// What the lists and their writes cost, and that the likes cost what they did.
func TestSaved_Costs(t *testing.T) {
	cosmostest.NeedsEngine(t, "it compares charges")
	w := newWorld(t)
	ada := w.AddUser("ada")
	var ids []string
	for i := range 21 {
		ids = append(ids, w.AddPost(ada, fmt.Sprint("post", i)).ID)
	}
	list := func(read func(context.Context, string, store.Paging) (*store.Page[*blog.Post],
		error)) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := read(ctx, ada.UserID, store.Paging{First: 20})
			return err
		}
	}
	mark := func(do func(context.Context, string, string) (*blog.Post, error), id string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := do(ctx, ada.UserID, id)
			return err
		}
	}
	stop := w.Start()
	for _, id := range ids[1:] {
		for _, err := range []error{mark(w.BookmarkPost, id)(t.Context()), like(t.Context(), w, ada, id)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	testkit.Until(t, w.CaughtUp)
	stop()
	for _, c := range []struct {
		name     string
		do       func(context.Context) error
		requests int
		limit    float64
	}{
		{"bookmark", mark(w.BookmarkPost, ids[0]), 2, 8.2},
		{"remove a bookmark", mark(w.RemoveBookmark, ids[0]), 2, 8.2},
		{"bookmarks", list(w.Bookmarks), 2, 7.2},
		{"liked posts", list(w.LikedPosts), 2, 7.6},
		{"like", func(ctx context.Context) error { return like(ctx, w, ada, ids[0]) }, 1, 16.8},
	} {
		var mu sync.Mutex
		var ru float64 // guarded by mu
		requests := 0  // guarded by mu
		ctx := cosmos.WithRecorder(t.Context(), func(_ context.Context, o *cosmos.Operation) {
			mu.Lock()
			defer mu.Unlock()
			ru += o.RU
			requests++
		})
		if err := c.do(ctx); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d requests, %.2f RU", c.name, requests, ru)
		if requests > c.requests || ru > c.limit {
			t.Errorf("%s: %d requests, %.2f RU; want %d of at most %g RU", c.name, requests, ru, c.requests, c.limit)
		}
	}
}

func like(ctx context.Context, w *world, u *blog.User, postID string) error {
	_, _, err := w.LikePost(ctx, u.UserID, postID)
	return err
}
