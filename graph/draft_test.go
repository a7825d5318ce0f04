package graph

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"byline/graph/cost"
	"byline/internal/oidctest"
	"byline/internal/testkit"
	"byline/store"
)

// draftSecrets are what a draft of draftBlog has, besides its id.
var draftSecrets = []string{"Unpublished", "unpublished", "confidential"}

// selectionOf selects everything of a type, and of what it has, so many levels deep.
func selectionOf(schema *ast.Schema, typ *ast.Definition, depth int) string {
	if !typ.IsAbstractType() {
		return selectionBelow(schema, typ, depth, nil)
	}
	s := "{ __typename"
	all := schema.GetPossibleTypes(typ)
	for _, possible := range all {
		s += " ... on " + possible.Name + " " + selectionBelow(schema, possible, depth, all)
	}
	return s + " }"
}

// selectionBelow is selectionOf for an object. Its fields get an alias where another type of the same selection has a
// field of that name and another type: the two would conflict.
func selectionBelow(schema *ast.Schema, typ *ast.Definition, depth int, others []*ast.Definition) string {
	s := "{ __typename"
	for _, f := range typ.Fields {
		of := schema.Types[f.Type.Name()]
		alias := f.Name
		for _, other := range others {
			if g := other.Fields.ForName(f.Name); g != nil && g.Type.String() != f.Type.String() {
				alias = typ.Name + "_" + f.Name + ": " + f.Name
			}
		}
		if f.Arguments.ForName("first") != nil {
			alias += "(first: 3)"
		}
		switch {
		case of.IsLeafType():
			s += " " + alias
		case depth > 0:
			s += " " + alias + " " + selectionOf(schema, of, depth-1)
		}
	}
	return s + " }"
}

// argumentsOf returns arguments of a field that name a draft in every way, or its author.
func argumentsOf(t *testing.T, schema *ast.Schema, f *ast.FieldDefinition, b *testBlog) string {
	values := map[string]string{
		"id": b.fill(`"<post:draft>"`), "postId": b.fill(`"<post:draft>"`),
		"ids":  b.fill(`["<post:draft>", "<user:dora>"]`),
		"slug": `"` + b.names["slug:draft"] + `"`, "username": `"dora"`, "name": `"confidential"`, "first": "10",
		"tags": `["stolen"]`, "version": "1", "draft": "true",
		"idempotencyKey": `"draft"`,
		"size":           "1", "coverImage": "null", "avatar": "null",
		"after": "null", "order": "OLDEST_FIRST",
	}
	if f.Name == "user" {
		values["id"] = b.fill(`"<user:dora>"`)
	}
	if f.Name == "search" {
		values["query"], values["author"], values["tag"], values["order"] =
			`"confidential"`, b.fill(`"<user:dora>"`), "null", "NEWEST"
	}
	valueOf := func(name string, typ *ast.Type) string {
		v, ok := values[name]
		switch {
		case !ok && typ.NamedType == "String":
			return `"stolen"`
		case !ok:
			t.Fatalf("%s: the test has no value for %s", f.Name, name)
		}
		return v
	}
	s := ""
	for _, a := range f.Arguments {
		if input := schema.Types[a.Type.Name()]; input.Kind == ast.InputObject {
			in := ""
			for _, f := range input.Fields {
				in += f.Name + ": " + valueOf(f.Name, f.Type) + " "
			}
			s += a.Name + ": {" + in + "} "
			continue
		}
		s += a.Name + ": " + valueOf(a.Name, a.Type) + " "
	}
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

// Every query, mutation and subscription of the schema that can name a draft or its author, by an anonymous client,
// another user and a moderator: none finds anything of the draft or changes it.
func TestDrafts_AreOfTheirAuthors(t *testing.T) {
	p := oidctest.New(t)
	b, server := liveBlog(t, Options{Verifier: verifierOf(t, p), RUPerRequest: cost.Budget{RU: 100_000}})
	bearer := func(name string, roles ...string) string {
		return p.Token(t, map[string]any{"sub": name, "roles": roles})
	}
	dora := bearer("dora")
	idOf := func(a testResponse) string {
		_, rest, _ := strings.Cut(string(a.Data), `"id":"`)
		id, _, ok := strings.Cut(rest, `"`)
		if !ok {
			t.Fatal(a.body)
		}
		return id
	}
	for _, name := range []string{"dora", "mallory", "judge"} {
		b.names["user:"+
			name] = idOf(post(t, b, bearer(name),
			`mutation { createUser(input: {username: "`+name+`"}) { user { id } } }`, nil))
	}
	const draftOf = `{ id slug title content tags version isDraft }`
	a := post(t, b, dora,
		`mutation { createPost(input: {title: "Unpublished", content: "confidential", tags: ["confidential"], draft: true,
		idempotencyKey: "draft"}) { post `+draftOf+` } }`, nil)
	b.names["post:draft"] = idOf(a)
	_, slug, _ := strings.Cut(string(a.Data), `"slug":"`)
	b.names["slug:draft"], _, _ = strings.Cut(slug, `"`)
	mine := b.fill(`{ post(id: "<post:draft>") ` + draftOf + ` viewer { drafts { edges { node ` + draftOf + ` } } } }`)
	before := string(post(t, b, dora, mine, nil).Data)
	if strings.Count(before, `"isDraft":true`) != 2 {
		t.Fatal(before)
	}
	schema := readSchema(t)
	for who, token := range map[string]string{"anonymous": "", "another user": bearer("mallory"),
		"moderator": bearer("judge", "moderator")} {
		check := func(t *testing.T, query string) testResponse {
			t.Helper()
			a := post(t, b, token, query, nil)
			for _, secret := range draftSecrets {
				if at := strings.Index(a.body, secret); at >= 0 && !strings.Contains(query, `name: "`+secret) {
					t.Errorf("%.200s ...: the response has %q: ... %.100s ...", query, secret, a.body[max(0, at-50):])
				}
			}
			if strings.Contains(a.body, `isDraft":true`) && !strings.Contains(query, "draft: true") ||
				slices.Contains([]string{"QUERY_TOO_EXPENSIVE", "GRAPHQL_VALIDATION_FAILED", "INTERNAL"}, a.code()) {
				t.Errorf("%.200s ...: %.300s", query, a.body)
			}
			return a
		}
		for _, f := range schema.Query.Fields {
			if strings.HasPrefix(f.Name, "__") {
				continue
			}
			t.Run(who+"/"+f.Name, func(t *testing.T) {
				selection := ""
				if of := schema.Types[f.Type.Name()]; !of.IsLeafType() {
					selection = selectionOf(schema, of, 3)
				}
				check(t, "{ "+f.Name+argumentsOf(t, schema, f, b)+" "+selection+" }")
			})
		}
		for _, f := range schema.Mutation.Fields {
			if f.Name == "createUser" || f.Name == "updateUser" || f.Name == "deleteUser" {
				continue // of users
			}
			t.Run(who+"/"+f.Name, func(t *testing.T) {
				a := check(t,
					"mutation { "+f.Name+argumentsOf(t, schema, f, b)+" "+
						selectionOf(schema, schema.Types[f.Type.Name()], 2)+" }")
				if want := []string{"UNAUTHENTICATED", "NOT_FOUND", "BAD_USER_INPUT"}; f.Name != "createPost" &&
					!slices.Contains(want, a.code()) {
					t.Errorf("code %s, want one of %v: %.300s", a.code(), want, a.body)
				}
			})
		}
		for _, f := range schema.Subscription.Fields {
			if len(f.Arguments) == 0 {
				continue // see below
			}
			t.Run(who+"/"+f.Name, func(t *testing.T) {
				query := "subscription { " + f.Name + argumentsOf(t, schema, f, b) + " { __typename } }"
				if event := openEvents(t, server, "POST", "text/event-stream", token,
					query).next(); !strings.Contains(event, "NOT_FOUND") {
					t.Errorf("%s: %s", query, event)
				}
			})
		}
	}
	if after := string(post(t, b, dora, mine, nil).Data); after != before {
		t.Errorf("the draft has changed: %s, was %s", after, before)
	}
}

// TestDrafts_Cost prints what drafts cost, for docs/cost.md. Publishing costs what a post does, and the writes of the
// draft.
func TestDrafts_Cost(t *testing.T) {
	b := newBlog(t, Options{})
	b.user(t, "ada")
	text := strings.Repeat("Every read of the front page is one request. ", 30)
	do := func(name, query string, atMost float64) float64 {
		b.wire.reset()
		a := post(t, b, "demo:ada", b.fill(query), nil)
		if a.code() != "" {
			t.Fatal(a.body)
		}
		if _, rest, ok := strings.Cut(a.body, `"id":"`); ok {
			b.names["post:draft"], _, _ = strings.Cut(rest, `"`)
		}
		t.Logf("%s: %.2f RU, %v", name, b.wire.charged(), b.wire.seen())
		if b.wire.charged() > atMost {
			t.Errorf("%s costs %.2f RU, want at most %.2f", name, b.wire.charged(), atMost)
		}
		return b.wire.charged()
	}
	published := do("a post", `mutation { createPost(input: {title: "t", content: "`+text+`"}) { post { id } } }`, 28)
	do("create", `mutation { createPost(input: {title: "t", content: "`+text+`", draft: true}) { post { id } } }`, 12)
	do("edit", `mutation { updatePost(input: {id: "<post:draft>", title: "u"}) { post { id } } }`, 16)
	do("read", `{ post(id: "<post:draft>") { id title content } }`, 2.2)
	do("publish", `mutation { publishPost(input: {id: "<post:draft>"}) { post { id } } }`, published+22)
}

// What was read of drafts is neither in the response cache nor in the item cache: the same query reads it again.
func TestDrafts_AreNotCached(t *testing.T) {
	b := newBlogOf(t, Options{ResponseCacheBytes: 1 << 20}, store.Options{}, 1<<20)
	b.user(t, "ada")
	a := post(t, b, "demo:ada",
		`mutation { createPost(input: {title: "t", content: "c", draft: true}) { post { id } } }`, nil)
	_, rest, _ := strings.Cut(a.body, `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	project(t, b)
	testkit.Until(t, func() error { // the caches work
		b.wire.reset()
		if post(t, b, "", `{ feed { edges { node { title } } } }`, nil); slices.Contains(b.wire.seen(), "query feed") {
			return errors.New("the feed is not cached")
		}
		return nil
	})
	for query, want := range map[string]string{
		fmt.Sprintf(`{ post(id: %q) { title } }`, id):        "read users",
		`{ viewer { drafts { edges { node { title } } } } }`: "query users",
	} {
		for range 3 {
			b.wire.reset()
			if a := post(t, b, "demo:ada", query, nil); !strings.Contains(a.body, `"title":"t"`) ||
				!slices.Contains(b.wire.seen(), want) {
				t.Errorf("%s: %v %s", query, b.wire.seen(), a.body)
			}
		}
	}
}
