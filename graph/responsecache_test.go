package graph

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"pgregory.net/rapid"

	"byline/graph/auth"
	"byline/graph/cost"
	"byline/graph/document"
	"byline/internal/enginetest"
	"byline/internal/secrettest"
	"byline/internal/waittest"
	"byline/store"
	"byline/store/cosmos"
	"byline/store/emulator"
)

// instance is an edge that keeps answers, beside others on one engine.
type instance struct {
	http.Handler
	executed atomic.Int64 // operations that were not answered by what is kept
	polls    atomic.Int64 // of the change feed
	stop     func()
}

type executedKey struct{}

// countingExecutor notes what comes to the executor.
type countingExecutor struct {
	graphql.GraphExecutor
	executed *atomic.Int64
}

func (c countingExecutor) CreateOperationContext(ctx context.Context, params *graphql.RawParams) (*graphql.OperationContext, gqlerror.List) {
	c.executed.Add(1)
	if mine, ok := ctx.Value(executedKey{}).(*bool); ok {
		*mine = true
	}
	return c.GraphExecutor.CreateOperationContext(ctx, params)
}

func newInstance(t testing.TB, b *testBlog, name string, poll time.Duration) *instance {
	t.Helper()
	i := &instance{}
	account := enginetest.Account(t, b.wire.engine.(*emulator.Engine), cosmos.Options{Transport: polled{enginetest.HoldDeletions(b.wire.engine), &i.polls}, CacheBytes: 8 << 20, Retry: policy.RetryOptions{MaxRetries: -1}})
	s, err := store.New(account, store.Options{PollInterval: poll, Instance: name, Logger: secrettest.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Store: s, Verifier: auth.DemoVerifier(), Logger: secrettest.Logger(), Metrics: prometheus.NewRegistry(), Streams: t.Context(), ResponseCacheBytes: 8 << 20}
	e, err := newEndpoint(o, &sync.WaitGroup{}, nil, &origins{})
	if err != nil {
		t.Fatal(err)
	}
	i.Handler = identify(readCostHeader(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.http.Do(w, r, countingExecutor{e.exec, &i.executed})
	}), presenter{log: o.Logger}), nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	i.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(i.stop)
	waittest.For(t, func() bool {
		return !i.executes(t, func() { post(t, i, "", "{ feed(first: 1) { edges { cursor } } }", nil) })
	})
	return i
}

// polled counts the polls of the change feed.
type polled struct {
	policy.Transporter
	polls *atomic.Int64
}

func (p polled) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get("A-IM") != "" {
		p.polls.Add(1)
	}
	return p.Transporter.Do(r)
}

// poll waits until the instance has polled each of its ranges some times.
func (i *instance) poll(t testing.TB) {
	t.Helper()
	before := i.polls.Load()
	waittest.For(t, func() bool { return i.polls.Load() >= before+20 })
}

// executes reports whether f has something executed, rather than answered as before.
func (i *instance) executes(t testing.TB, f func()) bool {
	t.Helper()
	before := i.executed.Load()
	f()
	return i.executed.Load() > before
}

// What is answered as before, and what is executed again.
func TestAnswersThatAreGivenAgain(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	const public, personal = `{ post(id: "<post:engines>") { title commentCount comments { edges { node { content } } } } }`, `{ post(id: "<post:engines>") { title viewerHasLiked } }`
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	tests := map[string]struct {
		query        string
		token, again string // whose
		change       func(*http.Request)
		executed     bool
	}{
		"the same":                          {query: public},
		"another user's":                    {query: public, token: "demo:ada", again: "demo:grace"},
		"nobody's, to somebody":             {query: public, again: "demo:grace"},
		"what one likes":                    {query: personal, token: "demo:grace", again: "demo:grace"},
		"what another likes":                {query: personal, token: "demo:grace", again: "demo:ada", executed: true},
		"what nobody likes":                 {query: personal},
		"what nobody likes, to somebody":    {query: personal, again: "demo:grace", executed: true},
		"what somebody likes, to nobody":    {query: personal, token: "demo:grace", executed: true},
		"the viewer":                        {query: `{ viewer { username } }`, token: "demo:ada", again: "demo:ada"},
		"another viewer":                    {query: `{ viewer { username } }`, token: "demo:ada", again: "demo:grace", executed: true},
		"an unknown post":                   {query: `{ post(id: "` + postGlobalID("none") + `") { title } }`},
		"with an error":                     {query: `{ post(id: "nope") { title } feed(first: 1) { edges { node { title } } } }`, executed: true},
		"refused":                           {query: `{ post }`, executed: true},
		"with what it costs":                {query: public, change: header(cost.Header, "summary"), executed: true},
		"with what it costs, told not to":   {query: public, change: header(cost.Header, "none")},
		"as the newer media type":           {query: public, change: header("Accept", mediaResponse)},
		"for somebody whose token is bad":   {query: public, again: "nope"},
		"in a session that has seen enough": {query: public, change: header(sessionHeader, session(t, i))},
		"a long text":                       {query: public + strings.Repeat(" ", maxCacheKey), executed: true},
	}
	ask := func(t *testing.T, name, token string) answer {
		tt := tests[name]
		r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(fmt.Sprintf(`{"query":%q}`, b.fill(tt.query)+" # "+name)))
		r.Header.Set("Content-Type", mediaJSON)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if tt.change != nil {
			tt.change(r)
		}
		return send(t, i, r)
	}
	first := map[string]answer{}
	for name, tt := range tests {
		first[name] = ask(t, name, tt.token)
	}
	i.poll(t) // what may be kept is kept by then
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			first := first[name]
			if tt.executed || tt.again == "nope" {
				if executed := i.executes(t, func() { ask(t, name, tt.again) }); executed != tt.executed {
					t.Errorf("executed: %t; %s", executed, first.body)
				}
				return
			}
			waittest.For(t, func() bool {
				return !i.executes(t, func() {
					if again := ask(t, name, tt.again); again.body != first.body || again.status != http.StatusOK || again.header.Get("Content-Type") != first.header.Get("Content-Type") {
						t.Fatalf("%d %s %s, at first %s", again.status, again.header, again.body, first.body)
					}
				})
			})
		})
	}
}

// What was asked by GET is answered as before to a GET alone: the body of a POST that is the
// same text is no operation.
func TestResponseCache_GETAndPOSTAreSeparate(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	text := "?query=" + url.QueryEscape("{ __typename }")
	waittest.For(t, func() bool {
		return !i.executes(t, func() {
			if a := send(t, i, httptest.NewRequest(http.MethodGet, "/graphql"+text, nil)); a.code() != "" {
				t.Fatal(a.body)
			}
		})
	})
	r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(text))
	r.Header.Set("Content-Type", mediaJSON)
	if a := send(t, i, r); a.status != http.StatusBadRequest || a.code() != "BAD_USER_INPUT" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// Clients that say something of themselves in the extensions are answered as before; one that
// brings a document with its hash makes it known, again and again.
func TestResponseCache_RequestsWithExtensions(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	const query = `{ feed(first: 1) { edges { node { title } } } }`
	ask := func(extensions map[string]any) func() {
		return func() {
			if a := postBody(t, i, "", map[string]any{"query": query, "extensions": extensions}); a.code() != "" {
				t.Fatal(a.body)
			}
		}
	}
	about := ask(map[string]any{"clientLibrary": map[string]any{"name": "@apollo/client", "version": "4.0.0"}})
	waittest.For(t, func() bool { return !i.executes(t, about) })
	bring := ask(persistedExtension(document.Hash(query)))
	bring()
	i.poll(t) // it would be kept by then if it were
	if !i.executes(t, bring) {
		t.Error("the document is not made known again")
	}
}

// An answer for everybody that has changed since, and now depends on the viewer, does not
// stand before the viewers' own.
func TestResponseCache_ResponseBecomesPersonal(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	const query = `{ userByUsername(username: "newcomer") { posts { edges { node { viewerHasLiked } } } } }`
	waittest.For(t, func() bool { return !i.executes(t, func() { post(t, i, "", query, nil) }) })
	b.user(t, "newcomer")
	b.post(t, "newcomer", "First", "x")
	waittest.For(t, func() bool { return strings.Contains(post(t, i, "demo:ada", query, nil).body, "viewerHasLiked") })
	waittest.For(t, func() bool { return !i.executes(t, func() { post(t, i, "demo:ada", query, nil) }) })
}

// session is the token of a session that has written.
func session(t testing.TB, i *instance) string {
	t.Helper()
	return post(t, i, "demo:ada", `mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`, nil).header.Get(sessionHeader)
}

// A session that is newer than what is kept reads; one's own writes are seen at once,
// and others' after a while.
func TestResponseCache_ChangedResponseIsRead(t *testing.T) {
	b := smallBlog(t, Options{})
	one, two := newInstance(t, b, "one", 5*time.Millisecond), newInstance(t, b, "two", 5*time.Millisecond)
	query := b.fill(`{ post(id: "<post:engines>") { title } }`)
	edit := func(i *instance, title string) string {
		a := post(t, i, "demo:ada", b.fill(`mutation($t: String!) { updatePost(input: {id: "<post:engines>", title: $t}) { post { id } } }`), map[string]any{"t": title})
		if len(a.Errors) > 0 {
			t.Fatal(a.body)
		}
		return a.header.Get(sessionHeader)
	}
	title := func(i *instance, session string) string {
		r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(fmt.Sprintf(`{"query":%q}`, query)))
		r.Header.Set("Content-Type", mediaJSON)
		r.Header.Set(sessionHeader, session)
		_, title, _ := strings.Cut(send(t, i, r).body, `"title":"`)
		return strings.TrimSuffix(strings.TrimSpace(title), `"}}}`)
	}
	for n := range 20 {
		want := fmt.Sprint("title ", n)
		title(one, "")
		token := edit(two, want)
		if got := title(one, token); got != want {
			t.Errorf("with the session of the other's write: %q, want %q", got, want)
		}
		if got := title(two, ""); got != want {
			t.Errorf("one's own write: %q, want %q", got, want)
		}
		waittest.For(t, func() bool { return title(one, "") == want })
	}
}

// A GET for everybody tells caches how long they may keep the answer, which is less the
// older the answer is, and asks for the body once.
func TestResponseCache_PublicResponses(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	query := b.fill(`{ post(id: "<post:engines>") { title } }`)
	byHash(t, i, "demo:ada", document.Hash(query), query)
	ask := func(tag string) answer {
		r := httptest.NewRequest(http.MethodGet, hashURL(t, document.Hash(query))+"&variables="+url.QueryEscape("{}"), nil)
		r.Header.Set("If-None-Match", tag)
		return send(t, i, r)
	}
	first := ask("")
	tag := first.header.Get("ETag")
	if tag == "" || !strings.HasPrefix(first.header.Get("Cache-Control"), "public, max-age=") {
		t.Fatal(first.header)
	}
	waittest.For(t, func() bool { return !i.executes(t, func() { ask("") }) })
	if a := ask(tag); a.status != http.StatusNotModified || a.body != "" || a.header.Get("ETag") != tag {
		t.Errorf("%d %q %s", a.status, a.body, a.header)
	}
	if a := ask(""); a.header.Get("Cache-Control") != "public, max-age=4" && a.header.Get("Cache-Control") != "public, max-age=3" || a.body != first.body {
		t.Errorf("%s %s", a.header, a.body)
	}
	post(t, i, "demo:ada", b.fill(`mutation { updatePost(input: {id: "<post:engines>", title: "new"}) { post { id } } }`), nil)
	if a := ask(tag); a.status != http.StatusOK || !strings.Contains(a.body, "new") || a.header.Get("ETag") == tag {
		t.Errorf("%d %s %s", a.status, a.body, a.header)
	}
}

// Readers and writers at once, through two instances: what is read is never older than
// what its instance has written, nor newer than what anybody has begun to write; and an
// answer that is from the cache shows a post and its comments as of one moment, in which
// they agree.
func TestResponseCache_ConsistentUnderWrites(t *testing.T) {
	b := smallBlog(t, Options{})
	instances := []*instance{newInstance(t, b, "one", 50*time.Millisecond), newInstance(t, b, "two", 50*time.Millisecond)}
	const most = 60 // comments, so that a page has them all
	type writes struct{ begun, acknowledged atomic.Int64 }
	var all writes
	own := make([]writes, len(instances))
	target := b.post(t, "ada", "busy", "text")
	query := fmt.Sprintf(`{"query":%q}`, `{ post(id: "`+postGlobalID(target)+`") { commentCount comments(first: 100) { edges { node { content } } } } }`)

	writing, done := context.WithCancel(t.Context())
	var writers, readers sync.WaitGroup
	for n, i := range instances {
		for range 2 {
			writers.Go(func() {
				for all.begun.Add(1) <= most {
					own[n].begun.Add(1)
					a := post(t, i, "demo:ada", `mutation($p: ID!) { createComment(input: {postId: $p, content: "c"}) { post { commentCount } } }`, map[string]any{"p": postGlobalID(target)})
					if len(a.Errors) > 0 {
						t.Error(a.body)
						return
					}
					own[n].acknowledged.Add(1)
					all.acknowledged.Add(1)
				}
			})
		}
	}
	var kept atomic.Int64
	for n, i := range instances {
		for range 2 {
			readers.Go(func() {
				for writing.Err() == nil {
					least := own[n].acknowledged.Load()
					executed := false
					r := httptest.NewRequestWithContext(context.WithValue(t.Context(), executedKey{}, &executed), http.MethodPost, "/graphql", strings.NewReader(query))
					r.Header.Set("Content-Type", mediaJSON)
					a := send(t, i, r)
					_, count, _ := strings.Cut(a.body, `"commentCount":`)
					var counted int64
					if _, err := fmt.Sscan(strings.SplitN(count, ",", 2)[0], &counted); err != nil || len(a.Errors) > 0 {
						t.Error(a.body)
						return
					}
					listed := int64(strings.Count(a.body, `"content"`))
					latest := min(all.begun.Load(), most)
					if counted < least || listed < least || counted > latest || listed > latest {
						t.Errorf("%d counted and %d listed, after %d were written here; %d were begun", counted, listed, least, latest)
					}
					if !executed {
						kept.Add(1)
						if counted != listed {
							t.Errorf("from the cache: %d counted, %d listed", counted, listed)
						}
					}
				}
			})
		}
	}
	writers.Wait()
	waittest.For(t, func() bool { return kept.Load() > 0 })
	done()
	readers.Wait()
	for _, i := range instances {
		waittest.For(t, func() bool {
			r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(query))
			r.Header.Set("Content-Type", mediaJSON)
			return strings.Contains(send(t, i, r).body, fmt.Sprintf(`"commentCount":%d,`, most))
		})
	}
}

// Random queries by random viewers, while they like and unlike, get the same responses with and without a
// response cache.
func TestResponseCache_SameAsUncachedForEachViewer(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	schema := readSchema(t)
	stable := *schema // but for the counts of likes, which reach copies a while later
	stable.Types = map[string]*ast.Definition{}
	for name, d := range schema.Types {
		c := *d
		c.Fields = nil
		for _, f := range d.Fields {
			if f.Name != "likeCount" {
				c.Fields = append(c.Fields, f)
			}
		}
		stable.Types[name] = &c
	}
	stable.Query = stable.Types["Query"]
	stable.PossibleTypes = map[string][]*ast.Definition{}
	for name, types := range schema.PossibleTypes {
		for _, d := range types {
			stable.PossibleTypes[name] = append(stable.PossibleTypes[name], stable.Types[d.Name])
		}
	}
	viewers := []string{"", "demo:ada", "demo:grace", "demo:nobody"}
	rapid.Check(t, func(rt *rapid.T) {
		query := randomQuery(b, &stable, rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "query"), 0)))
		if rapid.Bool().Draw(rt, "a plain one") {
			query = b.fill(`{ post(id: "<post:engines>") { viewerHasLiked likes { edges { node { user { username } } } } } feed { edges { node { title viewerHasLiked } } } }`)
		}
		for _, viewer := range rapid.SliceOfN(rapid.SampledFrom(viewers), 1, 6).Draw(rt, "viewers") {
			if rapid.IntRange(0, 3).Draw(rt, "likes") == 0 && viewer != "" {
				mutation := rapid.SampledFrom([]string{"likePost", "unlikePost"}).Draw(rt, "mutation")
				post(t, i, viewer, b.fill(`mutation { `+mutation+`(input: {postId: "<post:engines>"}) { post { id } } }`), nil)
			}
			sameAnswer(rt, post(t, i, viewer, query, nil), post(t, b, viewer, query, nil))
		}
	})
}
