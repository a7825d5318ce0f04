package graph

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/graph/cost"
	"byline/graph/document"
	"byline/store"
	"byline/store/cosmos"
	"byline/store/emulator"
	"byline/store/projection"
)

// toldCost is extensions.cost, as a client reads it.
type toldCost struct {
	PredictedRU float64
	ActualRU    float64
	Requests    int
	Operations  []struct {
		Path, Pattern, Container, Kind, Range string
		PartitionKey                          []string
		RU, Ms                                float64
		Retries                               int
	}
}

// withCost asks as post does, and for the cost.
func withCost(t testing.TB, h http.Handler, token, query, detail string) (answer, toldCost) {
	t.Helper()
	r := benchRequest(strings.TrimPrefix(token, "demo:"), query)
	if detail != "" {
		r.Header.Set(cost.Header, detail)
	}
	a := send(t, h, r)
	return a, costOf(t, a.body)
}

// askingForCost adds the header that asks for the cost to all requests.
func askingForCost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(cost.Header, "summary")
		next.ServeHTTP(w, r)
	})
}

// costOf reads extensions.cost of a response; the zero value without it.
func costOf(t testing.TB, body string) toldCost {
	t.Helper()
	var told struct{ Extensions struct{ Cost toldCost } }
	if err := json.Unmarshal([]byte(body), &told); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return told.Extensions.Cost
}

// What all answers of a run have told adds up, to the hundredth, to what the engine has
// charged and to what the metric says: of the ten patterns and more, of what fails, of
// what is throttled, and of reads for several fields at once.
func TestCostsAddUp(t *testing.T) {
	b, patterns := accessPatterns(t)
	inject := b.wire.engine.(*emulator.Engine).Inject
	b.wire.reset()
	before := metricOf(t, b.metrics, "byline_cosmos_request_units_total")
	told, requests := 0.0, 0
	ask := func(subject, query, code string) {
		a, c := withCost(t, b, subject, b.fill(query), "detail")
		if a.code() != code {
			t.Fatal(a.body)
		}
		told += c.ActualRU
		requests += c.Requests
		sum, sent := 0.0, 0
		for _, o := range c.Operations {
			sum += o.RU
			sent += 1 + o.Retries
			if o.Path == "" || o.Pattern == "" || o.Container == "" || o.Kind == "" || o.Range == "" && code != "THROTTLED" {
				t.Errorf("%s: %+v", query, o)
			}
		}
		if math.Abs(sum-c.ActualRU) > .001 || sent != c.Requests {
			t.Errorf("%s: the operations have charged %.2f RU in %d requests, all together %.2f in %d", query, sum, sent, c.ActualRU, c.Requests)
		}
	}
	for _, p := range patterns {
		for i := range 3 {
			subject, query := p.query(i)
			if p.name == "C4" && i == 0 {
				b.wire.reset() // the post that it has made to be liked was for free
				before, told, requests = metricOf(t, b.metrics, "byline_cosmos_request_units_total"), 0, 0
			}
			ask(subject, query, "")
		}
	}
	ask("user0001", `{ feed(first: 100) { edges { node { content viewerHasLiked author { createdAt } } } } }`, "")
	ask("", `{ nodes(ids: ["<user:user0001>", "<post:post 1>", "<like:user0001>"]) { id } }`, "")
	ask("", `{ post(id: "`+postGlobalID("none")+`") { comments { edges { cursor } } } }`, "")
	ask("", `{ post(id: "nonsense") { title } }`, "BAD_USER_INPUT")
	ask("user0001", `mutation { deletePost(input: {id: "<post:post 0>"}) { deletedPostId } }`, "FORBIDDEN")
	n := 0
	inject(func(emulator.Operation) (f emulator.Fault) {
		if n++; n%2 == 0 {
			f.Status, f.RetryAfter = http.StatusTooManyRequests, time.Minute
		}
		return f
	})
	ask("user0001", `mutation { likePost(input: {postId: "<post:post 1>"}) { post { id } } }`, "THROTTLED")
	inject(nil)

	if charged := b.wire.charged(); told == 0 || math.Abs(told-charged) > .005 {
		t.Errorf("told %.2f RU, charged %.2f", told, charged)
	}
	if metric := metricOf(t, b.metrics, "byline_cosmos_request_units_total") - before; math.Abs(told-metric) > .005 {
		t.Errorf("told %.2f RU, and the metric says %.2f", told, metric)
	}
	if sent := len(b.wire.seen()); requests != sent {
		t.Errorf("told of %d requests, sent %d", requests, sent)
	}
}

// What is answered from memory is told as such and costs nothing: with a cache, too, what
// answers tell is what the engine has charged and what the metrics say.
func TestCost_AddsUpWithItemCache(t *testing.T) {
	b := newBlogOf(t, Options{}, store.Options{}, 1<<20)
	b.user(t, "ada")
	id := b.post(t, "ada", "engines", "Of the analytical engine.")
	b.comment(t, "ada", id, "How many wheels?")
	b.like(t, "ada", id)
	queries := []string{
		b.fill(`{ post(id: "<post:engines>") { title comments { edges { cursor } } likes { edges { cursor } } } }`),
		b.fill(`{ user(id: "<user:ada>") { username posts { edges { cursor } } } feed { edges { node { title viewerHasLiked } } } }`),
		b.fill(`{ node(id: "<comment:How many wheels?>") { ... on Comment { content post { title } } } userByUsername(username: "ada") { createdAt } }`),
	}
	ofRequests := func() float64 {
		return metricOf(t, b.metrics, "byline_cosmos_request_units_total", projection.ProjectPosts, projection.ProjectUsers, projection.ProjectUsernames, cosmos.ChangeFeed, cosmos.Leases, cosmos.Metadata)
	}
	var mu sync.Mutex
	charged := 0.0
	b.wire.fail = func(r *http.Request) (*http.Response, error) {
		response, err := b.wire.engine.Do(r)
		if err == nil && r.Header.Get("A-Im") == "" && strings.Contains(r.URL.Path, "/docs") { // changes are followed on the same wire
			ru, _ := strconv.ParseFloat(response.Header.Get("X-Ms-Request-Charge"), 64)
			mu.Lock()
			defer mu.Unlock()
			charged += ru
		}
		return response, err
	}
	seeded := ofRequests()
	running, stop := context.WithCancel(t.Context())
	var background sync.WaitGroup
	background.Go(func() { _ = b.store.Run(running) }) // it ends with its context alone
	defer background.Wait()
	defer stop()
	told, hits := 0.0, 0
	ask := func(query string) (fresh int) {
		a, c := withCost(t, b, "ada", query, "detail")
		if a.code() != "" {
			t.Error(a.body)
		}
		mu.Lock()
		defer mu.Unlock()
		told += c.ActualRU
		for _, o := range c.Operations {
			switch {
			case o.Kind != "cache":
				fresh++
			case o.RU != 0 || o.Range != "" || len(o.PartitionKey) != 1 || o.Pattern == "" || o.Container == "" || o.Path == "":
				t.Errorf("%s: %+v", query, o)
			default:
				hits++
			}
		}
		if c.PredictedRU == 0 || (c.Requests == 0) != (fresh == 0) || (c.ActualRU == 0) != (fresh == 0) {
			t.Errorf("%s: %+v", query, c)
		}
		return fresh
	}
	for _, query := range queries {
		for deadline := time.Now().Add(time.Minute); ; { // until the copies have come to rest
			before := hits
			ask(query)
			if hits > before || time.Now().After(deadline) {
				break
			}
		}
	}
	var all sync.WaitGroup
	for i := range 20 { // together, and beside writes
		all.Go(func() { ask(queries[i%len(queries)]) })
		if i%5 == 0 {
			ask(b.fill(fmt.Sprintf(`mutation { createComment(input: {postId: "<post:engines>", content: "%d"}) { comment { id } } }`, i)))
		}
	}
	all.Wait()
	if hits == 0 {
		t.Error("nothing was answered from memory")
	}
	if got := metricOf(t, b.metrics, "byline_cache_hits_total"); got != float64(hits) {
		t.Errorf("told of %d reads from memory, the metric says %.0f", hits, got)
	}
	for what, ru := range map[string]float64{
		"the engine":             charged,
		"the metric of answers":  metricOf(t, b.metrics, "byline_graphql_request_units_total"),
		"the metric of patterns": ofRequests() - seeded,
	} {
		if math.Abs(ru-told) > .005 {
			t.Errorf("told %.2f RU, %s says %.2f", told, what, ru)
		}
	}
}

// Where each operation is said to come from, and what it is.
func TestCostInDetail(t *testing.T) {
	b := smallBlog(t, Options{})
	for name, tt := range map[string]struct {
		query string
		want  []string
	}{
		"a page, and lists in it": {`{ front: feed(first: 2) { edges { node { comments { edges { cursor } } } } } }`,
			[]string{"front Q6 feed query", "front.edges.node.comments Q4 posts query", "front.edges.node.comments Q4 posts query"}},
		"a batch is its first field's": {`{ feed { edges { node { author { since: createdAt } } } } }`,
			[]string{"feed Q6 feed query", "feed.edges.node.author.since manyUsers users ReadMany"}},
		"a batch of one": {`{ feed(first: 1) { edges { node { author { createdAt } } } } }`,
			[]string{"feed Q6 feed query", "feed.edges.node.author.createdAt manyUsers users point read"}},
		"a reference": {`{ post(id: "<post:engines>") { comments { edges { cursor } } } }`, []string{"post Q4 posts query"}},
		"a write": {`mutation { p: createPost(input: {title: "t", content: "c"}) { post { id } } }`,
			[]string{"p C2 feed create", "p C2 posts create", "p C2 users create", "p C2 users point read"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, c := withCost(t, b, "ada", b.fill(tt.query), "detail")
			got := []string{}
			for _, o := range c.Operations {
				got = append(got, fmt.Sprint(o.Path, " ", o.Pattern, " ", o.Container, " ", o.Kind))
				if (o.Kind == "ReadMany") != (o.PartitionKey == nil) {
					t.Errorf("%+v", o)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q: %s", got, tt.want, a.body)
			}
		})
	}
}

// The cost is reported only to clients that ask for it, in development as in production,
// and such a response is not cacheable.
func TestCostIsReportedOnRequest(t *testing.T) {
	b, inDevelopment := smallBlog(t, Options{}), smallBlog(t, Options{Development: true})
	const query = `query Feed { feed { edges { node { title } } } }`
	for _, tt := range []struct {
		where   string
		b       *testBlog
		detail  string
		status  int
		told    bool
		inFull  bool
		caching string // of a GET by hash
	}{
		{"production", b, "", 200, false, false, "public, max-age=5"},
		{"production", b, "summary", 200, true, false, "no-store"},
		{"production", b, "detail", 200, true, true, "no-store"},
		{"production", b, "Detail", 400, false, false, "no-store"},
		{"development", inDevelopment, "", 200, false, false, "public, max-age=5"},
		{"development", inDevelopment, "none", 200, false, false, "public, max-age=5"},
		{"development", inDevelopment, "summary", 200, true, false, "no-store"},
		{"development", inDevelopment, "summary, detail", 400, false, false, "no-store"},
	} {
		t.Run(tt.where+" "+tt.detail, func(t *testing.T) {
			a, c := withCost(t, tt.b, "", query, tt.detail)
			if a.status != tt.status || (c.Requests == 1) != tt.told || (len(c.Operations) == 1) != tt.inFull {
				t.Errorf("%d %s", a.status, a.body)
			}
			if tt.status == 400 && (a.code() != "BAD_USER_INPUT" || a.field() != cost.Header || !strings.Contains(a.body, "summary, detail or none")) {
				t.Error(a.body)
			}
			byHash(t, tt.b, "", document.Hash(query), query)
			r := httptest.NewRequest(http.MethodGet, hashURL(t, document.Hash(query)), nil)
			if tt.detail != "" {
				r.Header.Set(cost.Header, tt.detail)
			}
			a = send(t, tt.b, r)
			if got := a.header.Get("Cache-Control"); got != tt.caching || (a.header.Get("ETag") != "") != strings.HasPrefix(tt.caching, "public") {
				t.Errorf("%q, want %q: %v", got, tt.caching, a.header)
			}
			if told := costOf(t, a.body).Requests == 1; told != (tt.told && tt.caching == "no-store") {
				t.Error(a.body)
			}
			if !strings.Contains(a.header.Get("Vary"), cost.Header) {
				t.Error(a.header)
			}
		})
	}
}

// Each event tells what was read for it; the first one, what it took to subscribe, too.
func TestCostOfEvents(t *testing.T) {
	b, server := live(t, Options{})
	query := b.fill(`subscription { commentAdded(postId: "<post:notes>") { content author { createdAt } } }`)
	say := func(content string) {
		if _, c := withCost(t, b, "ada", b.fill(`mutation { createComment(input: {postId: "<post:notes>", content: "`+content+`"}) { comment { id } } }`), "summary"); c.ActualRU == 0 {
			t.Fatal(c)
		}
	}
	check := func(body string, requests int) {
		t.Helper()
		if c := costOf(t, body); c.Requests != requests || c.ActualRU < float64(requests) || c.PredictedRU != 1 {
			t.Errorf("%s: want %d requests", body, requests)
		}
	}
	t.Run("as an event stream", func(t *testing.T) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/graphql", strings.NewReader(`{"query":`+fmt.Sprintf("%q", query)+`}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", mediaJSON)
		r.Header.Set("Accept", mediaEvents)
		r.Header.Set(cost.Header, "summary")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		opened(t, b, 1)
		for i, requests := range []int{2, 1} {
			say(fmt.Sprint("event ", i))
			body := ""
			for !strings.HasSuffix(body, "\n\n") {
				buffer := make([]byte, 1)
				if _, err := io.ReadFull(response.Body, buffer); err != nil {
					t.Fatal(err)
				}
				body += string(buffer)
				if body == ":\n\n" {
					body = ""
				}
			}
			check(strings.TrimPrefix(body, "event: next\ndata: "), requests)
		}
	})
	t.Run("over WebSocket", func(t *testing.T) {
		opened(t, b, 0)
		p := dial(t, server, "graphql-transport-ws", nil)
		p.send(`{"type":"connection_init","payload":{"Byline-Cost":"summary"}}`)
		p.expect(`{"type":"connection_ack"}`)
		p.subscribe("subscribe", "1", query)
		opened(t, b, 1)
		for i, requests := range []int{2, 1} {
			say(fmt.Sprint("message ", i))
			var m struct{ Payload json.RawMessage }
			if err := json.Unmarshal([]byte(p.receive()), &m); err != nil {
				t.Fatal(err)
			}
			check(string(m.Payload), requests)
		}
	})
	t.Run("over WebSocket, asked wrongly", func(t *testing.T) {
		p := dial(t, server, "graphql-transport-ws", nil)
		p.send(`{"type":"connection_init","payload":{"Byline-Cost":"all"}}`)
		if c := p.closed(); c.Code != closeBadMessage || !strings.Contains(c.Reason, "summary, detail or none") {
			t.Error(c)
		}
	})
}

// A subscription that cannot be opened is a response as any other: it is counted, told
// what it has cost, and charged no more than that.
func TestCost_RefusedSubscriptionIsCharged(t *testing.T) {
	b, server := live(t, Options{RUPerViewer: cost.Budget{RU: 500}})
	server.Config.Handler = askingForCost(server.Config.Handler)
	const query = `subscription { postChanged(id: %q) { comments(first: 100) { edges { node { author { createdAt } } } } } }`
	before := metricOf(t, b.metrics, "byline_graphql_responses_total")
	const n = 100 // each of which is predicted to cost more than a hundredth of the budget
	for range n {
		e := openEvents(t, server, http.MethodPost, mediaEvents, "demo:ada", fmt.Sprintf(query, postGlobalID("nothing")))
		got := e.next()
		if c := costOf(t, strings.TrimPrefix(got, "next ")); !strings.Contains(got, "NOT_FOUND") || c.Requests != 1 || c.ActualRU != 1 || c.PredictedRU < 6 {
			t.Fatal(got)
		}
		e.expect(t, "complete ", "")
	}
	if got := metricOf(t, b.metrics, "byline_graphql_responses_total") - before; got != n {
		t.Errorf("%.0f responses, want %d", got, n)
	}
	e := openEvents(t, server, http.MethodPost, mediaEvents, "demo:ada", fmt.Sprintf(query, b.names["post:notes"]))
	opened(t, b, 1)
	b.comment(t, "ada", b.postID(t, "notes"), "one")
	e.next()
	if got := metricOf(t, b.metrics, "byline_graphql_responses_total") - before; got != n+1 {
		t.Errorf("%.0f responses with an event, want %d", got, n+1)
	}
}
