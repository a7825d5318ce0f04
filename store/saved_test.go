package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
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
	for _, change := range []func(context.Context, string, string) (*blog.Post, error){w.BookmarkPost, w.RemoveBookmark} {
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
