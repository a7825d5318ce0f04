package projection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/jobs"
	"byline/store/projection"
)

// deletee is a user with items of all types in all containers.
type deletee struct {
	*blog.User
	names  []string
	others []*blog.Post // posts of others, with a comment and a like by the user
}

func (w *world) rename(u *blog.User, name string) {
	w.T.Helper()
	if _, err := w.UpdateUser(w.T.Context(), u.UserID, store.UserEdit{Username: new(name)}); err != nil {
		w.T.Fatal(err)
	}
}

// addDeletee creates a renamed user with posts, and comments and likes on posts of others. One of the posts has
// many comments, one is long, and one is deleted.
func (w *world) addDeletee(many int) *deletee {
	w.T.Helper()
	d := &deletee{User: w.AddUser("zuleika"), names: []string{"zuleika", "dobson", "Beerbohm"}}
	grace, linus := w.AddUser("grace"), w.AddUser("linus")
	for i := range 3 {
		p := w.AddPost(grace, fmt.Sprint("of grace ", i))
		w.AddLike(d.User, p)
		w.AddLike(linus, p)
		w.AddComment(linus, p, "by linus")
		w.AddComment(d.User, p, "one by zuleika")
		c := w.AddComment(d.User, p, "deleted by zuleika")
		if _, err := w.DeleteComment(w.T.Context(), d.UserID, p.ID, c.ID); err != nil {
			w.T.Fatal(err)
		}
		w.AddComment(d.User, p, "another by zuleika")
		if _, err := w.BookmarkPost(w.T.Context(), d.UserID, p.ID); err != nil {
			w.T.Fatal(err)
		}
		d.others = append(d.others, p)
	}
	w.follow(d.User, grace)
	w.follow(d.User, linus)
	w.follow(grace, d.User)
	if _, err := w.UnfollowUser(w.T.Context(), d.UserID, linus.UserID); err != nil {
		w.T.Fatal(err)
	}
	long, err := w.CreatePost(w.T.Context(),
		store.NewPost{AuthorID: d.UserID, Title: "long", Content: strings.Repeat("zuleika ", 2000)})
	if err != nil {
		w.T.Fatal(err)
	}
	w.AddComment(grace, long, "by grace")
	busy, gone := w.AddPost(d.User, "busy"), w.AddPost(d.User, "gone")
	w.AddComment(grace, gone, "by grace")
	w.AddLike(d.User, busy)
	w.AddComment(d.User, busy, "mine")
	for i := range many {
		w.AddComment(linus, busy, fmt.Sprint("comment ", i))
	}
	w.rename(d.User, "dobson")
	w.rename(d.User, "Beerbohm")
	if err := w.DeletePost(w.T.Context(), d.UserID, gone.ID); err != nil {
		w.T.Fatal(err)
	}
	return d
}

// follow makes a user a follower of an author.
func (w *world) follow(user, author *blog.User) {
	w.T.Helper()
	if _, err := w.FollowUser(w.T.Context(), user.UserID, author.UserID); err != nil {
		w.T.Fatal(err)
	}
}

// markDeleted makes a user a tombstone, as when an account is deleted, and returns the date.
func (w *world) markDeleted(u *blog.User) string {
	w.T.Helper()
	users, err := w.Client.NewContainer(w.Database, "users")
	if err != nil {
		w.T.Fatal(err)
	}
	date := blog.NewDate(w.Clock.Now())
	var p azcosmos.PatchOperations
	p.AppendSet("/deleted", true)
	p.AppendSet("/deletionDate", date)
	p.AppendIncrement("/revision", 1)
	if _, err := users.PatchItem(w.T.Context(), azcosmos.NewPartitionKeyString(u.UserID), u.UserID, p,
		nil); err != nil {
		w.T.Fatal(err)
	}
	return string(date)
}

// deleteUser does the units of a job from a position on, at most n if n is not negative. It returns the position
// reached, and whether the job has ended.
func (w *world) deleteUser(v *projection.Views, u *blog.User, position string, n int) (string, bool, error) {
	for ; n != 0; n-- {
		step, err := v.DeleteUser(w.T.Context(), jobs.Job{Kind: "deleteUser", Subject: u.UserID, Position: position})
		if err != nil {
			return position, false, err
		}
		position = step.Position
		if step.Done {
			return position, true, nil
		}
		w.pass(step.Wait)
	}
	return position, false, nil
}

// pass advances the fake clock and the store's clock; on an endpoint, only the store's clock.
func (w *world) pass(d time.Duration) {
	if cosmostest.OnEndpoint() {
		w.Clock.Millis.Add(d.Milliseconds())
		return
	}
	for ; d > 0; d -= 500 * time.Millisecond { // in steps, as waiting jobs depend on both clocks
		some := min(d, 500*time.Millisecond)
		testkit.Advance(some)
		w.Clock.Millis.Add(some.Milliseconds())
	}
}

func (w *world) mustDelete(u *blog.User) {
	w.T.Helper()
	if _, done, err := w.deleteUser(w.Views(), u, "", -1); !done || err != nil {
		w.T.Fatal(done, err)
	}
}

// wantNothingOf checks that no item of any container contains one of the texts.
func (w *world) wantNothingOf(texts ...string) {
	w.T.Helper()
	for _, name := range append(store.Containers(), blog.LeasesContainer) {
		c, err := w.Client.NewContainer(w.Database, name)
		if err != nil {
			w.T.Fatal(err)
		}
		for pager := c.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKey(), nil); pager.More(); {
			page, err := pager.NextPage(w.T.Context())
			if err != nil {
				w.T.Fatal(err)
			}
			for _, item := range page.Items {
				for _, text := range texts {
					if bytes.Contains(bytes.ToLower(item), []byte(strings.ToLower(text))) {
						w.T.Errorf("%s contains %s: %s", name, text, item)
					}
				}
			}
		}
	}
}

// wantDeleted checks that no item of a user is left, and that all others are correct.
func (w *world) wantDeleted(d *deletee) {
	w.T.Helper()
	testkit.Until(w.T, w.CaughtUp)
	for w.jobsLeft() != nil { // of the renames
		w.pass(time.Second)
	}
	w.wantNothingOf(append(d.names, d.UserID)...)
	for _, p := range d.others {
		got, err := w.Post(w.T.Context(), p.ID)
		if err != nil || got.CommentCount != 1 || got.LikeCount != 1 {
			w.T.Errorf("post of another: got %+v, %v, want one comment and one like", got, err)
		}
	}
	if found := w.Differences(0); found != nil {
		w.T.Errorf("differences: %+v", found)
	}
}

func TestDeleteUser_DeletesAllItems(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		t.Run(fmt.Sprint(partitions, " feed partitions"), func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				w := newWorldWith(t, store.Options{FeedPartitions: partitions, PollInterval: 10 * time.Millisecond})
				d := w.addDeletee(120)
				stop := w.Start()
				testkit.Until(t, w.CaughtUp)
				w.markDeleted(d.User)
				w.pass(70 * time.Second)
				w.wantDeleted(d)
				for _, partition := range blog.FeedPartitionKeys(partitions) {
					if titles := w.FeedTitles(partition); len(titles) != 3 {
						t.Errorf("partition %s of the feed has %v, want 3 posts", partition, titles)
					}
				}
				stop()

				w.Clock.Millis.Add(61_000)
				again, err := w.CreateUser(t.Context(), store.NewUser{ID: d.UserID, Username: "zuleika"})
				if err != nil {
					t.Fatal(err)
				}
				if posts := w.AllUserPosts(again); len(posts) != 0 || again.Revision != 1 {
					t.Errorf("got the new user %+v with posts %v, want revision 1 and none", again, posts)
				}
				p := w.AddPost(again, "first")
				w.mustDelete(again)
				if got, err := w.Post(t.Context(), p.ID); got == nil || err != nil {
					t.Errorf("a leftover job has deleted the new user's post: %v", err)
				}
			})
		})
	}
}

// An instance that has cached a deleted user, and does not learn of the deletion, accepts the user's writes for the
// lifetime of the entry. The second pass deletes them.
func TestDeleteUser_CachedAuthor(t *testing.T) {
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.addDeletee(1)
		grace := &blog.User{Byline: blog.Byline{UserID: blog.UserID("test", "grace")}}
		p := w.AddPost(grace, "for a late comment and like")
		wire := &storetest.Wire{To: w.Transport}
		other := *w.World
		other.Use(w.NewAccount(cosmos.Options{Transport: wire, CacheBytes: 1 << 20}))
		var err error
		if other.Store,
			err = store.New(other.Account, store.Options{Database: w.Database, Clock: w.Clock.Now, Instance: "other",
			PollInterval: 10 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		w.Start()
		other.Start()
		testkit.Until(t, w.CaughtUp)
		w.pass(10 * time.Second) // for the jobs of the renames
		wire.Intercept(func(r *http.Request) error {
			if r.Header.Get("A-Im") != "" && strings.Contains(r.URL.Path, "/colls/users/") &&
				r.Header.Get("X-Ms-Cosmos-Priority-Level") != "Low" {
				return errors.New("the tail cannot read")
			}
			return nil
		})
		read := func() {
			t.Helper()
			if u, err := other.User(t.Context(), d.UserID); u == nil || err != nil {
				t.Fatal(u, err)
			}
			for _, p := range append(d.others, p) {
				other.AllComments(p)
				other.AllLikes(p)
			}
		}
		read()
		w.markDeleted(d.User)
		w.pass(5 * time.Second)
		if all, err := w.Views().Jobs(t.Context()); err != nil || len(all) != 1 ||
			!strings.Contains(all[0].Position, " wait ") {
			t.Fatalf("got the jobs %+v, %v, want one that has done its first pass", all, err)
		}
		other.AddLike(d.User, p)
		other.AddComment(d.User, p, "late")
		other.AddPost(d.User, "late")
		w.pass(15 * time.Second)
		if _, _, err := other.LikePost(t.Context(), d.UserID, d.others[0].ID); blog.CodeOf(err) != blog.Forbidden {
			t.Errorf("after the lifetime: got %v, want forbidden", err)
		}
		wire.Intercept(nil)
		w.pass(60 * time.Second)
		w.wantDeleted(d)
		for _, p := range append(d.others, p) {
			for _, c := range other.AllComments(p) {
				if c.UserID == d.UserID {
					t.Errorf("the other instance has the comment %+v", c)
				}
			}
			for _, l := range other.AllLikes(p) {
				if l.UserID == d.UserID {
					t.Errorf("the other instance has the like %+v", l)
				}
			}
		}
		if got, err := other.Post(t.Context(), p.ID); err != nil || got.CommentCount != 0 || got.LikeCount != 0 {
			t.Errorf("got %+v, %v, want no comment and no like", got, err)
		}
	})
}

// A process crashes at every request of a deletion, executed or not: the next process completes the deletion.
func TestDeleteUser_CrashAtEveryStep(t *testing.T) {
	testkit.Heavy(t)
	for _, executed := range []bool{true, false} {
		for k, ended := 0, false; !ended; k += testkit.Pick(17, 1) {
			t.Run(fmt.Sprintf("%d requests, last executed %v", k, executed), func(t *testing.T) {
				cosmostest.Run(t, func(t *testing.T) {
					w := newWorld(t)
					d := w.addDeletee(1)
					stop := w.Start()
					testkit.Until(t, w.CaughtUp)
					stop()
					w.markDeleted(d.User)
					var requests atomic.Int64
					w.Wire.Intercept(func(r *http.Request) error {
						n := int(requests.Add(1))
						if n <= k || !strings.Contains(r.URL.Path, "/docs") {
							return nil
						}
						if n == k+1 && executed {
							if resp, err := w.Transport.Do(r); err == nil {
								_ = resp.Body.Close()
							}
						}
						return context.DeadlineExceeded
					})
					position, done, err := w.deleteUser(w.Views(), d.User, "", -1)
					w.Wire.Intercept(nil)
					if ended = done; (err == nil) != done {
						t.Fatal(done, err)
					}
					if k%2 == 0 {
						position = "" // the job starts over
					}
					if _, done, err := w.deleteUser(w.Views(), d.User, position, -1); !done || err != nil {
						t.Fatal(done, err)
					}
					w.Start()
					w.wantDeleted(d)
				})
			})
		}
	}
}
