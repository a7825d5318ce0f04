package projection_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/longtest"
	"byline/internal/waittest"
	"byline/store"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/jobs"
	"byline/store/projection"
)

// deletee is a user with everything that a user can have.
type deletee struct {
	*blog.User
	names  []string
	others []*blog.Post // posts of others, with a comment and a like by the user
}

func (w *world) rename(u *blog.User, name string) {
	w.T.Helper()
	if _, err := w.RenameUser(w.T.Context(), u.ID, name); err != nil {
		w.T.Fatal(err)
	}
}

// addDeletee makes a user who has written posts with comments and likes by others, one of them with many,
// one long, and one deleted, and comments and likes on posts of others.
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
		if _, err := w.DeleteComment(w.T.Context(), d.ID, p.ID, c.ID); err != nil {
			w.T.Fatal(err)
		}
		w.AddComment(d.User, p, "another by zuleika")
		d.others = append(d.others, p)
	}
	long, err := w.CreatePost(w.T.Context(), store.NewPost{AuthorID: d.ID, Title: "long", Content: strings.Repeat("zuleika ", 1000)})
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
	if err := w.DeletePost(w.T.Context(), d.ID, gone.ID); err != nil {
		w.T.Fatal(err)
	}
	return d
}

// bury makes a user a tombstone, as the deletion of an account begins, and returns its date.
func (w *world) bury(u *blog.User) string {
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
	if _, err := users.PatchItem(w.T.Context(), azcosmos.NewPartitionKeyString(u.ID), u.ID, p, nil); err != nil {
		w.T.Fatal(err)
	}
	return string(date)
}

// deleteUser does the units of a job from a position on, at most n if n is not negative. It returns where it
// stopped, and false if it has not ended.
func (w *world) deleteUser(v *projection.Views, u *blog.User, position string, n int) (string, bool, error) {
	for ; n != 0; n-- {
		step, err := v.DeleteUser(w.T.Context(), jobs.Job{Kind: "deleteUser", Subject: u.ID, Position: position})
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

// pass lets time pass, also on the store's clock. On an endpoint only the store's clock advances.
func (w *world) pass(d time.Duration) {
	if cosmostest.OnEndpoint() {
		w.Clock.Millis.Add(d.Milliseconds())
		return
	}
	for ; d > 0; d -= 500 * time.Millisecond { // a job that waits looks at both clocks
		some := min(d, 500*time.Millisecond)
		waittest.Advance(some)
		w.Clock.Millis.Add(some.Milliseconds())
	}
}

func (w *world) mustDelete(u *blog.User) {
	w.T.Helper()
	if _, done, err := w.deleteUser(w.Views(), u, "", -1); !done || err != nil {
		w.T.Fatal(done, err)
	}
}

// wantNothingOf reads every item of every container, of which none may contain one of the texts.
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

// wantDeleted checks that nothing of a user is left, and that all the rest is right.
func (w *world) wantDeleted(d *deletee) {
	w.T.Helper()
	waittest.Until(w.T, w.CaughtUp)
	for w.jobsLeft() != nil { // of the renames
		w.pass(time.Second)
	}
	w.wantNothingOf(append(d.names, d.ID)...)
	for _, p := range d.others {
		got, err := w.Post(w.T.Context(), p.ID)
		if err != nil || got.CommentCount != 1 || got.LikeCount != 1 {
			w.T.Errorf("post of another: %+v %v", got, err)
		}
	}
	if found := w.Differences(0); found != nil {
		w.T.Errorf("differences: %+v", found)
	}
}

func TestDeleteUser_LeavesNothing(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		t.Run(fmt.Sprint(partitions, " feed partitions"), func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				w := newWorldWith(t, store.Options{FeedPartitions: partitions, PollInterval: 10 * time.Millisecond})
				d := w.addDeletee(120)
				stop := w.Start()
				waittest.Until(t, w.CaughtUp)
				w.bury(d.User)
				w.pass(70 * time.Second)
				w.wantDeleted(d)
				for _, partition := range blog.FeedPartitionKeys(partitions) {
					if titles := w.FeedTitles(partition); len(titles) != 3 {
						t.Errorf("partition %s of the feed has %v", partition, titles)
					}
				}
				stop()

				w.Clock.Millis.Add(61_000)
				again, err := w.CreateUser(t.Context(), store.NewUser{ID: d.ID, Username: "zuleika"})
				if err != nil {
					t.Fatal(err)
				}
				if posts := w.AllUserPosts(again); len(posts) != 0 || again.Revision != 1 {
					t.Errorf("the new user starts with %+v and posts %v", again, posts)
				}
				p := w.AddPost(again, "first")
				w.mustDelete(again)
				if got, err := w.Post(t.Context(), p.ID); got == nil || err != nil {
					t.Errorf("a job that nobody ended has deleted the new user's post: %v", err)
				}
			})
		})
	}
}

// Whichever request of a deletion is the last of its process, executed or not, the next process ends it.
func TestDeleteUser_CrashAtEveryStep(t *testing.T) {
	longtest.Heavy(t)
	for _, executed := range []bool{true, false} {
		for k, ended := 0, false; !ended; k += longtest.Pick(17, 1) {
			t.Run(fmt.Sprintf("%d requests, last executed %v", k, executed), func(t *testing.T) {
				cosmostest.Run(t, func(t *testing.T) {
					w := newWorld(t)
					d := w.addDeletee(1)
					stop := w.Start()
					waittest.Until(t, w.CaughtUp)
					stop()
					w.bury(d.User)
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
						position = "" // the job has begun again
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
