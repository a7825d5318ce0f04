package graph

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"byline/graph/auth"
	"byline/internal/oidctest"
	"byline/internal/testkit"
	"byline/store"
	"byline/store/blog"
)

const deleteAda = `mutation { deleteUser(input: {username: "ada"}) { deletedUserId } }`

// deletedAda are queries and their responses after ada is deleted and before the job that completes the deletion has
// run.
var deletedAda = []struct{ token, query, want string }{
	{"", `{ user(id: "<user:ada>") { username posts { edges { cursor } } } }`, `{"data":{"user":null}}`},
	{"", `{ user(id: "<user:ada>") { posts { edges { cursor } } } }`, `{"data":{"user":null}}`},
	{"", `{ userByUsername(username: "ada") { id } }`, `{"data":{"userByUsername":null}}`},
	{"demo:ada", `{ viewer { id } }`, `{"data":{"viewer":null}}`},
	{"", `{ node(id: "<user:ada>") { id } }`, `{"data":{"node":null}}`},
	{"", `{ post(id: "<post:engines>") { title } }`, `{"data":{"post":null}}`},
	{"", `{ post(id: "<post:engines>") { comments { edges { cursor } } } }`, `{"data":{"post":null}}`},
	{"", `{ node(id: "<post:engines>") { ... on Post { likes { edges { cursor } } } } }`, `{"data":{"node":null}}`},
	{"", `{ nodes(ids: ["<post:engines>", "<user:ada>", "<user:grace>"]) { id } }`,
		`{"data":{"nodes":[null,null,{"id":"<user:grace>"}]}}`},
	{"", `{ feed(first: 2) { edges { node { title } } pageInfo { hasNextPage } } }`,
		`{"data":{"feed":{"edges":[{"node":{"title":"moths"}},{"node":{"title":"nanoseconds"}}],"pageInfo":{"hasNextPage":false}}}}`},
	{"", `{ post(id: "<post:moths>") { commentCount comments { edges { node { content author { id username createdAt posts { edges { cursor } } } } } } } }`,
		`{"data":{"post":{"commentCount":1,"comments":{"edges":[{"node":{"content":"Poor thing.","author":{"id":"<user:ada>","username":"","createdAt":null,"posts":{"edges":[]}}}}]}}}}`},
	{"", `{ post(id: "<post:moths>") { likes { edges { node { user { username } } } } } }`,
		`{"data":{"post":{"likes":{"edges":[{"node":{"user":{"username":"grace"}}},{"node":{"user":{"username":""}}}]}}}}`},
	{"", `{ node(id: "<comment:How many wheels?>") { ... on Comment { author { username } post { title } } } }`,
		`{"data":{"node":{"author":{"username":"grace"},"post":null}}}`},
	{"", `{ node(id: "<comment:Poor thing.>") { ... on Comment { author { username } } } }`,
		`{"data":{"node":{"author":{"username":""}}}}`},
	{"demo:ada", `{ post(id: "<post:moths>") { title viewerHasLiked } }`,
		`{"data":{"post":{"title":"moths","viewerHasLiked":false}}}`},
}

// checkDeleted checks the responses of a handler to the queries of deletedAda.
func (b *testBlog) checkDeleted(t *testing.T, h http.Handler) {
	t.Helper()
	for _, tt := range deletedAda {
		for _, planned := range []bool{true, false} {
			query := b.fill(tt.query)
			if !planned { // no plan covers directives
				query = strings.Replace(query, "{", "query { __typename @include(if: false)", 1)
			}
			if a := post(t, h, tt.token, query, nil); strings.TrimSpace(a.body) != b.fill(tt.want) {
				t.Errorf("%s\ngot  %s\nwant %s", query, a.body, b.fill(tt.want))
			}
		}
	}
}

// A deleted user is absent at once, also from cached items and responses.
func TestDeletedUser_IsAbsent(t *testing.T) {
	for name, cacheBytes := range map[string]int{"without caches": 0, "with caches": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			b := smallBlogOf(t, newBlogOf(t, Options{ResponseCacheBytes: cacheBytes}, store.Options{}, cacheBytes))
			for _, tt := range deletedAda {
				if a := post(t, b, tt.token, b.fill(tt.query), nil); strings.TrimSpace(a.body) == b.fill(tt.want) &&
					!strings.Contains(tt.query, "How many") {
					t.Errorf("before: %s", a.body)
				}
			}
			want := b.fill(`{"data":{"deleteUser":{"deletedUserId":"<user:ada>"}}}`)
			for range 2 { // a repetition has the same response
				if a := post(t, b, "demo:ada", deleteAda,
					nil); strings.TrimSpace(string(a.Data)) != strings.TrimSuffix(strings.TrimPrefix(want, `{"data":`),
					"}") || len(a.Errors) > 0 {
					t.Errorf("got %s, want %s", a.body, want)
				}
				b.checkDeleted(t, b)
			}
		})
	}
}

// Until the deletion is complete, createUser of the subject is a CONFLICT with retryAfterMs, and all other writes fail.
func TestDeletedUser_CannotWrite(t *testing.T) {
	b := smallBlog(t, Options{})
	if a := post(t, b, "demo:ada", deleteAda, nil); a.code() != "" {
		t.Fatal(a.body)
	}
	a := post(t, b, "demo:ada", `mutation { createUser(input: {username: "countess"}) { user { id } } }`, nil)
	if ms, _ := a.Errors[0].Extensions["retryAfterMs"].(float64); a.code() != "CONFLICT" || ms < 1000 || ms > 60_000 {
		t.Error(a.body)
	}
	for _, mutation := range []string{
		`updateUser(input: {username: "countess"}) { user { id } }`,
		`createPost(input: {title: "t", content: "c"}) { post { id } }`,
		`updatePost(input: {id: "<post:engines>", title: "t"}) { post { id } }`,
		`deletePost(input: {id: "<post:engines>"}) { deletedPostId }`,
		`createComment(input: {postId: "<post:moths>", content: "c"}) { comment { id } }`,
		`updateComment(input: {id: "<comment:Poor thing.>", content: "c"}) { comment { id } }`,
		`deleteComment(input: {id: "<comment:Poor thing.>"}) { deletedCommentId }`,
		`likePost(input: {postId: "<post:nanoseconds>"}) { like { id } }`,
		`unlikePost(input: {postId: "<post:moths>"}) { post { id } }`,
	} {
		if a := post(t, b, "demo:ada", b.fill("mutation { "+mutation+" }"), nil); a.code() != "FORBIDDEN" {
			t.Errorf("%s: %s", mutation, a.body)
		}
	}
	for _, mutation := range []string{
		`createComment(input: {postId: "<post:engines>", content: "c"}) { comment { id } }`,
		`likePost(input: {postId: "<post:engines>"}) { like { id } }`,
		`unlikePost(input: {postId: "<post:engines>"}) { post { id } }`,
	} {
		if a := post(t, b, "demo:grace", b.fill("mutation { "+mutation+" }"), nil); a.code() != "NOT_FOUND" {
			t.Errorf("%s: %s", mutation, a.body)
		}
	}
	if a := post(t, b, "", `{ userByUsername(username: "countess") { id } }`,
		nil); strings.TrimSpace(a.body) != `{"data":{"userByUsername":null}}` {
		t.Error(a.body)
	}
	b.checkDeleted(t, b)
}

// Only the current username confirms a deletion. If another is given, a batch reads the latest one to compare.
func TestDeleteUser_WrongUsername(t *testing.T) {
	b := smallBlog(t, Options{})
	for _, name := range []string{"", "Ada", "grace", "<user:ada>"} {
		b.wire.reset()
		a := post(t, b, "demo:ada", `mutation($n: String!) { deleteUser(input: {username: $n}) { deletedUserId } }`,
			map[string]any{"n": name})
		if a.code() != "BAD_USER_INPUT" || a.field() != "username" {
			t.Errorf("%q: %s", name, a.body)
		}
		if got := strings.Join(b.wire.seen(), ", "); got != "batch users, read users" {
			t.Errorf("%q: sent %s", name, got)
		}
	}
	if a := post(t, b, "demo:ada", "{ viewer { username } }", nil); !strings.Contains(a.body, "ada") {
		t.Error(a.body)
	}
}

// A moderator may delete any user by id, and must give the username, too; others may delete only themselves.
func TestDeleteUser_ByModerator(t *testing.T) {
	p := oidctest.New(t)
	b := newBlog(t, Options{Verifier: verifierOf(t, p)})
	bearer := func(name string, roles ...string) string {
		return p.Token(t, map[string]any{"sub": name, "roles": roles})
	}
	ids := map[string]string{}
	for _, name := range []string{"ada", "grace", "eve"} {
		u, err := b.store.CreateUser(t.Context(), store.NewUser{ID: blog.UserID(p.URL, name), Username: name})
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = userGlobalID(u.UserID)
	}
	ids["absent"] = userGlobalID(blog.UserID(p.URL, "absent"))
	for _, tt := range []struct{ token, id, name, code string }{
		{"", ids["ada"], "ada", "UNAUTHENTICATED"},
		{bearer("grace"), ids["ada"], "ada", "FORBIDDEN"},
		{bearer("grace", "writer"), ids["absent"], "absent", "FORBIDDEN"},
		{bearer("grace", "moderator"), ids["ada"], "grace", "BAD_USER_INPUT"},
		{bearer("grace", "moderator"), ids["absent"], "absent", "NOT_FOUND"},
		{bearer("grace", "moderator"), ids["ada"], "ada", ""},
		{bearer("grace", "moderator"), ids["ada"], "ada", ""},
		{bearer("stranger", "moderator"), ids["eve"], "eve", ""}, // has no user
		{bearer("grace"), ids["grace"], "grace", ""},
	} {
		a := post(t, b, tt.token,
			`mutation($n: String!, $id: ID) { deleteUser(input: {username: $n, id: $id}) { deletedUserId } }`,
			map[string]any{"n": tt.name, "id": tt.id})
		if a.code() != tt.code || tt.code == "" && !strings.Contains(a.body, `"deletedUserId":"`+tt.id+`"`) {
			t.Errorf("%s: want code %q: %s", tt.name, tt.code, a.body)
		}
	}
	if a := post(t, b, "", `{ userByUsername(username: "grace") { id } }`, nil); strings.Contains(a.body, "id\"") {
		t.Error(a.body)
	}
}

// With the session of the deletion, another instance hides the user, too, although its caches have not seen the
// deletion.
func TestDeletedUser_OtherInstanceInSession(t *testing.T) {
	b := smallBlogOf(t, newBlogOf(t, Options{}, store.Options{}, 1<<20))
	other, err := NewHandler(Options{Store: b.projector, Verifier: auth.DemoVerifier()})
	if err != nil {
		t.Fatal(err)
	}
	a := post(t, b, "demo:ada", deleteAda, nil)
	session := a.header.Get(sessionHeader)
	if a.code() != "" || session == "" {
		t.Fatal(a.body)
	}
	again := post(t, b, "demo:ada", deleteAda, nil)
	if again.header.Get(sessionHeader) == "" {
		t.Error("the repeated deletion has no session")
	}
	if a := post(t, other, "", b.fill(`{ post(id: "<post:engines>") { title } }`), nil); !strings.Contains(a.body,
		"engines") {
		t.Fatalf("the other instance has seen the deletion already: %s", a.body)
	}
	in := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set(sessionHeader, session)
		other.ServeHTTP(w, r)
	})
	b.checkDeleted(t, in)
}

// Without the session, another instance hides the user within two seconds, also from its cached responses, however long
// it was idle.
func TestDeletedUser_OtherInstanceWithCaches(t *testing.T) {
	for _, pause := range []time.Duration{0, 5 * time.Second, time.Minute} {
		t.Run(pause.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := smallBlogInBubble(t, Options{})
				other := newInstance(t, b, "other", 200*time.Millisecond)
				cached := 0
				for range 3 {
					cached = 0
					for _, tt := range deletedAda {
						if !other.executes(t, func() { post(t, other, tt.token, b.fill(tt.query), nil) }) {
							cached++
						}
					}
					testkit.Advance(200 * time.Millisecond)
				}
				if cached < len(deletedAda)/2 {
					t.Fatalf("only %d responses are cached", cached)
				}
				testkit.Advance(pause)
				if a := post(t, b, "demo:ada", deleteAda, nil); a.code() != "" {
					t.Fatal(a.body)
				}
				if pause == 0 {
					post(t, other, "", "{ feed { edges { cursor } } }", nil)
				}
				testkit.Advance(2100 * time.Millisecond)
				b.checkDeleted(t, other)
			})
		})
	}
}

// The same holds if clients request only one cached response.
func TestDeletedUser_OtherInstanceWithCachedFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := smallBlogInBubble(t, Options{})
		other := newInstance(t, b, "other", 200*time.Millisecond)
		const feed = `{ feed { edges { node { title } } } }`
		body, executed := "", 0
		queryFor := func(d time.Duration) {
			for range d / (50 * time.Millisecond) {
				if other.executes(t, func() { body = post(t, other, "", feed, nil).body }) {
					executed++
				}
				testkit.Advance(50 * time.Millisecond)
			}
		}
		queryFor(10 * time.Second)
		if !strings.Contains(body, "notes") || executed > 40 {
			t.Errorf("%d of 200 requests are executed: %s", executed, body)
		}
		if a := post(t, b, "demo:ada", deleteAda, nil); a.code() != "" {
			t.Fatal(a.body)
		}
		queryFor(2100 * time.Millisecond)
		if strings.Contains(body, "notes") || !strings.Contains(body, "moths") {
			t.Error(body)
		}
	})
}

// Items of a deleted user cause no events. Subscriptions to their posts complete, and the user's own subscriptions
// continue.
func TestDeletedUser_Subscriptions(t *testing.T) {
	b, server := liveBlog(t, Options{})
	subscribe := func(token, subscription string) *events {
		return openEvents(t, server, "POST", "text/event-stream", token, b.fill("subscription { "+subscription+" }"))
	}
	changed := subscribe("", `postChanged(id: "<post:engines>") { title }`)
	comments := subscribe("", `commentAdded(postId: "<post:notes>") { content }`)
	own := subscribe("demo:ada", `commentAdded(postId: "<post:moths>") { content author { username } }`)
	another := subscribe("", `commentAdded(postId: "<post:moths>") { content author { username } }`) // shares the event
	opened(t, b, 4)
	b.rewrite(t, "posts", b.postID(t, "engines"), b.postID(t, "engines"), "/title", "early")
	changed.expect(t, `next {"data":{"postChanged":{"title":"early"}}}`)
	b.comment(t, "grace", b.postID(t, "notes"), "before")
	comments.expect(t, `next {"data":{"commentAdded":{"content":"before"}}}`) // so their posts have been read
	if a := post(t, b, "demo:ada", deleteAda, nil); a.code() != "" {
		t.Fatal(a.body)
	}
	changed.expect(t, "complete ", "")
	comments.expect(t, "complete ", "")
	b.rewrite(t, "posts", b.postID(t, "engines"), b.postID(t, "engines"), "/title", "late")
	b.comment(t, "grace", b.postID(t, "moths"), "after")
	for _, e := range []*events{own, another} {
		e.expect(t, `next {"data":{"commentAdded":{"content":"after","author":{"username":"grace"}}}}`)
	}
	if got := subscribe("", `postChanged(id: "<post:engines>") { title }`).next(); !strings.Contains(got, "NOT_FOUND") {
		t.Error(got)
	}
}
