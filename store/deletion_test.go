package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/enginetest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/stored"
	"byline/store/username"
)

// openHeld opens an account on which jobs of deletions make no progress.
func openHeld(t *testing.T) *cosmostest.Account {
	t.Helper()
	a := cosmostest.Open(t, emulator.Options{})
	a.Transport = enginetest.HoldDeletions(a.Transport)
	return a
}

// deletable is a blog of two users.
type deletable struct {
	ada, grace  *blog.User
	mine, other *blog.Post    // ada's and grace's
	comment     *blog.Comment // ada's, on grace's post
}

func (w *world) deletable() deletable {
	d := deletable{ada: w.AddUser("ada"), grace: w.AddUser("grace")}
	d.mine, d.other = w.AddPost(d.ada, "mine"), w.AddPost(d.grace, "other")
	d.comment = w.AddComment(d.ada, d.other, "of ada")
	w.AddComment(d.grace, d.mine, "of grace")
	w.AddLike(d.ada, d.other)
	return d
}

// visible lists the reads of a store that show ada.
func (d deletable) visible(ctx context.Context, s *store.Store) string {
	var all []string
	show := func(what string, visible bool, err error) {
		if visible || err != nil {
			all = append(all, fmt.Sprint(what, " ", err))
		}
	}
	u, err := s.User(ctx, d.ada.UserID)
	show("user", u != nil, err)
	users, err := s.Users(ctx, []string{d.ada.UserID, d.grace.UserID})
	show("users", err != nil || users[0] != nil, err)
	u, err = s.UserByUsername(ctx, "ADA")
	show("name", u != nil, err)
	p, err := s.Post(ctx, d.mine.ID)
	show("post", p != nil, err)
	posts, err := s.Posts(ctx, []string{d.mine.ID, d.other.ID})
	show("posts", err != nil || posts[0] != nil || posts[1] == nil, err)
	own, err := s.UserPosts(ctx, d.ada.UserID, store.Paging{First: 20})
	show("own posts", err != nil || len(own.Items) > 0 || own.More, err)
	feed, err := s.Feed(ctx, store.Paging{First: 1})
	show("feed", err != nil || len(feed.Items) != 1 || feed.Items[0].ID != d.other.ID || feed.More, err)
	comments, err := s.Comments(ctx, d.other.ID, store.Paging{First: 20})
	show("comments", err != nil || len(comments.Items) != 1 || comments.Items[0].Username != "", err)
	c, err := s.Comment(ctx, d.other.ID, d.comment.ID)
	show("comment", c == nil || c.Username != "", err)
	likes, err := s.Likes(ctx, d.other.ID, store.Paging{First: 20})
	show("likes", err != nil || len(likes.Items) != 1 || likes.Items[0].Username != "", err)
	l, err := s.Like(ctx, d.other.ID, d.ada.UserID)
	show("like", l == nil || l.Username != "", err)
	liked, err := s.Liked(ctx, d.ada.UserID, []string{d.other.ID})
	show("liked", err != nil || liked[0], err)
	return strings.Join(all, ", ")
}

// A deleted user and their posts are hidden from readers at once; their comments and likes elsewhere have no
// username.
func TestDeleteUser_HiddenFromReaders(t *testing.T) {
	w := newWorld(t)
	d := w.deletable()
	everything := d.visible(t.Context(), w.Store)
	for _, what := range []string{"user", "name", "post ", "posts", "own posts", "feed", "comments", "comment ",
		"likes", "like ", "liked"} {
		if !strings.Contains(everything, what) {
			t.Fatalf("before the deletion only %s is visible", everything)
		}
	}
	if err := w.DeleteUser(t.Context(), d.ada.UserID, "ada"); err != nil {
		t.Fatal(err)
	}
	if left := d.visible(t.Context(), w.Store); left != "" {
		t.Errorf("still visible: %s", left)
	}
	// A repetition succeeds and changes nothing.
	before := w.userItem(d.ada.UserID)
	if err := w.DeleteUser(t.Context(), d.ada.UserID, "ada"); err != nil {
		t.Errorf("a repetition: %v", err)
	}
	if after := w.userItem(d.ada.UserID); after != before {
		t.Errorf("after a repetition the item is %s\nwant %s", after, before)
	}
	for _, property := range []string{`"deleted":true`, `"deletionDate":"`, `"username":"ada"`, `"revision":2`} {
		if !strings.Contains(before, property) {
			t.Errorf("no %s in %s", property, before)
		}
	}
	if strings.Contains(before, "ttl") {
		t.Errorf("the tombstone expires: %s", before)
	}
}

// userItem returns the JSON of a user item.
func (w *world) userItem(id string) string {
	w.T.Helper()
	c, err := w.Client.NewContainer(w.Database, "users")
	if err != nil {
		w.T.Fatal(err)
	}
	r, err := c.ReadItem(w.T.Context(), azcosmos.NewPartitionKeyString(id), id, nil)
	if err != nil {
		w.T.Fatal(err)
	}
	return string(r.Value)
}

func TestDeleteUser_Refused(t *testing.T) {
	w := newWorld(t)
	d := w.deletable()
	for _, name := range []string{"", "Ada", "grace", "ada x"} {
		storetest.WantCode(t, w.DeleteUser(t.Context(), d.ada.UserID, name), blog.Invalid, "username")
	}
	for _, id := range []string{"", "a/b", blog.UserID("test", "unknown")} {
		storetest.WantCode(t, w.DeleteUser(t.Context(), id, "ada"), blog.NotFound, "")
	}
	if u, err := w.User(t.Context(), d.ada.UserID); u == nil || err != nil {
		t.Errorf("%v %v", u, err)
	}
	if err := w.DeleteUser(t.Context(), d.ada.UserID, "ada"); err != nil {
		t.Fatal(err)
	}
	storetest.WantCode(t, w.DeleteUser(t.Context(), d.ada.UserID, "countess"), blog.Invalid, "username")
}

// A deleted user cannot write, and no user can write to hidden posts.
func TestDeleteUser_Writes(t *testing.T) {
	w := newWorld(t)
	d := w.deletable()
	ctx := t.Context()
	if err := w.DeleteUser(ctx, d.ada.UserID, "ada"); err != nil {
		t.Fatal(err)
	}
	title := "changed"
	for what, write := range map[string]func() error{
		"createPost": func() error {
			_, err := w.CreatePost(ctx, store.NewPost{AuthorID: d.ada.UserID, Title: "t", Content: "c"})
			return err
		},
		"updatePost": func() error {
			_, err := w.EditPost(ctx, d.ada.UserID, d.mine.ID, store.PostEdit{Title: &title})
			return err
		},
		"deletePost": func() error { return w.DeletePost(ctx, d.ada.UserID, d.mine.ID) },
		"createComment": func() error {
			_, _, err := w.CreateComment(ctx,
				store.NewComment{AuthorID: d.ada.UserID, PostID: d.other.ID, Content: "c"})
			return err
		},
		"updateComment": func() error {
			_, err := w.EditComment(ctx, d.ada.UserID, d.other.ID, d.comment.ID, "c")
			return err
		},
		"deleteComment": func() error {
			_, err := w.DeleteComment(ctx, d.ada.UserID, d.other.ID, d.comment.ID)
			return err
		},
		"likePost":   func() error { _, _, err := w.LikePost(ctx, d.ada.UserID, d.other.ID); return err },
		"unlikePost": func() error { _, err := w.UnlikePost(ctx, d.ada.UserID, d.other.ID); return err },
	} {
		if err := write(); blog.CodeOf(err) != blog.Forbidden {
			t.Errorf("%s: got %v, want forbidden", what, err)
		}
	}
	_, err := w.UpdateUser(ctx, d.ada.UserID, store.UserEdit{Username: new("countess")})
	storetest.WantCode(t, err, blog.NotFound, "")
	_, _, err = w.CreateComment(ctx, store.NewComment{AuthorID: d.grace.UserID, PostID: d.mine.ID, Content: "c"})
	storetest.WantCode(t, err, blog.NotFound, "")
	_, _, err = w.LikePost(ctx, d.grace.UserID, d.mine.ID)
	storetest.WantCode(t, err, blog.NotFound, "")
	w.Start()
	_, err = w.PostChanges(ctx, d.mine.ID)
	storetest.WantCode(t, err, blog.NotFound, "")
}

// The user can be created again, and the name reused, only after the deletion has ended.
func TestDeleteUser_CreateAgain(t *testing.T) {
	w := newWorld(t)
	d := w.deletable()
	ctx := t.Context()
	if err := w.DeleteUser(ctx, d.ada.UserID, "ada"); err != nil {
		t.Fatal(err)
	}
	reserved := fmt.Sprint(w.Reservations())
	_, err := w.CreateUser(ctx, store.NewUser{ID: d.ada.UserID, Username: "countess"})
	storetest.WantCode(t, err, blog.Conflict, "")
	if e := err.(*blog.Error); e.RetryAfter <= 30*time.Second || e.RetryAfter > blog.DeletionGrace {
		t.Errorf("got RetryAfter %v", e.RetryAfter)
	}
	w.Clock.Millis.Add((2 * username.Grace).Milliseconds())
	_, err = w.CreateUser(ctx, store.NewUser{ID: blog.UserID("test", "eve"), Username: "ada"})
	storetest.WantCode(t, err, blog.Conflict, "username")
	_, err = w.CreateUser(ctx, store.NewUser{ID: d.ada.UserID, Username: "ada"})
	storetest.WantCode(t, err, blog.Conflict, "")
	if e := err.(*blog.Error); e.RetryAfter <= 0 {
		t.Errorf("got RetryAfter %v", e.RetryAfter)
	}
	if now := fmt.Sprint(w.Reservations()); now != reserved {
		t.Errorf("got reservations %s, want %s", now, reserved)
	}

	// Finish the deletion like the job.
	c, err := w.Account.Container(w.Database, "users")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{username.Key("ada"), d.ada.UserID} {
		if err := c.Delete(ctx, stored.Key(id, id), ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.CreateUser(ctx, store.NewUser{ID: d.ada.UserID, Username: "ada"}); err != nil {
		t.Fatal(err)
	}
	p := w.AddPost(d.ada, "new")
	if u, err := w.User(ctx, d.ada.UserID); u == nil || err != nil {
		t.Errorf("%v %v", u, err)
	}
	if got, err := w.Post(ctx, p.ID); got == nil || err != nil {
		t.Errorf("%v %v", got, err)
	}
	if own, err := w.UserPosts(ctx, d.ada.UserID, store.Paging{First: 100}); err != nil || len(own.Items) != 1 ||
		own.Items[0].ID != p.ID {
		t.Errorf("own posts: %v, %v", own, err)
	}
	if _, err := w.EditPost(ctx, d.ada.UserID, p.ID, store.PostEdit{Title: &p.Content}); err != nil {
		t.Error(err)
	}
}

// Once the user item is deleted, RetryAfter is the rest of the grace period.
func TestDeleteUser_CreateAgainEarly(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	if err := w.DeleteUser(t.Context(), ada.UserID, "ada"); err != nil {
		t.Fatal(err)
	}
	c, err := w.Account.Container(w.Database, "users")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), stored.Key(ada.UserID, ada.UserID), ""); err != nil {
		t.Fatal(err)
	}
	w.Clock.Millis.Add(20_000)
	_, err = w.CreateUser(t.Context(), store.NewUser{ID: ada.UserID, Username: "countess"})
	storetest.WantCode(t, err, blog.Conflict, "")
	if e := err.(*blog.Error); e.RetryAfter < 30*time.Second || e.RetryAfter > blog.DeletionGrace-20*time.Second {
		t.Errorf("got RetryAfter %v", e.RetryAfter)
	}
}

// Pages of the feed have their full length without hidden posts, and correct cursors and ends.
func TestDeleteUser_PagesOfFeed(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	var want []string
	for i := range 60 {
		u := ada
		if i%3 == 0 {
			u, want = grace, append([]string{fmt.Sprint(i)}, want...)
		}
		w.AddPost(u, fmt.Sprint(i))
	}
	if err := w.DeleteUser(t.Context(), ada.UserID, "ada"); err != nil {
		t.Fatal(err)
	}
	for _, first := range []int{1, 7, 20, 100} {
		var got []string
		for _, p := range storetest.All(t, first, w.Feed) {
			got = append(got, p.Title)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("pages of %d: %v, want %v", first, got, want)
		}
	}
}

// A user who is renamed at the same time is not deleted under the old name.
func TestDeleteUser_RenamedMeanwhile(t *testing.T) {
	w := newWorld(t)
	ada := w.AddUser("ada")
	var once atomic.Bool
	w.Wire.Intercept(func(r *http.Request) error {
		if r.Method == http.MethodPatch && once.CompareAndSwap(false, true) {
			if _, err := w.UpdateUser(context.WithoutCancel(t.Context()), ada.UserID,
				store.UserEdit{Username: new("countess")}); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	storetest.WantCode(t, w.DeleteUser(t.Context(), ada.UserID, "ada"), blog.Invalid, "username")
	if u, err := w.User(t.Context(), ada.UserID); err != nil || u == nil || u.Username != "countess" {
		t.Errorf("%v %v", u, err)
	}
}

// The username is compared with the newest one, even if the replica is behind.
func TestDeleteUser_ReplicaBehind(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replica lag")
	cosmostest.Run(t, func(t *testing.T) {
		on := openLagging(t)
		one, two := newInstance(t, on), newInstance(t, on)
		ctx, id := t.Context(), blog.UserID("test", "ada")
		if _, err := one.CreateUser(ctx, store.NewUser{ID: id, Username: "ada"}); err != nil {
			t.Fatal(err)
		}
		if _, err := one.UpdateUser(ctx, id, store.UserEdit{Username: new("countess")}); err != nil {
			t.Fatal(err)
		}
		storetest.WantCode(t, two.DeleteUser(ctx, id, "ada"), blog.Invalid, "username")
		if err := two.DeleteUser(ctx, id, "countess"); err != nil {
			t.Error(err)
		}
		if u, err := two.User(ctx, id); u != nil || err != nil {
			t.Errorf("%v %v", u, err)
		}
	})
}

// Other instances hide a deleted user within a poll, or at the first read after a pause.
func TestDeleteUser_OtherInstances(t *testing.T) {
	for name, tt := range map[string]struct {
		cache int
		idle  time.Duration // idle time of the other instance before the mutation
		wait  time.Duration // time after the mutation
	}{
		"reading, with caches":       {1 << 20, 0, 1100 * time.Millisecond},
		"after a pause, with caches": {1 << 20, time.Minute, 1100 * time.Millisecond},
		"without caches":             {0, time.Minute, 1100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			cosmostest.NeedsEngine(t, "a fake clock")
			cosmostest.Run(t, func(t *testing.T) {
				on := openHeld(t)
				a, b := newCachedStore(t, on, tt.cache), newCachedStore(t, on, tt.cache)
				w := &world{&storetest.World{Store: a.Store, T: t}}
				d := w.deletable()
				testkit.Advance(5 * time.Second)
				d.visible(t.Context(), b.Store)
				testkit.Advance(tt.idle)
				if err := a.DeleteUser(t.Context(), d.ada.UserID, "ada"); err != nil {
					t.Fatal(err)
				}
				if left := d.visible(t.Context(), a.Store); left != "" {
					t.Errorf("still visible on the deleting instance: %s", left)
				}
				if tt.idle == 0 {
					d.visible(t.Context(), b.Store) // wakes the tail
				}
				testkit.Advance(tt.wait)
				if left := d.visible(t.Context(), b.Store); left != "" {
					t.Errorf("still visible: %s", left)
				}
			})
		})
	}
}

// A session token suffices for an instance to hide the user, although its replica is behind.
func TestDeleteUser_Session(t *testing.T) {
	cosmostest.NeedsEngine(t, "its replica lag")
	cosmostest.Run(t, func(t *testing.T) {
		on := openLagging(t)
		one, two := newInstance(t, on), newInstance(t, on)
		ctx, session := one.within(t, "")
		w := &world{&storetest.World{Store: one.Store, T: t}}
		d := w.deletable()
		if err := one.DeleteUser(ctx, d.ada.UserID, "ada"); err != nil {
			t.Fatal(err)
		}
		within, resumed := two.within(t, session.Token())
		u, err := two.User(within, d.ada.UserID)
		p, postErr := two.Post(t.Context(), d.mine.ID)
		if u != nil || err != nil || p != nil || postErr != nil {
			t.Errorf("%v %v %v %v", u, err, p, postErr)
		}
		if _, err := two.CreatePost(within,
			store.NewPost{AuthorID: d.ada.UserID, Title: "t", Content: "c"}); blog.CodeOf(err) != blog.Forbidden {
			t.Error(err)
		}
		if renamed := two.Renamed(resumed); renamed != "" {
			t.Errorf("got %s as renamed, want none", renamed)
		}
	})
}

// An instance that starts hides the users whose deletion has a job, and forgets them after the deletion.
func TestDeleteUser_HiddenAfterStart(t *testing.T) {
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		on := openHeld(t)
		one := newInstance(t, on)
		w := &world{&storetest.World{Store: one.Store, T: t}}
		d := w.deletable()
		if err := one.DeleteUser(t.Context(), d.ada.UserID, "ada"); err != nil {
			t.Fatal(err)
		}
		leases, users := one.container(t, "leases"), one.container(t, "users")
		for _, subject := range []string{d.ada.UserID, d.grace.UserID, "absent"} { // grace was created again
			id := "deleteUser." + subject
			if err := leases.Create(t.Context(), id,
				fmt.Appendf(nil, `{"id":%q,"kind":"deleteUser","subject":%q}`, id, subject)); err != nil {
				t.Fatal(err)
			}
		}
		slow := &storetest.Wire{To: on.Transport}
		slow.Intercept(func(r *http.Request) error {
			if strings.HasSuffix(r.URL.Path, "/colls/leases/docs") &&
				strings.HasPrefix(r.Header.Get("Content-Type"), "application/query+json") {
				<-time.After(200 * time.Millisecond)
			}
			return nil
		})
		on.Transport = slow
		for _, cacheBytes := range []int{1 << 20, 0} {
			b := newCachedStore(t, on, cacheBytes)
			synctest.Wait() // until it lists the jobs
			began := time.Now()
			if u, err := b.User(t.Context(), d.ada.UserID); u != nil || err != nil || time.Since(began) > 0 {
				t.Errorf("got user %v, %v after %v, want nil at once, by the item alone", u, err, time.Since(began))
			}
			if left := d.visible(t.Context(), b.Store); left != "" {
				t.Errorf("with a cache of %d bytes, still visible: %s", cacheBytes, left)
			}
			if u, err := b.User(t.Context(), d.grace.UserID); u == nil || err != nil {
				t.Errorf("%v %v", u, err)
			}
			if cacheBytes == 0 {
				testkit.Advance(11 * time.Minute)
				if !b.HidesUsers() {
					t.Error("forgot a deletion that has not ended")
				}
				if err := users.Delete(t.Context(), cosmos.Key{Partition: d.ada.UserID, ID: d.ada.UserID},
					""); err != nil {
					t.Fatal(err)
				}
				testkit.Advance(11 * time.Minute)
				if b.HidesUsers() {
					t.Error("a deletion that has ended is not forgotten")
				}
			}
			b.stop()
		}
	})
}

// An instance that starts while the projections are behind hides the user once there is a job.
func TestDeleteUser_HiddenAfterLateJob(t *testing.T) {
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		on := openHeld(t)
		one := newInstance(t, on)
		w := &world{&storetest.World{Store: one.Store, T: t}}
		d := w.deletable()
		if err := one.DeleteUser(t.Context(), d.ada.UserID, "ada"); err != nil {
			t.Fatal(err)
		}
		late := &storetest.Wire{To: on.Transport}
		late.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPost &&
				strings.HasPrefix(r.Header.Get("x-ms-documentdb-partitionkey"), `["deleteUser.`) {
				return errors.New("the projections are behind")
			}
			return nil
		})
		on.Transport = late
		b := newCachedStore(t, on, 1<<20)
		testkit.Advance(time.Minute)
		if u, err := b.User(t.Context(), d.ada.UserID); u != nil || err != nil {
			t.Errorf("%v %v", u, err)
		}
		if !strings.Contains(d.visible(t.Context(), b.Store), "post ") {
			t.Fatal("hidden without a job")
		}
		late.Intercept(nil)
		testkit.Advance(2 * time.Minute)
		if left := d.visible(t.Context(), b.Store); left != "" {
			t.Errorf("still visible: %s", left)
		}
	})
}

// Items of a deleted user cause no events, and the streams of their posts end.
func TestDeleteUser_Streams(t *testing.T) {
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		on := openHeld(t)
		a, b := newCachedStore(t, on, 1<<20), newCachedStore(t, on, 1<<20)
		w := &world{&storetest.World{Store: a.Store, T: t}}
		d := w.deletable()
		ctx := t.Context()
		var checks []func()
		for name, s := range map[string]*store.Store{"deleting instance": a.Store, "other instance": b.Store} {
			changed, err := s.PostChanges(ctx, d.mine.ID)
			open(t, changed, err)
			comments, err := s.NewComments(ctx, d.mine.ID)
			open(t, comments, err)
			others, err := s.PostChanges(ctx, d.other.ID)
			open(t, others, err)
			published, err := s.PublishedPosts(ctx)
			open(t, published, err)
			checks = append(checks, func() {
				for more := true; more; { // events before the deletion
					_, more = next(t, changed)
				}
				for more := true; more; {
					_, more = next(t, comments)
				}
				if changed.Err() != nil || comments.Err() != nil {
					t.Errorf("%s: %v %v", name, changed.Err(), comments.Err())
				}
				for liked := false; !liked; {
					p, ok := next(t, others)
					if !ok {
						t.Fatalf("%s: the stream of another's post ends", name)
					}
					liked = p.LikeCount == 2
				}
				for title := ""; title != "after"; {
					p, ok := next(t, published)
					if !ok {
						t.Fatalf("%s: the stream of published posts ends", name)
					}
					if title = p.Title; title == "late" {
						t.Errorf("%s: a post of a deleted user is published", name)
					}
				}
			})
		}
		if err := a.DeleteUser(ctx, d.ada.UserID, "ada"); err != nil {
			t.Fatal(err)
		}
		testkit.Advance(2 * time.Second) // until the other instance knows of it
		// Simulate a write that was in flight.
		late := *d.mine
		late.ID, late.Title = "late", "late"
		item, _ := blog.NewPostItem(&late)
		account, err := cosmos.Open(cosmos.Options{Endpoint: on.Endpoint, Key: on.Key, Credential: on.Credential,
			Transport: on.Transport})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(account.Close)
		posts, err := account.Container(on.Database, "posts")
		if err != nil {
			t.Fatal(err)
		}
		if err := posts.Create(ctx, late.ID, blog.Encode(item)); err != nil {
			t.Fatal(err)
		}
		w.AddLike(d.grace, d.other)
		w.AddPost(d.grace, "after")
		for _, check := range checks {
			check()
		}
	})
}
