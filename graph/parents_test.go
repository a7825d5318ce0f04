package graph

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const missingPost = "EG5vdGhpbmc" // Post/nothing

// The parent of a list is not read if, and only if, the operation selects only its id and one list, and the page has
// items.
func TestParents_AreReadOnlyIfNeeded(t *testing.T) {
	b := smallBlog(t, Options{})
	const page, read = "query posts", "read posts"
	for name, tt := range map[string]struct {
		query     string
		variables map[string]any
		want      []string
		data      string
		code      string
	}{
		"in a fragment": {`query($id: ID!) { post(id: $id) { ...F } } fragment F on Post { id ...G } fragment G on Post { comments { edges { node { content } } } }`,
			nil, []string{page},
			`{"post":{"id":"<post:moths>","comments":{"edges":[{"node":{"content":"Poor thing."}}]}}}`, ""},
		"in a fragment on the interface": {`query($id: ID!) { node(id: $id) { ... on Node { id ... on Post { likes(first: 1) { edges { node { user { username } } } } } } } }`,
			nil, []string{page},
			`{"node":{"id":"<post:moths>","likes":{"edges":[{"node":{"user":{"username":"grace"}}}]}}}`, ""},
		"with a fragment on another type": {`query($id: ID!) { node(id: $id) { ... on User { username } ... on Post { comments { edges { node { content } } } } } }`,
			nil, []string{page}, `{"node":{"comments":{"edges":[{"node":{"content":"Poor thing."}}]}}}`, ""},
		"under an alias": {`query($id: ID!) { p: post(id: $id) { i: id c: comments { e: edges { n: node { c: content } } } } }`,
			nil, []string{page}, `{"p":{"i":"<post:moths>","c":{"e":[{"n":{"c":"Poor thing."}}]}}}`, ""},
		"skipped fields -> no read": {`query($id: ID!, $no: Boolean!) { post(id: $id) { title @include(if: $no) likeCount @skip(if: true) comments { edges { node { content } } } } }`,
			map[string]any{"no": false}, []string{page},
			`{"post":{"comments":{"edges":[{"node":{"content":"Poor thing."}}]}}}`, ""},
		"included fields -> read": {`query($id: ID!, $yes: Boolean!) { post(id: $id) { title @include(if: $yes) comments { edges { node { content } } } } }`,
			map[string]any{"yes": true}, []string{page, read},
			`{"post":{"title":"moths","comments":{"edges":[{"node":{"content":"Poor thing."}}]}}}`, ""},
		"a skipped list -> read": {`query($id: ID!) { post(id: $id) { id comments @skip(if: true) { edges { cursor } } } }`,
			nil, []string{read}, `{"post":{"id":"<post:moths>"}}`, ""},
		"merged with a selection elsewhere": {`query($id: ID!) { post(id: $id) { comments { edges { node { content } } } } ... { post(id: $id) { title } } }`,
			nil, []string{page, read},
			`{"post":{"comments":{"edges":[{"node":{"content":"Poor thing."}}]},"title":"moths"}}`, ""},
		"arguments from variables and defaults": {`query($id: ID!, $n: Int = 1, $o: SortOrder) { post(id: $id) { comments(first: $n, order: $o) { edges { node { content } } } } }`,
			nil, []string{page}, `{"post":{"comments":{"edges":[{"node":{"content":"Poor thing."}}]}}}`, ""},
		"null arguments": {`query($id: ID!) { post(id: $id) { comments(first: null, after: null, order: null) { edges { node { content } } } } }`,
			nil, []string{page}, `{"post":{"comments":{"edges":[{"node":{"content":"Poor thing."}}]}}}`, ""},
		"two lists": {`query($id: ID!) { post(id: $id) { comments { edges { node { content } } } likes(first: 1) { pageInfo { hasNextPage } } } }`,
			nil, []string{page, page, read},
			`{"post":{"comments":{"edges":[{"node":{"content":"Poor thing."}}]},"likes":{"pageInfo":{"hasNextPage":true}}}}`, ""},
		"an empty list of a post that exists": {`query($id: ID!) { post(id: $id) { id comments { edges { cursor } pageInfo { hasNextPage endCursor } } } }`,
			map[string]any{"id": "<post:notes>"}, []string{page, read},
			`{"post":{"id":"<post:notes>","comments":{"edges":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`,
			""},
		"a list of a post that does not exist": {`query($id: ID!) { post(id: $id) { id comments { edges { cursor } } } }`,
			map[string]any{"id": missingPost}, []string{page, read}, `{"post":null}`, ""},
		"a list of a node that does not exist": {`query($id: ID!) { node(id: $id) { id ... on Post { likes { edges { cursor } } } } }`,
			map[string]any{"id": missingPost}, []string{page, read}, `{"node":null}`, ""},
		"only the id of a post that does not exist": {`query($id: ID!) { post(id: $id) { __typename id } }`,
			map[string]any{"id": missingPost}, []string{read}, `{"post":null}`, ""},
		"an invalid page size": {`query($id: ID!) { post(id: $id) { comments(first: 101) { edges { cursor } } } }`,
			nil, []string{}, `{"post":null}`, "BAD_USER_INPUT post.comments"},
		"an invalid cursor": {`query($id: ID!) { post(id: $id) { comments(after: "nonsense") { edges { cursor } } } }`,
			nil, []string{}, `{"post":null}`, "BAD_USER_INPUT post.comments"},
		"an invalid cursor of a post that does not exist": {`query($id: ID!) { post(id: $id) { comments(after: "nonsense") { edges { cursor } } } }`,
			map[string]any{"id": missingPost}, []string{}, `{"post":null}`, "BAD_USER_INPUT post.comments"},
	} {
		t.Run(name, func(t *testing.T) {
			variables := map[string]any{"id": b.names["post:moths"]}
			for k, v := range tt.variables {
				if text, ok := v.(string); ok {
					v = b.fill(text)
				}
				variables[k] = v
			}
			b.wire.reset()
			a := post(t, b, "", tt.query, variables)
			if diff := cmp.Diff(tt.want, b.wire.seen()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(b.fill(tt.data), string(a.Data)); diff != "" {
				t.Errorf("data (-want +got):\n%s\n%s", diff, a.body)
			}
			got := a.code()
			for i, step := range pathOf(a) {
				got += map[bool]string{true: " ", false: "."}[i == 0] + step
			}
			if got != tt.code {
				t.Errorf("error %q, want %q", got, tt.code)
			}
		})
	}
}

// pathOf is the path of the first error.
func pathOf(a testResponse) []string {
	var path []string
	if len(a.Errors) > 0 {
		for _, step := range a.Errors[0].Path {
			if s, ok := step.(string); ok {
				path = append(path, s)
			}
		}
	}
	return path
}

// A root field of a mutation may change what an earlier one has read.
func TestMutation_RootFieldsDoNotShareLoaders(t *testing.T) {
	b := smallBlog(t, Options{})
	a := post(t, b, "demo:ada", b.fill(`mutation {
		a: likePost(input: {postId: "<post:notes>"}) { post { likeCount viewerHasLiked likes { edges { node { user { username } } } } } }
		b: unlikePost(input: {postId: "<post:notes>"}) { post { likeCount viewerHasLiked likes { edges { node { user { username } } } } } }
		c: updatePost(input: {id: "<post:notes>", title: "new"}) { post { title } }
		d: createComment(input: {postId: "<post:notes>", content: "c"}) { comment { post { title commentCount } } }
	}`), nil)
	const want = `{"a":{"post":{"likeCount":1,"viewerHasLiked":true,"likes":{"edges":[{"node":{"user":{"username":"ada"}}}]}}},` +
		`"b":{"post":{"likeCount":0,"viewerHasLiked":false,"likes":{"edges":[]}}},` +
		`"c":{"post":{"title":"new"}},"d":{"comment":{"post":{"title":"new","commentCount":1}}}}`
	if diff := cmp.Diff(want, string(a.Data)); diff != "" {
		t.Errorf("%s\n%s", diff, a.body)
	}
}
