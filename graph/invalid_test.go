package graph

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// problems returns the code, the field and the path of each error.
func (a testResponse) problems() (all []string) {
	for _, e := range a.Errors {
		all = append(all, fmt.Sprintf("%v %v %v", e.Extensions["code"], e.Extensions["field"], e.Path))
	}
	return all
}

func TestInvalidInput_OneErrorPerField(t *testing.T) {
	long := strings.Repeat("k", 101)
	for _, unplanned := range []bool{false, true} {
		b := smallBlog(t, Options{})
		if unplanned {
			b.Handler = unplannedHandler{b.Handler}
		}
		for name, tt := range map[string]struct {
			token, query string
			fields       []string
		}{
			"createUser": {"new",
				`mutation { m: createUser(input: {username: "a b", idempotencyKey: ""}) { user { id } } }`,
				[]string{"username", "idempotencyKey"}},
			"createUser, long key": {"new",
				`mutation { m: createUser(input: {username: "", idempotencyKey: "` + long + `"}) { user { id } } }`,
				[]string{"username", "idempotencyKey"}},
			"createPost": {"ada", `mutation { m: createPost(input: {title: "", content: ""}) { post { id } } }`,
				[]string{"title", "content"}},
			"createPost, empty key": {"ada",
				`mutation { m: createPost(input: {title: "", content: " ", idempotencyKey: ""}) { post { id } } }`,
				[]string{"title", "content", "idempotencyKey"}},
			"createPost, long key": {"ada",
				`mutation { m: createPost(input: {title: "t", content: "", idempotencyKey: "` + long +
					`"}) { post { id } } }`,
				[]string{"content", "idempotencyKey"}},
			"updatePost": {"ada",
				`mutation { m: updatePost(input: {id: "nonsense", title: "", content: ""}) { post { id } } }`,
				[]string{"id", "title", "content"}},
			"updatePost, nulls": {"ada",
				`mutation { m: updatePost(input: {id: "nonsense", title: null, content: null, tags: null}) { post { id } } }`,
				[]string{"id", "title", "content"}},
			"updateUser": {"ada",
				`mutation { m: updateUser(input: {username: null, displayName: "a\n\nb", avatarUrl: "x", bio: "\u0007"}) { user { id } } }`,
				[]string{"username", "displayName", "avatarUrl", "bio"}},
			"createComment": {"ada",
				`mutation { m: createComment(input: {postId: "nonsense", content: "", idempotencyKey: ""}) { comment { id } } }`,
				[]string{"postId", "content", "idempotencyKey"}},
			"createComment on a user": {"ada",
				`mutation { m: createComment(input: {postId: "<user:ada>", content: "", idempotencyKey: "` + long +
					`"}) { comment { id } } }`,
				[]string{"postId", "content", "idempotencyKey"}},
			"updateComment": {"ada",
				`mutation { m: updateComment(input: {id: "<post:moths>", content: ""}) { comment { id } } }`,
				[]string{"id", "content"}},
		} {
			t.Run(fmt.Sprintf("%s, unplanned=%t", name, unplanned), func(t *testing.T) {
				b.wire.reset()
				a := post(t, b, "demo:"+tt.token, b.fill(tt.query), nil)
				var want []string
				for _, field := range tt.fields {
					want = append(want, fmt.Sprintf("BAD_USER_INPUT %s [m]", field))
				}
				if diff := cmp.Diff(want, a.problems()); diff != "" {
					t.Error(diff)
				}
				if strings.Count(a.body, `"locations":[{"line":1,"column":12}]`) != len(want) {
					t.Errorf("locations: %s", a.body)
				}
				if sent := b.wire.seen(); len(sent) > 0 {
					t.Errorf("sent %v", sent)
				}
			})
		}
	}
}

func TestInvalidInput_OtherRootFieldsExecute(t *testing.T) {
	b := smallBlog(t, Options{})
	a := post(t, b, "demo:ada", b.fill(`mutation {
		first: createPost(input: {title: "before", content: "c"}) { post { title } }
		second: createPost(input: {title: "", content: ""}) { post { title } }
		third: createPost(input: {title: "after", content: "c"}) { post { title } }
	}`), nil)
	if diff := cmp.Diff([]string{"BAD_USER_INPUT title [second]", "BAD_USER_INPUT content [second]"},
		a.problems()); diff != "" {
		t.Error(diff)
	}
	feed := post(t, b, "", `{ feed(first: 2) { edges { node { title } } } }`, nil)
	if !strings.Contains(feed.body, `"after"`) || !strings.Contains(feed.body, `"before"`) {
		t.Error(feed.body)
	}
}

// The executor finds one variable of the wrong type at a time; the response reports all of them.
func TestInvalidVariables_OneErrorPerValue(t *testing.T) {
	b := smallBlog(t, Options{})
	const create = `mutation($i: CreatePostInput!) { createPost(input: $i) { post { id } } }`
	for name, tt := range map[string]struct {
		query     string
		variables map[string]any
		fields    []string
	}{
		"wrong types": {create, map[string]any{"i": map[string]any{"title": 1, "content": true}},
			[]string{"i.title", "i.content"}},
		"missing and wrong": {create, map[string]any{"i": map[string]any{"idempotencyKey": 5}},
			[]string{"i.title", "i.content", "i.idempotencyKey"}},
		"null and unknown": {create,
			map[string]any{"i": map[string]any{"title": nil, "content": "c", "labels": []string{}}},
			[]string{"i.title", "i.labels"}},
		"not an object":     {create, map[string]any{"i": "post"}, []string{"i"}},
		"missing":           {create, nil, []string{"i"}},
		"several variables": {`query($n: Int, $ids: [ID!]!) { feed(first: $n) { edges { cursor } } nodes(ids: $ids) { id } }`, map[string]any{"n": 1 << 40, "ids": []any{"x", nil, 1.5}}, []string{"n", "ids[1]", "ids[2]"}},
		"an enum in the wrong case and a wrong type": {`query($o: SortOrder, $n: Int) { feed(first: $n) { edges { node { comments(order: $o) { edges { cursor } } } } } }`, map[string]any{"o": "newest_first", "n": "5"}, []string{"o", "n"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := post(t, b, "demo:ada", tt.query, tt.variables)
			var want []string
			for _, field := range tt.fields {
				want = append(want, fmt.Sprintf("BAD_USER_INPUT %s []", field))
			}
			if diff := cmp.Diff(want, a.problems()); diff != "" {
				t.Errorf("%s\n%s", diff, a.body)
			}
		})
	}
}
