package seed_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"byline/internal/enginetest"
	"byline/internal/longtest"
	"byline/internal/secrettest"
	"byline/internal/testmain"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/projection"
	"byline/store/seed"
)

func TestMain(m *testing.M) { testmain.Run(m) }

func userID(name string) string { return blog.UserID("demo", name) }

// small is the article's data set as tests can afford it.
func small() seed.Blog {
	b := seed.Article(7, 12, userID)
	b.Posts = [2]int{1, 12}
	return b
}

// world is an empty store.
type world struct {
	*store.Store
	account   *cosmos.Account
	throttled atomic.Int64 // requests answered with 429
	left      atomic.Int64 // until interrupt is called
	interrupt atomic.Pointer[context.CancelFunc]
}

// Do is the wire.
func (w *world) Do(req *policy.Request) (*http.Response, error) {
	if w.left.Add(-1) == 0 {
		(*w.interrupt.Load())()
	}
	resp, err := req.Next()
	if err == nil && resp.StatusCode == http.StatusTooManyRequests {
		w.throttled.Add(1)
	}
	return resp, err
}

func newWorld(t *testing.T, o emulator.Options) *world {
	t.Helper()
	w := &world{}
	w.account = enginetest.Open(t, o, cosmos.Options{Policies: []policy.Policy{w}, Retry: policy.RetryOptions{MaxRetries: 1000}})
	var err error
	if w.Store, err = store.New(w.account, store.Options{PollInterval: time.Millisecond, Logger: secrettest.Logger()}); err != nil {
		t.Fatal(err)
	}
	if err := w.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) load(t *testing.T, b seed.Blog) {
	t.Helper()
	if err := seed.Load(t.Context(), b, w, nil); err != nil {
		t.Fatal(err)
	}
}

func (w *world) digest(t *testing.T) seed.Digest {
	t.Helper()
	d, err := seed.DigestOf(t.Context(), w.account, "blog", store.Containers(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// verify fails the test if a copy differs from its source.
func (w *world) verify(t *testing.T) {
	t.Helper()
	if err := w.Views().Verify(t.Context(), time.Minute, nil, func(d projection.Difference) { t.Errorf("%+v", d) }); err != nil {
		t.Error(err)
	}
}

// TestLoad compares what the store shows with the blog.
func TestLoad(t *testing.T) {
	b := small()
	w := newWorld(t, emulator.Options{Partitions: 3})
	var last atomic.Int64
	if err := seed.Load(t.Context(), b, w, func(posts int) { last.Store(max(last.Load(), int64(posts))) }); err != nil {
		t.Fatal(err)
	}
	if int(last.Load()) != b.TotalPosts() {
		t.Errorf("progress ended at %d of %d posts", last.Load(), b.TotalPosts())
	}
	w.verify(t)
	ctx, same := t.Context(), cmpopts.IgnoreUnexported(blog.Post{})
	for i := range b.Users {
		u := b.User(i)
		have, err := w.UserByUsername(ctx, u.Username)
		if err != nil || !cmp.Equal(have, u) {
			t.Errorf("user %v, %v; want %v", have, err, u)
		}
		page, err := w.UserPosts(ctx, u.ID, store.Paging{First: 100})
		if err != nil || len(page.Items) != b.PostCount(i) {
			t.Errorf("%s has %d posts, %v; want %d", u.Username, len(page.Items), err, b.PostCount(i))
		}
		want := b.Thread(i, 0)
		post, err := w.Post(ctx, want.Post.ID)
		if diff := cmp.Diff(want.Post, post, same); err != nil || diff != "" {
			t.Error(err, diff)
		}
		comments, err1 := w.Comments(ctx, want.Post.ID, store.Paging{First: 100})
		likes, err2 := w.Likes(ctx, want.Post.ID, store.Paging{First: 100})
		if err := errors.Join(err1, err2); err != nil || len(comments.Items) != len(want.Comments) || len(likes.Items) != len(want.Likes) {
			t.Errorf("%v; %d comments and %d likes", err, len(comments.Items), len(likes.Items))
		}
	}
	feed, err := w.Feed(ctx, store.Paging{First: 100})
	if n := min(100, b.TotalPosts()); err != nil || len(feed.Items) != n {
		t.Errorf("%d posts in the feed, %v; want %d", len(feed.Items), err, n)
	}
}

// TestDataIsTheSameEverywhere fails if the data depends on anything but the blog: then
// seeds of other days, machines and versions would not go on with each other.
func TestDataIsTheSameEverywhere(t *testing.T) {
	longtest.Heavy(t)
	for name, c := range map[string]struct {
		blog  seed.Blog
		items int
		want  string
	}{
		"demo":    {seed.Demo(userID), 3856, "135ca0e052f59e8a59530a6350a6b37a"},
		"article": {small(), 1704, "8e316013a3830d34fe2a9d36cb9a477f"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, emulator.Options{})
			w.load(t, c.blog)
			if d := w.digest(t); d.Items != c.items || d.String() != c.want {
				t.Errorf("%d items, digest %s", d.Items, d)
			}
		})
	}
}

func TestDemo(t *testing.T) {
	b := seed.Demo(userID)
	comments, likes := 0, 0
	for i := range b.Users {
		for n := range b.PostCount(i) {
			thread := b.Thread(i, n)
			comments += len(thread.Comments)
			likes += len(thread.Likes)
		}
	}
	if b.Users != 25 || b.TotalPosts() != 250 || comments < 400 || likes < 1000 {
		t.Errorf("%d users, %d posts, %d comments, %d likes", b.Users, b.TotalPosts(), comments, likes)
	}
	if ada, grace := b.User(0), b.User(1); ada.Username != "ada" || grace.Username != "grace" {
		t.Errorf("the first are %s and %s", ada.Username, grace.Username)
	}
}

// TestInterrupted interrupts Load again and again, wherever it may be, with the
// projections at work beside it or without them.
func TestInterrupted(t *testing.T) {
	b := small()
	whole := newWorld(t, emulator.Options{})
	whole.load(t, b)
	want := whole.digest(t)
	for name, projecting := range map[string]bool{"alone": false, "with the projections at work": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, emulator.Options{})
			if projecting {
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- w.Run(ctx) }()
				defer func() {
					stop()
					if err := <-done; err != nil {
						t.Error(err)
					}
				}()
			}
			const first = 40
			for requests := int64(first); ; requests += requests / 2 {
				ctx, interrupt := context.WithCancel(t.Context())
				w.interrupt.Store(&interrupt)
				w.left.Store(requests)
				err := seed.Load(ctx, b, w, nil)
				interrupt()
				if err == nil {
					break
				}
				if requests > first {
					continue // it may be all there but for the feed
				}
				if needed, err := seed.Needed(t.Context(), w.Store, b); err != nil || !needed {
					t.Fatalf("a half-loaded store: %v, %v", needed, err)
				}
			}
			if needed, err := seed.Needed(t.Context(), w.Store, b); err != nil || needed {
				t.Fatalf("a loaded store: %v, %v", needed, err)
			}
			w.verify(t)
			if d := w.digest(t); d != want {
				t.Errorf("%d items, digest %s; uninterrupted %d, %s", d.Items, d, want.Items, want)
			}
		})
	}
}

// TestDigestOfWhatCannotBeRead fails if progress is told after DigestOf has returned. Time
// is the bubble's: it passes only while everybody waits.
func TestDigestOfWhatCannotBeRead(t *testing.T) {
	for name, container := range map[string]string{"no such container": "nowhere", "no name": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, emulator.Options{})
				if _, err := w.CreateUser(t.Context(), store.NewUser{ID: userID("ada"), Username: "ada"}); err != nil {
					t.Fatal(err)
				}
				var told atomic.Bool
				_, err := seed.DigestOf(t.Context(), w.account, "blog", []string{"users", container}, func(int) {
					<-time.After(time.Minute)
					told.Store(true)
				})
				if err == nil {
					t.Error("no error")
				}
				if !told.Load() {
					t.Error("returned before it had told the progress")
				}
			})
		})
	}
}

func TestNotNeededWhereSomebodyWrites(t *testing.T) {
	b := seed.Demo(userID)
	w := newWorld(t, emulator.Options{})
	if needed, err := seed.Needed(t.Context(), w.Store, b); err != nil || !needed {
		t.Fatalf("an empty store: %v, %v", needed, err)
	}
	if _, err := w.CreateUser(t.Context(), store.NewUser{ID: userID("ada"), Username: "ada"}); err != nil {
		t.Fatal(err)
	}
	if needed, err := seed.Needed(t.Context(), w.Store, b); err != nil || needed {
		t.Errorf("%v, %v", needed, err)
	}
}

// TestNotNeededOnceLoaded renames somebody: what has been loaded may change.
func TestNotNeededOnceLoaded(t *testing.T) {
	b := small()
	w := newWorld(t, emulator.Options{})
	w.load(t, b)
	if _, err := w.RenameUser(t.Context(), b.User(3).ID, "countess"); err != nil {
		t.Fatal(err)
	}
	if needed, err := seed.Needed(t.Context(), w.Store, b); err != nil || needed {
		t.Errorf("%v, %v", needed, err)
	}
	before := w.digest(t)
	w.load(t, b)
	if after := w.digest(t); after != before {
		t.Errorf("loaded again, the digest of %d items is %s; before, of %d, %s", after.Items, after, before.Items, before)
	}
}

// TestNameOfSomebodyElse loads where a name of the blog is taken.
func TestNameOfSomebodyElse(t *testing.T) {
	b := small()
	w := newWorld(t, emulator.Options{})
	if _, err := w.CreateUser(t.Context(), store.NewUser{ID: "somebody", Username: "Alan"}); err != nil {
		t.Fatal(err)
	}
	if err := seed.Load(t.Context(), b, w, nil); blog.CodeOf(err) != blog.Conflict {
		t.Errorf("%v", err)
	}
}

// TestThrottled loads into an account that answers 429 more often than not. The waits take no time
// on the fake clock.
func TestThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := small()
		b.Posts = [2]int{1, 4}
		w := newWorld(t, emulator.Options{RUs: 1500})
		w.load(t, b)
		if w.throttled.Load() == 0 {
			t.Error("never throttled")
		}
		quiet := newWorld(t, emulator.Options{})
		quiet.load(t, b)
		if have, want := w.digest(t), quiet.digest(t); have != want {
			t.Errorf("%d items, digest %s; want %d, %s", have.Items, have, want.Items, want)
		}
	})
}

// A blog of another size has posts of the same ids, with other contents. One of another
// seed may be loaded beside it, with all its copies.
func TestOther(t *testing.T) {
	b := small()
	w := newWorld(t, emulator.Options{})
	if err := seed.Load(t.Context(), b, w, nil); err != nil {
		t.Fatal(err)
	}
	for _, users := range []int{b.Users + 1, b.Users - 1, 10 * b.Users} {
		other := b
		other.Users = users
		if is, err := seed.Other(t.Context(), w.Store, other); !is || err != nil {
			t.Errorf("%d users over %d: %v, %v", users, b.Users, is, err)
		}
	}
	other := b
	for range 2 {
		if is, err := seed.Other(t.Context(), w.Store, other); is || err != nil {
			t.Errorf("seed %d over %d: %v, %v", other.Seed, b.Seed, is, err)
		}
		other.Seed++
	}
	if err := seed.Load(t.Context(), other, w, nil); err != nil {
		t.Errorf("of another seed: %v", err)
	}
	w.verify(t)
}

func TestCheckUsers(t *testing.T) {
	for n, allowed := range map[int]bool{-1: false, 0: false, 1: true, seed.MaxUsers: true, seed.MaxUsers + 1: false} {
		if err := seed.CheckUsers(n); (err == nil) != allowed {
			t.Errorf("%d users: %v", n, err)
		}
	}
}

// TestPostID: ids are known without the posts, and readers write none.
func TestPostID(t *testing.T) {
	b := small()
	b.Authors = b.Users - 1
	for user := range b.Users {
		for n := range b.PostCount(user) {
			if id := b.PostID(user, n); id != b.Thread(user, n).Post.ID {
				t.Errorf("post %d of user %d is called %s", n, user, id)
			}
		}
	}
	if n := b.PostCount(b.Users - 1); n != 0 {
		t.Errorf("a reader has written %d posts", n)
	}
}
