package store_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/cosmos/session"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
)

// cachedStore is an instance with a cache; an account may have several.
type cachedStore struct {
	*store.Store
	wire *storetest.Wire
	stop func()
}

func newCachedStore(t testing.TB, a *cosmostest.Account, bytes int) *cachedStore {
	t.Helper()
	wire := &storetest.Wire{To: a.Transport}
	account, err := cosmos.Open(cosmos.Options{Endpoint: a.Endpoint, Key: a.Key, Credential: a.Credential,
		Transport:  wire,
		CacheBytes: bytes, Retry: policy.RetryOptions{MaxRetries: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	s, err := store.New(account, store.Options{Database: a.Database, PollInterval: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	r := &cachedStore{s, wire, sync.OnceFunc(func() {
		cancel()
		if err := testkit.Receive(t, done); err != nil {
			t.Error(err)
		}
	})}
	t.Cleanup(r.stop)
	return r
}

// requestsOf counts the requests that f makes with its context, without those of the projections.
func (r *cachedStore) requestsOf(ctx context.Context, f func(context.Context)) int {
	type key struct{}
	var n atomic.Int32
	r.wire.After(func(resp *http.Response) {
		if resp.Request.Context().Value(key{}) == &n && !session.IsBehind(resp) {
			n.Add(1)
		}
	})
	f(context.WithValue(ctx, key{}, &n))
	r.wire.After(nil)
	return int(n.Load())
}

// reads does the article's reads of one post and its author.
func (r *cachedStore) reads(t testing.TB, ctx context.Context, author, post string) string {
	t.Helper()
	u, err1 := r.User(ctx, author)
	p, err2 := r.Post(ctx, post)
	own, err3 := r.UserPosts(ctx, author, store.Paging{First: 20})
	comments, err4 := r.Comments(ctx, post, store.Paging{First: 20})
	likes, err5 := r.Likes(ctx, post, store.Paging{First: 20})
	feed, err6 := r.Feed(ctx, store.Paging{First: 20})
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(u.Username, " ", p.Title, " ", p.Version, " ", len(own.Items), len(comments.Items),
		len(likes.Items), len(feed.Items))
}

// untilTrue waits until check holds. what describes the failure.
func untilTrue(t testing.TB, what string, check func() bool) {
	t.Helper()
	testkit.Until(t, func() error {
		if !check() {
			return errors.New(what)
		}
		return nil
	})
}

func newCachedBlog(t testing.TB) (account *cosmostest.Account, a, b *cachedStore, ada *blog.User, post *blog.Post) {
	t.Helper()
	account = cosmostest.Open(t, emulator.Options{})
	a, b = newCachedStore(t, account, 1<<20), newCachedStore(t, account, 1<<20)
	var err error
	if ada, err = a.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("i", "ada"), Username: "ada"}); err != nil {
		t.Fatal(err)
	}
	if post, err = a.CreatePost(t.Context(),
		store.NewPost{AuthorID: ada.UserID, Title: "notes", Content: "x"}); err != nil {
		t.Fatal(err)
	}
	untilTrue(t, "the other instance does not see them", func() bool {
		u, err := b.User(t.Context(), ada.UserID)
		p, err2 := b.Post(t.Context(), post.ID)
		return u != nil && p != nil && err == nil && err2 == nil
	})
	return account, a, b, ada, post
}

// Unchanged items are read once.
func TestCache_ReadsOnce(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		_, a, _, ada, post := newCachedBlog(t)
		// Partitions change until the projections have caught up.
		untilTrue(t, "reads are still requests", func() bool {
			a.reads(t, t.Context(), ada.UserID, post.ID)
			return a.requestsOf(t.Context(), func(ctx context.Context) { a.reads(t, ctx, ada.UserID, post.ID) }) == 0
		})
		a.stop()
		untilTrue(t, "a container without a tail is still cached", func() bool {
			return a.requestsOf(t.Context(), func(ctx context.Context) { a.reads(t, ctx, ada.UserID, post.ID) }) == 6
		})
	})
}

// An instance's own writes are visible at once, those of others soon.
func TestCache_Writes(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		_, a, b, ada, post := newCachedBlog(t)
		ctx := t.Context()
		for i := range 20 {
			a.reads(t, ctx, ada.UserID, post.ID)
			b.reads(t, ctx, ada.UserID, post.ID)
			if _, _, err := a.CreateComment(ctx,
				store.NewComment{AuthorID: ada.UserID, PostID: post.ID, Content: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
			title := fmt.Sprint("title ", i)
			if _, err := a.EditPost(ctx, ada.UserID, post.ID, store.PostEdit{Title: &title}); err != nil {
				t.Fatal(err)
			}
			for what, own := range map[string]func() (string, error){
				"the post": func() (string, error) { p, err := a.Post(ctx, post.ID); return p.Title, err },
				"the list": func() (string, error) {
					p, err := a.UserPosts(ctx, ada.UserID, store.Paging{First: 1})
					return p.Items[0].Title, err
				},
				"the feed": func() (string, error) {
					p, err := a.Feed(ctx, store.Paging{First: 1})
					return p.Items[0].Title, err
				},
			} {
				if got, err := own(); err != nil || got != title {
					t.Errorf("%s: got %q, %v, want %q", what, got, err, title)
				}
			}
			if c, err := a.Comments(ctx, post.ID, store.Paging{First: 100}); err != nil || len(c.Items) != i+1 {
				t.Errorf("got %d comments, %v, want %d", len(c.Items), err, i+1)
			}
			want := a.reads(t, ctx, ada.UserID, post.ID)
			got := ""
			testkit.Until(t, func() error {
				if got = b.reads(t, ctx, ada.UserID, post.ID); got != want {
					return fmt.Errorf("the other instance reads %s, want %s", got, want)
				}
				return nil
			})
		}
		if name, err := a.UpdateUser(ctx, ada.UserID, store.UserEdit{Username: new("countess")}); err != nil ||
			name.Username != "countess" {
			t.Fatal(err)
		}
		if u, err := a.User(ctx, ada.UserID); err != nil || u.Username != "countess" {
			t.Errorf("%v %v", u, err)
		}
		untilTrue(t, "the other instance does not see the new name", func() bool {
			u, err := b.User(ctx, ada.UserID)
			return err == nil && u.Username == "countess"
		})
	})
}

// The cache does not serve a session with a write of another instance that the cached item does not include.
func TestCache_Sessions(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		_, a, b, ada, post := newCachedBlog(t)
		for i := range 50 {
			b.reads(t, t.Context(), ada.UserID, post.ID)
			writing := a.NewSession("")
			title := fmt.Sprint("title ", i)
			if _, err := a.EditPost(cosmos.WithSession(t.Context(), writing), ada.UserID, post.ID,
				store.PostEdit{Title: &title}); err != nil {
				t.Fatal(err)
			}
			reading := b.NewSession(writing.Token())
			if p, err := b.Post(cosmos.WithSession(t.Context(), reading), post.ID); err != nil || p.Title != title {
				t.Fatalf("got %v, %v, want title %q", p, err, title)
			}
		}
	})
}

// A session that has just written to another partition of a container still gets cached items.
func TestCache_ActiveWriterKeepsHits(t *testing.T) {
	cosmostest.NeedsEngine(t, "16 ranges and a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		on := cosmostest.Open(t, emulator.Options{Partitions: 16})
		a := newCachedStore(t, on, 1<<20)
		ada, err := a.CreateUser(t.Context(), store.NewUser{ID: blog.UserID("i", "ada"), Username: "ada"})
		if err != nil {
			t.Fatal(err)
		}
		// The highest range has one post; the others are in ranges below it.
		var posts []*blog.Post
		var highest *blog.Post
		of := 0
		for i := 0; len(posts) < 4; i++ {
			var in int
			ctx := cosmos.WithRecorder(t.Context(), func(_ context.Context, o *cosmos.Operation) {
				if o.Container == "posts" {
					in, _ = strconv.Atoi(o.Range)
				}
			})
			p, err := a.CreatePost(ctx, store.NewPost{AuthorID: ada.UserID, Title: fmt.Sprint(i), Content: "x"})
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case highest == nil || in > of:
				if highest != nil {
					posts = append(posts, highest)
				}
				highest, of = p, in
			case in < of:
				posts = append(posts, p)
			}
		}
		read := func(ctx context.Context) {
			for _, p := range posts {
				if got, err := a.Post(ctx, p.ID); got == nil || err != nil {
					t.Errorf("%v %v", got, err)
				}
			}
		}
		for range 3 { // a read wakes the tail of each range, which receives the creates
			read(t.Context())
			testkit.Advance(time.Second)
		}
		untilTrue(t, "reads are still requests", func() bool {
			read(t.Context())
			return a.requestsOf(t.Context(), read) == 0
		})
		session := a.NewSession("")
		for i := range 20 {
			session = a.NewSession(session.Token())
			if _, _, err := a.CreateComment(cosmos.WithSession(t.Context(), session),
				store.NewComment{AuthorID: ada.UserID, PostID: highest.ID, Content: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
		ctx := cosmos.WithSession(t.Context(), a.NewSession(session.Token()))
		if n := a.requestsOf(ctx, read); n != 0 {
			t.Errorf("%d of %d reads of other posts are requests, want 0", n, len(posts))
		}
	})
}

// While the change feed is throttled, the cache still serves recently read items.
func TestCache_TailThrottled(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it injects faults")
		on, a, _, ada, post := newCachedBlog(t)
		untilTrue(t, "reads are still requests", func() bool {
			a.reads(t, t.Context(), ada.UserID, post.ID)
			return a.requestsOf(t.Context(), func(ctx context.Context) { a.reads(t, ctx, ada.UserID, post.ID) }) == 0
		})
		var reads, polls atomic.Int64
		on.Inject(func(o faulttest.Operation) faulttest.Response {
			switch {
			case o.Kind == faulttest.ChangeFeed:
				polls.Add(1)
				return faulttest.Response{Status: http.StatusTooManyRequests}
			case o.Kind == faulttest.Read && o.Container == "posts":
				reads.Add(1)
			}
			return faulttest.Response{}
		})
		const n = 40
		for range n {
			if p, err := a.Post(t.Context(), post.ID); p == nil || err != nil {
				t.Fatalf("%v %v", p, err)
			}
			time.Sleep(100 * time.Millisecond) // on the fake clock
		}
		if got := reads.Load(); got < 2 || got > 5 || polls.Load() == 0 { // one read in two polls and a second
			t.Errorf("%d of %d reads are requests after %d polls, want 2 to 5", got, n, polls.Load())
		}
	})
}

// The tails of the cache have the same priority as the requests that it saves.
func TestCache_TailPriority(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "its requests are watched")
		on := cosmostest.Open(t, emulator.Options{})
		wire := &storetest.Wire{To: on.Transport}
		account, err := cosmos.Open(cosmos.Options{Endpoint: on.Endpoint, Key: on.Key, Credential: on.Credential,
			Transport: wire, CacheBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer account.Close()
		s, err := store.New(account, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Provision(t.Context()); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		polls := map[string]bool{} // containers polled without low priority
		wire.Intercept(func(r *http.Request) error {
			if r.Header.Get("A-IM") != "" && r.Header.Get("X-Ms-Cosmos-Priority-Level") != "Low" {
				mu.Lock()
				defer mu.Unlock()
				polls[strings.Split(r.URL.Path, "/")[4]] = true
			}
			return nil
		})
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"users", "posts", "feed"} {
			if !polls[name] {
				t.Errorf("the tail of %s has low priority", name)
			}
		}
	})
}

// While Cosmos DB throttles, cached items are served, and other reads and writes fail.
func TestCache_Throttled(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it injects throttling")
		account, a, _, ada, post := newCachedBlog(t)
		ctx := t.Context()
		for range 3 { // reads wake the tails, which receive the creates
			a.reads(t, ctx, ada.UserID, post.ID)
			testkit.Advance(time.Second)
		}
		untilTrue(t, "reads are still requests", func() bool {
			a.reads(t, ctx, ada.UserID, post.ID)
			return a.requestsOf(ctx, func(ctx context.Context) { a.reads(t, ctx, ada.UserID, post.ID) }) == 0
		})
		want := a.reads(t, ctx, ada.UserID, post.ID)
		account.Inject(func(faulttest.Operation) faulttest.Response {
			return faulttest.Response{Status: http.StatusTooManyRequests}
		})
		for range 3 {
			if got := a.reads(t, ctx, ada.UserID, post.ID); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		if _, err := a.Post(ctx, "another"); blog.CodeOf(err) != blog.Throttled {
			t.Errorf("an item that is not cached: got %v, want throttled", err)
		}
		title := "throttled"
		if _, err := a.EditPost(ctx, ada.UserID, post.ID,
			store.PostEdit{Title: &title}); blog.CodeOf(err) != blog.Throttled {
			t.Errorf("a write: got %v, want throttled", err)
		}
	})
}

// A throttled read fails if the cached item has changed since the read began.
func TestCache_ChangeWhileThrottled(t *testing.T) {
	for name, read := range map[string]func(context.Context, *cachedStore, string) error{
		"one": func(ctx context.Context, a *cachedStore, id string) error {
			_, err := a.Post(ctx, id)
			return err
		},
		"many": func(ctx context.Context, a *cachedStore, id string) error {
			_, err := a.Posts(ctx, []string{id})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			cosmostest.NeedsEngine(t, "it injects throttling")
			account, a, _, ada, post := newCachedBlog(t)
			untilTrue(t, "reads are still requests", func() bool {
				a.reads(t, t.Context(), ada.UserID, post.ID)
				return a.requestsOf(t.Context(), func(ctx context.Context) {
					a.reads(t, ctx, ada.UserID, post.ID)
				}) == 0
			})
			a.stop() // without a tail every read is a request
			received, proceed := make(chan struct{}), make(chan struct{})
			var first atomic.Bool // the edit reads, too
			account.Inject(func(o faulttest.Operation) faulttest.Response {
				if o.Kind != faulttest.Read || o.Container != "posts" || !first.CompareAndSwap(false, true) {
					return faulttest.Response{}
				}
				close(received)
				<-proceed
				// too long for a retry
				return faulttest.Response{Status: http.StatusTooManyRequests, RetryAfter: time.Minute}
			})
			done := make(chan error, 1)
			go func() { done <- read(t.Context(), a, post.ID) }()
			testkit.Receive(t, received)
			title := "meanwhile"
			if _, err := a.EditPost(t.Context(), ada.UserID, post.ID, store.PostEdit{Title: &title}); err != nil {
				t.Error(err)
			}
			close(proceed)
			if err := testkit.Receive(t, done); blog.CodeOf(err) != blog.Throttled {
				t.Errorf("got %v, want throttled", err)
			}
		})
	}
}

// Concurrent reads of one item are one request.
func TestCache_ConcurrentReads(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it delays responses on a fake clock")
		account, a, _, ada, post := newCachedBlog(t)
		untilTrue(t, "reads are still requests", func() bool {
			a.reads(t, t.Context(), ada.UserID, post.ID)
			return a.requestsOf(t.Context(), func(ctx context.Context) { a.reads(t, ctx, ada.UserID, post.ID) }) == 0
		})
		const id = "not-there"
		received, proceed := make(chan struct{}, 100), make(chan struct{})
		account.Inject(func(o faulttest.Operation) faulttest.Response {
			if o.Kind == faulttest.Read && o.Container == "posts" {
				received <- struct{}{}
				<-proceed
			}
			return faulttest.Response{}
		})
		var wg sync.WaitGroup
		first, cancel := context.WithCancel(t.Context())
		wg.Go(func() { _, _ = a.Post(first, id) })
		testkit.Receive(t, received)
		for range 20 {
			wg.Go(func() {
				if p, err := a.Post(t.Context(), id); p != nil || err != nil {
					t.Errorf("%v %v", p, err)
				}
			})
		}
		synctest.Wait() // until all have started
		cancel()        // the first caller leaves
		close(proceed)
		wg.Wait()
		if n := len(received); n > 3 {
			t.Errorf("%d more requests, want at most 3", n)
		}
	})
}

// A session that no replica can serve delays only the requests that send it.
func TestCache_UnservableSession(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it injects faults")
		on, a, _, _, _ := newCachedBlog(t)
		future := a.NewSession(futureSession(t, on, cosmos.Options{}))
		const id = "not-there"
		received := make(chan struct{}, 100)
		on.Inject(func(o faulttest.Operation) faulttest.Response {
			if o.Kind == faulttest.Read && o.Container == "posts" {
				received <- struct{}{}
			}
			return faulttest.Response{}
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			if p, err := a.Post(cosmos.WithSession(t.Context(), future), id); p != nil || err != nil {
				t.Errorf("with the session: got %v, %v, want nil", p, err)
			}
		})
		testkit.Receive(t, received)
		began := time.Now()
		if p, err := a.Post(t.Context(), id); p != nil || err != nil || time.Since(began) > 100*time.Millisecond {
			t.Errorf("without the session: got %v, %v after %v, want nil within 100 ms", p, err, time.Since(began))
		}
		wg.Wait()
	})
}

// Paging through the feed continues correctly when new posts have pushed the cursor out of the cached list.
func TestFeed_PageBeyondCachedList(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		_, a, _, ada, _ := newCachedBlog(t)
		create := func(n int) {
			for i := range n {
				if _, err := a.CreatePost(t.Context(),
					store.NewPost{AuthorID: ada.UserID, Title: fmt.Sprint(i), Content: "x"}); err != nil {
					t.Fatal(err)
				}
			}
		}
		create(110)
		page, err := a.Feed(t.Context(), store.Paging{First: 90})
		if err != nil {
			t.Fatal(err)
		}
		create(20)
		var rest *store.Page[*blog.Post]
		untilTrue(t, "the projections have not caught up", func() bool {
			rest, err = a.Feed(t.Context(), store.Paging{First: 20, After: page.Cursor(89)})
			return err == nil && len(rest.Items) == 20 && rest.More // 21 are left
		})
		if first, last := rest.Items[0], page.Items[89]; first.CreatedAt > last.CreatedAt {
			t.Errorf("a post of %v follows one of %v", first.CreatedAt, last.CreatedAt)
		}
	})
}

// The feed continues after the newest 100, although deletes have moved its end since the first page.
func TestFeed_LastPageAfterDeletes(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		_, a, _, ada, _ := newCachedBlog(t)
		var posts []*blog.Post
		for i := range 110 {
			p, err := a.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: fmt.Sprint(i), Content: "x"})
			if err != nil {
				t.Fatal(err)
			}
			posts = append(posts, p)
			time.Sleep(time.Millisecond) // the next one is newer
		}
		page, err := a.Feed(t.Context(), store.Paging{First: 60})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range posts[100:] {
			if err := a.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
				t.Fatal(err)
			}
		}
		rest, err := a.Feed(t.Context(), store.Paging{First: 40, After: page.Cursor(59)})
		if err != nil || len(rest.Items) != 40 || !rest.More {
			t.Fatalf("%d items, more: %t, %v", len(rest.Items), rest.More, err)
		}
		untilTrue(t, "the projections have not caught up", func() bool {
			last, err := a.Feed(t.Context(), store.Paging{First: 40, After: rest.Cursor(39)})
			return err == nil && len(last.Items) == 11 && !last.More
		})
	})
}

// A read after a write does not join one that began before the write.
func TestCache_SlowRead(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it injects slow responses on a fake clock")
		_, a, _, ada, post := newCachedBlog(t)
		received := make(chan struct{})
		var slow atomic.Bool
		a.wire.After(func(r *http.Response) {
			if strings.Contains(r.Request.URL.Path, "/colls/posts/docs/") && slow.CompareAndSwap(false, true) {
				close(received)
				time.Sleep(300 * time.Millisecond)
			}
		})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := a.Post(t.Context(), post.ID); err != nil {
				t.Error(err)
			}
		})
		testkit.Receive(t, received)
		synctest.Wait() // until its response is delayed
		title := "edited"
		if _, err := a.EditPost(t.Context(), ada.UserID, post.ID, store.PostEdit{Title: &title}); err != nil {
			t.Fatal(err)
		}
		if p, err := a.Post(t.Context(), post.ID); err != nil || p.Title != title {
			t.Errorf("got %+v, %v, want title %q", p, err, title)
		}
		wg.Wait()
	})
}

// A read that joins another is not limited by the other's deadline.
func TestCache_Deadline(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it injects latency")
		account, a, _, _, _ := newCachedBlog(t)
		const id = "not-there"
		received := make(chan struct{}, 100)
		account.Inject(func(o faulttest.Operation) faulttest.Response {
			if o.Kind != faulttest.Read || o.Container != "posts" {
				return faulttest.Response{}
			}
			received <- struct{}{}
			time.Sleep(100 * time.Millisecond)
			return faulttest.Response{}
		})
		var wg sync.WaitGroup
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		wg.Go(func() {
			if _, err := a.Post(short, id); err == nil {
				t.Error("no error after the deadline")
			}
		})
		testkit.Receive(t, received)
		if p, err := a.Post(t.Context(), id); p != nil || err != nil {
			t.Errorf("%v %v", p, err)
		}
		wg.Wait()
	})
}

// The cache stays within its size for any number of distinct reads.
func TestCache_SizeLimit(t *testing.T) {
	testkit.Heavy(t)
	account, _, _, _, _ := newCachedBlog(t)
	const bytes = 200_000
	a := newCachedStore(t, account, bytes)
	for i := range 5_000 {
		if _, err := a.Post(t.Context(), fmt.Sprint("unknown-", i)); err != nil {
			t.Fatal(err)
		}
	}
	if got := store.CacheBytes(a.Store); got < bytes/2 || got > bytes*11/10 {
		t.Errorf("cached %d bytes, want about %d", got, bytes)
	}
}
