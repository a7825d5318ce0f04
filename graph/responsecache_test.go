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
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"pgregory.net/rapid"

	"byline/graph/auth"
	"byline/graph/cost"
	"byline/graph/document"
	"byline/graph/transport"
	"byline/internal/enginetest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/cosmos"
	"byline/store/emulator"
)

// instance is a handler with a response cache; several share an engine.
type instance struct {
	http.Handler
	executed atomic.Int64 // operations that were not served from the cache
	polls    atomic.Int64 // of the change feed
	views    atomic.Int64 // queries of views by requests
	stop     func()
}

type executedKey struct{}

// countingExecutor counts operations, and sets the bool that a context has as executedKey.
type countingExecutor struct {
	graphql.GraphExecutor
	executed *atomic.Int64
}

func (c countingExecutor) CreateOperationContext(
	ctx context.Context, params *graphql.RawParams,
) (*graphql.OperationContext, gqlerror.List) {
	c.executed.Add(1)
	if executed, ok := ctx.Value(executedKey{}).(*bool); ok {
		*executed = true
	}
	return c.GraphExecutor.CreateOperationContext(ctx, params)
}

func newInstance(t testing.TB, b *testBlog, name string, poll time.Duration) *instance {
	t.Helper()
	return newInstanceOn(t, b, b.wire.engine, name, poll)
}

// newInstanceOn is newInstance with a transport to the engine of the blog.
func newInstanceOn(t testing.TB, b *testBlog, to policy.Transporter, name string, poll time.Duration) *instance {
	t.Helper()
	i := &instance{}
	account := enginetest.Account(t, b.wire.engine.(*emulator.Engine),
		cosmos.Options{Transport: requestCounter{enginetest.HoldDeletions(to), i}, CacheBytes: 8 << 20,
			Retry: policy.RetryOptions{MaxRetries: -1}})
	s, err := store.New(account, store.Options{PollInterval: poll, Instance: name, Logger: testkit.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Store: s, Verifier: auth.DemoVerifier(), Logger: testkit.Logger(), Streams: t.Context(),
		ResponseCacheBytes: 8 << 20}
	edge, err := transportOptions(o.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	edge.Executor = countingExecutor{edge.Executor, &i.executed}
	if i.Handler, err = transport.New(edge); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	i.stop = sync.OnceFunc(func() {
		cancel()
		if err := testkit.Receive(t, done); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(i.stop)
	testkit.WaitFor(t, func() bool {
		return !i.executes(t, func() { post(t, i, "", "{ feed(first: 1) { edges { cursor } } }", nil) })
	})
	return i
}

// requestCounter counts the requests of an instance.
type requestCounter struct {
	policy.Transporter
	of *instance
}

func (c requestCounter) Do(r *http.Request) (*http.Response, error) {
	switch {
	case r.Header.Get("A-IM") != "":
		c.of.polls.Add(1)
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/query+json") &&
		r.Header.Get("X-Ms-Cosmos-Priority-Level") != "Low" &&
		!strings.Contains(r.URL.Path, "/colls/posts/"):
		c.of.views.Add(1)
	}
	return c.Transporter.Do(r)
}

// poll waits for 20 polls, so that the instance has polled each of its ranges several times.
func (i *instance) poll(t testing.TB) {
	t.Helper()
	before := i.polls.Load()
	testkit.WaitFor(t, func() bool { return i.polls.Load() >= before+20 })
}

// executes reports whether a request of f is executed rather than served from the cache.
func (i *instance) executes(t testing.TB, f func()) bool {
	t.Helper()
	before := i.executed.Load()
	f()
	return i.executed.Load() > before
}

// A second request is served from the response cache or executed, as listed.
func TestResponseCache_Hits(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	const public,
		personal = `{ post(id: "<post:engines>") { title commentCount comments { edges { node { content } } } } }`,
		`{ post(id: "<post:engines>") { title viewerHasLiked } }`
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	tests := map[string]struct {
		query         string
		first, second string // tokens of the two requests
		change        func(*http.Request)
		executed      bool   // the second request
		code          string // of the second response
	}{
		"public, anonymous twice -> hit":           {query: public},
		"public, another viewer -> hit":            {query: public, first: "demo:ada", second: "demo:grace"},
		"public, anonymous then viewer -> hit":     {query: public, second: "demo:grace"},
		"public, invalid token -> unauthenticated": {query: public, second: "nope", code: "UNAUTHENTICATED"},
		"personal, same viewer -> hit":             {query: personal, first: "demo:grace", second: "demo:grace"},
		"personal, another viewer -> executed": {query: personal, first: "demo:grace", second: "demo:ada",
			executed: true},
		"personal, anonymous twice -> hit":            {query: personal},
		"personal, anonymous then viewer -> executed": {query: personal, second: "demo:grace", executed: true},
		"personal, viewer then anonymous -> executed": {query: personal, first: "demo:grace", executed: true},
		"personal, invalid token -> unauthenticated":  {query: personal, second: "nope", code: "UNAUTHENTICATED"},
		"viewer field, same viewer -> hit": {query: `{ viewer { username } }`, first: "demo:ada",
			second: "demo:ada"},
		"viewer field, another viewer -> executed": {query: `{ viewer { username } }`, first: "demo:ada",
			second: "demo:grace", executed: true},
		"unknown post -> hit": {query: `{ post(id: "` + postGlobalID("none") +
			`") { title } }`},
		"response with an error -> executed": {query: `{ post(id: "nope") { title } feed(first: 1) { edges { node { title } } } }`, executed: true},
		"invalid document -> executed":       {query: `{ post }`, executed: true},
		"cost requested -> executed": {query: public, change: header(cost.Header, "summary"),
			executed: true},
		"cost none -> hit":        {query: public, change: header(cost.Header, "none")},
		"newer media type -> hit": {query: public, change: header("Accept", mediaResponse)},
		"session older than the cached response -> hit": {query: public,
			change: header(sessionHeader, writtenSession(t, i))},
		"text over maxCacheKey -> executed": {query: public + strings.Repeat(" ", maxCacheKey), executed: true},
	}
	do := func(t *testing.T, name, token string) testResponse {
		tt := tests[name]
		r := httptest.NewRequest(http.MethodPost, "/graphql",
			strings.NewReader(fmt.Sprintf(`{"query":%q}`, b.fill(tt.query)+" # "+name)))
		r.Header.Set("Content-Type", mediaJSON)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if tt.change != nil {
			tt.change(r)
		}
		return send(t, i, r)
	}
	first := map[string]testResponse{}
	for name, tt := range tests {
		first[name] = do(t, name, tt.first)
	}
	i.poll(t) // cacheable responses are cached by then
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			first := first[name]
			switch {
			case tt.executed:
				if !i.executes(t, func() { do(t, name, tt.second) }) {
					t.Errorf("not executed; first response %s", first.body)
				}
			case tt.code != "":
				// the first response is cached
				testkit.WaitFor(t, func() bool { return !i.executes(t, func() { do(t, name, tt.first) }) })
				var second testResponse
				executed := i.executes(t, func() { second = do(t, name, tt.second) })
				if executed || second.code() != tt.code || second.Data != nil || second.body == first.body {
					t.Errorf("executed %t, code %q, want %q: %s", executed, second.code(), tt.code, second.body)
				}
			default:
				testkit.WaitFor(t, func() bool {
					return !i.executes(t, func() {
						if second := do(t, name, tt.second); second.body != first.body ||
							second.status != http.StatusOK ||
							second.header.Get("Content-Type") != first.header.Get("Content-Type") {
							t.Fatalf("second response %d %s %s, first %s", second.status, second.header, second.body,
								first.body)
						}
					})
				})
			}
		})
	}
}

// The response to a GET is cached for GET alone: a POST with the same text as its body is no operation.
func TestResponseCache_GETAndPOSTAreSeparate(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	text := "?query=" + url.QueryEscape("{ __typename }")
	testkit.WaitFor(t, func() bool {
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

// Requests with the client's name in the extensions are served from the cache. One with a document and its hash is
// executed each time, to store the document.
func TestResponseCache_RequestsWithExtensions(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	const query = `{ feed(first: 1) { edges { node { title } } } }`
	do := func(extensions map[string]any) func() {
		return func() {
			if a := postBody(t, i, "", map[string]any{"query": query, "extensions": extensions}); a.code() != "" {
				t.Fatal(a.body)
			}
		}
	}
	named := do(map[string]any{"clientLibrary": map[string]any{"name": "@apollo/client", "version": "4.0.0"}})
	testkit.WaitFor(t, func() bool { return !i.executes(t, named) })
	withHash := do(persistedExtension(document.Hash(query)))
	withHash()
	i.poll(t) // it would be cached by then
	if !i.executes(t, withHash) {
		t.Error("the document is not stored again")
	}
}

// A cached public response that has become personal does not hide the responses cached for each viewer.
func TestResponseCache_ResponseBecomesPersonal(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	const query = `{ userByUsername(username: "newcomer") { posts { edges { node { viewerHasLiked } } } } }`
	testkit.WaitFor(t, func() bool { return !i.executes(t, func() { post(t, i, "", query, nil) }) })
	b.user(t, "newcomer")
	b.post(t, "newcomer", "First", "x")
	testkit.WaitFor(t, func() bool {
		return strings.Contains(post(t, i, "demo:ada", query, nil).body, "viewerHasLiked")
	})
	testkit.WaitFor(t, func() bool { return !i.executes(t, func() { post(t, i, "demo:ada", query, nil) }) })
}

// writtenSession returns the token of a session that has written.
func writtenSession(t testing.TB, i *instance) string {
	t.Helper()
	return post(t, i, "demo:ada", `mutation { createPost(input: {title: "t", content: "c"}) { post { id } } }`,
		nil).header.Get(sessionHeader)
}

// A session newer than the cached response gets a fresh one. An instance shows its own writes at once, and those of
// other instances after a poll.
func TestResponseCache_WritesBecomeVisible(t *testing.T) {
	b := smallBlog(t, Options{})
	one, two := newInstance(t, b, "one", 5*time.Millisecond), newInstance(t, b, "two", 5*time.Millisecond)
	query := b.fill(`{ post(id: "<post:engines>") { title } }`)
	edit := func(i *instance, title string) string {
		a := post(t, i, "demo:ada",
			b.fill(`mutation($t: String!) { updatePost(input: {id: "<post:engines>", title: $t}) { post { id } } }`),
			map[string]any{"t": title})
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
			t.Errorf("with the session of a write through another instance: %q, want %q", got, want)
		}
		if got := title(two, ""); got != want {
			t.Errorf("after a write through the same instance: %q, want %q", got, want)
		}
		testkit.WaitFor(t, func() bool { return title(one, "") == want })
	}
}

// A public response to a GET has a max-age that decreases with the age of the cached response, and an ETag, with which
// the body is not sent again.
func TestResponseCache_CacheControlAndETag(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	query := b.fill(`{ post(id: "<post:engines>") { title } }`)
	byHash(t, i, "demo:ada", document.Hash(query), query)
	do := func(tag string) testResponse {
		r := httptest.NewRequest(http.MethodGet, hashURL(t, document.Hash(query))+"&variables="+url.QueryEscape("{}"),
			nil)
		r.Header.Set("If-None-Match", tag)
		return send(t, i, r)
	}
	first := do("")
	tag := first.header.Get("ETag")
	if tag == "" || !strings.HasPrefix(first.header.Get("Cache-Control"), "public, max-age=") {
		t.Fatal(first.header)
	}
	testkit.WaitFor(t, func() bool { return !i.executes(t, func() { do("") }) })
	if a := do(tag); a.status != http.StatusNotModified || a.body != "" || a.header.Get("ETag") != tag {
		t.Errorf("%d %q %s", a.status, a.body, a.header)
	}
	if a := do(""); a.header.Get("Cache-Control") != "public, max-age=4" &&
		a.header.Get("Cache-Control") != "public, max-age=3" || a.body != first.body {
		t.Errorf("%s %s", a.header, a.body)
	}
	post(t, i, "demo:ada",
		b.fill(`mutation { updatePost(input: {id: "<post:engines>", title: "new"}) { post { id } } }`), nil)
	if a := do(tag); a.status != http.StatusOK || !strings.Contains(a.body, "new") || a.header.Get("ETag") == tag {
		t.Errorf("%d %s %s", a.status, a.body, a.header)
	}
}

// With concurrent readers and writers on two instances, a read is never older than the completed writes of its
// instance, nor newer than the writes begun anywhere; and a cached response has a post and its comments as of one
// moment.
func TestResponseCache_ConsistentUnderWrites(t *testing.T) {
	b := smallBlog(t, Options{})
	instances := []*instance{newInstance(t, b, "one", 50*time.Millisecond),
		newInstance(t, b, "two", 50*time.Millisecond)}
	const most = 60 // comments, so that one page has all of them
	type writes struct{ begun, acknowledged atomic.Int64 }
	var all writes
	own := make([]writes, len(instances))
	target := b.post(t, "ada", "busy", "text")
	query := fmt.Sprintf(`{"query":%q}`,
		`{ post(id: "`+postGlobalID(target)+`") { commentCount comments(first: 100) { edges { node { content } } } } }`)

	writing, done := context.WithCancel(t.Context())
	var writers, readers sync.WaitGroup
	for n, i := range instances {
		for range 2 {
			writers.Go(func() {
				for all.begun.Add(1) <= most {
					own[n].begun.Add(1)
					a := post(t, i, "demo:ada",
						`mutation($p: ID!) { createComment(input: {postId: $p, content: "c"}) { post { commentCount } } }`, map[string]any{"p": postGlobalID(target)})
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
	var hits atomic.Int64
	for n, i := range instances {
		for range 2 {
			readers.Go(func() {
				for writing.Err() == nil {
					least := own[n].acknowledged.Load()
					executed := false
					r := httptest.NewRequestWithContext(context.WithValue(t.Context(), executedKey{}, &executed),
						http.MethodPost, "/graphql", strings.NewReader(query))
					r.Header.Set("Content-Type", mediaJSON)
					a := send(t, i, r)
					_, count, _ := strings.Cut(a.body, `"commentCount":`)
					var counted int64
					if _, err := fmt.Sscan(strings.SplitN(count, ",", 2)[0], &counted); err != nil ||
						len(a.Errors) > 0 {
						t.Error(a.body)
						return
					}
					listed := int64(strings.Count(a.body, `"content"`))
					latest := min(all.begun.Load(), most)
					if counted < least || listed < least || counted > latest || listed > latest {
						t.Errorf("commentCount %d and %d comments, want %d to %d", counted, listed, least, latest)
					}
					if !executed {
						hits.Add(1)
						if counted != listed {
							t.Errorf("from the cache: commentCount %d, %d comments", counted, listed)
						}
					}
				}
			})
		}
	}
	writers.Wait()
	testkit.WaitFor(t, func() bool { return hits.Load() > 0 })
	done()
	readers.Wait()
	for _, i := range instances {
		testkit.WaitFor(t, func() bool {
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
	stable := *schema // without the counts of likes, which reach projections later
	stable.Types = map[string]*ast.Definition{}
	for name, d := range schema.Types {
		c := *d
		c.Fields = nil
		for _, f := range d.Fields {
			if f.Name != "likeCount" && (name != "LikeConnection" || f.Name != "totalCount") {
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
		if rapid.Bool().Draw(rt, "fixed query") {
			query = b.fill(
				`{ post(id: "<post:engines>") { viewerHasLiked likes { edges { node { user { username } } } } } feed { edges { node { title viewerHasLiked } } } }`)
		}
		for _, viewer := range rapid.SliceOfN(rapid.SampledFrom(viewers), 1, 6).Draw(rt, "viewers") {
			if rapid.IntRange(0, 3).Draw(rt, "likes") == 0 && viewer != "" {
				mutation := rapid.SampledFrom([]string{"likePost", "unlikePost"}).Draw(rt, "mutation")
				post(t, i, viewer,
					b.fill(`mutation { `+mutation+`(input: {postId: "<post:engines>"}) { post { id } } }`), nil)
			}
			checkSameResponse(rt, post(t, i, viewer, query, nil), post(t, b, viewer, query, nil))
		}
	})
}
