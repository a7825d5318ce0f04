package store_test

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

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/store"
)

// rebuilt waits until nothing is left of a rebuild.
func (w *world) rebuilt() {
	w.t.Helper()
	eventually(w.t, func() error {
		status, err := w.Projections(w.t.Context())
		if err != nil {
			return err
		}
		for _, r := range status {
			if r.Replay > 0 {
				return fmt.Errorf("%s: %d to rebuild", r.Container, r.Replay)
			}
		}
		return nil
	})
}

// upsert writes an item behind the store's back.
func (w *world) upsert(container, partition, item string) {
	w.t.Helper()
	c, err := w.client.NewContainer("blog", container)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := c.UpsertItem(w.t.Context(), azcosmos.NewPartitionKeyString(partition), []byte(item), nil); err != nil {
		w.t.Fatal(err)
	}
}

// vandalize makes everything different that verify looks at, of posts by ada that
// grace has liked, where there are 12 of them and a comment of hers on the first.
func (w *world) vandalize(ada, grace *store.User, posts []*store.Post, c *store.Comment) {
	w.t.Helper()
	w.corrupt("users", ada.ID, posts[1].ID, "/title", "not the title")
	w.corrupt("users", ada.ID, posts[2].ID, "/revision", 1_000)
	w.corrupt("users", ada.ID, posts[3].ID, "/deleted", true)
	w.corrupt("feed", "post", posts[2].ID, "/likeCount", 99)
	w.corrupt("feed", "post", posts[3].ID, "/revision", 1_000)
	w.corrupt("feed", "post", posts[8].ID, "/deleted", true)
	w.corrupt("posts", posts[4].ID, posts[4].ID, "/likeCount", 7)
	w.corrupt("posts", posts[0].ID, c.ID, "/userUsername", "somebody")
	w.remove("users", ada.ID, posts[5].ID)
	w.remove("feed", "post", posts[6].ID)
	w.remove("users", "username:grace", "username:grace")
	w.upsert("users", "username:left", `{"id":"username:left","userId":"username:left","type":"username","ownerId":"`+ada.ID+`","creationDate":"2026-01-01T00:00:00.000Z"}`)
	stray := `"postId":"x","type":"post","title":"stray","content":"x","truncated":false,"userUsername":"grace","commentCount":0,"likeCount":0,"creationDate":"2026-01-01T00:00:00.000Z","version":1,"revision":1}`
	w.upsert("users", grace.ID, `{"id":"`+posts[7].ID+`","userId":"`+grace.ID+`",`+stray)
	w.upsert("feed", "post", `{"id":"never-was","userId":"`+grace.ID+`",`+strings.Replace(stray, "2026", "2027", 1)) // so that it is not trimmed
}

func TestRebuild(t *testing.T) {
	for _, serving := range []bool{true, false} {
		t.Run(fmt.Sprintf("beside an instance that serves: %v", serving), func(t *testing.T) {
			w := newWorld(t)
			ada, grace := w.user("ada"), w.user("grace")
			var posts []*store.Post
			for i := range 12 {
				p := w.post(ada, fmt.Sprintf("post %d", i))
				posts = append(posts, p)
				w.like(grace, p)
			}
			c := w.comment(grace, posts[0], "a comment")
			w.clock.ms.Add(61_000)
			stop := w.run()
			eventually(t, func() error {
				if found := w.verify(0); found != nil {
					return fmt.Errorf("%+v", found)
				}
				return nil
			})
			eventually(t, w.caughtUp)
			stop()
			w.vandalize(ada, grace, posts, c)
			if found := w.verify(0); len(found) != 16 {
				t.Fatalf("%d differences before", len(found))
			}

			// Others write meanwhile.
			ctx, cancel := context.WithCancel(t.Context())
			var writing sync.WaitGroup
			defer writing.Wait()
			defer cancel()
			writing.Go(func() {
				for i := range 60 { // the feed goes on showing all
					if ctx.Err() != nil {
						return
					}
					err := w.writeLate(fmt.Sprintf("writer%d", i), ada, posts[9])
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
			})
			if serving {
				w.run()
			}
			if err := w.Rebuild(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !serving {
				w.run()
			}
			w.rebuilt()
			if found := w.verify(time.Minute); found != nil {
				t.Errorf("%+v", found)
			}
			cancel()
			writing.Wait()
			if found := w.verify(time.Minute); found != nil {
				t.Errorf("when all is quiet: %+v", found)
			}
		})
	}
}

// A rebuild is remembered where the leases are: who begins it may go at once, and
// whoever works on it may be interrupted.
func TestRebuildGoesOnAfterARestart(t *testing.T) {
	dir := t.TempDir()
	w := openWorld(t, dir)
	ada := w.user("ada")
	var posts []*store.Post
	for i := range 60 {
		posts = append(posts, w.post(ada, fmt.Sprint("post ", i)))
	}
	stop := w.run()
	eventually(t, w.caughtUp)
	stop()
	w.corrupt("users", ada.ID, posts[59].ID, "/title", "not the title")
	if err := w.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	total := w.toRebuild()
	var requests atomic.Int32
	w.wire.intercept(func(*http.Request) error {
		if requests.Add(1) > 100 { // less than two for each post
			return errors.New("gone")
		}
		return nil
	})
	stop = w.run()
	eventually(t, func() error {
		if n := requests.Load(); n <= 100 {
			return fmt.Errorf("%d requests", n)
		}
		return nil
	})
	stop()
	w.wire.intercept(nil)
	if n := w.toRebuild(); n == 0 || n > total {
		t.Fatalf("%d of %d to rebuild", n, total)
	}
	if err := w.engine.Close(); err != nil {
		t.Fatal(err)
	}
	again := openWorld(t, dir)
	again.run()
	again.rebuilt()
	if found := again.verify(time.Minute); found != nil {
		t.Errorf("%+v", found)
	}
}

func (w *world) toRebuild() (n int64) {
	w.t.Helper()
	status, err := w.Projections(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range status {
		n += r.Replay
	}
	return n
}

// Names that two users carry are beyond mending. That stops nothing.
func TestRebuildGoesOnPastWhatCannotBeMended(t *testing.T) {
	w := newWorld(t)
	ada, grace := w.user("ada"), w.user("grace")
	p := w.post(ada, "one")
	w.corrupt("users", grace.ID, grace.ID, "/username", "ada")
	w.corrupt("users", ada.ID, p.ID, "/title", "not the title")
	if err := w.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.run()
	w.rebuilt()
	eventually(t, func() error {
		if got := w.userPosts(ada); len(got) != 1 || got[0].Title != "one" {
			return errors.New("not mended")
		}
		return nil
	})
}

// A rebuild leaves nothing out because its write meets another.
func TestRebuildMeetsAnotherWrite(t *testing.T) {
	w := newWorld(t)
	ada := w.user("ada")
	p := w.post(ada, "one")
	w.like(ada, p)
	stop := w.run()
	eventually(t, w.caughtUp)
	stop()
	w.corrupt("posts", p.ID, p.ID, "/likeCount", 17)
	stop = w.run()
	eventually(t, w.caughtUp)
	stop()
	b := &busyTo{Transporter: w.engine, meets: func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/colls/posts/")
	}}
	b.left.Store(1)
	v := *w
	var err error
	if v.Store, err = store.New(newAccount(t, w.engine, b), store.Options{Clock: w.clock.now, PollInterval: time.Millisecond, Instance: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := v.Rebuild(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer v.run()()
	v.rebuilt()
	if b.left.Load() > 0 {
		t.Fatal("it has written nothing")
	}
	eventually(t, v.caughtUp) // with what it has written
	for _, d := range v.verify(0) {
		t.Errorf("%+v", d)
	}
}
