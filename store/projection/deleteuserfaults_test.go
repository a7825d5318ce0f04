package projection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/google/go-cmp/cmp"

	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// A process is paused before it queries the user's items. Meanwhile another completes the deletion, and the same
// subject registers again, under the same name: items of the new user are kept.
func TestDeleteUser_PausedProcess(t *testing.T) {
	for stage, query := range map[string]string{"posts-again": "c.userId = @user", "summaries-again": "c.id != @user",
		"feed-again": "c.userId = @user"} {
		t.Run(stage, func(t *testing.T) {
			cosmostest.NeedsEngine(t, "its clock does not advance")
			cosmostest.Run(t, func(t *testing.T) {
				w := newWorld(t)
				d := w.addDeletee(1)
				p := w.AddPost(w.AddUser("ruth"), "for a comment")
				stop := w.Start()
				testkit.Until(t, w.CaughtUp)
				stop()
				date := w.markDeleted(d.User)
				w.pass(61 * time.Second)
				paused, resume := make(chan bool, 1), make(chan bool)
				var intercepted atomic.Bool
				w.Wire.Intercept(func(r *http.Request) error {
					if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/docs") &&
						strings.Contains(body(t, r), query) && intercepted.CompareAndSwap(false, true) {
						paused <- true
						<-resume
					}
					return nil
				})
				ended := make(chan error, 1)
				go func() {
					_, _, err := w.deleteUser(w.Views(), d.User, date+" "+stage+" ", 1)
					ended <- err
				}()
				testkit.Receive(t, paused)
				w.mustDelete(d.User)
				again, err := w.CreateUser(t.Context(), store.NewUser{ID: d.UserID, Username: "zuleika"})
				if err != nil {
					t.Fatal(err)
				}
				own := w.AddPost(again, "of the new user")
				w.AddComment(again, p, "of the new user")
				w.AddLike(again, p)
				close(resume)
				if err := testkit.Receive(t, ended); err != nil {
					t.Fatal(err)
				}
				if got := w.AllUserPosts(again); len(got) != 1 || len(w.AllComments(p)) != 1 ||
					len(w.AllLikes(p)) != 1 || len(w.AllFeed()) != 5 {
					t.Errorf("of the new user, posts %v, %d comments, %d likes and %d feed entries are left",
						storetest.Titles(got), len(w.AllComments(p)), len(w.AllLikes(p)), len(w.AllFeed()))
				}
				if got, err := w.Post(t.Context(), own.ID); got == nil || err != nil {
					t.Errorf("the post of the new user is gone: %v", err)
				}
			})
		})
	}
}

// body returns the body of a request, and restores it.
func body(t testing.TB, r *http.Request) string {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	return string(b)
}

// Malformed items of the user, which another program wrote, are deleted, too. Items that cannot be deleted do not
// stop the job.
func TestDeleteUser_PoisonItems(t *testing.T) {
	cosmostest.NeedsEngine(t, "it has items whose ids cannot be used in requests")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.addDeletee(1)
		countless := w.AddPost(w.AddUser("ruth"), "malformed count")
		w.AddComment(d.User, countless, "c")
		w.Corrupt("posts", countless.ID, countless.ID, "/commentCount", "many")
		odd := w.AddPost(d.User, "odd")
		w.AddLike(w.AddUser("max"), odd)
		w.Corrupt("posts", odd.ID, odd.ID, "/revision", "two")
		w.Corrupt("posts", odd.ID, odd.ID, "/creationDate", "yesterday")
		for i, item := range []string{`"type":5`, `"creationDate":7,"type":"comment","deleted":"yes"`,
			`"userUsername":5`, `"type":"text"`,
			`"type":"comment","deleted":true,"creationDate":"2026-01-01T00:00:00.000Z"`} {
			w.Upsert("posts", "foreign",
				fmt.Sprintf(`{"id":"foreign-%d","postId":"foreign","userId":%q,%s}`, i, d.UserID, item))
			w.Upsert("users", d.UserID, fmt.Sprintf(`{"id":"foreign-%d","userId":%q,%s}`, i, d.UserID, item))
		}
		w.Upsert("feed", "elsewhere",
			fmt.Sprintf(`{"id":"foreign","type":"elsewhere","userId":%q,"revision":"x"}`, d.UserID))
		w.Corrupt("users", d.UserID, d.UserID, "/formerUsernames", []any{"zuleika", 5, "dobson"})
		w.markDeleted(d.User)
		w.mustDelete(d.User)
		w.wantNothingOf(append(d.names, d.UserID)...)

		max, err := w.User(t.Context(), blog.UserID("test", "max"))
		if err != nil {
			t.Fatal(err)
		}
		w.Upsert("posts", "a b?", fmt.Sprintf(`{"id":"left","postId":"a b?","userId":%q}`, max.UserID))
		w.markDeleted(max)
		w.mustDelete(max)
		if u, err := w.User(t.Context(), max.UserID); u != nil || err != nil {
			t.Errorf("the user still exists: %v", err)
		}
		w.Remove("posts", "a b?", "left")
		w.wantNothingOf(max.UserID)
	})
}

// After the deletion the feed is full again, without the user's posts, although they were more than the reserve of
// the feed.
func TestDeleteUser_RefillsTheFeed(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorldWith(t, store.Options{FeedPartitions: 2, PollInterval: time.Millisecond})
		grace, d := w.AddUser("grace"), w.AddUser("zuleika")
		for i := range blog.FeedKept + 10 {
			w.AddPost(grace, fmt.Sprint(i))
		}
		for i := range 40 {
			w.AddPost(d, fmt.Sprint("zuleika's ", i))
		}
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		stop()
		w.markDeleted(d)
		w.mustDelete(d)
		for _, partition := range blog.FeedPartitionKeys(2) {
			if n := len(w.FeedTitles(partition)); n != blog.FeedKept {
				t.Errorf("partition %s of the feed has %d entries, want %d", partition, n, blog.FeedKept)
			}
		}
		w.Start()
		testkit.Until(t, w.CaughtUp)
		w.wantNothingOf("zuleika", d.UserID)
		if found := w.Differences(0); found != nil {
			t.Errorf("differences: %+v", found)
		}
	})
}

// Requests and handlers that began before the deletion write after the first pass: the second pass deletes their
// items. The job of another deletion starts over.
func TestDeleteUser_LateWrites(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.addDeletee(1)
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		w.pass(10 * time.Second) // for the jobs of the renames
		stop()
		post := w.AllUserPosts(d.User)[0]
		w.markDeleted(d.User)
		position := "2026-01-01T00:00:00.000Z names "
		for !strings.Contains(position, " posts-again ") {
			var err error
			if position, _, err = w.deleteUser(w.Views(), d.User, position, 1); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Views().ProjectSummaries(t.Context(), post); err != nil {
			t.Fatal(err)
		}
		p := d.others[0]
		w.Upsert("posts", p.ID,
			fmt.Sprintf(
				`{"id":"late","postId":%q,"type":"comment","userId":%q,"userUsername":"zuleika","content":"late","creationDate":%q}`, p.ID, d.UserID, post.CreatedAt))
		w.Corrupt("posts", p.ID, p.ID, "/commentCount", 2)
		w.Corrupt("posts", p.ID, p.ID, "/revision", 1000)
		eve := w.AddUser("eve")
		late := blog.NewFollow(eve.UserID, d.Byline, d.CreatedAt, 1)
		w.Upsert("users", eve.UserID, string(blog.Encode(late)))
		w.Corrupt("users", eve.UserID, eve.UserID, "/followerCount", 1)
		if _, done, err := w.deleteUser(w.Views(), d.User, position, -1); !done || err != nil {
			t.Fatal(done, err)
		}
		w.Start()
		w.wantDeleted(d)
		w.wantCounts(eve, 0, 0)
	})
}

// A moderator removes a comment after the deletion has found it: the count is decremented once.
func TestDeleteUser_CommentRemovedMeanwhile(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		d, p := w.AddUser("zuleika"), w.AddPost(w.AddUser("grace"), "one")
		c := w.AddComment(d, p, "removed")
		w.AddComment(d, p, "deleted")
		w.markDeleted(d)
		var intercepted atomic.Bool
		w.Wire.Intercept(func(r *http.Request) error {
			if strings.HasSuffix(r.URL.Path, "/colls/posts/docs") &&
				r.Header.Get("X-Ms-Cosmos-Is-Batch-Request") != "" && intercepted.CompareAndSwap(false, true) {
				_, err := w.RemoveComment(t.Context(), p.ID, c.ID)
				return err
			}
			return nil
		})
		w.mustDelete(d)
		w.Wire.Intercept(nil)
		if got, err := w.Post(t.Context(), p.ID); err != nil || got.CommentCount != 0 || !intercepted.Load() {
			t.Errorf("got %+v, %v, want 0 comments", got, err)
		}
		w.wantNothingOf("zuleika", d.UserID)
	})
}

// A post with thousands of comments is deleted in units of a second, without a change of the position.
func TestDeleteUser_LargePost(t *testing.T) {
	cosmostest.NeedsEngine(t, "it measures on the fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.AddUser("zuleika")
		p := w.AddPost(d, "busy")
		for i := range 2000 {
			w.Upsert("posts", p.ID,
				fmt.Sprintf(
					`{"id":"c%d","postId":%q,"type":"comment","userId":"linus","userUsername":"linus","content":"c","creationDate":%q}`, i, p.ID, p.CreatedAt))
		}
		w.markDeleted(d)
		w.Wire.Intercept(func(r *http.Request) error { return wait(r, 50*time.Millisecond) })
		position, units, longest := "", 0, time.Duration(0)
		for ; !strings.Contains(position, " summaries "); units++ {
			began := time.Now()
			next, _, err := w.deleteUser(w.Views(), d, position, 1)
			if err != nil || !strings.Contains(next, " summaries ") && next != position {
				t.Fatalf("from %q to %q: %v", position, next, err)
			}
			position, longest = next, max(longest, time.Since(began))
		}
		w.Wire.Intercept(nil)
		t.Logf("%d units, the longest of %v", units, longest)
		if units != 3 || longest > 1500*time.Millisecond {
			t.Errorf("got %d units, the longest of %v; want 3 of at most 1.5 s", units, longest)
		}
		w.mustDelete(d)
		w.wantNothingOf(d.UserID, "linus")
	})
}

// While others write to the same posts, and replicas lag, all counts stay correct.
func TestDeleteUser_ConcurrentWrites(t *testing.T) {
	for name, lag := range map[string]time.Duration{"replicas current": 0, "replicas lag": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			cosmostest.NeedsEngine(t, "its replicas lag")
			cosmostest.Run(t, func(t *testing.T) {
				w, projections := newLaggingWorlds(t, lag)
				d := w.addDeletee(20)
				var mine []*blog.Post
				for i := range 5 {
					mine = append(mine, w.AddPost(d.User, fmt.Sprint("mine ", i)))
				}
				projections.Start()
				w.markDeleted(d.User)
				ctx, cancel := context.WithCancel(t.Context())
				var load sync.WaitGroup
				for i := range 4 {
					u := w.AddUser(fmt.Sprint("writer-", i))
					load.Go(func() {
						for n := 0; ctx.Err() == nil; n++ {
							for _, p := range append(d.others, mine...) {
								_, _, err := w.LikePost(ctx, u.UserID, p.ID)
								_, _, err2 := w.CreateComment(ctx,
									store.NewComment{AuthorID: u.UserID, PostID: p.ID, Content: "beside"})
								_, err3 := w.UnlikePost(ctx, u.UserID, p.ID)
								for _, err := range []error{err, err2, err3} {
									if code := blog.CodeOf(err); err != nil && code != blog.NotFound &&
										code != blog.Canceled && code != blog.Conflict {
										t.Error(err)
									}
								}
							}
							_ = pauseFor(ctx, 300*time.Millisecond)
						}
					})
				}
				testkit.Advance(3 * time.Second)
				cancel()
				load.Wait()
				w.pass(70 * time.Second)
				testkit.Until(t, w.CaughtUp)
				w.wantNothingOf(append(d.names, d.UserID)...)
				if found := w.Differences(0); found != nil {
					t.Errorf("differences: %+v", found)
				}
			})
		})
	}
}

// newLaggingWorlds returns two instances on an engine whose replicas lag.
func newLaggingWorlds(t *testing.T, lag time.Duration) (a, b *world) {
	engine, err := emulator.Open("", emulator.Options{ReplicaLag: lag, Partitions: 2, Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	open := func(name string) *world {
		w := &world{storetest.On(t, engine)}
		if w.Store, err = store.New(w.Account,
			store.Options{Database: w.Database, Clock: time.Now, Instance: name, PollInterval: 10 * time.Millisecond,
				Logger: testkit.Logger()}); err != nil {
			t.Fatal(err)
		}
		if err := w.Provision(t.Context()); err != nil {
			t.Fatal(err)
		}
		return w
	}
	return open("a"), open("b")
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// A deletion that is interrupted repeatedly, and continued from the last position, costs at most 5% more than an
// uninterrupted one.
func TestDeleteUser_RequestChargeOfCrashes(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.NeedsEngine(t, "it compares its charges")
	charge := func(crashes int) (ru float64) {
		cosmostest.Run(t, func(t *testing.T) {
			w := newWorld(t)
			d, grace := w.AddUser("zuleika"), w.AddUser("grace")
			for i := range 100 {
				p := w.AddPost(grace, fmt.Sprint(i))
				w.AddLike(d, p)
				for range 5 {
					w.AddComment(d, p, "by zuleika")
				}
				w.AddComment(grace, w.AddPost(d, fmt.Sprint("zuleika's ", i)), "by grace")
			}
			w.markDeleted(d)
			var hundredths, left atomic.Int64
			w.Wire.After(func(r *http.Response) {
				charged, _ := strconv.ParseFloat(r.Header.Get("X-Ms-Request-Charge"), 64)
				hundredths.Add(int64(math.Round(100 * charged)))
			})
			w.Wire.Intercept(func(*http.Request) error {
				if left.Add(-1) < 0 {
					return errors.New("killed")
				}
				return nil
			})
			position := ""
			for i := range crashes {
				left.Store(int64(50 + 7*i))
				next, done, err := w.deleteUser(w.Views(), d, position, -1)
				if done || err == nil {
					t.Fatal("the deletion ended before it was killed")
				}
				position = next
			}
			left.Store(math.MaxInt64)
			if _, done, err := w.deleteUser(w.Views(), d, position, -1); !done || err != nil {
				t.Fatal(done, err)
			}
			ru = float64(hundredths.Load()) / 100
			w.Wire.After(nil)
			w.Wire.Intercept(nil)
			w.wantNothingOf("zuleika", d.UserID)
		})
		return ru
	}
	undisturbed, killed := charge(0), charge(5)
	t.Logf("%.0f RU, killed five times %.0f RU", undisturbed, killed)
	if killed > 1.05*undisturbed {
		t.Errorf("killed five times: got %.0f RU, want at most 5%% more than %.0f RU", killed, undisturbed)
	}
}

// Left-over reservations of an owner who does not exist are released. The name of a deleted user stays reserved
// until the deletion ends.
func TestSweep_OwnerDoesNotExist(t *testing.T) {
	cosmostest.NeedsEngine(t, "its clock does not advance")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.AddUser("zuleika")
		for name, owner := range map[string]string{"left": d.UserID, "nobody": "nobody"} {
			w.Upsert("users", "username:"+name,
				fmt.Sprintf(
					`{"id":"username:%s","userId":"username:%[1]s","type":"username","ownerId":%q,"creationDate":"2026-01-01T00:00:00.000Z","leaving":true}`, name, owner))
		}
		w.Clock.Millis.Add(61_000)
		w.markDeleted(d)
		w.Start()
		testkit.Until(t, w.Swept)
		if diff := cmp.Diff(map[string]string{"zuleika": d.UserID}, w.Reservations()); diff != "" {
			t.Error(diff)
		}
		w.pass(70 * time.Second)
		if diff := cmp.Diff(map[string]string{}, w.Reservations()); diff != "" {
			t.Error(diff)
		}
	})
}

// Reservations that the user item does not refer to, as after a crash within a rename, are deleted, too.
func TestDeleteUser_UnreferencedReservations(t *testing.T) {
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		d, other := w.AddUser("zuleika"), w.AddUser("grace")
		for i := range 2 * 100 { // more than a page
			w.Upsert("users", fmt.Sprintf("username:left%d", i),
				fmt.Sprintf(
					`{"id":"username:left%d","userId":"username:left%[1]d","type":"username","ownerId":%q,"creationDate":"2026-01-01T00:00:00.000Z"}`, i, d.UserID))
		}
		w.markDeleted(d)
		w.mustDelete(d)
		w.wantNothingOf(d.UserID)
		if diff := cmp.Diff(map[string]string{"grace": other.UserID}, w.Reservations()); diff != "" {
			t.Error(diff)
		}
	})
}

// A feed entry that a delayed handler wrote after the job becomes a tombstone without the user.
func TestDeleteUser_LateFeedEntry(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.AddUser("zuleika")
		p := w.AddPost(d, "one")
		tombstone := blog.Post{ID: p.ID, CreatedAt: p.CreatedAt, Revision: p.Revision + 2, Tombstone: true}
		if err := w.Views().ProjectFeed(t.Context(), []*blog.Post{&tombstone}); err != nil {
			t.Fatal(err)
		}
		feed, err := w.Client.NewContainer(w.Database, "feed")
		if err != nil {
			t.Fatal(err)
		}
		r, err := feed.ReadItem(t.Context(), azcosmos.NewPartitionKeyString("post"), p.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if entry := string(r.Value); !strings.Contains(entry, `"deleted":true`) || strings.Contains(entry, d.UserID) ||
			strings.Contains(entry, "zuleika") {
			t.Errorf("got %s, want a tombstone without the user", entry)
		}
	})
}
