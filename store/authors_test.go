package store_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// The requests of writes on an instance that has read the author, and on one that has not.
func TestAuthors_Requests(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replicas do not lag")
	a := cosmostest.Open(t, emulator.Options{})
	setup := newInstance(t, a)
	w := &world{&storetest.World{Store: setup.Store, T: t}}
	ada := w.AddUser("ada")
	type operation func(context.Context, *store.Store, *blog.Post) error
	create := func(ctx context.Context, s *store.Store, _ *blog.Post) error {
		_, err := s.CreatePost(ctx, store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c"})
		return err
	}
	createOnce := func(ctx context.Context, s *store.Store, p *blog.Post) error {
		_, err := s.CreatePost(ctx, store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c", Key: p.ID})
		return err
	}
	comment := func(ctx context.Context, s *store.Store, p *blog.Post) error {
		_, _, err := s.CreateComment(ctx, store.NewComment{AuthorID: ada.UserID, PostID: p.ID, Content: "c"})
		return err
	}
	like := func(ctx context.Context, s *store.Store, p *blog.Post) error {
		_, _, err := s.LikePost(ctx, ada.UserID, p.ID)
		return err
	}
	unlike := func(ctx context.Context, s *store.Store, p *blog.Post) error {
		_, err := s.UnlikePost(ctx, ada.UserID, p.ID)
		return err
	}
	for name, tt := range map[string]struct {
		before operation // through another instance
		write  operation
		want   int // with a cached author
	}{
		// the post, two summaries, and of the timeline of all posts: the entry with its counter, the post again, and
		// the item
		"C2":               {nil, create, 7},
		"C2 with a key":    {nil, createOnce, 8},
		"C3":               {nil, comment, 1},
		"C4":               {nil, like, 1},
		"C4, repeated":     {like, like, 2},
		"unlike":           {like, unlike, 1},
		"unlike, repeated": {nil, unlike, 2},
	} {
		for _, cached := range []bool{false, true} {
			state, want := "cold", tt.want+1
			if cached {
				state, want = "warm", tt.want
			}
			t.Run(name+", "+state, func(t *testing.T) {
				ctx, p, i := t.Context(), w.AddPost(ada, "post"), newInstance(t, a)
				if tt.before != nil {
					if err := tt.before(ctx, setup.Store, p); err != nil {
						t.Fatal(err)
					}
				}
				if cached {
					i.readUser(t, ada)
				}
				got, _ := i.sends(func() {
					if err := tt.write(ctx, i.Store, p); err != nil {
						t.Fatal(err)
					}
				})
				if got != want {
					t.Errorf("got %d requests, want %d", got, want)
				}
			})
		}
	}
}

func (i *instance) readUser(t testing.TB, u *blog.User) {
	t.Helper()
	if have, err := i.User(t.Context(), u.UserID); have == nil || err != nil {
		t.Fatal(have, err)
	}
}

// likeSends likes a post, and returns the username on the like and the number of requests.
func (i *instance) likeSends(
	ctx context.Context, t testing.TB, u *blog.User, p *blog.Post,
) (username string, requests int) {
	t.Helper()
	requests, _ = i.sends(func() {
		l, _, err := i.LikePost(ctx, u.UserID, p.ID)
		if err != nil {
			t.Fatal(err)
		}
		username = l.Username
	})
	return username, requests
}

// Whatever reads or changes a user fills the cache.
func TestAuthors_FilledBy(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replicas do not lag")
	a := cosmostest.Open(t, emulator.Options{})
	setup := newInstance(t, a)
	w := &world{&storetest.World{Store: setup.Store, T: t}}
	ada := w.AddUser("ada")
	first := w.AddPost(ada, "first")
	for name, fill := range map[string]func(context.Context, *instance) (*blog.User, error){
		"createUser": func(ctx context.Context, i *instance) (*blog.User, error) {
			return i.CreateUser(ctx, store.NewUser{ID: blog.UserID("test", "grace"), Username: "grace"})
		},
		"renaming": func(ctx context.Context, i *instance) (*blog.User, error) {
			return i.UpdateUser(ctx, ada.UserID, store.UserEdit{Username: new("countess")})
		},
		"renaming, repeated": func(ctx context.Context, i *instance) (*blog.User, error) {
			u, err := i.User(ctx, ada.UserID)
			if err != nil {
				return nil, err
			}
			return i.UpdateUser(ctx, ada.UserID, store.UserEdit{Username: new(u.Username)})
		},
		"Q1": func(ctx context.Context, i *instance) (*blog.User, error) { return i.User(ctx, ada.UserID) },
		"many users": func(ctx context.Context, i *instance) (*blog.User, error) {
			all, err := i.Users(ctx, []string{"unknown", ada.UserID})
			return all[1], err
		},
		"a user by name": func(ctx context.Context, i *instance) (*blog.User, error) {
			return i.UserByUsername(ctx, "ada")
		},
		"a comment": func(ctx context.Context, i *instance) (*blog.User, error) {
			_, _, err := i.CreateComment(ctx, store.NewComment{AuthorID: ada.UserID, PostID: first.ID, Content: "c"})
			return ada, err
		},
		"an unlike without a like": func(ctx context.Context, i *instance) (*blog.User, error) {
			_, err := i.UnlikePost(ctx, ada.UserID, first.ID)
			return ada, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			i, p := newInstance(t, a), w.AddPost(ada, "post")
			u, err := fill(t.Context(), i)
			if u == nil || err != nil {
				t.Fatal(u, err)
			}
			if _, n := i.likeSends(t.Context(), t, u, p); n != 1 {
				t.Errorf("a like takes %d requests, want 1", n)
			}
		})
	}
}

// A cached author is used for 20 s. Summaries in the user's partition do not change that.
func TestAuthors_Lifetime(t *testing.T) {
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		i := newInstance(t, cosmostest.Open(t, emulator.Options{}))
		w := &world{&storetest.World{Store: i.Store, T: t}}
		ada, posts := w.AddUser("ada"), []*blog.Post(nil)
		for range 3 {
			posts = append(posts, w.AddPost(ada, "post"))
		}
		i.readUser(t, ada)
		for k, tt := range []struct {
			pause time.Duration
			want  int
		}{{20*time.Second - 1, 1}, {1, 2}, {time.Second, 1}} {
			testkit.Advance(tt.pause)
			if _, n := i.likeSends(t.Context(), t, ada, posts[k]); n != tt.want {
				t.Errorf("like %d takes %d requests, want %d", k, n, tt.want)
			}
		}
	})
}

// After a rename the instance that renamed writes the new name, and so does another for the session of the response,
// although its replica is behind and it has the old name cached. Without the session it may write the old one.
func TestAuthors_Renamed(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replica lag")
	cosmostest.Run(t, func(t *testing.T) {
		on := openLagging(t)
		one, two := newInstance(t, on), newInstance(t, on)
		ctx, session := one.within(t, "")
		w := &world{&storetest.World{Store: one.Store, T: t}}
		ada, posts := w.AddUser("ada"), []*blog.Post(nil)
		for range 4 {
			posts = append(posts, w.AddPost(ada, "post"))
		}
		if _, err := one.CreatePost(ctx, store.NewPost{AuthorID: ada.UserID, Title: "t", Content: "c"}); err != nil {
			t.Fatal(err)
		}
		created, _ := two.within(t, session.Token())
		if u, err := two.User(created, ada.UserID); u == nil || err != nil {
			t.Fatal(u, err)
		}
		if name, n := two.likeSends(created, t, ada, posts[0]); name != "ada" || n != 1 {
			t.Errorf("before: got %s after %d requests, want ada after 1", name, n)
		}
		if _, err := one.UpdateUser(ctx, ada.UserID, store.UserEdit{Username: new("countess")}); err != nil {
			t.Fatal(err)
		}
		if name, n := one.likeSends(t.Context(), t, ada, posts[1]); name != "countess" || n != 1 {
			t.Errorf("where it was renamed: got %s after %d requests, want countess after 1", name, n)
		}
		if name, n := two.likeSends(t.Context(), t, ada, posts[2]); name != "ada" || n != 1 {
			t.Errorf("without the session: got %s after %d requests, want ada after 1", name, n)
		}
		within, _ := two.within(t, session.Token())
		if name, _ := two.likeSends(within, t, ada, posts[3]); name != "countess" {
			t.Errorf("with the session: got %s, want countess", name)
		}
	})
}

// A read that began before a rename does not bring the old name back.
func TestAuthors_ReadDuringRename(t *testing.T) {
	cosmostest.NeedsEngine(t, "it holds a response back")
	cosmostest.Run(t, func(t *testing.T) {
		i := newInstance(t, cosmostest.Open(t, emulator.Options{}))
		w := &world{&storetest.World{Store: i.Store, T: t}}
		ada := w.AddUser("ada")
		p := w.AddPost(ada, "post")
		var hold bool
		i.wire.After(func(r *http.Response) {
			if hold && r.Request.Method == http.MethodGet &&
				strings.HasSuffix(r.Request.URL.Path, "/colls/users/docs/"+ada.UserID) {
				hold = false
				if _, err := i.UpdateUser(t.Context(), ada.UserID,
					store.UserEdit{Username: new("countess")}); err != nil {
					t.Error(err)
				}
			}
		})
		hold = true
		i.readUser(t, ada)
		if name, n := i.likeSends(t.Context(), t, ada, p); name != "countess" || n != 1 {
			t.Errorf("got %s after %d requests, want countess after 1", name, n)
		}
	})
}

// An instance drops an author when it reads in the change feed that the user was renamed.
func TestAuthors_DroppedByTail(t *testing.T) {
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		on := cosmostest.Open(t, emulator.Options{})
		one, two := newInstance(t, on), newCachedStore(t, on, 0)
		w := &world{&storetest.World{Store: one.Store, T: t}}
		ada := w.AddUser("ada")
		p, q := w.AddPost(ada, "p"), w.AddPost(ada, "q")
		testkit.Advance(time.Minute)
		name := func(p *blog.Post) string {
			l, _, err := two.LikePost(t.Context(), ada.UserID, p.ID)
			if err != nil {
				t.Fatal(err)
			}
			return l.Username
		}
		if got := name(p); got != "ada" {
			t.Errorf("got %s, want ada", got)
		}
		if _, err := one.UpdateUser(t.Context(), ada.UserID, store.UserEdit{Username: new("countess")}); err != nil {
			t.Fatal(err)
		}
		testkit.Advance(3 * time.Second)
		if got := name(q); got != "countess" {
			t.Errorf("got %s, want countess", got)
		}
	})
}

// A user who was just created writes through another instance, whose replica lags, also without a session.
func TestAuthor_ReplicaLags(t *testing.T) {
	cosmostest.NeedsEngine(t, "of its replica that lags")
	a := openLagging(t)
	one, two := newInstance(t, a), newInstance(t, a)
	if _, err := one.CreateUser(t.Context(), store.NewUser{ID: "ada", Username: "ada"}); err != nil {
		t.Fatal(err)
	}
	p, err := two.CreatePost(t.Context(), store.NewPost{AuthorID: "ada", Title: "At once", Content: "x"})
	if err != nil || p.Username != "ada" {
		t.Fatal(p, err)
	}
	_, err = two.CreatePost(t.Context(), store.NewPost{AuthorID: "nobody", Title: "Never", Content: "x"})
	storetest.WantCode(t, err, blog.Forbidden, "")
}
