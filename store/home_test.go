package store_test

import (
	"strings"
	"testing"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
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
