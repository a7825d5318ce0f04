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
	"byline/store/projection"
)

// reportedCost is extensions.cost, as a client reads it.
type reportedCost struct {
	PredictedRU float64
	ActualRU    float64
	Requests    int
	LaterRU     float64
	LaterItems  int
	Operations  []struct {
		Path, Pattern, Container, Kind, Range string
		PartitionKey                          []string
		RU, Ms                                float64
		Retries                               int
	}
}

// withCost is post with a request for the cost in the given detail; detail may be "".
func withCost(t testing.TB, h http.Handler, token, query, detail string) (testResponse, reportedCost) {
	t.Helper()
	r := benchRequest(strings.TrimPrefix(token, "demo:"), query)
	if detail != "" {
		r.Header.Set(cost.Header, detail)
	}
	a := send(t, h, r)
	return a, costOf(t, a.body)
}

// requestingCost adds the header that requests the cost to all requests.
func requestingCost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(cost.Header, "summary")
		next.ServeHTTP(w, r)
	})
}

// costOf returns extensions.cost of a response, or the zero value without it.
func costOf(t testing.TB, body string) reportedCost {
	t.Helper()
	var reported struct{ Extensions struct{ Cost reportedCost } }
	if err := json.Unmarshal([]byte(body), &reported); err != nil {
		t.Fatalf("%q: %v", body, err)
	}
	return reported.Extensions.Cost
}

// The reported costs add up, to a hundredth of a RU, to the engine's charges and to the metric: for the access
// patterns, errors, throttled requests and batched reads.
func TestCost_AddsUp(t *testing.T) {
	b, patterns := accessPatterns(t)
	b.wire.reset()
	before := metricOf(t, b.metrics, "byline_cosmos_request_units_total")
	reported, requests := 0.0, 0
	do := func(subject, query, code string) {
		a, c := withCost(t, b, subject, b.fill(query), "detail")
		if a.code() != code {
			t.Fatal(a.body)
		}
		reported += c.ActualRU
		requests += c.Requests
		sum, sent := 0.0, 0
		for _, o := range c.Operations {
			sum += o.RU
			sent += 1 + o.Retries
			if o.Path == "" || o.Pattern == "" || o.Container == "" || o.Kind == "" ||
				o.Range == "" && code != "THROTTLED" {
				t.Errorf("%s: %+v", query, o)
			}
		}
		if math.Abs(sum-c.ActualRU) > .001 || sent != c.Requests {
			t.Errorf("%s: the operations add up to %.2f RU in %d requests, the response reports %.2f RU in %d", query,
				sum, sent, c.ActualRU, c.Requests)
		}
	}
	for _, p := range patterns {
		for i := range 3 {
			subject, query := p.query(i)
			if p.name == "C4" && i == 0 {
				b.wire.reset() // leave out the post that the pattern has just created
				before, reported, requests = metricOf(t, b.metrics, "byline_cosmos_request_units_total"), 0, 0
			}
			do(subject, query, "")
		}
	}
	do("user0001", `{ feed(first: 100) { edges { node { content viewerHasLiked author { createdAt } } } } }`, "")
	do("", `{ nodes(ids: ["<user:user0001>", "<post:post 1>", "<like:user0001>"]) { id } }`, "")
	do("", `{ post(id: "`+postGlobalID("none")+`") { comments { edges { cursor } } } }`, "")
	do("", `{ post(id: "nonsense") { title } }`, "BAD_USER_INPUT")
	do("user0001", `mutation { deletePost(input: {id: "<post:post 0>"}) { deletedPostId } }`, "FORBIDDEN")
	const like = `mutation { likePost(input: {postId: "<post:post 1>"}) { post { id } } }`
	do("user0001", like, "")
	n := 0
	b.wire.setFail(func(*http.Request) (*http.Response, error) { // throttle the second request of the repetition
		if n++; n%2 == 0 {
			return throttled(time.Minute), nil
		}
		return nil, nil
	})
	do("user0001", like, "THROTTLED")
	b.wire.setFail(nil)

	if charged := b.wire.charged(); reported == 0 || math.Abs(reported-charged) > .005 {
		t.Errorf("reported %.2f RU, charged %.2f", reported, charged)
	}
	if metric := metricOf(t, b.metrics,
		"byline_cosmos_request_units_total") - before; math.Abs(reported-metric) > .005 {
		t.Errorf("reported %.2f RU, the metric %.2f", reported, metric)
	}
	if sent := len(b.wire.seen()); requests != sent {
		t.Errorf("reported %d requests, sent %d", requests, sent)
	}
}

// Reads from the item cache are reported as such and cost nothing. With a cache, too, the reported costs equal the
// engine's charges and the metrics.
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
		return metricOf(t, b.metrics, "byline_cosmos_request_units_total", projection.ProjectPosts,
			projection.ProjectUsers, projection.ProjectUsernames, cosmos.ChangeFeed, cosmos.Leases, cosmos.Metadata)
	}
	var mu sync.Mutex
	charged := 0.0
	b.wire.setFail(func(r *http.Request) (*http.Response, error) {
		response, err := b.wire.engine.Do(r)
		// not the change feed, which uses the same wire
		if err == nil && r.Header.Get("A-Im") == "" && strings.Contains(r.URL.Path, "/docs") {
			ru, _ := strconv.ParseFloat(response.Header.Get("X-Ms-Request-Charge"), 64)
			mu.Lock()
			defer mu.Unlock()
			charged += ru
		}
		return response, err
	})
	seeded := ofRequests()
	running, stop := context.WithCancel(t.Context())
	var background sync.WaitGroup
	background.Go(func() { _ = b.store.Run(running) }) // it returns only when its context ends
	defer background.Wait()
	defer stop()
	reported, hits := 0.0, 0
	do := func(query string) (fresh int) {
		a, c := withCost(t, b, "ada", query, "detail")
		if a.code() != "" {
			t.Error(a.body)
		}
		mu.Lock()
		defer mu.Unlock()
		reported += c.ActualRU
		for _, o := range c.Operations {
			switch {
			case o.Kind != "cache":
				fresh++
			case o.RU != 0 || o.Range != "" || len(o.PartitionKey) != 1 || o.Pattern == "" || o.Container == "" ||
				o.Path == "":
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
		for deadline := time.Now().Add(time.Minute); ; { // until there are cache hits
			before := hits
			do(query)
			if hits > before || time.Now().After(deadline) {
				break
			}
		}
	}
	var all sync.WaitGroup
	for i := range 20 { // concurrently with writes
		all.Go(func() { do(queries[i%len(queries)]) })
		if i%5 == 0 {
			do(b.fill(fmt.Sprintf(
				`mutation { createComment(input: {postId: "<post:engines>", content: "%d"}) { comment { id } } }`, i)))
		}
	}
	all.Wait()
	if hits == 0 {
		t.Error("no cache hits")
	}
	if got := metricOf(t, b.metrics, "byline_cache_hits_total"); got != float64(hits) {
		t.Errorf("reported %d cache hits, the metric %.0f", hits, got)
	}
	for what, ru := range map[string]float64{
		"the engine":              charged,
		"the metric of responses": metricOf(t, b.metrics, "byline_graphql_request_units_total"),
		"the metric of patterns":  ofRequests() - seeded,
	} {
		if math.Abs(ru-reported) > .005 {
			t.Errorf("reported %.2f RU, %s %.2f", reported, what, ru)
		}
	}
}

// The detail has the path, pattern, container and kind of each operation.
func TestCost_Detail(t *testing.T) {
	b := smallBlog(t, Options{})
	for name, tt := range map[string]struct {
		query string
		want  []string
	}{
		"a list of lists": {`{ front: feed(first: 2) { edges { node { comments { edges { cursor } } } } } }`,
			[]string{"front feed feed query", "front.edges.node.comments comments posts query",
				"front.edges.node.comments comments posts query"}},
		"a batch -> path of its first field": {`{ feed { edges { node { author { since: createdAt } } } } }`,
			[]string{"feed feed feed query", "feed.edges.node.author.since manyUsers users ReadMany"}},
		"a batch of one": {`{ feed(first: 1) { edges { node { author { createdAt } } } } }`,
			[]string{"feed feed feed query", "feed.edges.node.author.createdAt manyUsers users point read"}},
		"a reference": {`{ post(id: "<post:engines>") { comments { edges { cursor } } } }`,
			[]string{"post comments posts query"}},
		"a write": {`mutation { p: createPost(input: {title: "t", content: "c"}) { post { id } } }`,
			[]string{"p writePost feed create", "p writePost posts create", "p writePost search create",
				"p writePost users create"}},
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

// The cost is reported only to clients that request it, in development as in production,
// and such a response is not cacheable.
func TestCost_ReportedOnRequest(t *testing.T) {
	b, inDevelopment := smallBlog(t, Options{}), smallBlog(t, Options{Development: true})
	const query = `query Feed { feed { edges { node { title } } } }`
	for _, tt := range []struct {
		where    string
		b        *testBlog
		detail   string
		status   int
		reported bool
		detailed bool
		caching  string // of a GET by hash
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
			if a.status != tt.status || (c.Requests == 1) != tt.reported || (len(c.Operations) == 1) != tt.detailed {
				t.Errorf("%d %s", a.status, a.body)
			}
			if tt.status == 400 &&
				(a.code() != "BAD_USER_INPUT" || a.field() != cost.Header ||
					!strings.Contains(a.body, "summary, detail or none")) {
				t.Error(a.body)
			}
			byHash(t, tt.b, "", document.Hash(query), query)
			r := httptest.NewRequest(http.MethodGet, hashURL(t, document.Hash(query)), nil)
			if tt.detail != "" {
				r.Header.Set(cost.Header, tt.detail)
			}
			a = send(t, tt.b, r)
			if got := a.header.Get("Cache-Control"); got != tt.caching ||
				(a.header.Get("ETag") != "") != strings.HasPrefix(tt.caching, "public") {
				t.Errorf("%q, want %q: %v", got, tt.caching, a.header)
			}
			if reported := costOf(t, a.body).Requests == 1; reported != (tt.reported && tt.caching == "no-store") {
				t.Error(a.body)
			}
			if !strings.Contains(strings.Join(a.header.Values("Vary"), ", "), cost.Header) {
				t.Error(a.header)
			}
		})
	}
}

// Each event reports the cost of its reads; the first one also that of subscribing.
func TestCost_Events(t *testing.T) {
	b, server := liveBlog(t, Options{})
	query := b.fill(`subscription { commentAdded(postId: "<post:notes>") { content author { createdAt } } }`)
	comment := func(content string) {
		if _, c := withCost(t, b, "ada",
			b.fill(`mutation { createComment(input: {postId: "<post:notes>", content: "`+content+
				`"}) { comment { id } } }`), "summary"); c.ActualRU == 0 {
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
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/graphql",
			strings.NewReader(`{"query":`+fmt.Sprintf("%q", query)+`}`))
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
			comment(fmt.Sprint("event ", i))
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
			comment(fmt.Sprint("message ", i))
			var m struct{ Payload json.RawMessage }
			if err := json.Unmarshal([]byte(p.receive()), &m); err != nil {
				t.Fatal(err)
			}
			check(string(m.Payload), requests)
		}
	})
	t.Run("over WebSocket, invalid detail", func(t *testing.T) {
		p := dial(t, server, "graphql-transport-ws", nil)
		p.send(`{"type":"connection_init","payload":{"Byline-Cost":"all"}}`)
		if c := p.closed(); c.Code != closeBadMessage || !strings.Contains(c.Reason, "summary, detail or none") {
			t.Error(c)
		}
	})
}

// The response to a refused subscription is counted, reports its cost, and is charged no more than that.
func TestCost_RefusedSubscriptionIsCharged(t *testing.T) {
	b, server := liveBlog(t, Options{RUPerViewer: cost.Budget{RU: 500}})
	server.Config.Handler = requestingCost(server.Config.Handler)
	const query = `subscription { postChanged(id: %q) { comments(first: 100) { edges { node { author { createdAt } } } } } }`
	before := metricOf(t, b.metrics, "byline_graphql_responses_total")
	const n = 100 // each of which is predicted to cost more than a hundredth of the budget
	for range n {
		e := openEvents(t, server, http.MethodPost, mediaEvents, "demo:ada",
			fmt.Sprintf(query, postGlobalID("nothing")))
		got := e.next()
		if c := costOf(t, strings.TrimPrefix(got, "next ")); !strings.Contains(got, "NOT_FOUND") || c.Requests != 1 ||
			c.ActualRU != 1 || c.PredictedRU < 6 {
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
