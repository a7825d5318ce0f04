package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos/session"
	"byline/store/internal/cosmostest"
	"byline/store/internal/storetest"
	"byline/store/live"
)

// next returns the next event of a stream; ok is false if the stream has ended.
func next[T any](t *testing.T, s *live.Stream[T]) (event T, ok bool) {
	t.Helper()
	select {
	case event, ok = <-s.Events():
		return event, ok
	case <-time.After(time.Minute):
		t.Fatal("no event")
		return
	}
}

func open[T any](t *testing.T, s *live.Stream[T], err error) *live.Stream[T] {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestStreams(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.Start()
		ctx := t.Context()
		ada, grace := w.AddUser("ada"), w.AddUser("grace")
		published, err := w.PublishedPosts(ctx)
		open(t, published, err)
		old := w.AddPost(ada, "Old")
		if got, _ := next(t, published); got.ID != old.ID {
			t.Errorf("published %+v", got)
		}
		other := w.AddPost(ada, "Other") // after Old has arrived, as they may be in two feed ranges
		if got, _ := next(t, published); got.ID != other.ID {
			t.Errorf("published %+v", got)
		}
		changes, err := w.PostChanges(ctx, old.ID)
		open(t, changes, err)
		comments, err := w.NewComments(ctx, old.ID)
		open(t, comments, err)

		// Changes of other posts are not in the streams of this one; changes of old posts are not new posts.
		w.AddComment(grace, other, "elsewhere")
		w.AddLike(grace, other)
		p := w.AddPost(grace, "New")
		if got, _ := next(t, published); got == nil || got.ID != p.ID || got.Title != "New" {
			t.Errorf("published %+v", got)
		}

		var want []string
		for i := range 5 {
			c := w.AddComment(grace, old, fmt.Sprint("comment ", i))
			want = append(want, c.ID)
			w.AddLike(w.AddUser(fmt.Sprint("fan", i)), old)
		}
		var got []string
		for range want {
			c, _ := next(t, comments)
			got = append(got, c.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("comments %v, want %v", got, want)
		}
		last := int64(0)
		for {
			p, ok := next(t, changes)
			if !ok || p.ID != old.ID || p.Revision <= last {
				t.Fatalf("%+v after revision %d", p, last)
			}
			if last = p.Revision; p.LikeCount == 5 && p.CommentCount == 5 {
				break
			}
		}

		// Edited comments and comments of a renamed author are not new.
		if _, err := w.EditComment(ctx, grace.UserID, old.ID, want[0], "edited"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.UpdateUser(ctx, grace.UserID, store.UserEdit{Username: new("hopper")}); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, func() error {
			for _, id := range want {
				if c, err := w.Comment(ctx, old.ID, id); err != nil || c.Username != "hopper" {
					return fmt.Errorf("%+v %v", c, err)
				}
			}
			return nil
		})
		c := w.AddComment(ada, old, "the next")
		if got, _ := next(t, comments); got.ID != c.ID {
			t.Errorf("comment %+v, want %s", got, c.ID)
		}

		// A delete ends the streams of the post.
		if err := w.DeletePost(ctx, ada.UserID, old.ID); err != nil {
			t.Fatal(err)
		}
		for range changes.Events() { // the changes before the delete
		}
		if _, ok := next(t, comments); ok || comments.Err() != nil || changes.Err() != nil {
			t.Errorf("%v %v %v", ok, comments.Err(), changes.Err())
		}
		select {
		case p := <-published.Events():
			t.Errorf("published %+v", p)
		default:
		}
	})
}

// The changes of comments have their kind, and a deletion of the post is an event before the stream ends.
func TestStreams_CommentChangesAndPostDeletions(t *testing.T) {
	w := newWorld(t)
	w.Start()
	ctx := t.Context()
	ada, grace := w.AddUser("ada"), w.AddUser("grace")
	post, other := w.AddPost(ada, "followed"), w.AddPost(grace, "other")
	old := w.AddComment(grace, post, "old")
	changes, err := w.CommentChanges(ctx, post.ID)
	open(t, changes, err)
	deletions, err := w.PostDeletions(ctx, post.ID)
	open(t, deletions, err)
	ofAuthor, err := w.PostDeletions(ctx, other.ID)
	open(t, ofAuthor, err)
	expect := func(kind live.ChangeKind, id, content string) {
		t.Helper()
		got, ok := next(t, changes)
		for ok && kind != live.Added && got.Kind == live.Added && got.ID == old.ID {
			got, ok = next(t, changes) // written just before the stream was opened
		}
		if !ok || got.Kind != kind || got.PostID != post.ID || got.ID != id {
			t.Fatalf("got %+v %t, want %s %s", got, ok, kind, id)
		}
		if (got.Comment == nil) != (kind == live.Deleted) || got.Comment != nil && got.Comment.Content != content {
			t.Errorf("%s: %+v", kind, got.Comment)
		}
	}
	if _, err := w.EditComment(ctx, grace.UserID, post.ID, old.ID, "edited"); err != nil {
		t.Fatal(err)
	}
	expect(live.Edited, old.ID, "edited")
	w.AddComment(grace, other, "elsewhere")
	added := w.AddComment(ada, post, "new")
	expect(live.Added, added.ID, "new")
	if _, err := w.DeleteComment(ctx, ada.UserID, post.ID, added.ID); err != nil {
		t.Fatal(err)
	}
	expect(live.Deleted, added.ID, "")

	if err := w.DeletePost(ctx, ada.UserID, post.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.DeleteUser(ctx, grace.UserID, "grace"); err != nil {
		t.Fatal(err)
	}
	for s, id := range map[*live.Stream[*live.PostDeletion]]string{deletions: post.ID, ofAuthor: other.ID} {
		if got, ok := next(t, s); !ok || got.PostID != id {
			t.Errorf("got %+v %t, want the deletion of %s", got, ok, id)
		}
		if got, ok := next(t, s); ok || s.Err() != nil {
			t.Errorf("after the deletion: %+v %v", got, s.Err())
		}
	}
	if got, ok := next(t, changes); ok || changes.Err() != nil {
		t.Errorf("after the deletion of the post: %+v %v", got, changes.Err())
	}
}

func TestStreams_OtherProcesses(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		other, err := store.New(w.Account,
			store.Options{Database: w.Database, Clock: w.Clock.Now, PollInterval: time.Millisecond, Instance: "other"})
		if err != nil {
			t.Fatal(err)
		}
		w.Start()
		p := w.AddPost(w.AddUser("ada"), "Post")
		comments, err := w.NewComments(t.Context(), p.ID)
		open(t, comments, err)
		c, _, err := other.CreateComment(t.Context(),
			store.NewComment{AuthorID: p.UserID, PostID: p.ID, Content: "from elsewhere"})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := next(t, comments); got.ID != c.ID || got.Content != c.Content {
			t.Errorf("%+v", got)
		}
	})
}

func TestStreams_SlowReader(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.Start()
		ada := w.AddUser("ada")
		p := w.AddPost(ada, "Post")
		idle, err := w.NewComments(t.Context(), p.ID)
		open(t, idle, err)
		busy, err := w.NewComments(t.Context(), p.ID)
		open(t, busy, err)
		const n = 80 // more than the 64 unread events of a stream
		for i := range n {
			w.AddComment(ada, p, fmt.Sprint(i))
			if _, ok := next(t, busy); !ok {
				t.Fatal(busy.Err())
			}
		}
		got := 0
		for range idle.Events() {
			got++
		}
		if !errors.Is(idle.Err(), live.ErrTooSlow) || got == 0 || got >= n {
			t.Errorf("%d events, then %v", got, idle.Err())
		}
	})
}

func TestStreams_UnknownPost(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := func() (any, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			return w.PublishedPosts(ctx)
		}(); blog.CodeOf(err) != blog.Canceled {
			t.Errorf("before Run: %v", err)
		}
		w.Start()
		if _, err := w.PostChanges(t.Context(), "unknown"); blog.CodeOf(err) != blog.NotFound {
			t.Errorf("%v", err)
		}
	})
}

// Await calls its function once: for an event, the end or the closing of the stream. It returns false if
// there are unread events.
func TestStreams_Await(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.Start()
		ada := w.AddUser("ada")
		p := w.AddPost(ada, "p")
		comments := func() *live.Stream[*blog.Comment] {
			s, err := w.NewComments(t.Context(), p.ID)
			return open(t, s, err)
		}
		calls := make(chan struct{}, 100)
		wake := func() { calls <- struct{}{} }
		expect := func(what string) {
			t.Helper()
			select {
			case <-calls:
			case <-time.After(time.Minute):
				t.Fatal("no call for", what)
			}
		}
		s, closed := comments(), comments()
		if !s.Await(wake) || !closed.Await(wake) {
			t.Fatal("Await returns false without an event")
		}
		closed.Close()
		expect("the closing")
		if closed.Await(wake) {
			t.Error("Await returns true on a closed stream")
		}

		first := w.AddComment(w.AddUser("grace"), p, "first")
		expect("an event")
		if s.Await(wake) {
			t.Error("Await returns true with an unread event")
		}
		if got, _ := next(t, s); got.ID != first.ID {
			t.Errorf("got %+v", got)
		}
		if !s.Await(wake) {
			t.Fatal("Await returns false after the event was read")
		}
		if err := w.DeletePost(t.Context(), ada.UserID, p.ID); err != nil {
			t.Fatal(err)
		}
		expect("the end")
		if s.Await(wake) {
			t.Error("Await returns true on an ended stream")
		}
		if _, ok := next(t, s); ok {
			t.Error("got an event after the delete")
		}
		if len(calls) > 0 {
			t.Error("called twice")
		}
	})
}

// Without a cache the change feed is not read for streams while there are none, and posts of that time
// are not new afterwards.
func TestStreams_TailOnlyWhileOpen(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		var starts atomic.Int64
		w.Wire.After(func(resp *http.Response) {
			r := resp.Request
			if r.Header.Get("A-Im") != "" && r.Header.Get("If-None-Match") == "*" &&
				strings.Contains(r.URL.Path, "/colls/posts/") && !session.IsBehind(resp) {
				starts.Add(1)
			}
		})
		ranges := w.Ranges("posts")
		w.Start()
		ada := w.AddUser("ada")
		w.AddPost(ada, "Before")
		testkit.Until(t, w.CaughtUp)
		if n := starts.Load(); n != 0 {
			t.Errorf("the tail started %d times without a stream", n)
		}
		// openIdle opens a stream that starts a stopped tail. It also returns a post that was written
		// before.
		openIdle := func(times int) (*live.Stream[*blog.Post], *blog.Post) {
			for range 100 {
				old := w.AddPost(ada, "Old")
				published, err := w.PublishedPosts(t.Context())
				open(t, published, err)
				if starts.Load() > int64(times*ranges) {
					return published, old
				}
				published.Close()
				storetest.Pass(250 * time.Millisecond) // the tail checks for listeners every 100 ms
			}
			t.Fatal("the tail never stops")
			return nil, nil
		}
		for times := range 3 {
			published, old := openIdle(times)
			w.AddLike(ada, old)
			for _, title := range []string{"New", "Newer"} {
				p := w.AddPost(ada, title)
				if got, _ := next(t, published); got == nil || got.ID != p.ID {
					t.Errorf("published %+v, want %s", got, p.ID)
				}
				storetest.Pass(150 * time.Millisecond)
			}
			if n := starts.Load(); n != int64((times+1)*ranges) {
				t.Errorf("the tail started %d times on %d feed ranges, want %d times on each", n, ranges, times+1)
			}
			published.Close()
		}
	})
}

// A subscriber does not wait for the throttled change feed while others are subscribed.
func TestStreams_OpenedWhileThrottled(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "it injects throttling")
		account, a, _, _, post := newCachedBlog(t)
		published, err := a.PublishedPosts(t.Context())
		open(t, published, err)
		account.Inject(func(o faulttest.Operation) faulttest.Response {
			if o.Kind != faulttest.ChangeFeed {
				return faulttest.Response{}
			}
			return faulttest.Response{Status: http.StatusTooManyRequests, RetryAfter: time.Second}
		})
		storetest.Pass(time.Minute)
		// waits once for deletions of users, if their tail is idle
		if _, err := a.Post(t.Context(), post.ID); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		comments, err := a.NewComments(t.Context(), post.ID)
		open(t, comments, err)
		if took := time.Since(began); took > 0 {
			t.Errorf("took %v, want 0", took)
		}
	})
}

// The first subscriber ends the long interval of a tail that nobody needed, even if it has just polled. It gets
// events of other processes in time, and none of what was written before.
func TestStreams_FirstAfterReads(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		cosmostest.NeedsEngine(t, "a fake clock")
		for reads := range 5 {
			_, a, b, ada, post := newCachedBlog(t)
			storetest.Pass(time.Minute)
			for range reads { // each may wake the tail
				if _, err := a.Post(t.Context(), post.ID); err != nil {
					t.Fatal(err)
				}
				storetest.Pass(200 * time.Millisecond)
			}
			create := func(title string) *blog.Post {
				p, err := b.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: title, Content: "x"})
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			create("Before")
			published, err := a.PublishedPosts(t.Context())
			open(t, published, err)
			storetest.Pass(3 * time.Second)
			began := time.Now()
			want := create("After")
			got, _ := next(t, published)
			if took := time.Since(began); got == nil || got.ID != want.ID || took > 2*time.Second {
				t.Errorf("after %d reads: %+v after %v, want %s within 2s", reads, got, took, want.ID)
			}
		}
	})
}

// Streams are opened and closed while the tail stops and starts: each delivers every event since it was
// opened.
func TestStreams_OpenedDuringWrites(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		w.Start()
		ada := w.AddUser("ada")
		var g errgroup.Group
		for range 4 {
			g.Go(func() error {
				for range 8 {
					storetest.Pass(rand.N(250 * time.Millisecond))
					stream, err := w.PublishedPosts(t.Context())
					if err != nil {
						return err
					}
					p, err := w.CreatePost(t.Context(),
						store.NewPost{AuthorID: ada.UserID, Title: "New", Content: "new"})
					if err != nil {
						return err
					}
					for timeout := time.After(time.Minute); ; {
						select {
						case got := <-stream.Events():
							if got.ID != p.ID {
								continue
							}
						case <-timeout:
							return errors.New("a post has not arrived")
						}
						break
					}
					stream.Close()
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// A post whose write is in flight while the first stream is opened is new, and so is one of a process
// whose clock is behind.
func TestStreams_WriteInFlight(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		behind := func() time.Time { return w.Clock.Now().Add(-2 * time.Second) }
		other, err := store.New(w.Account,
			store.Options{Database: w.Database, Clock: behind, PollInterval: time.Millisecond, Instance: "other"})
		if err != nil {
			t.Fatal(err)
		}
		w.Start()
		ada := w.AddUser("ada")
		held, release := make(chan struct{}), make(chan struct{})
		var once sync.Once
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/colls/posts/docs") &&
				r.Header.Get("Content-Type") != "application/query+json" {
				once.Do(func() { close(held); <-release })
			}
			return nil
		})
		done := make(chan *blog.Post, 1)
		go func() { done <- w.AddPost(ada, "In flight") }()
		testkit.Receive(t, held)
		published, err := w.PublishedPosts(t.Context())
		open(t, published, err)
		close(release)
		expect := func(want *blog.Post) {
			t.Helper()
			if got, _ := next(t, published); got.ID != want.ID {
				t.Errorf("published %q, want %q", got.Title, want.Title)
			}
		}
		expect(testkit.Receive(t, done))
		p, err := other.CreatePost(t.Context(), store.NewPost{AuthorID: ada.UserID, Title: "Behind", Content: "x"})
		if err != nil {
			t.Fatal(err)
		}
		expect(p)
		expect(w.AddPost(ada, "After"))
	})
}

// A post that is created just before the tail is ready, and liked just after, is not new.
func TestStreams_PostWhileTailStarts(t *testing.T) {
	cosmostest.Run(t, func(t *testing.T) {
		w := newWorld(t)
		ada := w.AddUser("ada")
		var old *blog.Post
		var once sync.Once
		var written atomic.Value // the session token of the last post
		w.Wire.After(func(r *http.Response) {
			if r.StatusCode == http.StatusCreated && strings.HasSuffix(r.Request.URL.Path, "/colls/posts/docs") {
				written.Store(r.Header.Get("X-Ms-Session-Token"))
			}
		})
		w.Wire.Intercept(func(r *http.Request) error {
			if r.Header.Get("A-Im") != "" && r.Header.Get("If-None-Match") == "*" &&
				strings.Contains(r.URL.Path, "/colls/posts/") {
				once.Do(func() {
					old = w.AddPost(ada, "Old")
					// keep a replica without the post from serving the request
					r.Header.Set("X-Ms-Session-Token", written.Load().(string))
				})
			}
			return nil
		})
		w.Start()
		published, err := w.PublishedPosts(t.Context())
		open(t, published, err)
		w.AddLike(ada, old)
		p := w.AddPost(ada, "New")
		if got, _ := next(t, published); got.ID != p.ID {
			t.Errorf("published %q, want %q", got.Title, p.Title)
		}
	})
}
