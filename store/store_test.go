package store_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"go.uber.org/goleak"

	"byline/internal/enginetest"
	"byline/internal/secrettest"
	"byline/store"
	"byline/store/cosmos"
	"byline/store/emulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, goleak.Cleanup(secrettest.Exit)) }

// world is a store on an embedded engine, with a wire that tests can watch and cut.
type world struct {
	*store.Store
	t       testing.TB
	engine  *emulator.Engine
	account *cosmos.Account
	client  *azcosmos.Client // of the account
	wire    *wire
	clock   *clock
}

// on has the world use an account.
func (w *world) on(account *cosmos.Account) { w.account, w.client = account, account.Client() }

// wire passes requests on to the engine.
type wire struct {
	to     policy.Transporter
	mu     sync.Mutex
	before func(*http.Request) error // guarded by mu; its error is answered as 503
	answer func(*http.Response)      // guarded by mu; sees what is answered
}

func (w *wire) Do(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	before, answer := w.before, w.answer
	w.mu.Unlock()
	if before != nil {
		if err := before(r); err != nil {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Status: "503 Service Unavailable", Body: http.NoBody,
				Header: http.Header{}, Request: r}, nil
		}
	}
	resp, err := w.to.Do(r)
	if answer != nil && err == nil {
		answer(resp)
	}
	return resp, err
}

// after lets f see every answer.
func (w *wire) after(f func(*http.Response)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = f
}

func (w *wire) intercept(f func(*http.Request) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = f
}

// clock ticks a millisecond whenever it is asked, so that no two items have the
// same date, unless it is stopped.
type clock struct {
	ms      atomic.Int64
	stopped atomic.Bool
}

func (c *clock) now() time.Time {
	ms := c.ms.Load()
	if !c.stopped.Load() {
		ms = c.ms.Add(1)
	}
	return epoch().Add(time.Duration(ms) * time.Millisecond)
}

// epoch is the moment at which the stores of these tests begin, and at which the
// clock of their engines stands still.
func epoch() time.Time { return time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC) }

func newWorld(t testing.TB) *world { return openWorld(t, "") }

// newWorldWith returns a world whose store has some of its own options.
func newWorldWith(t testing.TB, o store.Options) *world {
	t.Helper()
	w := newWorld(t)
	o.Clock, o.Instance, o.Logger = w.clock.now, "test", secrettest.Logger()
	var err error
	if w.Store, err = store.New(w.account, o); err != nil {
		t.Fatal(err)
	}
	return w
}

// openWorld opens a store on the data in dir, or in memory.
func openWorld(t testing.TB, dir string) *world { return openWorldWith(t, dir, &clock{}, epoch) }

// openWorldWith is openWorld with a clock of the store's and one of the engine's.
func openWorldWith(t testing.TB, dir string, c *clock, ofEngine func() time.Time) *world {
	t.Helper()
	engine, err := emulator.Open(dir, emulator.Options{Clock: ofEngine, Logger: secrettest.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, engine: engine, wire: &wire{to: engine}, clock: c}
	t.Cleanup(w.close)
	w.on(newAccount(t, engine, w.wire))
	w.Store, err = store.New(w.account, store.Options{Clock: w.clock.now, PollInterval: time.Millisecond, Instance: "test", Logger: secrettest.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

func newAccount(t testing.TB, engine *emulator.Engine, transport policy.Transporter) *cosmos.Account {
	t.Helper()
	return enginetest.Account(t, engine, cosmos.Options{Transport: transport})
}

func (w *world) close() {
	if err := w.engine.Close(); err != nil {
		w.t.Error(err)
	}
}

// run runs the projections until the returned function is called.
func (w *world) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

// eventually waits until check finds nothing wrong.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (w *world) user(name string) *store.User {
	w.t.Helper()
	u, err := w.CreateUser(w.t.Context(), store.NewUser{ID: store.UserID("test", name), Username: name})
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

func (w *world) post(u *store.User, title string) *store.Post {
	w.t.Helper()
	p, err := w.CreatePost(w.t.Context(), store.NewPost{AuthorID: u.ID, Title: title, Content: "The content of " + title + "."})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) comment(u *store.User, p *store.Post, content string) *store.Comment {
	w.t.Helper()
	c, _, err := w.CreateComment(w.t.Context(), store.NewComment{AuthorID: u.ID, PostID: p.ID, Content: content})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) like(u *store.User, p *store.Post) {
	w.t.Helper()
	if _, _, err := w.LikePost(w.t.Context(), u.ID, p.ID); err != nil {
		w.t.Fatal(err)
	}
}

// all reads a whole list in pages of n.
func all[T any](t testing.TB, n int, page func(context.Context, store.Paging) (*store.Page[T], error)) []T {
	t.Helper()
	var items []T
	p := store.Paging{First: n}
	for {
		got, err := page(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, got.Items...)
		if !got.More {
			return items
		}
		p.After = got.Cursor(len(got.Items) - 1)
	}
}

func (w *world) comments(p *store.Post) []*store.Comment {
	return all(w.t, 100, func(ctx context.Context, paging store.Paging) (*store.Page[*store.Comment], error) {
		return w.Comments(ctx, p.ID, paging)
	})
}

func (w *world) likes(p *store.Post) []*store.Like {
	return all(w.t, 100, func(ctx context.Context, paging store.Paging) (*store.Page[*store.Like], error) {
		return w.Likes(ctx, p.ID, paging)
	})
}

func (w *world) userPosts(u *store.User) []*store.Post {
	return all(w.t, 100, func(ctx context.Context, paging store.Paging) (*store.Page[*store.Post], error) {
		return w.UserPosts(ctx, u.ID, paging)
	})
}

func (w *world) feed() []*store.Post { return all(w.t, 100, w.Feed) }

func wantCode(t testing.TB, err error, code store.Code, field string) {
	t.Helper()
	if store.CodeOf(err) != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
	if e, ok := err.(*store.Error); ok && e.Field != field {
		t.Fatalf("got field %q, want %q: %v", e.Field, field, err)
	}
}

func TestProvision(t *testing.T) {
	t.Run("again changes nothing", func(t *testing.T) {
		w := newWorld(t)
		u := w.user("ada")
		if err := w.Provision(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := w.User(t.Context(), u.ID); err != nil || got == nil {
			t.Fatalf("got %v, %v", got, err)
		}
	})
	t.Run("two at once", func(t *testing.T) {
		w := newWorld(t)
		other, err := store.New(w.account, store.Options{Database: "other"})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := other.Provision(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	t.Run("another partition key is refused", func(t *testing.T) {
		w := newWorld(t)
		db, err := w.client.NewDatabase("wrong")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.client.CreateDatabase(t.Context(), azcosmos.DatabaseProperties{ID: "wrong"}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := db.CreateContainer(t.Context(), azcosmos.ContainerProperties{ID: "posts",
			PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/id"}}}, nil); err != nil {
			t.Fatal(err)
		}
		other, err := store.New(w.account, store.Options{Database: "wrong"})
		if err != nil {
			t.Fatal(err)
		}
		err = other.Provision(t.Context())
		wantCode(t, err, store.Conflict, "database")
		if !strings.Contains(err.Error(), "use another database") {
			t.Errorf("%v does not say what to do", err)
		}
	})
}

func TestReady(t *testing.T) {
	w := newWorld(t)
	if err := w.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	other, err := store.New(w.account, store.Options{Database: "absent"})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, other.Ready(t.Context()), store.Unavailable, "")
}

func TestErrorsOfCosmosDB(t *testing.T) {
	w := newWorld(t)
	w.user("ada")
	w.wire.intercept(func(*http.Request) error { return fmt.Errorf("no") })
	_, err := w.UserByUsername(t.Context(), "ada")
	wantCode(t, err, store.Unavailable, "")
	w.wire.intercept(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.UserByUsername(ctx, "ada")
	wantCode(t, err, store.Canceled, "")
}
