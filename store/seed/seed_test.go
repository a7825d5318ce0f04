package seed_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"byline/internal/enginetest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/blog/markdown"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/files"
	"byline/store/projection"
	"byline/store/seed"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func userID(name string) string { return blog.UserID("demo", name) }

// small returns the article's data set in a size for tests.
func small() seed.Blog {
	b := seed.Article(7, 12, userID)
	b.Posts = [2]int{1, 12}
	return b
}

// world is an empty store.
type world struct {
	*store.Store
	account   *cosmos.Account
	throttled atomic.Int64 // 429 responses
	left      atomic.Int64 // requests until interrupt is called
	interrupt atomic.Pointer[context.CancelFunc]
}

// Do implements policy.Policy.
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
	w.account = enginetest.Open(t, o,
		cosmos.Options{Policies: []policy.Policy{w}, Retry: policy.RetryOptions{MaxRetries: 1000}})
	var err error
	if w.Store, err = store.New(w.account,
		store.Options{PollInterval: time.Millisecond, Logger: testkit.Logger()}); err != nil {
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

// verify fails the test if a view differs from its source.
func (w *world) verify(t *testing.T) {
	t.Helper()
	if err := w.Views().Verify(t.Context(), time.Minute, nil, func(d projection.Difference) {
		t.Errorf("%+v", d)
	}); err != nil {
		t.Error(err)
	}
}

// TestLoad compares the store's reads with the blog.
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
		page, err := w.UserPosts(ctx, u.UserID, store.Paging{First: 100})
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
		if err := errors.Join(err1, err2); err != nil || len(comments.Items) != len(want.Comments) ||
			len(likes.Items) != len(want.Likes) {
			t.Errorf("%v; %d comments and %d likes", err, len(comments.Items), len(likes.Items))
		}
	}
	feed, err := w.Feed(ctx, store.Paging{First: 100})
	if n := min(100, b.TotalPosts()); err != nil || len(feed.Items) != n {
		t.Errorf("%d posts in the feed, %v; want %d", len(feed.Items), err, n)
	}
}

// TestFollow: the counts are those of the lists, the first user follows others, and a repetition changes nothing.
func TestFollow(t *testing.T) {
	b := small()
	w := newWorld(t, emulator.Options{})
	w.load(t, b)
	for range 2 {
		if err := seed.Follow(t.Context(), b, w.Store); err != nil {
			t.Fatal(err)
		}
		total, ofFirst := 0, 0
		for i := range b.Users {
			u, err := w.User(t.Context(), b.User(i).UserID)
			if err != nil {
				t.Fatal(err)
			}
			followers, err := w.Followers(t.Context(), u.UserID, store.Paging{First: 100})
			if err != nil || len(followers.Items) != int(u.FollowerCount) {
				t.Fatalf("%s has the count %d, %v", u.Username, u.FollowerCount, err)
			}
			total += len(followers.Items)
			for _, f := range followers.Items {
				if f.UserID == b.User(0).UserID {
					ofFirst++
				}
			}
		}
		if ofFirst < 3 || total < 3*b.Users || total > 4*b.Users {
			t.Errorf("%d follows, %d of the first user", total, ofFirst)
		}
	}
}

// The data depends on the Blog alone, so that a load can resume on another day, machine or version.
func TestLoad_Deterministic(t *testing.T) {
	testkit.Heavy(t)
	for name, c := range map[string]struct {
		blog  seed.Blog
		items int
		want  string
	}{
		"demo":    {seed.Demo(userID), 7232, "aa5645ab63889c2bfa8bc443d7c4bd31"},
		"article": {small(), 2284, "1b9ffacfe6f7e9d6577cb3628bc83e9c"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, emulator.Options{})
			w.load(t, c.blog)
			if d := w.digest(t); d.Items != c.items || d.String() != c.want {
				t.Errorf("got %d items, digest %s, want %d, %s", d.Items, d, c.items, c.want)
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

// TestDemo_Dates: the articles are the newest posts, nothing is later than Ends, and a load that is resumed on another
// day has the dates with which it began.
func TestDemo_Dates(t *testing.T) {
	b := seed.Demo(userID)
	b.Ends = time.Date(2030, time.May, 1, 12, 0, 0, 0, time.UTC)
	newest := map[string]time.Time{}
	for user := range b.Users {
		for n := range b.PostCount(user) {
			thread := b.Thread(user, n)
			dates := []blog.Date{thread.Post.CreatedAt}
			for _, c := range thread.Comments {
				dates = append(dates, c.CreatedAt)
			}
			for _, l := range thread.Likes {
				dates = append(dates, l.CreatedAt)
			}
			for i, d := range dates {
				if d.Time().After(b.Ends) || d.Time().Before(dates[0].Time()) || i == 0 &&
					b.Ends.Sub(d.Time()) > 71*24*time.Hour {
					t.Errorf("%s: %v", thread.Post.Title, dates)
				}
			}
			if age := b.Ends.Sub(thread.Post.CreatedAt.Time()); age < 24*time.Hour {
				newest[thread.Post.Title] = thread.Post.CreatedAt.Time()
			}
		}
	}
	if _, ok := newest["Keep a decision log"]; !ok || len(newest) < 12 {
		t.Errorf("of the last day: %v", newest)
	}

	w := newWorld(t, emulator.Options{})
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	w.interrupt.Store(&interrupt)
	w.left.Store(3) // in the first user's posts
	if err := seed.Load(ctx, b, w, nil); err == nil {
		t.Fatal("the load was not interrupted")
	}
	later := b
	later.Ends = b.Ends.Add(50 * time.Hour)
	for _, state := range []string{"first post", "all"} {
		if have, err := later.WithDatesOf(t.Context(), w.Store); err != nil || !have.Ends.Equal(b.Ends) {
			t.Errorf("%s stored: ends %s, %v; want %s", state, have.Ends, err, b.Ends)
		}
		w.load(t, b)
	}
}

// The posts of the demo blog show what Markdown can do, and are within the limits of createPost.
func TestDemo_Markdown(t *testing.T) {
	b, elements := seed.Demo(userID), map[string]bool{}
	for user := range b.Users {
		for n := range b.PostCount(user) {
			p := b.Thread(user, n).Post
			most, words := 1000, len(strings.Fields(p.Content))
			if n == 0 && user < 12 { // an article
				most = 6000
				if words < 300 || words > 900 || !strings.Contains(p.Content, "\n## ") {
					t.Errorf("%s: %d words: %s", p.Title, words, p.Content)
				}
			}
			if err := (store.NewPost{Title: p.Title, Content: p.Content, Tags: p.Tags}).Validate(); err != nil ||
				len(p.Content) > most {
				t.Errorf("%d bytes, %v: %s", len(p.Content), err, p.Content)
			}
			h, err := markdown.Render(t.Context(), p.Content)
			if err != nil {
				t.Error(err)
			}
			for _, tag := range regexp.MustCompile(`<\w+`).FindAllString(string(h), -1) {
				elements[tag] = true
			}
			if strings.ContainsAny(p.StoredExcerpt(), "*#>[]") {
				t.Errorf("excerpt %s", p.StoredExcerpt())
			}
		}
	}
	for _, want := range []string{"<p", "<strong", "<h3", "<h4", "<ul", "<ol", "<blockquote", "<em", "<a", "<hr", "<pre",
		"<table"} {
		if !elements[want] {
			t.Errorf("no %s> in %v", want, elements)
		}
	}
}

// Load is interrupted and repeated until it succeeds, with and without running projections.
func TestLoad_Interrupted(t *testing.T) {
	b := small()
	whole := newWorld(t, emulator.Options{})
	whole.load(t, b)
	want := whole.digest(t)
	for name, projecting := range map[string]bool{"without projections": false, "with projections": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, emulator.Options{})
			if projecting {
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- w.Run(ctx) }()
				defer func() {
					stop()
					if err := testkit.Receive(t, done); err != nil {
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
					continue // only the feed may be missing
				}
				if needed, err := seed.Needed(t.Context(), w.Store, b); err != nil || !needed {
					t.Fatalf("Needed of a half-loaded store: got %v, %v, want true", needed, err)
				}
			}
			if needed, err := seed.Needed(t.Context(), w.Store, b); err != nil || needed {
				t.Fatalf("Needed of a loaded store: got %v, %v, want false", needed, err)
			}
			w.verify(t)
			if d := w.digest(t); d != want {
				t.Errorf("%d items, digest %s; uninterrupted %d, %s", d.Items, d, want.Items, want)
			}
		})
	}
}

// DigestOf does not call progress after it has returned an error. The fake clock advances only while all
// goroutines wait.
func TestDigestOf_UnreadableContainer(t *testing.T) {
	for name, container := range map[string]string{"unknown container": "unknown", "empty name": ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, emulator.Options{})
				if _, err := w.CreateUser(t.Context(), store.NewUser{ID: userID("ada"), Username: "ada"}); err != nil {
					t.Fatal(err)
				}
				var reported atomic.Bool
				_, err := seed.DigestOf(t.Context(), w.account, "blog", []string{"users", container}, func(int) {
					<-time.After(time.Minute)
					reported.Store(true)
				})
				if err == nil {
					t.Error("no error")
				}
				if !reported.Load() {
					t.Error("returned before progress had returned")
				}
			})
		})
	}
}

func TestNeeded_OtherUsers(t *testing.T) {
	b := seed.Demo(userID)
	w := newWorld(t, emulator.Options{})
	if needed, err := seed.Needed(t.Context(), w.Store, b); err != nil || !needed {
		t.Fatalf("Needed of an empty store: got %v, %v, want true", needed, err)
	}
	if _, err := w.CreateUser(t.Context(), store.NewUser{ID: userID("ada"), Username: "ada"}); err != nil {
		t.Fatal(err)
	}
	if needed, err := seed.Needed(t.Context(), w.Store, b); err != nil || needed {
		t.Errorf("got %v, %v, want false", needed, err)
	}
}

// A load is not needed after a change of the loaded data, such as a rename.
func TestNeeded_Loaded(t *testing.T) {
	b := small()
	w := newWorld(t, emulator.Options{})
	w.load(t, b)
	if _, err := w.UpdateUser(t.Context(), b.User(3).UserID, store.UserEdit{Username: new("countess")}); err != nil {
		t.Fatal(err)
	}
	if needed, err := seed.Needed(t.Context(), w.Store, b); err != nil || needed {
		t.Errorf("got %v, %v, want false", needed, err)
	}
	before := w.digest(t)
	w.load(t, b)
	if after := w.digest(t); after != before {
		t.Errorf("after a second load: %d items, digest %s; want %d, %s", after.Items, after, before.Items, before)
	}
}

// Load fails if another user has a username of the blog.
func TestLoad_UsernameTaken(t *testing.T) {
	b := small()
	w := newWorld(t, emulator.Options{})
	if _, err := w.CreateUser(t.Context(), store.NewUser{ID: "other", Username: "Alan"}); err != nil {
		t.Fatal(err)
	}
	if err := seed.Load(t.Context(), b, w, nil); blog.CodeOf(err) != blog.Conflict {
		t.Errorf("got %v, want conflict", err)
	}
}

// Load succeeds on an account that throttles most requests. The waits are on the fake clock.
func TestLoad_Throttled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := small()
		b.Posts = [2]int{1, 4}
		w := newWorld(t, emulator.Options{RUs: 1500})
		w.load(t, b)
		if w.throttled.Load() == 0 {
			t.Error("never throttled")
		}
		unlimited := newWorld(t, emulator.Options{})
		unlimited.load(t, b)
		if have, want := w.digest(t), unlimited.digest(t); have != want {
			t.Errorf("got %d items, digest %s; want %d, %s", have.Items, have, want.Items, want)
		}
	})
}

// Other detects a blog of the same seed and another size. A blog of another seed can be loaded beside it, with
// all its views.
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
			t.Errorf("%d users over %d: got %v, %v, want true", users, b.Users, is, err)
		}
	}
	other := b
	for range 2 {
		if is, err := seed.Other(t.Context(), w.Store, other); is || err != nil {
			t.Errorf("seed %d over %d: got %v, %v, want false", other.Seed, b.Seed, is, err)
		}
		other.Seed++
	}
	if err := seed.Load(t.Context(), other, w, nil); err != nil {
		t.Errorf("load of another seed: %v", err)
	}
	w.verify(t)
}

func TestCheckUsers(t *testing.T) {
	for n, allowed := range map[int]bool{-1: false, 0: false, 1: true, seed.MaxUsers: true, seed.MaxUsers + 1: false} {
		if err := seed.CheckUsers(n); (err == nil) != allowed {
			t.Errorf("%d users: got error %v, want allowed: %t", n, err, allowed)
		}
	}
}

// PostID returns the ids of posts without generating them. Users beyond Authors have no posts.
func TestPostID(t *testing.T) {
	b := small()
	b.Authors = b.Users - 1
	for user := range b.Users {
		for n := range b.PostCount(user) {
			if id := b.PostID(user, n); id != b.Thread(user, n).Post.ID {
				t.Errorf("post %d of user %d: got id %s, want that of Thread", n, user, id)
			}
		}
	}
	if n := b.PostCount(b.Users - 1); n != 0 {
		t.Errorf("a user beyond Authors has %d posts", n)
	}
}

// TestLoad_Covers: each article of the demo blog has a picture of its own, with a description. A second load keeps
// them.
func TestLoad_Covers(t *testing.T) {
	testkit.Heavy(t)
	w := newWorld(t, emulator.Options{})
	pictures, err := files.NewFolder(t.TempDir(), files.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := seed.Demo(userID)
	b.Covers = &seed.Covers{Files: pictures, Store: w.Store}
	ctx, interrupt := context.WithCancel(t.Context())
	w.interrupt.Store(&interrupt)
	w.left.Store(60)
	if err := seed.Load(ctx, b, w, nil); err == nil {
		t.Fatal("the load was not interrupted")
	}
	interrupt()
	w.load(t, b)
	before := w.digest(t)
	w.load(t, b)
	if after := w.digest(t); after != before {
		t.Errorf("after another load: %d items, digest %s; want %d, %s", after.Items, after, before.Items, before)
	}
	w.verify(t)
	seen := map[string]bool{}
	for user := range b.Users {
		for n := range b.PostCount(user) {
			p, err := w.Post(t.Context(), b.PostID(user, n))
			if err != nil {
				t.Fatal(err)
			}
			c := p.CoverImage()
			if article := n == 0 && user < 12; article != (c != nil) {
				t.Errorf("%s: cover %v", p.Title, c)
			}
			if c == nil {
				continue
			}
			if seen[c.URL] || seen[c.Alt] || c.Width == nil || *c.Width != 1200 || *c.Height != 630 || len(c.Alt) < 40 {
				t.Errorf("%s: cover %+v", p.Title, c)
			}
			seen[c.URL], seen[c.Alt] = true, true
			got := httptest.NewRecorder()
			pictures.ServeHTTP(got, httptest.NewRequest(http.MethodGet, c.URL, nil))
			if got.Code != http.StatusOK || got.Header().Get("Content-Type") != "image/png" {
				t.Errorf("%s: %d %v", c.URL, got.Code, got.Header())
			}
		}
	}
}
