// Package storetest gives tests a store on an embedded engine or an endpoint, and helpers that write, read
// and check its data.
package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/internal/enginetest"
	"byline/internal/faulttest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/internal/cosmostest"
	"byline/store/projection"
)

// World is a store on an embedded engine in memory, or on the endpoint of cosmostest, through a Wire on
// which tests can observe requests and inject faults.
type World struct {
	*store.Store
	T         testing.TB
	Engine    *emulator.Engine // nil on an endpoint
	Transport policy.Transporter
	Account   *cosmos.Account
	Client    *azcosmos.Client // client of the Account
	Database  string
	Wire      *Wire
	Clock     *Clock

	open   func(cosmos.Options) *cosmos.Account
	inject func(func(faulttest.Operation) faulttest.Response)
}

// New returns a World on an engine in memory or, if tests run there, on an endpoint.
func New(t testing.TB) *World {
	t.Helper()
	return newWorld(t, store.Options{})
}

// NewInProcess returns a World on an engine in memory, even if tests run on an endpoint.
func NewInProcess(t testing.TB) *World {
	t.Helper()
	engine, err := emulator.Open("", emulator.Options{Clock: Epoch, Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return On(t, engine).provision(store.Options{})
}

// NewWith is New with options of the store.
func NewWith(t testing.TB, o store.Options) *World {
	t.Helper()
	w := New(t)
	o.Database, o.Clock, o.Instance, o.Logger = w.Database, w.Clock.Now, "test", testkit.Logger()
	var err error
	if w.Store, err = store.New(w.Account, o); err != nil {
		t.Fatal(err)
	}
	return w
}

func newWorld(t testing.TB, o store.Options) *World {
	t.Helper()
	a := cosmostest.Open(t, emulator.Options{Clock: Epoch})
	clock := &Clock{}
	if cosmostest.OnEndpoint() {
		clock.start = time.Now()
		o.PollInterval = 50 * time.Millisecond
	}
	w := &World{T: t, Engine: a.Engine, Transport: a.Transport, Database: a.Database, Clock: clock, inject: a.Inject,
		open: func(o cosmos.Options) *cosmos.Account {
			o.Endpoint, o.Key, o.Credential = a.Endpoint, a.Key, a.Credential
			if a.Engine != nil {
				o.Transport = enginetest.Undated(o.Transport)
			}
			return openAccount(t, o)
		}}
	w.Wire = &Wire{To: w.Transport}
	w.Use(w.NewAccount(cosmos.Options{}))
	return w.provision(o)
}

// On returns a World on an engine, whose containers need not exist. It has no Store.
func On(t testing.TB, engine *emulator.Engine) *World {
	t.Helper()
	faults := &faulttest.Injector{To: engine}
	w := &World{T: t, Engine: engine, Transport: faults, Database: "blog", Wire: &Wire{To: faults}, Clock: &Clock{},
		inject: faults.Inject,
		open: func(o cosmos.Options) *cosmos.Account {
			return enginetest.Account(t, engine, o)
		}}
	w.Use(w.NewAccount(cosmos.Options{}))
	return w
}

// OpenWith opens a store on an engine with its data in dir, or in memory if dir is "". c is the clock of the
// store, engineClock that of the engine. It skips the test on an endpoint.
func OpenWith(t testing.TB, dir string, c *Clock, engineClock func() time.Time) *World {
	t.Helper()
	cosmostest.NeedsEngine(t, "its data directory or its clock")
	engine, err := emulator.Open(dir, emulator.Options{Clock: engineClock, Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	w := On(t, engine)
	w.Clock = c
	return w.provision(store.Options{})
}

// Open is OpenWith with the clock of New.
func Open(t testing.TB, dir string) *World {
	t.Helper()
	return OpenWith(t, dir, &Clock{}, Epoch)
}

func (w *World) provision(o store.Options) *World {
	w.T.Helper()
	if o.PollInterval == 0 {
		o.PollInterval = 10 * time.Millisecond
	}
	o.Database, o.Clock, o.Instance, o.Logger = w.Database, w.Clock.Now, "test", testkit.Logger()
	var err error
	if w.Store, err = store.New(w.Account, o); err != nil {
		w.T.Fatal(err)
	}
	if err := w.Provision(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	return w
}

func openAccount(t testing.TB, o cosmos.Options) *cosmos.Account {
	t.Helper()
	account, err := cosmos.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return account
}

// NewAccount returns another client of the World's account. Its default transport is the Wire.
func (w *World) NewAccount(o cosmos.Options) *cosmos.Account {
	w.T.Helper()
	if o.Transport == nil {
		o.Transport = w.Wire
	}
	return w.open(o)
}

// Inject injects faults into the requests of Transport: see faulttest.Injector.
func (w *World) Inject(decide func(faulttest.Operation) faulttest.Response) { w.inject(decide) }

// Use makes the world use an account.
func (w *World) Use(account *cosmos.Account) { w.Account, w.Client = account, account.Client() }

// Start runs the projections until the returned function is called.
func (w *World) Start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.T.Error(err)
		}
	})
	w.T.Cleanup(stop)
	return stop
}

// AddUser creates a user.
func (w *World) AddUser(name string) *blog.User {
	w.T.Helper()
	u, err := w.CreateUser(w.T.Context(), store.NewUser{ID: blog.UserID("test", name), Username: name})
	if err != nil {
		w.T.Fatal(err)
	}
	return u
}

// AddPost creates a post.
func (w *World) AddPost(u *blog.User, title string) *blog.Post {
	w.T.Helper()
	p, err := w.CreatePost(w.T.Context(),
		store.NewPost{AuthorID: u.UserID, Title: title, Content: "The content of " + title + "."})
	if err != nil {
		w.T.Fatal(err)
	}
	return p
}

// AddComment creates a comment.
func (w *World) AddComment(u *blog.User, p *blog.Post, content string) *blog.Comment {
	w.T.Helper()
	c, _, err := w.CreateComment(w.T.Context(), store.NewComment{AuthorID: u.UserID, PostID: p.ID, Content: content})
	if err != nil {
		w.T.Fatal(err)
	}
	return c
}

// AddLike likes a post.
func (w *World) AddLike(u *blog.User, p *blog.Post) {
	w.T.Helper()
	if _, _, err := w.LikePost(w.T.Context(), u.UserID, p.ID); err != nil {
		w.T.Fatal(err)
	}
}

// WriteLate writes a user, a like, a comment and a post, and so into every list. It may run in any goroutine.
func (w *World) WriteLate(name string, author *blog.User, p *blog.Post) error {
	ctx := context.Background()
	u, err := w.CreateUser(ctx, store.NewUser{ID: blog.UserID("test", name), Username: name})
	if err != nil {
		return err
	}
	if _, _, err := w.LikePost(ctx, u.UserID, p.ID); err != nil {
		return err
	}
	if _, _, err := w.CreateComment(ctx,
		store.NewComment{AuthorID: u.UserID, PostID: p.ID, Content: "late"}); err != nil {
		return err
	}
	_, err = w.CreatePost(ctx, store.NewPost{AuthorID: author.UserID, Title: "late", Content: "late"})
	return err
}

// AllComments reads all comments of a post.
func (w *World) AllComments(p *blog.Post) []*blog.Comment {
	return All(w.T, 100, func(ctx context.Context, paging store.Paging) (*store.Page[*blog.Comment], error) {
		return w.Comments(ctx, p.ID, paging)
	})
}

// AllLikes reads all likes of a post.
func (w *World) AllLikes(p *blog.Post) []*blog.Like {
	return All(w.T, 100, func(ctx context.Context, paging store.Paging) (*store.Page[*blog.Like], error) {
		return w.Likes(ctx, p.ID, paging)
	})
}

// AllUserPosts reads all posts of a user, as the view has them.
func (w *World) AllUserPosts(u *blog.User) []*blog.Post {
	w.T.Helper()
	reader := w.reader()
	return All(w.T, 100, func(ctx context.Context, paging store.Paging) (*store.Page[*blog.Post], error) {
		return reader.UserPosts(ctx, u.UserID, paging)
	})
}

// AllFeed reads the newest posts of the feed, as the view has them.
func (w *World) AllFeed() []*blog.Post {
	w.T.Helper()
	page, err := w.reader().Feed(w.T.Context(), store.Paging{First: blog.FeedServed})
	if err != nil {
		w.T.Fatal(err)
	}
	return page.Items
}

// reader returns a store that has written nothing, so that its lists have the counts of the views.
func (w *World) reader() *store.Store {
	w.T.Helper()
	o := store.Options{Database: w.Database, Instance: "reader", FeedPartitions: w.FeedPartitions()}
	if w.Clock != nil {
		o.Clock = w.Clock.Now
	}
	s, err := store.New(w.Account, o)
	if err != nil {
		w.T.Fatal(err)
	}
	return s
}

// FeedTitles lists the titles in a partition of the feed, newest first.
func (w *World) FeedTitles(name string) []string {
	w.T.Helper()
	c, err := w.Client.NewContainer(w.Database, "feed")
	if err != nil {
		w.T.Fatal(err)
	}
	var all []string
	pager := c.NewQueryItemsPager(
		"SELECT VALUE c.title FROM c WHERE NOT IS_DEFINED(c.deleted) ORDER BY c.type DESC, c.creationDate DESC, c.id "+
			"DESC",
		azcosmos.NewPartitionKeyString(name), nil)
	for pager.More() {
		r, err := pager.NextPage(w.T.Context())
		if err != nil {
			w.T.Fatal(err)
		}
		for _, raw := range r.Items {
			var title string
			if err := json.Unmarshal(raw, &title); err != nil {
				w.T.Fatal(err)
			}
			all = append(all, title)
		}
	}
	return all
}

// FeedLength counts the posts in the feed container, served or not.
func (w *World) FeedLength() int {
	w.T.Helper()
	c, err := w.Client.NewContainer(w.Database, "feed")
	if err != nil {
		w.T.Fatal(err)
	}
	pager := c.NewQueryItemsPager("SELECT VALUE COUNT(1) FROM c", azcosmos.NewPartitionKeyString("post"), nil)
	r, err := pager.NextPage(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	var n int
	if err := json.Unmarshal(r.Items[0], &n); err != nil {
		w.T.Fatal(err)
	}
	return n
}

// Released is the suffix of the owner of a released name in Reservations.
const Released = ", released"

// Reservations returns the owners of the reserved names, by name.
func (w *World) Reservations() map[string]string {
	w.T.Helper()
	users, err := w.Client.NewContainer(w.Database, "users")
	if err != nil {
		w.T.Fatal(err)
	}
	all := map[string]string{}
	pager := users.NewQueryItemsPager("SELECT c.id, c.ownerId, c.ttl FROM c WHERE c.type = 'username'",
		azcosmos.NewPartitionKey(), nil)
	for pager.More() {
		page, err := pager.NextPage(w.T.Context())
		if err != nil {
			w.T.Fatal(err)
		}
		for _, raw := range page.Items {
			var r struct {
				ID, OwnerID string
				TTL         int
			}
			if err := json.Unmarshal(raw, &r); err != nil {
				w.T.Fatal(err)
			}
			if r.TTL > 0 {
				r.OwnerID += Released
			}
			all[strings.TrimPrefix(r.ID, "username:")] = r.OwnerID
		}
	}
	return all
}

// Checkpoints counts the feed ranges with a checkpoint.
func (w *World) Checkpoints() int {
	w.T.Helper()
	leases, err := w.Client.NewContainer(w.Database, "leases")
	if err != nil {
		w.T.Fatal(err)
	}
	pager := leases.NewQueryItemsPager("SELECT c.id FROM c WHERE c.continuation != ''",
		azcosmos.NewPartitionKey(), nil)
	r, err := pager.NextPage(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	return len(r.Items)
}

// CaughtUp returns an error while the projections have changes to handle. It ignores the sweep of usernames,
// which waits for the grace period.
func (w *World) CaughtUp() error { return w.caughtUp("usernames") }

// Swept is CaughtUp including the sweep of usernames.
func (w *World) Swept() error { return w.caughtUp("") }

// caughtUp returns an error while a processor other than except has changes to handle.
func (w *World) caughtUp(except string) error {
	status, err := w.Views().Status(w.T.Context())
	if err != nil {
		return err
	}
	if want := w.Ranges("posts") + 2*w.Ranges("users"); len(status) < want { // the sweep also reads users
		return fmt.Errorf("%d ranges of %d", len(status), want)
	}
	for _, r := range status {
		if r.Lag > 0 && r.Processor != except {
			return fmt.Errorf("%s is %d changes behind", r.Container, r.Lag)
		}
	}
	return nil
}

// Ranges counts the feed ranges of a container.
func (w *World) Ranges(container string) int {
	w.T.Helper()
	c, err := w.Client.NewContainer(w.Database, container)
	if err != nil {
		w.T.Fatal(err)
	}
	ranges, err := c.ReadFeedRanges(w.T.Context(), nil)
	if err != nil {
		w.T.Fatal(err)
	}
	return len(ranges)
}

// SeeNewest makes the World's account read everything that was written to partitions of a container, even
// writes without a response: a batch is executed on the primary replica and returns its session token.
func (w *World) SeeNewest(container string, partitions ...string) {
	w.T.Helper()
	c, err := w.Account.Container(w.Database, container)
	if err != nil {
		w.T.Fatal(err)
	}
	for _, partition := range partitions {
		var b cosmos.Batch
		b.Read(partition)
		if _, err := c.Batch(w.T.Context(), partition, &b); err != nil {
			w.T.Fatal(err)
		}
	}
}

// Rebuilt waits until a rebuild has ended.
func (w *World) Rebuilt() {
	w.T.Helper()
	testkit.Until(w.T, func() error {
		status, err := w.Views().Status(w.T.Context())
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

// Differences returns the differences that Verify reports.
func (w *World) Differences(settle time.Duration) []projection.Difference {
	w.T.Helper()
	var found []projection.Difference
	err := w.Views().Verify(w.T.Context(), settle, nil, func(d projection.Difference) { found = append(found, d) })
	if err != nil {
		w.T.Fatal(err)
	}
	return found
}

// Upsert writes an item without the store.
func (w *World) Upsert(container, partition, item string) {
	w.T.Helper()
	c, err := w.Client.NewContainer(w.Database, container)
	if err != nil {
		w.T.Fatal(err)
	}
	if _, err := c.UpsertItem(w.T.Context(), azcosmos.NewPartitionKeyString(partition), []byte(item), nil); err != nil {
		w.T.Fatal(err)
	}
}

// Corrupt patches an item without the store.
func (w *World) Corrupt(container, partition, id, path string, value any) {
	w.T.Helper()
	c, err := w.Client.NewContainer(w.Database, container)
	if err != nil {
		w.T.Fatal(err)
	}
	var p azcosmos.PatchOperations
	p.AppendSet(path, value)
	if _, err := c.PatchItem(w.T.Context(), azcosmos.NewPartitionKeyString(partition), id, p, nil); err != nil {
		w.T.Fatal(err)
	}
}

// Remove deletes an item without the store.
func (w *World) Remove(container, partition, id string) {
	w.T.Helper()
	c, err := w.Client.NewContainer(w.Database, container)
	if err != nil {
		w.T.Fatal(err)
	}
	if _, err := c.DeleteItem(w.T.Context(), azcosmos.NewPartitionKeyString(partition), id, nil); err != nil {
		w.T.Fatal(err)
	}
}

// Wire is a transport that forwards requests to another, with hooks before and after each.
type Wire struct {
	To     policy.Transporter
	mu     sync.Mutex
	before func(*http.Request) error // guarded by mu; an error makes the response 503
	after  func(*http.Response)      // guarded by mu
}

// Do implements policy.Transporter.
func (w *Wire) Do(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	before, after := w.before, w.after
	w.mu.Unlock()
	if before != nil {
		if err := before(r); err != nil {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Status: "503 Service Unavailable",
				Body:   http.NoBody,
				Header: http.Header{}, Request: r}, nil
		}
	}
	resp, err := w.To.Do(r)
	if after != nil && err == nil {
		after(resp)
	}
	return resp, err
}

// After calls f with every response.
func (w *Wire) After(f func(*http.Response)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = f
}

// Intercept calls f before every request. If f returns an error, the request is not sent, and its response is
// 503.
func (w *Wire) Intercept(f func(*http.Request) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = f
}

// Clock advances a millisecond at each call of Now, so that no two items have the same date, unless it is
// Stopped.
type Clock struct {
	Millis  atomic.Int64
	Stopped atomic.Bool
	start   time.Time // zero: Epoch
}

// Now returns the time.
func (c *Clock) Now() time.Time {
	ms := c.Millis.Load()
	if !c.Stopped.Load() {
		ms = c.Millis.Add(1)
	}
	start := c.start
	if start.IsZero() {
		start = Epoch()
	}
	return start.Add(time.Duration(ms) * time.Millisecond)
}

// Epoch is the time at which the clocks of stores begin, and at which those of engines are stopped.
func Epoch() time.Time { return time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC) }

// Pass advances the fake clock of a synctest bubble.
func Pass(d time.Duration) { time.Sleep(d) }

// All reads a whole list in pages of n.
func All[T any](t testing.TB, n int, page func(context.Context, store.Paging) (*store.Page[T], error)) []T {
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

// Titles returns the titles of posts.
func Titles(posts []*blog.Post) (titles []string) {
	for _, p := range posts {
		titles = append(titles, p.Title)
	}
	return titles
}

// WantCode fails the test unless err has the code and the field.
func WantCode(t testing.TB, err error, code blog.Code, field string) {
	t.Helper()
	if blog.CodeOf(err) != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
	if e, ok := err.(*blog.Error); ok && e.Field != field {
		t.Fatalf("got field %q, want %q: %v", e.Field, field, err)
	}
}
