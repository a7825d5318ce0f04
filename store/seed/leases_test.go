package seed_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"byline/internal/enginetest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/seed"
)

// feedEngine is an engine that counts the changes that it returns, except to Status, which reads pages of one
// change.
type feedEngine struct {
	*emulator.Engine
	changes atomic.Int64
}

func newFeedEngine(t *testing.T) *feedEngine {
	t.Helper()
	engine, err := emulator.Open("", emulator.Options{Partitions: 3, Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	return &feedEngine{Engine: engine}
}

func (e *feedEngine) Do(r *http.Request) (*http.Response, error) {
	resp, err := e.Engine.Do(r)
	if err == nil && r.Header.Get("A-IM") != "" && r.Header.Get("x-ms-max-item-count") != "1" {
		n, _ := strconv.ParseInt(resp.Header.Get("x-ms-item-count"), 10, 64)
		e.changes.Add(n)
	}
	return resp, err
}

// process returns a store that stands for another process.
func (e *feedEngine) process(t *testing.T, name string) *store.Store {
	t.Helper()
	s, err := store.New(enginetest.Account(t, e.Engine, cosmos.Options{Transport: e}),
		store.Options{PollInterval: time.Millisecond, Instance: name, Logger: testkit.Logger()})
	if err == nil {
		err = s.Provision(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a store until the returned function is called.
func run(t *testing.T, s *store.Store) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := testkit.Receive(t, done); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// caughtUp returns an error unless all ranges have an owner and none lags.
func caughtUp(t *testing.T, s *store.Store) error {
	status, err := s.Views().Status(t.Context())
	for _, r := range status {
		if r.Owner == "" || r.Lag > 0 {
			return fmt.Errorf("%s of %q is %d behind", r.Processor, r.Owner, r.Lag)
		}
	}
	if len(status) == 0 {
		return fmt.Errorf("no ranges, %v", err)
	}
	return err
}

// Projections that start after a load read its changes only if they had not handled all changes before, or have
// started meanwhile. The views are correct, and new changes are processed.
func TestLoadOffline_ProjectionsBeginAfter(t *testing.T) {
	testkit.Heavy(t)
	b := small()
	b.Users, b.Authors, b.Posts = 6, 6, [2]int{1, 4}
	comment := func(t *testing.T, e *feedEngine, user int, post string) {
		if _, _, err := e.process(t, "other").CreateComment(t.Context(),
			store.NewComment{AuthorID: b.User(user).UserID, PostID: post, Content: "c"}); err != nil {
			t.Error(err)
		}
	}
	join := func(t *testing.T, e *feedEngine) {
		if _, err := e.process(t, "other").CreateUser(t.Context(),
			store.NewUser{ID: userID("newcomer"), Username: "newcomer"}); err != nil {
			t.Error(err)
		}
	}
	start := func(t *testing.T, e *feedEngine) (stop func()) {
		s := e.process(t, "before")
		stop = run(t, s)
		testkit.Until(t, func() error { return caughtUp(t, s) })
		return stop
	}
	for name, c := range map[string]struct {
		before, during func(*testing.T, *feedEngine)
		replayed       bool
	}{
		"no other process":          {},
		"an instance ran before":    {before: func(t *testing.T, e *feedEngine) { start(t, e)() }},
		"a user was created before": {before: join, replayed: true},
		"an instance ran before a user was created": {replayed: true, before: func(t *testing.T, e *feedEngine) {
			start(t, e)()
			join(t, e)
		}},
		"an instance ran meanwhile": {replayed: true, during: func(t *testing.T, e *feedEngine) {
			start(t, e)()
			comment(t, e, 0, b.PostID(0, 0))
		}},
		"a range is split meanwhile": {during: func(t *testing.T, e *feedEngine) {
			if err := e.Split("blog", blog.UsersContainer, "1"); err != nil {
				t.Error(err)
			}
		}},
		"interrupted": {replayed: true, before: func(t *testing.T, e *feedEngine) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			if err := seed.LoadOffline(ctx, b, e.process(t, "interrupted"), func(posts int) {
				if posts > b.TotalPosts()/2 {
					interrupt()
				}
			}); err == nil {
				t.Error("not interrupted")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newFeedEngine(t)
				if c.before != nil {
					c.before(t, e)
				}
				meanwhile := sync.OnceFunc(func() {
					if c.during != nil {
						c.during(t, e)
					}
				})
				if err := seed.LoadOffline(t.Context(), b, e.process(t, "loader"), func(int) {
					meanwhile()
				}); err != nil {
					t.Fatal(err)
				}
				later := e.process(t, "later")
				e.changes.Store(0)
				post := b.Thread(1, 0).Post
				comment(t, e, 0, post.ID)
				run(t, later)
				testkit.Until(t, func() error {
					page, err := later.UserPosts(t.Context(), post.UserID, store.Paging{First: 100})
					if err != nil {
						return err
					}
					if !slices.ContainsFunc(page.Items, func(p *blog.Post) bool {
						return p.ID == post.ID && p.CommentCount == post.CommentCount+1
					}) {
						return errors.New("the summary does not count the comment")
					}
					return caughtUp(t, later)
				})
				// The post and the comment are read, and the summary by two processors, and by up to three tails.
				if n := e.changes.Load(); (n > 20) != c.replayed {
					t.Errorf("%d changes were read, want a replay: %t", n, c.replayed)
				}
				w := &world{Store: later}
				w.verify(t)
			})
		})
	}
}

// While an instance serves, a load is refused before it writes anything.
func TestLoadOffline_InstanceServes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFeedEngine(t)
		serving, loader := e.process(t, "serving"), e.process(t, "loader")
		stop := run(t, serving)
		testkit.Until(t, func() error { return caughtUp(t, serving) })
		err := seed.LoadOffline(t.Context(), small(), loader, nil)
		if blog.CodeOf(err) != blog.Conflict || !strings.Contains(err.Error(), "serves the database") {
			t.Error(err)
		}
		if empty, err := loader.Empty(t.Context()); !empty || err != nil {
			t.Errorf("empty: %t, %v", empty, err)
		}
		stop()
		if err := seed.LoadOffline(t.Context(), small(), loader, nil); err != nil {
			t.Error(err)
		}
	})
}
