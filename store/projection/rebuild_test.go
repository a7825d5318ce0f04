package projection_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// corruptAll causes differences of most kinds that Verify finds, given 12 posts by ada that grace has liked, and
// a comment by grace on the first.
func (w *world) corruptAll(ada, grace *blog.User, posts []*blog.Post, c *blog.Comment) {
	w.T.Helper()
	w.Corrupt("users", ada.UserID, posts[1].ID, "/title", "not the title")
	w.Corrupt("users", ada.UserID, posts[2].ID, "/revision", 1_000)
	w.Corrupt("users", ada.UserID, posts[3].ID, "/deleted", true)
	w.Corrupt("feed", "post", posts[2].ID, "/likeCount", 99)
	w.Corrupt("feed", "post", posts[3].ID, "/revision", 1_000)
	w.Corrupt("feed", "post", posts[8].ID, "/deleted", true)
	w.Corrupt("posts", posts[4].ID, posts[4].ID, "/likeCount", 7)
	w.Corrupt("posts", posts[0].ID, c.ID, "/userUsername", "other")
	w.Remove("users", ada.UserID, posts[5].ID)
	w.Remove("feed", "post", posts[6].ID)
	w.Remove("users", "username:grace", "username:grace")
	w.Upsert("users", "username:left",
		`{"id":"username:left","userId":"username:left","type":"username","ownerId":"`+ada.UserID+
			`","creationDate":"2026-01-01T00:00:00.000Z"}`)
	stray := `"postId":"x","type":"post","title":"stray","content":"x","truncated":false,"userUsername":"grace","commentCount":0,"likeCount":0,"creationDate":"2026-01-01T00:00:00.000Z","version":1,"revision":1}`
	w.Upsert("users", grace.UserID, `{"id":"`+posts[7].ID+`","userId":"`+grace.UserID+`",`+stray)
	// so that it is not trimmed
	w.Upsert("feed", "post", `{"id":"never-was","userId":"`+grace.UserID+`",`+strings.Replace(stray, "2026", "2027", 1))
}

func TestRebuild(t *testing.T) {
	cosmostest.NeedsEngine(t, "its clock does not advance")
	for _, serving := range []bool{true, false} {
		t.Run(fmt.Sprintf("while an instance serves: %v", serving), func(t *testing.T) {
			cosmostest.Run(t, func(t *testing.T) {
				w := newWorld(t)
				ada, grace := w.AddUser("ada"), w.AddUser("grace")
				var posts []*blog.Post
				for i := range 12 {
					p := w.AddPost(ada, fmt.Sprintf("post %d", i))
					posts = append(posts, p)
					w.AddLike(grace, p)
				}
				c := w.AddComment(grace, posts[0], "a comment")
				w.Clock.Millis.Add(61_000)
				stop := w.Start()
				testkit.Until(t, func() error {
					if found := w.Differences(0); found != nil {
						return fmt.Errorf("%+v", found)
					}
					return nil
				})
				testkit.Until(t, w.CaughtUp)
				stop()
				w.corruptAll(ada, grace, posts, c)
				if found := w.Differences(0); len(found) != 16 {
					t.Fatalf("%d differences before", len(found))
				}

				// Concurrent writes.
				ctx, cancel := context.WithCancel(t.Context())
				var writing sync.WaitGroup
				defer writing.Wait()
				defer cancel()
				writing.Go(func() {
					for i := range 60 { // few enough that the feed shows all posts
						if ctx.Err() != nil {
							return
						}
						err := w.WriteLate(fmt.Sprintf("writer%d", i), ada, posts[9])
						if err != nil {
							t.Error(err)
							return
						}
						storetest.Pass(5 * time.Millisecond)
					}
				})
				if serving {
					w.Start()
				}
				if err := w.Views().Rebuild(t.Context()); err != nil {
					t.Fatal(err)
				}
				if !serving {
					w.Start()
				}
				w.Rebuilt()
				if found := w.Differences(time.Minute); found != nil {
					t.Errorf("%+v", found)
				}
				cancel()
				writing.Wait()
				if found := w.Differences(time.Minute); found != nil {
					t.Errorf("after the writes: %+v", found)
				}
			})
		})
	}
}

// A rebuild is stored in the leases: the process that starts it may end at once, and those that execute it may be
// interrupted.
func TestRebuild_ResumesAfterRestart(t *testing.T) {
	testkit.Heavy(t)
	cosmostest.Run(t, func(t *testing.T) {
		dir := t.TempDir()
		w := openWorld(t, dir)
		ada := w.AddUser("ada")
		var posts []*blog.Post
		for i := range 60 {
			posts = append(posts, w.AddPost(ada, fmt.Sprint("post ", i)))
		}
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		stop()
		w.Corrupt("users", ada.UserID, posts[59].ID, "/title", "not the title")
		if err := w.Views().Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		total := w.toRebuild()
		var requests atomic.Int32
		w.Wire.Intercept(func(*http.Request) error {
			if requests.Add(1) > 100 { // less than two for each post
				return errors.New("gone")
			}
			return nil
		})
		stop = w.Start()
		testkit.Until(t, func() error {
			if n := requests.Load(); n <= 100 {
				return fmt.Errorf("%d requests", n)
			}
			return nil
		})
		stop()
		w.Wire.Intercept(nil)
		if n := w.toRebuild(); n == 0 || n > total {
			t.Fatalf("%d of %d to rebuild", n, total)
		}
		if err := w.Engine.Close(); err != nil {
			t.Fatal(err)
		}
		again := openWorld(t, dir)
		again.Start()
		again.Rebuilt()
		if found := again.Differences(time.Minute); found != nil {
			t.Errorf("%+v", found)
		}
	})
}

func (w *world) toRebuild() (n int64) {
	w.T.Helper()
	status, err := w.Views().Status(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	for _, r := range status {
		n += r.Replay
	}
	return n
}

// A username of two users cannot be repaired, and does not stop the rebuild.
func TestRebuild_SkipsConflicts(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		p := w.AddPost(ada, "one")
		w.Corrupt("users", grace.UserID, grace.UserID, "/username", "ada")
		w.Corrupt("users", ada.UserID, p.ID, "/title", "not the title")
		if err := w.Views().Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Start()
		w.Rebuilt()
		testkit.Until(t, func() error {
			if got := w.AllUserPosts(ada); len(got) != 1 || got[0].Title != "one" {
				return errors.New("not repaired")
			}
			return nil
		})
	})
}

// A rebuild skips no item because its write conflicts with another.
func TestRebuild_ConcurrentWrite(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		p := w.AddPost(ada, "one")
		w.AddLike(ada, p)
		stop := w.Start()
		testkit.Until(t, w.CaughtUp)
		stop()
		w.Corrupt("posts", p.ID, p.ID, "/likeCount", 17)
		stop = w.Start()
		testkit.Until(t, w.CaughtUp)
		stop()
		var conflicts atomic.Int32
		w.Inject(func(o faulttest.Operation) (f faulttest.Response) {
			if o.Kind == faulttest.Patch && o.Container == "posts" && conflicts.Add(1) == 1 {
				f.Status = 449
			}
			return f
		})
		if err := w.Views().Rebuild(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer w.Start()()
		w.Rebuilt()
		if conflicts.Load() == 0 {
			t.Fatal("the rebuild wrote nothing")
		}
		testkit.Until(t, w.CaughtUp) // with the writes of the rebuild
		for _, d := range w.Differences(0) {
			t.Errorf("%+v", d)
		}
	})
}
