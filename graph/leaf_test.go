package graph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"byline/store"
)

// Each field of the types in lists has the same value by plan and by the executor, of objects without and with
// optional values.
func TestPlans_EveryLeaf(t *testing.T) {
	b := newBlog(t, Options{})
	b.user(t, "empty")
	b.user(t, "filled")
	long := strings.Repeat("A *long* text. ", 40)
	text := func(value string) store.Optional { return store.Optional{Set: true, Value: value} }
	if _, err := b.store.UpdateUser(t.Context(), subjectID("filled"),
		store.UserEdit{DisplayName: text("Filled Name"),
			Bio: text("A *bio*"), AvatarURL: text("https://example.com/a.png")}); err != nil {
		t.Fatal(err)
	}
	bare := b.post(t, "empty", "bare", "short")
	full := b.post(t, "filled", "full", long, "Tag One", "two")
	if _, err := b.store.EditPost(t.Context(), subjectID("filled"), full,
		store.PostEdit{Title: new("full, edited")}); err != nil {
		t.Fatal(err)
	}
	b.comment(t, "empty", full, "once")
	b.comment(t, "filled", full, "edited")
	b.like(t, "filled", full)
	if _, err := b.store.FollowUser(t.Context(), subjectID("filled"), subjectID("empty")); err != nil {
		t.Fatal(err)
	}
	b.settle(t)
	schema, executor := readSchema(t), unplanned(t, b)
	for _, list := range []struct{ typ, document string }{
		{"Post", `{ feed(first: 10) { edges { node { %s } } } }`},
		{"Post", fmt.Sprintf(`{ post(id: %q) { %%s } }`, postGlobalID(bare))},
		{"Post", fmt.Sprintf(`{ post(id: %q) { %%s } }`, postGlobalID(full))},
		{"User", `{ feed(first: 10) { edges { node { author { %s } } } } }`},
		{"User", fmt.Sprintf(`{ post(id: %q) { author { %%s } } }`, postGlobalID(bare))},
		{"User", `{ search(query: "short") { edges { node { author { %s } } } } }`},
		{"User", `{ userByUsername(username: "empty") { posts { edges { node { author { %s } } } } } }`},
		{"User", `{ userByUsername(username: "empty") { followers { edges { node { %s } } } } }`},
		{"User", `{ userByUsername(username: "filled") { following { edges { node { %s } } } } }`},
		{"User", `{ userByUsername(username: "filled") { %s } }`},
		{"User", `{ userByUsername(username: "empty") { %s } }`},
		{"Comment", fmt.Sprintf(`{ post(id: %q) { comments(first: 10) { edges { node { %%s } } } } }`, postGlobalID(full))},
		{"Like", fmt.Sprintf(`{ post(id: %q) { likes(first: 10) { edges { node { %%s } } } } }`, postGlobalID(full))},
		{"Tag", `{ tags(first: 10) { %s } }`},
		{"PostEdge", `{ feed(first: 10) { edges { %s } } }`},
		{"PostConnection", `{ feed(first: 10) { %s } }`},
		{"PageInfo", `{ feed(first: 10) { pageInfo { %s } } }`},
	} {
		for _, field := range leaves(schema, list.typ) {
			for _, token := range []string{"", "demo:filled"} {
				query := fmt.Sprintf(list.document, field)
				got := post(t, b, token, query, nil)
				checkSameResponse(t, got, post(t, executor, token, query, nil))
				if t.Failed() {
					t.Fatalf("token %q, query %s", token, query)
				}
				if token != "" && got.code() != "" {
					t.Errorf("%s: %s", query, got.body)
				}
			}
		}
	}
}

// leaves returns selections of each field of a type that has no required argument; of objects their type.
func leaves(schema *ast.Schema, typ string) (all []string) {
fields:
	for _, f := range schema.Types[typ].Fields {
		if strings.HasPrefix(f.Name, "__") {
			continue
		}
		for _, a := range f.Arguments {
			if a.Type.NonNull && a.DefaultValue == nil {
				continue fields
			}
		}
		if schema.Types[f.Type.Name()].IsCompositeType() {
			all = append(all, f.Name+" { __typename }")
		} else {
			all = append(all, f.Name)
		}
	}
	return all
}
