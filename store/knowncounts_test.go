package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
)

// countsIn returns the comments and likes of a user's posts in the feed and in the user's list, by title.
func countsIn(t testing.TB, ctx context.Context, s *store.Store, userID string) string {
	t.Helper()
	var both [2]map[string]string
	feed, err := s.Feed(ctx, store.Paging{First: 100})
	if err != nil {
		t.Fatal(err)
	}
	own, err := s.UserPosts(ctx, userID, store.Paging{First: 100})
	if err != nil {
		t.Fatal(err)
	}
	for i, posts := range [][]*blog.Post{feed.Items, own.Items} {
		both[i] = map[string]string{}
		for _, p := range posts {
			both[i][p.Title] = fmt.Sprintf("%d/%d", p.CommentCount, p.LikeCount)
		}
	}
	if fmt.Sprint(both[0]) != fmt.Sprint(both[1]) {
		t.Errorf("the feed has %v, the user's list %v", both[0], both[1])
	}
	return fmt.Sprint(both[0])
}

// While no view has caught up, lists show the counts that the instance has written and, with the session, those of
// another instance, at no additional request.
func TestCounts_WriterSeesOwn(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		a := openLagging(t)
		one, two, three := newInstance(t, a), newInstance(t, a), newInstance(t, a)
		ada, err := one.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("test", "ada"), Username: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		create := func(title string) *blog.Post {
			p, err := one.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: title, Content: "c"})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		a1, b1 := create("a"), create("b")
		var comment *blog.Comment
		start, begun := one.within(t, "")
		begun.MarkWritten()
		if _, err := one.EditPost(start, ada.UserID, a1.ID, store.PostEdit{Content: new("edited")}); err != nil {
			t.Fatal(err)
		}
		token := begun.Token() // of a session that reads the posts, but has not written the counts
		plain, _ := two.sends(func() {
			ctx, _ := two.within(t, token)
			if got, want := countsIn(t, ctx, two.Store, ada.UserID), "map[a:0/0 b:0/0]"; got != want {
				t.Errorf("before: got %s, want %s", got, want)
			}
		})
		for _, step := range []struct {
			name  string
			write func(ctx context.Context) error
			want  string
		}{
			{"like", func(ctx context.Context) error {
				_, _, err := one.LikePost(ctx, ada.UserID, a1.ID)
				return err
			}, "map[a:0/1 b:0/0]"},
			{"like again", func(ctx context.Context) error {
				_, _, err := one.LikePost(ctx, ada.UserID, a1.ID)
				return err
			}, "map[a:0/1 b:0/0]"},
			{"comment", func(ctx context.Context) (err error) {
				comment, _, err = one.CreateComment(ctx,
					store.NewComment{AuthorID: ada.UserID, PostID: b1.ID, Content: "c", Key: "k"})
				return err
			}, "map[a:0/1 b:1/0]"},
			{"comment again", func(ctx context.Context) error {
				_, _, err := one.CreateComment(ctx,
					store.NewComment{AuthorID: ada.UserID, PostID: b1.ID, Content: "c", Key: "k"})
				return err
			}, "map[a:0/1 b:1/0]"},
			{"unlike", func(ctx context.Context) error {
				_, err := one.UnlikePost(ctx, ada.UserID, a1.ID)
				return err
			}, "map[a:0/0 b:1/0]"},
			{"unlike again", func(ctx context.Context) error {
				_, err := one.UnlikePost(ctx, ada.UserID, a1.ID)
				return err
			}, "map[a:0/0 b:1/0]"},
			{"delete comment", func(ctx context.Context) error {
				_, err := one.DeleteComment(ctx, ada.UserID, b1.ID, comment.ID)
				return err
			}, "map[a:0/0 b:0/0]"},
		} {
			ctx, session := one.within(t, token)
			if err := step.write(ctx); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			token = session.Token()
			if got := countsIn(t, t.Context(), one.Store, ada.UserID); got != step.want {
				t.Errorf("%s: on the writing instance: got %s, want %s", step.name, got, step.want)
			}
			fresh := newInstance(t, a)
			requests, _ := fresh.sends(func() {
				ctx, _ := fresh.within(t, token)
				if got := countsIn(t, ctx, fresh.Store, ada.UserID); got != step.want {
					t.Errorf("%s: on another, with the session: got %s, want %s", step.name, got, step.want)
				}
			})
			if requests != plain {
				t.Errorf("%s: got %d requests for the lists, want %d as before", step.name, requests, plain)
			}
		}
		if a.Engine != nil {
			ctx, _ := three.within(t, "")
			three.NewSession("") // nothing is learned from other sessions
			if got, err := three.Feed(ctx, store.Paging{First: 1}); err != nil || len(got.Items) != 0 {
				t.Errorf("without a session: got %v, %v: the replica does not lag", got.Items, err)
			}
		}
	})
}

// sibling returns another store on the same data.
func (w *world) sibling(t testing.TB, clock func() time.Time) *store.Store {
	t.Helper()
	s, err := store.New(w.Account, store.Options{Database: w.Database, Clock: clock, Instance: "sibling"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A view that is newer than the known counts wins, and a session carries them for an hour.
func TestCounts_NewerViewWins(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	p := w.AddPost(ada, "a")
	var now atomic.Int64
	now.Store(time.Now().Unix())
	other := w.sibling(t, func() time.Time { return time.Unix(now.Load(), 0) })
	session := other.NewSession("")
	ctx := cosmos.WithSession(t.Context(), session)
	if _, _, err := other.LikePost(ctx, ada.UserID, p.ID); err != nil {
		t.Fatal(err)
	}
	if got, want := countsIn(t, t.Context(), other, ada.UserID), "map[a:0/1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	token := session.Token()
	for after, want := range map[time.Duration]string{0: "map[a:0/1]", time.Hour: "map[a:0/1]",
		time.Hour + time.Second: "map[a:0/0]", -time.Hour - time.Second: "map[a:0/0]"} {
		at := now.Load()
		now.Add(int64(after.Seconds()))
		third := w.sibling(t, func() time.Time { return time.Unix(now.Load(), 0) })
		resumed := third.NewSession(token)
		if got := countsIn(t, cosmos.WithSession(t.Context(), resumed), third, ada.UserID); got != want {
			t.Errorf("by a session of %v ago: got %s, want %s", after, got, want)
		}
		now.Store(at)
	}
	w.AddLike(grace, p) // through the first store
	w.AddComment(grace, p, "c")
	stop := w.Start()
	testkit.Until(t, w.CaughtUp)
	stop()
	if got, want := countsIn(t, t.Context(), other, ada.UserID), "map[a:1/2]"; got != want {
		t.Errorf("once the view is newer: got %s, want %s", got, want)
	}
}

// A session keeps the counts of the posts that it has written last, its last follows, and the user that it has renamed.
func TestCounts_SessionIsBounded(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	session := w.NewSession("")
	ctx := cosmos.WithSession(t.Context(), session)
	var posts []*blog.Post
	for i := range 20 {
		posts = append(posts, w.AddPost(ada, fmt.Sprintf("%02d", i)))
	}
	if _, err := w.UpdateUser(ctx, ada.UserID, store.UserEdit{Username: new("countess")}); err != nil {
		t.Fatal(err)
	}
	for _, p := range posts {
		for range 2 { // the second like is a repetition
			if _, _, err := w.LikePost(ctx, ada.UserID, p.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []string{}
	for i := range 20 {
		author := w.AddUser(fmt.Sprint("author", i))
		if _, err := w.FollowUser(ctx, ada.UserID, author.UserID); err != nil {
			t.Fatal(err)
		}
		if i >= 5 {
			want = slices.Insert(want, 0, author.Username)
		}
	}
	token := session.Token()
	if len(token) > 3500 {
		t.Errorf("a token of %d characters", len(token))
	}
	t.Logf("a token of %d characters", len(token))
	other := w.sibling(t, w.Clock.Now)
	resumed := other.NewSession(token)
	if got := other.Renamed(resumed); got != ada.UserID {
		t.Errorf("got %q as renamed, want %s", got, ada.UserID)
	}
	feed, err := other.Feed(t.Context(), store.Paging{First: 100}) // what the instance has learned, others are shown
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, p := range feed.Items {
		if p.LikeCount == 1 {
			got += p.Title + " "
		}
	}
	if got := followedIn(t, t.Context(), other, ada); got != strings.Join(want, " ")+" |" {
		t.Errorf("got follows of %s, want %s", got, want)
	}
	if want := "19 18 17 16 15 14 13 12 11 10 09 08 07 06 05 04 "; got != want {
		t.Errorf("got counts of %s, want %s", got, want)
	}
}
