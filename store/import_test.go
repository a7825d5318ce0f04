package store_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/projection"
)

// An import that is interrupted between the batches of a thread, and repeated after other writes to the post,
// leaves correct counts.
func TestImport_Repeated(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world, author *blog.User) error{
		"a new like": func(w *world, _ *blog.User) error {
			// whose like is in the second batch
			_, _, err := w.LikePost(w.T.Context(), w.AddUser("fan80").UserID, "imported")
			return err
		},
		"the post is deleted": func(w *world, author *blog.User) error {
			return w.DeletePost(w.T.Context(), author.UserID, "imported")
		},
	} {
		t.Run(name, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				w := newWorld(t)
				date := blog.NewDate(storetest.Epoch().Add(-time.Hour))
				u := &blog.User{Byline: blog.Byline{UserID: blog.UserID("test", "ada"), Username: "ada"},
					CreatedAt: date, Revision: 1}
				thread := store.Thread{Post: &blog.Post{ID: "imported", Byline: u.Byline, Title: "t", Content: "c",
					CreatedAt: date, Version: 1, Revision: 126, CommentCount: 25, LikeCount: 100}}
				for i := range 25 {
					thread.Comments = append(thread.Comments,
						&blog.Comment{ID: fmt.Sprint("c", i), PostID: "imported", Byline: u.Byline, Content: "x",
							CreatedAt: date})
				}
				for i := range 100 {
					fan := fmt.Sprint("fan", i)
					thread.Likes = append(thread.Likes,
						&blog.Like{PostID: "imported",
							Byline: blog.Byline{UserID: blog.UserID("test", fan), Username: fan}, CreatedAt: date})
				}
				var batches atomic.Int32
				w.Wire.Intercept(func(r *http.Request) error {
					if r.Header.Get("X-Ms-Cosmos-Is-Batch-Request") != "" && batches.Add(1) > 1 {
						return errors.New("killed")
					}
					return nil
				})
				if err := w.Import(t.Context(), u, slices.Values([]store.Thread{thread})); err == nil {
					t.Fatal("not interrupted")
				}
				w.Wire.Intercept(nil)
				caughtUp := func() {
					stop := w.Start()
					testkit.Until(t, w.CaughtUp)
					stop()
				}
				if err := meanwhile(w, u); err != nil {
					t.Fatal(err)
				}
				caughtUp()
				if err := w.Import(t.Context(), u, slices.Values([]store.Thread{thread})); err != nil {
					t.Fatal(err)
				}
				caughtUp()
				for _, d := range w.Differences(0) {
					if d.Kind != projection.Liked || name == "a new like" { // of fans who do not exist, for a deleted post
						t.Errorf("%+v", d)
					}
				}
			})
		})
	}
}

// Imported posts do not enter a feed shortened by deletes before newer posts that it dropped.
func TestImport_OlderPosts(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		var posts []*blog.Post
		for i := range 160 {
			posts = append(posts, w.AddPost(ada, fmt.Sprint(i)))
		}
		deleteSome := func(some []*blog.Post) {
			stop := w.Start()
			testkit.Until(t, w.CaughtUp)
			for _, p := range some {
				if err := w.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
					t.Fatal(err)
				}
			}
			testkit.Until(t, w.CaughtUp)
			stop()
		}
		deleteSome(posts[140:]) // as many as possible without a refill of the feed
		date := blog.NewDate(storetest.Epoch().Add(-time.Hour))
		grace := &blog.User{Byline: blog.Byline{UserID: blog.UserID("test", "grace"), Username: "grace"},
			CreatedAt: date, Revision: 1}
		var older []*blog.Post
		var threads []store.Thread
		for i := range 30 {
			p := &blog.Post{ID: fmt.Sprint("older", i), Byline: grace.Byline, Title: "t", Content: "c",
				CreatedAt: date, Version: 1, Revision: 1}
			older, threads = append(older, p), append(threads, store.Thread{Post: p})
		}
		if err := w.Import(t.Context(), grace, slices.Values(threads)); err != nil {
			t.Fatal(err)
		}
		if err := w.ImportFeed(t.Context(), older); err != nil {
			t.Fatal(err)
		}
		deleteSome(posts[105:140])
		for _, d := range w.Differences(time.Second) {
			t.Errorf("%+v", d)
		}
	})
}
