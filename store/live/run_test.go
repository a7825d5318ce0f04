package live

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store/blog"
	"byline/store/changefeed"
	"byline/store/cosmos"
	"byline/store/cosmos/itemcache"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
)

const poll = 100 * time.Millisecond

// feed is a container of posts whose changes Events follow, in a bubble of synctest.
type feed struct {
	*Events
	t       *testing.T
	account *cosmostest.Account
	posts   *cosmos.Container
	tails   int // that were started
}

// run runs a test while Events run.
func run(t *testing.T, keeps bool, test func(t *testing.T, f *feed)) {
	t.Helper()
	cosmostest.NeedsEngine(t, "a fake clock")
	cosmostest.Run(t, func(t *testing.T) {
		a := cosmostest.Open(t, emulator.Options{Clock: time.Now})
		a.CreateContainer(t, "posts", "/postId")
		account, err := cosmos.Open(cosmos.Options{Endpoint: a.Endpoint, Key: a.Key, Transport: a.Transport,
			CacheBytes: 1 << 20, Logger: testkit.Logger()})
		if err != nil {
			t.Fatal(err)
		}
		f := &feed{t: t, account: a}
		if f.posts, err = account.Container(a.Database, "posts"); err != nil {
			t.Fatal(err)
		}
		f.Events, err = New(Options{
			Tail: func(h changefeed.Handler, unwatched func() bool, observe func(changefeed.Progress)) *itemcache.Tail {
				f.tails++
				return f.posts.Tail("postId", h, changefeed.Options{PollInterval: poll, IdleInterval: 20 * poll,
					Unwatched: unwatched, Observe: observe, Logger: testkit.Logger()})
			},
			KeepsTail: keeps, Deletions: &deletions{}, PollInterval: poll, RetryBudget: time.Second, Clock: time.Now,
			Metrics: prometheus.NewRegistry(), OnPostChange: func(*blog.Change) {},
			Watchers: func(string) []string { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()
		synctest.Wait()
		test(t, f)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// write creates a post.
func (f *feed) write(id string) {
	f.t.Helper()
	raw := item(blog.TypePost, id, map[string]any{"creationDate": blog.NewDate(time.Now()), "_ts": nil})
	if err := f.posts.Create(f.t.Context(), id, raw); err != nil {
		f.t.Fatal(err)
	}
}

// arrived returns what has arrived in a stream of new posts.
func (f *feed) arrived(s *Stream[*blog.Post]) []string {
	<-time.After(3 * poll)
	return received(s, func(p *blog.Post) string { return p.ID })
}

// Without the cache the tail runs only while there are streams, and a stream has what is written from when it opens.
func TestRun_WhileThereAreStreams(t *testing.T) {
	run(t, false, func(t *testing.T, f *feed) {
		if f.tails != 0 {
			t.Error("the tail runs without streams")
		}
		f.write("before")
		for n := 1; n <= 2; n++ {
			<-time.After(2 * blog.MaxWriteTime) // what is older is not new
			s, err := f.PublishedPosts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			id := string(rune('a' + n))
			f.write(id)
			if d := cmp.Diff([]string{id}, f.arrived(s)); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
			<-time.After(2 * idleCheckPolls * poll)
			f.write(id + "2") // the tail has not stopped: there is a stream
			if d := cmp.Diff([]string{id + "2"}, f.arrived(s)); d != "" || f.tails != n {
				t.Errorf("%d tails; -want +got\n%s", f.tails, d)
			}
			s.Close()
			<-time.After(2 * idleCheckPolls * poll)
			select {
			case <-f.tailReady():
				t.Error("the tail runs although the stream is closed")
			default:
			}
		}
	})
}

// With the cache one tail runs all the time.
func TestRun_KeepsTail(t *testing.T) {
	run(t, true, func(t *testing.T, f *feed) {
		for _, id := range []string{"a", "b"} {
			<-time.After(2 * idleCheckPolls * poll)
			s, err := f.PublishedPosts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f.write(id)
			if d := cmp.Diff([]string{id}, f.arrived(s)); d != "" || f.tails != 1 {
				t.Errorf("%d tails; -want +got\n%s", f.tails, d)
			}
			s.Close()
		}
	})
}

// While Cosmos DB throttles the tail, a stream is refused after the retry budget.
func TestOpen_Throttled(t *testing.T) {
	run(t, true, func(t *testing.T, f *feed) {
		f.account.Inject(func(o faulttest.Operation) faulttest.Response {
			if o.Kind != faulttest.ChangeFeed {
				return faulttest.Response{}
			}
			return faulttest.Response{Status: http.StatusTooManyRequests, RetryAfter: 10 * time.Millisecond}
		})
		<-time.After(time.Hour)
		began := time.Now()
		s, err := f.PublishedPosts(t.Context())
		took := time.Since(began)
		if s != nil || blog.CodeOf(err) != blog.Throttled || took < time.Second || took > 5*time.Second {
			t.Errorf("got %v, %v after %s", s, err, took)
		}
		f.account.Inject(nil)
		<-time.After(time.Minute)
		if s, err = f.PublishedPosts(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Close()
	})
}
