package graph

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/prometheus/client_golang/prometheus"

	"byline/graph/auth"
	"byline/internal/enginetest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/files"
	"byline/store/projection"
)

// testBlog is a handler on a store and an embedded engine. Its wire records the requests to the engine.
type testBlog struct {
	http.Handler
	store *store.Store
	// projector is a second store on the same engine with a fixed clock; reads of the clock of store advance it.
	projector *store.Store
	wire      *wire
	metrics   *prometheus.Registry
	names     map[string]string // global ids by names such as "post:engines"
	rows      atomic.Int64      // makes idempotency keys
	clock     *atomic.Int64     // Unix time of the store; each read advances it by a second
}

// wire is a transport that records requests and their charge.
type wire struct {
	engine policy.Transporter

	mu       sync.Mutex
	requests []wireRequest                               // guarded by mu
	charge   float64                                     // guarded by mu; RU
	fail     func(*http.Request) (*http.Response, error) // guarded by mu; responds unless it returns nil twice
}

type wireRequest struct {
	what string // such as "read users", "query feed", "read many users", "batch posts"
	bad  string // why the request path must not send it; "" if it may
}

func (w *wire) Do(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.requests = append(w.requests, describeRequest(r))
	fail := w.fail
	w.mu.Unlock()
	if fail != nil {
		if response, err := fail(r); response != nil || err != nil {
			if response != nil {
				response.Request = r
			}
			return response, err
		}
	}
	response, err := w.engine.Do(r)
	if err == nil {
		charge, _ := strconv.ParseFloat(response.Header.Get("x-ms-request-charge"), 64)
		w.mu.Lock()
		w.charge += charge
		w.mu.Unlock()
	}
	return response, err
}

// describeRequest names a request, and checks that it stays within one partition: it has a partition key header, or it
// is the query of a ReadMany, which names its items and goes to one partition key range.
func describeRequest(r *http.Request) wireRequest {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // dbs/<db>/colls/<container>/docs[/<id>]
	if len(parts) < 5 || parts[4] != "docs" {
		return wireRequest{what: "metadata", bad: "not about items: " + r.URL.Path}
	}
	container := parts[3]
	header := func(name string) bool { return r.Header.Get(name) != "" }
	onePartition := header("x-ms-documentdb-partitionkey")
	what, bad := "", ""
	switch {
	case header("x-ms-cosmos-is-batch-request"):
		what = "batch " + container
	case header("x-ms-documentdb-query"), r.Header.Get("Content-Type") == "application/query+json":
		what = "query " + container
		if !onePartition && header("x-ms-documentdb-partitionkeyrangeid") && isReadMany(r) {
			what, onePartition = "read many "+container, true
		}
	case r.Method == http.MethodGet:
		what = "read " + container
	default:
		what = strings.ToLower(r.Method) + " " + container
	}
	if !onePartition {
		bad = what + " crosses partitions"
	}
	return wireRequest{what, bad}
}

// isReadMany reports whether a query has the parameter names of a ReadMany of azcosmos. It leaves the body unchanged.
func isReadMany(r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var query struct{ Query string }
	if err != nil || json.Unmarshal(body, &query) != nil {
		return false
	}
	return strings.Contains(query.Query, "IN (@param_id") || strings.Contains(query.Query, "(c.id = @param_id")
}

// setFail sets fail while there are requests.
func (w *wire) setFail(fail func(*http.Request) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = fail
}

// reset clears the recorded requests and charge.
func (w *wire) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests, w.charge = nil, 0
}

// seen returns the names of the requests since the last reset, sorted.
func (w *wire) seen() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := []string{}
	for _, r := range w.requests {
		all = append(all, r.what)
	}
	slices.Sort(all)
	return all
}

// charged returns the RU since the last reset.
func (w *wire) charged() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.charge
}

// checkPartitions fails the test if a request crossed partitions.
func (w *wire) checkPartitions(t testing.TB) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.requests {
		if r.bad != "" {
			t.Errorf("on the wire: %s", r.bad)
		}
	}
}

// newBlog returns an empty blog. Each read of its clock advances it by a second.
func newBlog(t testing.TB, o Options) *testBlog { return newBlogOf(t, o, store.Options{}, 0) }

// byPriority sends requests to one transport, and those of low priority to another.
type byPriority struct{ requests, background policy.Transporter }

func (b byPriority) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Ms-Cosmos-Priority-Level") == "Low" {
		return b.background.Do(r)
	}
	return b.requests.Do(r)
}

// newBlogOf is newBlog with options of the store and an item cache of cacheBytes.
func newBlogOf(t testing.TB, o Options, so store.Options, cacheBytes int) *testBlog {
	t.Helper()
	epoch := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	engine, err := emulator.Open("", emulator.Options{Clock: func() time.Time {
		return epoch
	}, Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	w, registry := &wire{engine: engine}, prometheus.NewRegistry()
	account := func(transport policy.Transporter, cacheBytes int) *cosmos.Account {
		return enginetest.Account(t, engine,
			cosmos.Options{Transport: transport, CacheBytes: cacheBytes, Metrics: registry, Logger: o.Logger,
				Retry: policy.RetryOptions{MaxRetries: -1}})
	}
	now := &atomic.Int64{}
	now.Store(epoch.Unix())
	if so.PollInterval == 0 {
		so.PollInterval = 5 * time.Millisecond
	}
	so.Instance, so.Logger = "test", testkit.Logger()
	so.Files, err = files.NewFolder(t.TempDir(), files.Options{Clock: func() time.Time { return epoch }})
	if err != nil {
		t.Fatal(err)
	}
	open := func(account *cosmos.Account, so store.Options) *store.Store {
		s, err := store.New(account, so)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	so.Clock = func() time.Time { return time.Unix(now.Add(1), 0) }
	s := open(account(byPriority{w, enginetest.HoldDeletions(engine)}, cacheBytes), so)
	so.Clock = func() time.Time { return epoch }
	if err := s.Provision(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.Store, o.Metrics = s, registry
	if o.Verifier == nil {
		o.Verifier = auth.DemoVerifier()
	}
	if o.Logger == nil {
		o.Logger = testkit.Logger()
	}
	if o.Capacity.Runnable == nil {
		o.Capacity.Runnable = func() int { return 0 } // however busy the machine is
	}
	h, err := NewHandler(o)
	if err != nil {
		t.Fatal(err)
	}
	b := &testBlog{Handler: h, store: s, clock: now, wire: w, metrics: registry,
		projector: open(account(engine, 0), so), names: map[string]string{}}
	// A client's first ReadMany reads the container's properties, and its first background request those of the
	// account.
	for _, warm := range []func() error{
		func() error { _, err := s.Empty(t.Context()); return err },
		func() error { _, err := s.Users(t.Context(), []string{"a", "b"}); return err },
		func() error { _, err := s.Posts(t.Context(), []string{"a", "b"}); return err },
	} {
		if err := warm(); err != nil {
			t.Fatal(err)
		}
	}
	w.reset()
	return b
}

// key returns the next key of a fixed sequence of idempotency keys, so that ids are the same in each run.
func (b *testBlog) key() string { return fmt.Sprint("row ", b.rows.Add(1)) }

func subjectID(name string) string { return blog.UserID(auth.DemoIssuer, name) }

// user creates a user and names its global id "user:" and the name.
func (b *testBlog) user(t testing.TB, name string) string {
	t.Helper()
	u, err := b.store.CreateUser(t.Context(), store.NewUser{ID: subjectID(name), Username: name})
	if err != nil {
		t.Fatal(err)
	}
	b.names["user:"+name] = userGlobalID(u.UserID)
	return u.UserID
}

// post publishes a post and names its global id "post:" and the title.
func (b *testBlog) post(t testing.TB, author, title, content string, tags ...string) string {
	t.Helper()
	p, err := b.store.CreatePost(t.Context(),
		store.NewPost{AuthorID: subjectID(author), Title: title, Content: content, Tags: tags, Key: b.key()})
	if err != nil {
		t.Fatal(err)
	}
	b.names["post:"+title] = postGlobalID(p.ID)
	return p.ID
}

// comment names the comment's global id "comment:" and the content.
func (b *testBlog) comment(t testing.TB, author, postID, content string) {
	t.Helper()
	c, _, err := b.store.CreateComment(t.Context(),
		store.NewComment{AuthorID: subjectID(author), PostID: postID, Content: content, Key: b.key()})
	if err != nil {
		t.Fatal(err)
	}
	b.names["comment:"+content] = commentGlobalID(c)
}

// subscribers returns the number of open streams.
func (b *testBlog) subscribers(t testing.TB) int {
	return int(metricOf(t, b.metrics, "byline_subscribers"))
}

// like names the like's global id "like:" and the user's name.
func (b *testBlog) like(t testing.TB, user, postID string) {
	t.Helper()
	l, _, err := b.store.LikePost(t.Context(), subjectID(user), postID)
	if err != nil {
		t.Fatal(err)
	}
	b.names["like:"+user] = likeGlobalID(l)
}

// follow makes a user a follower of another.
func (b *testBlog) follow(t testing.TB, user, author string) {
	t.Helper()
	if _, err := b.store.FollowUser(t.Context(), subjectID(user), subjectID(author)); err != nil {
		t.Fatal(err)
	}
}

// settle runs the projections until each post in the feed and in its author's list has the revision of the post itself.
func (b *testBlog) settle(t testing.TB) {
	t.Helper()
	b.project(t, b.settled)
}

// project runs the projections until a condition holds.
func (b *testBlog) project(t testing.TB, condition func(testing.TB) bool) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- b.projector.Run(ctx) }()
	testkit.WaitFor(t, func() bool { return condition(t) })
	stop()
	if err := testkit.Receive(t, done); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	b.wire.reset()
}

// settled reports whether the views have the newest posts: all posts of a small blog.
func (b *testBlog) settled(t testing.TB) bool {
	t.Helper()
	page, err := b.store.Feed(t.Context(), store.Paging{First: blog.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	tagged := map[string]int32{}
	for _, p := range page.Items {
		for _, tag := range p.Tags {
			tagged[tag]++
		}
	}
	for name, posts := range tagged {
		if tag, err := b.store.Tag(t.Context(), name); err != nil || tag.PostCount < posts {
			return false
		}
	}
	for _, p := range page.Items {
		source, err := b.store.Post(t.Context(), p.ID)
		if err != nil {
			t.Fatal(err)
		}
		own, err := b.store.UserPosts(t.Context(), p.UserID, store.Paging{First: blog.MaxPage})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(own.Items, func(o *blog.Post) bool { return o.ID == p.ID })
		if p.Revision != source.Revision || i < 0 || own.Items[i].Revision != source.Revision {
			return false
		}
	}
	return true
}

// caughtUp reports whether the projections have handled all changes.
func (b *testBlog) caughtUp(t testing.TB) bool {
	t.Helper()
	status, err := b.projector.Views().Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	behind := func(r projection.Status) bool { return r.Lag > 0 && r.Processor != "usernames" }
	return len(status) >= 3 && !slices.ContainsFunc(status, behind) // of posts, and two of users
}

// smallBlog returns a blog with two users, four posts, three comments and three likes.
func smallBlog(t testing.TB, o Options) *testBlog { return smallBlogOf(t, newBlog(t, o)) }

// smallBlogInBubble is smallBlog for a test in a synctest bubble. It polls less often, as time passes at once there.
func smallBlogInBubble(t testing.TB, o Options) *testBlog {
	return smallBlogOf(t, newBlogOf(t, o, store.Options{PollInterval: 200 * time.Millisecond}, 0))
}

func smallBlogOf(t testing.TB, b *testBlog) *testBlog {
	t.Helper()
	for _, name := range []string{"ada", "grace"} {
		b.user(t, name)
	}
	engines := b.post(t, "ada", "engines",
		"Of the analytical engine, "+strings.Repeat("wheels within wheels, ", 20)+"and no end to them.", "Machines",
		"Größe")
	b.post(t, "grace", "nanoseconds", "A foot of wire.")
	moths := b.post(t, "grace", "moths", "First actual case of bug being found.")
	b.post(t, "ada", "notes", "Note G, in short.", "machines")
	b.comment(t, "grace", engines, "How many wheels?")
	b.comment(t, "ada", engines, "All of them.")
	b.comment(t, "ada", moths, "Poor thing.")
	b.like(t, "grace", engines)
	b.like(t, "ada", moths)
	b.like(t, "grace", moths)
	b.settle(t)
	return b
}

func newResponse(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status),
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

// throttled is a 429.
func throttled(retryAfter time.Duration) *http.Response {
	response := newResponse(http.StatusTooManyRequests, "{}")
	response.Header.Set("x-ms-retry-after-ms", strconv.FormatInt(retryAfter.Milliseconds(), 10))
	return response
}

// metricOf adds up the series of a counter or gauge, except those whose first label has one of the values in except.
func metricOf(t testing.TB, r prometheus.Gatherer, name string, except ...any) float64 {
	t.Helper()
	return sumOf(t, r, name, func(value string) bool {
		return !slices.ContainsFunc(except, func(v any) bool { return value == fmt.Sprint(v) })
	})
}

// sumOf adds up the series of a counter or gauge whose first label has a value for which counted is true, and those
// without labels.
func sumOf(t testing.TB, r prometheus.Gatherer, name string, counted func(value string) bool) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.Metric {
				if len(m.Label) == 0 || counted(m.Label[0].GetValue()) {
					sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
				}
			}
		}
	}
	return sum
}
