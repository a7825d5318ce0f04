package graph

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"byline/graph/globalid"
	"byline/graph/transport"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
	"byline/store/emulator"
)

const renameAda = `mutation { updateUser(input: {username: "countess"}) { user { username } } }`

// postInSession is post with a session.
func postInSession(t testing.TB, h http.Handler, token, session, query string) testResponse {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/graphql",
		strings.NewReader(string(appendJSON(nil, map[string]string{"query": query}))))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(sessionHeader, session)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return send(t, h, r)
}

// showsCountess checks that a response shows ada's new username and nowhere the former one.
func showsCountess(t testing.TB, what, body string) {
	t.Helper()
	if strings.Contains(body, `"ada"`) || !strings.Contains(body, `"countess"`) || strings.Contains(body, `"errors"`) {
		t.Errorf("%s: %s", what, body)
	}
}

// handlers returns the handler of a blog, and one without plans.
func handlers(t testing.TB, b *testBlog) map[string]http.Handler {
	return map[string]http.Handler{"with plans": b, "without plans": unplanned(t, b)}
}

// rewrite changes a property of an item directly in Cosmos DB.
func (b *testBlog) rewrite(t testing.TB, container, partition, id, path string, value any) {
	t.Helper()
	credential, err := azcosmos.NewKeyCredential(testkit.Secret(emulator.WellKnownKey))
	if err != nil {
		t.Fatal(err)
	}
	engine := b.wire.engine.(*emulator.Engine)
	client, err := azcosmos.NewClientWithKey(engine.Endpoint(), credential,
		&azcosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: engine}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewContainer("blog", container)
	if err != nil {
		t.Fatal(err)
	}
	var p azcosmos.PatchOperations
	p.AppendSet(path, value)
	if _, err := c.PatchItem(t.Context(), azcosmos.NewPartitionKeyString(partition), id, p, nil); err != nil {
		t.Fatal(err)
	}
}

// namesEverywhere are queries that show ada's username as projections have it.
var namesEverywhere = map[string]string{
	"feed":               `{ feed { edges { node { title author { username } } } } }`,
	"feed, without ids":  `{ feed { edges { node { author { called: username } } } } }`,
	"post":               `{ post(id: "<post:engines>") { author { id username } } }`,
	"comments":           `{ post(id: "<post:engines>") { comments { edges { node { author { username } } } } } }`,
	"likes":              `{ post(id: "<post:moths>") { likes { edges { node { user { name: username } } } } } }`,
	"posts of a user":    `{ user(id: "<user:ada>") { posts { edges { node { author { username } } } } } }`,
	"lists within lists": `{ feed { edges { node { comments { edges { node { author { username } } } } } } } }`,
	"a directive":        `{ feed { edges { node { author { username @include(if: true) } } } } }`,
	"node":               `{ node(id: "<comment:All of them.>") { ... on Comment { author { username } } } }`,
	"nodes":              `{ nodes(ids: ["<post:notes>", "<user:ada>", "<like:ada>"]) { ... on Post { author { username } } ... on User { username } ... on Like { user { username } } } }`,
	"root fields":        `{ viewer { username } a: feed { edges { node { author { username } } } } b: post(id: "<post:notes>") { author { username } } }`,
	"by the new name":    `{ userByUsername(username: "Countess") { username posts { edges { node { author { username } } } } } }`,
	"by the former name": `{ userByUsername(username: "Ada") { username posts { edges { node { author { username } } } } } }`,
}

func TestRename_ResponseShowsTheNewNameEverywhere(t *testing.T) {
	for name, mutation := range map[string]string{
		"in the payload": `mutation { updateUser(input: {username: "countess"}) { user { username posts { edges { node { author { name: username }
			comments { edges { node { author { username } } } } } } } } } }`,
		"in later root fields": `mutation { updateUser(input: {username: "countess"}) { user { id } }
			likePost(input: {postId: "<post:notes>"}) { post { author { username } } }
			updateComment(input: {id: "<comment:All of them.>", content: "c"}) { comment { author { username } post { author { username } likes { edges { node { user { username } } } } } } } }`,
		"in earlier root fields": `mutation { a: likePost(input: {postId: "<post:notes>"}) { like { user { username } } post { author { username } } }
			b: createComment(input: {postId: "<post:moths>", content: "c"}) { comment { author { username } } post { comments { edges { node { author { username } } } } } }
			updateUser(input: {username: "countess"}) { user { id } } }`,
		"renamed twice": `mutation { a: updateUser(input: {username: "lovelace"}) { user { username } } b: updateUser(input: {username: "countess"}) { user { username } } }`,
	} {
		for _, edge := range []string{"with plans", "without plans"} {
			t.Run(name+", "+edge, func(t *testing.T) {
				b := smallBlog(t, Options{})
				a := post(t, handlers(t, b)[edge], "demo:ada", b.fill(mutation), nil)
				showsCountess(t, "response", a.body)
				if strings.Contains(a.body, "lovelace") {
					t.Errorf("two names: %s", a.body)
				}
			})
		}
	}
}

func TestRename_LaterRequestsOfTheSessionShowTheNewName(t *testing.T) {
	b := smallBlog(t, Options{})
	session := post(t, b, "demo:ada", renameAda, nil).header.Get(sessionHeader)
	again := post(t, b, "demo:ada", renameAda, nil).header.Get(sessionHeader) // as after an ambiguous write
	showsCountess(t, "a mutation",
		postInSession(t, b, "demo:ada", session,
			b.fill(`mutation { likePost(input: {postId: "<post:notes>"}) { post { author { username } } } }`)).body)
	for edge, h := range handlers(t, b) {
		for name, query := range namesEverywhere {
			for whose, session := range map[string]string{"rename": session, "repetition": again} {
				showsCountess(t, fmt.Sprintf("%s, %s, session of the %s", name, edge, whose),
					postInSession(t, h, "demo:ada", session, b.fill(query)).body)
			}
			if name != "root fields" {
				showsCountess(t, name+", "+edge+", signed out", postInSession(t, h, "", session, b.fill(query)).body)
			}
		}
	}
}

func TestRename_LaterOperationsOfTheWebSocketShowTheNewName(t *testing.T) {
	b := smallBlog(t, Options{})
	server := httptest.NewServer(b)
	defer b.Handler.(*transport.Handler).Wait()
	defer server.Close()
	p := dial(t, server, "graphql-transport-ws", http.Header{"Authorization": {"Bearer demo:ada"}}).init()
	defer p.CloseNow()
	operation := func(id, query string) string {
		p.subscribe("subscribe", id, query)
		response := p.receive()
		p.expect(`{"type":"complete","id":"` + id + `"}`)
		return response
	}
	operation("1", renameAda)
	for name, query := range namesEverywhere {
		showsCountess(t, name, operation(name, b.fill(query)))
	}
}

func TestRename_SessionGetsNoStaleCachedResponse(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	session := post(t, i, "demo:ada", renameAda, nil).header.Get(sessionHeader)
	showing := func(name, query string) func() bool {
		return func() bool { return strings.Contains(postInSession(t, i, "", "", query).body, name) }
	}
	feed := `{ feed { edges { node { author { username } } } } }`
	testkit.WaitFor(t, func() bool { return !showing(`"ada"`, feed)() })
	for _, title := range []string{"engines", "notes"} { // as if the projection had not been updated yet
		b.rewrite(t, "feed", "post", b.postID(t, title), "/userUsername", "ada")
	}
	testkit.WaitFor(t, showing(`"ada"`, feed))
	testkit.WaitFor(t, func() bool { return !i.executes(t, func() { postInSession(t, i, "", "", feed) }) })
	showsCountess(t, "with the session", postInSession(t, i, "demo:ada", session, feed).body)
}

// Usernames cost a read only if the session has renamed a user that the response shows.
func TestNames_Requests(t *testing.T) {
	b := smallBlog(t, Options{})
	feed, post1 := `{ feed { edges { node { author { username } } } } }`,
		b.fill(`{ post(id: "<post:nanoseconds>") { author { username } } }`)
	refused := postInSession(t, b, "demo:ada", "",
		`mutation { updateUser(input: {username: "grace"}) { user { id } } }`).header.Get(sessionHeader)
	renamed := postInSession(t, b, "demo:ada", "", renameAda).header.Get(sessionHeader)
	if len(renamed) > 200 {
		t.Errorf("a token of %d characters", len(renamed))
	}
	for _, tt := range []struct {
		name, session, query string
		want                 []string
	}{
		{"without a session", "", feed, []string{"query feed"}},
		{"a session whose rename was refused", refused, feed, []string{"query feed"}},
		{"a session with a rename", renamed, feed, []string{"query feed", "read users"}},
		{"a session with a rename of another user", renamed, post1, []string{"read posts"}},
		{"a session with a rename of a user that is read", renamed,
			b.fill(`{ viewer { username posts { edges { node { author { username } } } } } }`),
			[]string{"query users", "read users"}},
	} {
		b.wire.reset()
		if a := postInSession(t, b, "demo:ada", tt.session, tt.query); a.code() != "" ||
			!slices.Equal(b.wire.seen(), tt.want) {
			t.Errorf("%s: %q, want %q: %s", tt.name, b.wire.seen(), tt.want, a.body)
		}
	}
}

// A session ignores its rename after an hour, when all projections have been updated.
func TestRename_SessionIgnoresItAfterAnHour(t *testing.T) {
	b := smallBlog(t, Options{})
	session := post(t, b, "demo:ada", renameAda, nil).header.Get(sessionHeader)
	b.clock.Add(3601) // seconds
	b.wire.reset()
	postInSession(t, b, "demo:ada", session, `{ feed { edges { node { author { username } } } } }`)
	if want := []string{"query feed"}; !slices.Equal(b.wire.seen(), want) {
		t.Errorf("%q, want %q", b.wire.seen(), want)
	}
}

// During a rename, when only some projections are updated, a response without a session also shows one username.
func TestNames_ProjectionsDiffer(t *testing.T) {
	b := smallBlog(t, Options{})
	if _, err := b.store.UpdateUser(t.Context(), subjectID("ada"),
		store.UserEdit{Username: new("countess")}); err != nil {
		t.Fatal(err)
	}
	b.rewrite(t, "feed", "post", b.postID(t, "notes"), "/userUsername", "countess")
	b.rewrite(t, "posts", b.postID(t, "notes"), b.postID(t, "notes"), "/userUsername", "countess")
	for name, tt := range map[string]struct {
		query string
		want  []string
	}{
		"in a list":             {namesEverywhere["feed"], []string{"query feed", "read users"}},
		"in a list, by aliases": {namesEverywhere["feed, without ids"], []string{"query feed", "read users"}},
		"in lists within a list": {`{ feed { edges { node { author { username } comments { edges { node { author { username } } } } } } } }`,
			[]string{"query feed", "query posts", "query posts", "query posts", "query posts", "read users"}},
		"in root fields": {`{ a: post(id: "<post:engines>") { author { username } } b: post(id: "<post:notes>") { author { username } } }`,
			[]string{"read posts", "read posts", "read users"}},
		"between plan and executor": {`{ a: post(id: "<post:engines>") { author { username } } nodes(ids: ["<post:notes>"]) { ... on Post { author { username } } } }`,
			[]string{"read posts", "read posts", "read users"}},
		"of a user who is read": {`{ user(id: "<user:ada>") { username posts { edges { node { author { username } } } } } }`, []string{"query users", "read users"}},
		"without projected names": {`{ userByUsername(username: "ada") { username } feed { edges { node { author { id } } } } }`,
			[]string{"query feed", "read users", "read users"}},
	} {
		for edge, h := range handlers(t, b) {
			b.wire.reset()
			showsCountess(t, name+", "+edge, post(t, h, "", b.fill(tt.query), nil).body)
			if seen := b.wire.seen(); edge == "with plans" && !slices.Equal(seen, tt.want) {
				t.Errorf("%s: %q, want %q", name, seen, tt.want)
			}
		}
	}
	t.Run("with the reported cost", func(t *testing.T) {
		a, cost := withCost(t, b, "ada", namesEverywhere["feed"], "detail")
		showsCountess(t, "with the cost", string(a.Data))
		if len(cost.Operations) != 2 || cost.Operations[1].Pattern != "manyUsers" {
			t.Errorf("%+v", cost.Operations)
		}
	})
	t.Run("in a mutation", func(t *testing.T) {
		for edge, h := range handlers(t, b) {
			a := post(t, h, "demo:grace",
				b.fill(`mutation { a: likePost(input: {postId: "<post:engines>"}) { post { author { username } } }
				b: unlikePost(input: {postId: "<post:notes>"}) { post { author { username } } } }`), nil)
			showsCountess(t, edge, a.body)
		}
	})
	t.Run("when users cannot be read", func(t *testing.T) {
		b.wire.setFail(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "/users/") {
				return nil, errors.New("no response")
			}
			return nil, nil
		})
		defer func() { b.wire.setFail(nil) }()
		for edge, h := range handlers(t, b) {
			a := post(t, h, "", namesEverywhere["feed"], nil)
			if strings.Contains(a.body, `"ada"`) == strings.Contains(a.body, `"countess"`) || a.code() != "" {
				t.Errorf("%s: %s", edge, a.body)
			}
		}
	})
}

func TestNames_ProjectionsDifferInEvent(t *testing.T) {
	b, server := liveBlog(t, Options{})
	ghost := blog.UserID("test", "ghost") // without a user item, so that no projection renames it
	post := b.postID(t, "moths")
	for _, name := range []string{"boo", "whoo"} {
		b.comment(t, "ada", post, name)
		id, err := parseNestedID(globalid.Comment, "id", b.names["comment:"+name])
		if err == nil {
			b.rewrite(t, "posts", post, id.Key, "/userId", ghost)
			b.rewrite(t, "posts", post, id.Key, "/userUsername", name)
		}
	}
	e := openEvents(t, server, "POST", "text/event-stream", "",
		b.fill(`subscription { postChanged(id: "<post:moths>") { comments { edges { node { author { username } } } } } }`))
	opened(t, b, 1)
	b.like(t, "grace", b.postID(t, "notes"))
	b.comment(t, "grace", post, "Who is there?")
	if got := e.next(); strings.Contains(got, `"boo"`) == strings.Contains(got, `"whoo"`) {
		t.Error(got)
	}
}

// A user who toggles the case of their name in a loop is refused: the attempts cost a read each, and change nothing.
func TestRename_LoopIsRefused(t *testing.T) {
	b := smallBlog(t, Options{})
	toggle := func(i int) testResponse {
		return post(t, b, "demo:ada",
			`mutation { updateUser(input: {username: "`+[]string{"ada", "Ada"}[i%2]+`"}) { user { username } } }`, nil)
	}
	b.wire.reset()
	for i := range 3 {
		if a := toggle(i + 1); a.code() != "" {
			t.Fatal(a.body)
		}
	}
	allowed := b.wire.charged()
	b.wire.reset()
	const attempts = 100
	for i := range attempts {
		a := toggle(i)
		if i%2 == 1 { // her current name
			if a.code() != "" {
				t.Fatal(a.body)
			}
			continue
		}
		if a.code() != "LIMIT_REACHED" || a.extension("reason") != "LIMIT" || a.extension("retryAfterMs") != "" {
			t.Fatalf("attempt %d: %s", i, a.body)
		}
		until, err := time.Parse(time.RFC3339, a.extension("until"))
		if wait := until.Sub(time.Unix(b.clock.Load(), 0)); err != nil || wait < 23*time.Hour || wait > 24*time.Hour {
			t.Errorf("until %s: in %s", until, wait)
		}
		if !strings.Contains(a.body, "3 times in 24 hours, and again at ") {
			t.Errorf("the message does not say why: %s", a.body)
		}
	}
	if seen := b.wire.seen(); len(seen) != attempts || b.wire.charged() > 1.1*attempts ||
		slices.ContainsFunc(seen, func(what string) bool {
			return what != "read users"
		}) {
		t.Errorf("%d requests, %.1f RU: %q", len(seen), b.wire.charged(), slices.Compact(seen))
	}
	t.Logf("3 renames %.1f RU, then %d attempts %.1f RU", allowed, attempts, b.wire.charged())
}
