package store_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
)

// A stream of a home feed has the new posts of those whom the viewer follows: by follows of this instance at once, by
// those of others a moment later.
func TestHomePublished(t *testing.T) {
	w := newWorld(t)
	one, two := w.instance("one", 1<<20, store.Options{}), w.instance("two", 1<<20, store.Options{})
	ctx := t.Context()
	ada, bob, eve, dan := w.AddUser("ada"), w.AddUser("bob"), w.AddUser("eve"), w.AddUser("dan")
	w.addFollows(ada, dan.UserID)
	here, err := one.HomePublished(ctx, ada.UserID)
	open(t, here, err)
	there, err := two.HomePublished(ctx, ada.UserID)
	open(t, there, err)
	want := func(what, title string) {
		t.Helper()
		if got, _ := next(t, here); got.Title != title {
			t.Errorf("%s: got %s, want %s", what, got.Title, title)
		}
	}
	change := func(f func(context.Context, string, string) (*blog.User, error), author *blog.User) {
		t.Helper()
		if _, err := f(ctx, ada.UserID, author.UserID); err != nil {
			t.Fatal(err)
		}
	}
	w.AddPost(bob, "b1")
	w.AddPost(dan, "d1")
	want("of the view alone", "d1")
	if got, _ := next(t, there); got.Title != "d1" {
		t.Errorf("elsewhere: got %s, want d1", got.Title)
	}
	change(one.FollowUser, bob)
	w.AddPost(bob, "b2")
	want("after a follow here", "b2")
	change(one.UnfollowUser, bob)
	w.AddPost(bob, "b3")
	w.AddPost(dan, "d2")
	want("after the end of a follow here", "d2")
	change(two.FollowUser, eve)
	untilTrue(t, "a follow elsewhere is not known", func() bool {
		w.AddPost(eve, "e")
		select {
		case p := <-here.Events():
			return p.Title == "e"
		default:
			return false
		}
	})
	if err := one.DeleteUser(ctx, dan.UserID, "dan"); err != nil {
		t.Fatal(err)
	}
	_, err = w.CreatePost(ctx, store.NewPost{AuthorID: dan.UserID, Title: "of a deleted author", Content: "text"})
	w.AddPost(eve, "last")
	for {
		p, _ := next(t, here)
		if p.UserID == dan.UserID {
			t.Errorf("a deleted author has published %s: %v", p.Title, err)
		}
		if p.Title == "last" {
			break
		}
	}
}

// A new post reaches the home feeds that are open on another instance within a poll of the change feed, which is a
// second on Azure, besides the time that requests take: none on the fake clock.
func TestHomePublished_WithinAPoll(t *testing.T) {
	cosmostest.NeedsEngine(t, "the fake clock")
	for name, cacheBytes := range map[string]int{"with a cache": 1 << 20, "without a cache": 0} {
		t.Run(name, func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				w := newWorld(t)
				ada, bob := w.AddUser("ada"), w.AddUser("bob")
				w.addFollows(ada, bob.UserID)
				poll := store.Options{PollInterval: time.Second}
				one, two := w.instance("one", cacheBytes, poll), w.instance("two", cacheBytes, poll)
				s, err := two.HomePublished(t.Context(), ada.UserID)
				open(t, s, err)
				var longest time.Duration
				for i := range 50 {
					testkit.Advance(time.Duration(i) * 37 * time.Millisecond) // at another time after a poll
					began := time.Now()
					p, err := one.CreatePost(t.Context(),
						store.NewPost{AuthorID: bob.UserID, Title: "news", Content: "text"})
					if err != nil {
						t.Fatal(err)
					}
					if got, _ := next(t, s); got.ID != p.ID {
						t.Fatalf("got %s, want %s", got.ID, p.ID)
					}
					longest = max(longest, time.Since(began))
				}
				if t.Logf("at most %v", longest); longest > time.Second {
					t.Errorf("a post takes %v", longest)
				}
			})
		})
	}
}

// An open home feed has the posts of an author whom the viewer has followed through another instance once a request
// with the session of the follow has reached its instance, although the view is not known there.
func TestHomePublished_FollowOfSession(t *testing.T) {
	w := newWorld(t)
	ada, bob, eve := w.AddUser("ada"), w.AddUser("bob"), w.AddUser("eve")
	w.addFollows(ada, eve.UserID)
	two, writer := w.instance("two", 1<<20, store.Options{}), w.sibling(t, w.Clock.Now)
	s, err := two.HomePublished(t.Context(), ada.UserID)
	open(t, s, err)
	w.Inject(func(o faulttest.Operation) faulttest.Response {
		if o.Kind != faulttest.ChangeFeed || o.Container != blog.UsersContainer {
			return faulttest.Response{}
		}
		return faulttest.Response{Status: http.StatusServiceUnavailable}
	})
	token := ""
	for _, step := range []struct {
		change func(ctx context.Context, userID, authorID string) (*blog.User, error)
		before string // the first event of two posts, bob's and eve's, before two knows the session
		after  string
	}{{writer.FollowUser, "e1", "b2"}, {writer.UnfollowUser, "b1", "e2"}} {
		session := writer.NewSession(token)
		if _, err := step.change(cosmos.WithSession(t.Context(), session), ada.UserID, bob.UserID); err != nil {
			t.Fatal(err)
		}
		token = session.Token()
		for i, want := range []string{step.before, step.after} {
			if i == 1 {
				two.NewSession(token)
			}
			w.AddPost(bob, fmt.Sprint("b", i+1))
			w.AddPost(eve, fmt.Sprint("e", i+1))
			got, _ := next(t, s)
			if got.Title != want {
				t.Errorf("got %s first, want %s", got.Title, want)
			}
			for got.UserID != eve.UserID {
				got, _ = next(t, s)
			}
		}
	}
	w.Inject(nil)
}
