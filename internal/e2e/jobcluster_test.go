package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"byline/graph/auth"
	"byline/graph/globalid"
	"byline/internal/account"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/stored"
)

// jobEngine is an engine that sums the request charges of jobs: of changes and queries in the posts
// container, and of the items of jobs.
type jobEngine struct {
	*emulator.Engine
	mu  sync.Mutex
	sum float64 // guarded by mu
}

func (e *jobEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.Engine.ServeHTTP(w, r)
	if r.Header.Get("x-ms-cosmos-priority-level") != "Low" {
		return
	}
	query := r.Header.Get("x-ms-documentdb-isquery") != "" || strings.Contains(r.Header.Get("Content-Type"), "query")
	posts := strings.HasSuffix(r.URL.Path, "/colls/posts/docs") &&
		(query || r.Header.Get("x-ms-cosmos-is-batch-request") != "") ||
		strings.Contains(r.URL.Path, "/colls/posts/docs/") && r.Method == http.MethodPatch
	job := strings.Contains(r.URL.Path, "/colls/leases/docs/rename.") ||
		strings.Contains(r.URL.Path, "/colls/leases/docs/deletePost.")
	if posts || job {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.sum += chargeOf(w)
	}
}

func (e *jobEngine) charged() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sum
}

// jobCluster is a blog that two instances serve, with a user who has many comments, and two posts with many comments
// and likes.
type jobCluster struct {
	t         testing.TB // its end stops the instances
	rate      string     // --background-ru of the instances
	engine    *jobEngine
	endpoint  string
	store     *store.Store // of the test
	leases    *cosmos.Container
	posts     *cosmos.Container
	written   []any // posts of the other writers, by writer
	mu        sync.Mutex
	instances [2]*process // guarded by mu
}

func newJobCluster(t testing.TB) *jobCluster {
	t.Helper()
	engine, err := emulator.Open(t.TempDir(), emulator.Options{NoSync: true, Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &jobCluster{t: t, rate: jobRU, engine: &jobEngine{Engine: engine}}
	server := httptest.NewServer(c.engine)
	t.Cleanup(server.Close)
	c.endpoint = server.URL
	c.seed(t)
	for i := range c.instances {
		c.start(i)
	}
	c.awaitProjections(t)
	for i := range jobWriters {
		name := fmt.Sprint("other", i)
		do(t, c.at(0), name, createUser, map[string]any{"name": name})
		c.written = append(c.written,
			at(t, c.at(0).Do(name, createPost, map[string]any{"title": "t", "content": "mine"}), "createPost.post.id"))
	}
	return c
}

// do sends an operation to an instance.
func do(t testing.TB, p *process, user, query string, variables map[string]any) {
	t.Helper()
	if out, err := p.Post(user, query, variables); err != nil || out.Errors != nil {
		t.Fatal(err, out.Errors)
	}
}

// awaitProjections waits until the projections have applied the import.
func (c *jobCluster) awaitProjections(t testing.TB) {
	t.Helper()
	for tick, began := time.NewTicker(200*time.Millisecond), time.Now(); ; <-tick.C {
		all, err := c.store.Views().Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		behind := int64(0)
		for _, s := range all {
			behind += s.Lag
		}
		if len(all) > 0 && behind == 0 {
			t.Logf("the projections have read the import after %v", time.Since(began).Round(time.Second))
			return
		}
		if time.Since(began) > jobLongest {
			t.Fatalf("the projections are %d changes behind", behind)
		}
	}
}

// start starts or restarts an instance.
func (c *jobCluster) start(i int) {
	p := startProcess(c.t, "--cosmos-endpoint", c.endpoint, "--no-demo", "--background-ru", c.rate)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.instances[i] = p
}

func (c *jobCluster) at(i int) *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.instances[i]
}

// seed imports the posts and the users.
func (c *jobCluster) seed(t testing.TB) {
	t.Helper()
	ctx := t.Context()
	flags := account.Flags{CosmosEndpoint: c.endpoint, CosmosDatabase: "blog"}
	db, err := flags.Open(ctx, testkit.Logger(), account.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for name, to := range map[string]**cosmos.Container{blog.LeasesContainer: &c.leases,
		blog.PostsContainer: &c.posts} {
		if *to, err = db.Container("blog", name); err != nil {
			t.Fatal(err)
		}
	}
	if c.store, err = flags.Loader(db, testkit.Logger()); err != nil {
		t.Fatal(err)
	}
	if err := c.store.Provision(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.store.Views().FillFeed(ctx); err != nil {
		t.Fatal(err)
	}
	began := time.Now().Add(-24 * time.Hour)
	date := func(n int) blog.Date { return blog.NewDate(began.Add(time.Duration(n) * time.Millisecond)) }
	user := func(name string) *blog.User {
		return &blog.User{Byline: blog.Byline{UserID: auth.DemoUserID(name), Username: name}, CreatedAt: date(0),
			Revision: 1}
	}
	busy := user("busy")
	n := 0
	thread := func(author *blog.User, id string, comments, likes int) store.Thread {
		n++
		th := store.Thread{Post: &blog.Post{ID: id, Byline: author.Byline, Title: id, Content: "much to say about it",
			CommentCount: int32(comments), LikeCount: int32(likes), CreatedAt: date(n), Version: 1,
			Revision: int64(1 + comments + likes)}}
		for i := range comments {
			by := busy
			if likes > 0 { // the renamed user has no comments on the posts to delete
				by = author
			}
			th.Comments = append(th.Comments,
				&blog.Comment{ID: fmt.Sprintf("%s-%06d", id, i), PostID: id, Byline: by.Byline,
					Content: "well put", CreatedAt: date(i)})
		}
		for i := range likes {
			th.Likes = append(th.Likes,
				&blog.Like{PostID: id,
					Byline:    blog.Byline{UserID: fmt.Sprint("liker", i), Username: fmt.Sprint("liker", i)},
					CreatedAt: date(i)})
		}
		return th
	}
	threads := make([][]store.Thread, jobHosts)
	hosts := make([]*blog.User, jobHosts)
	var newest []*blog.Post
	for i := range hosts {
		hosts[i] = user(fmt.Sprint("host", i))
	}
	for i := range jobPosts {
		th := thread(hosts[i%jobHosts], fmt.Sprint("post", i), jobItems/jobPosts, 0)
		threads[i%jobHosts] = append(threads[i%jobHosts], th)
		newest = append(newest, th.Post)
	}
	for _, id := range jobPostIDs {
		th := thread(hosts[0], id, jobItems/2, jobItems/2)
		threads[0] = append(threads[0], th)
		newest = append(newest, th.Post)
	}
	var g errgroup.Group
	g.Go(func() error { return c.store.Import(ctx, busy, slices.Values([]store.Thread(nil))) })
	for i, host := range hosts {
		g.Go(func() error { return c.store.Import(ctx, host, slices.Values(threads[i])) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := c.store.ImportFeed(ctx, newest[max(0, len(newest)-blog.FeedKept):]); err != nil {
		t.Fatal(err)
	}
}

// post returns the global id of a post.
func (c *jobCluster) post(i int) string {
	return globalid.ID{Kind: globalid.Post, Key: fmt.Sprint("post", i)}.String()
}

// run enqueues a job, runs meanwhile until the job has ended, and returns the job's request charge and duration.
func (c *jobCluster) run(
	t *testing.T, job string, enqueue func(), meanwhile func(context.Context),
) (ru float64, took time.Duration) {
	t.Helper()
	before, began := c.engine.charged(), time.Now()
	ctx, ended := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer func() { ended(); all.Wait() }()
	enqueue()
	all.Go(func() { meanwhile(ctx) })
	seen := false
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		item, err := c.leases.Read(t.Context(), stored.Key(job, job))
		if err != nil {
			t.Fatal(err)
		}
		if seen = seen || item.Value != nil; seen && item.Value == nil {
			break
		}
		if time.Since(began) > jobLongest {
			t.Fatalf("the job has not ended after %v: %s", jobLongest, item.Value)
		}
	}
	took = time.Since(began)
	if ru = c.engine.charged() - before; ru <= 0 {
		t.Fatal("the engine has charged nothing for the job")
	}
	return ru, took
}

// kill kills both instances at random moments, and starts them again.
func (c *jobCluster) kill(t *testing.T, ctx context.Context) {
	for range jobKills {
		select {
		case <-ctx.Done():
			t.Error("the job ended before the last kill")
			return
		// others take over after 5 s
		case <-time.After(testkit.Pick(0, 4*time.Second) + rand.N(testkit.Pick(500*time.Millisecond, 5*time.Second))):
		}
		for i := range c.instances {
			c.at(i).Kill()
		}
		for i := range c.instances {
			c.start(i)
		}
	}
}

// writeAsOthers comments as many users, each on a post of their own, until ctx ends. Some wait until the other
// instance shows the new count in the summary of their post; it returns these delays.
func (c *jobCluster) writeAsOthers(t *testing.T, ctx context.Context) (lags []time.Duration) {
	background := context.WithoutCancel(ctx)
	send := func(instance int, user, query string, variables map[string]any) (map[string]any, error) {
		out, err := c.at(instance).PostIn(background, "", user, query, variables)
		if err == nil && len(out.Errors) > 0 {
			err = errors.New(out.Errors[0].Message)
		}
		return out.Data, err
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range jobWriters {
		all.Go(func() {
			name := fmt.Sprint("other", i)
			for wait(ctx, rand.N(jobInterval)); ctx.Err() == nil; wait(ctx, jobInterval/2+rand.N(jobInterval)) {
				began := time.Now()
				data, err := send(i%2, name, createComment, map[string]any{"post": c.written[i], "content": "more"})
				if err != nil {
					t.Error(err)
					return
				}
				if i < jobProbes {
					want := find(data, "createComment.post.commentCount")
					for ctx.Err() == nil {
						data, err := send((i+1)%2, name,
							`{ viewer { posts(first: 1) { edges { node { commentCount } } } } }`, nil)
						if err != nil {
							t.Error(err)
							return
						}
						if find(data, "viewer.posts.edges.0.node.commentCount") == want {
							mu.Lock()
							lags = append(lags, time.Since(began))
							mu.Unlock()
							break
						}
						wait(ctx, 10*time.Millisecond)
					}
				}
			}
		})
	}
	all.Wait()
	return lags
}

// wait waits for d or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// checkNone checks that a query has no results.
func (c *jobCluster) checkNone(t *testing.T, q cosmos.Query) {
	t.Helper()
	for page, err := range c.posts.Query(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > 0 {
			t.Fatalf("items are left, such as %s", page[0])
		}
	}
}
