package graph

import (
	"strings"
	"testing"
	"unicode/utf8"

	"byline/graph/document"
)

// No response is longer than predicted, even with the longest texts.
func TestResponse_IsAtMostAsLongAsPredicted(t *testing.T) {
	b := smallBlog(t, Options{})
	id := b.post(t, "ada", strings.Repeat("\U0001F600", 200), strings.Repeat("\U0001F600", 100_000))
	for _, c := range []string{"\U0001F600", "\n.", `\"`} {
		b.comment(t, "ada", id, strings.Repeat(c, 10_000)[:len(c)*10_000/utf8.RuneCountInString(c)])
	}
	b.names["long"] = postGlobalID(id)
	schema := readSchema(t)
	for name, query := range map[string]string{
		"a post":       `{ post(id: "<long>") { __typename id title excerpt content version createdAt author { id username createdAt } } }`,
		"its comments": `{ post(id: "<long>") { comments(first: 3) { edges { cursor node { __typename id content createdAt author { id username } } } pageInfo { startCursor endCursor hasNextPage } } } }`,
		"by fragments": `{ a: post(id: "<long>") { ...F } b: node(id: "<long>") { ...F } } fragment F on Post { one: content two: content }`,
		"nodes":        `{ nodes(ids: ["<long>", "<user:ada>"]) { ... on Post { content } ... on User { username } } }`,
		"a list":       `{ user(id: "<user:ada>") { posts(first: 2) { edges { node { a: content b: content } } } } }`,
	} {
		t.Run(name, func(t *testing.T) {
			query = b.fill(query)
			a := post(t, b, "", query, nil)
			predicted := predicted(t, schema, query, nil, false).ResponseBytes()
			if a.code() != "" || float64(len(a.body)) > predicted {
				t.Errorf("%d bytes, %.0f predicted: %.300s", len(a.body), predicted, a.body)
			}
			t.Logf("%d bytes, %.0f predicted", len(a.body), predicted)
		})
	}
}

// Operations whose responses may exceed the limit, because of long texts, are refused before execution.
func TestResponse_LengthIsLimited(t *testing.T) {
	h := newTestHandler(t, Options{})
	for name, tt := range map[string]struct{ query, field string }{
		"a repeated text":   {`{ feed(first: 100) { edges { node { a: content b: content c: content d: content } } } }`, "feed.edges.node.a"},
		"comments in lists": {`{ feed(first: 50) { edges { node { comments(first: 100) { edges { node { content } } } } } } }`, "feed.edges.node.comments.edges.node.content"},
		"one post in many places": {`{ post(id: "` + postGlobalID("p") +
			`") { title comments(first: 100) { edges { node { post { a: content b: content c: content d: content } } } } } }`, "post.comments.edges.node.post.a"},
		"in fragments": {`{ a: feed(first: 100) { ...F } b: feed(first: 100) { ...F } } fragment F on PostConnection { edges { node { a: content b: content } } }`, "a.edges.node.a"},
		"an event":     {`subscription { postChanged(id: "x") { comments(first: 100) { edges { node { post { a: content b: content c: content d: content } } } } } }`, "postChanged.comments.edges.node.post.a"},
		"a payload":    {`mutation { likePost(input: {postId: "x"}) { post { comments(first: 100) { edges { node { post { a: content b: content c: content d: content } } } } } } }`, "likePost.post.comments.edges.node.post.a"},
		"many long names": {`{ feed(first: 100) { edges { node { comments(first: 20) { edges { node {` +
			aliases(98, 190, "id") + `} } } } } } }`, ""},
		"a name that is too long": {`{ ` + strings.Repeat("a", document.MaxAlias+1) +
			`: __typename }`, ""},
		"in an unused fragment": {`{ __typename } fragment F on Query { ` +
			strings.Repeat("a", document.MaxAlias+1) + `: __typename }`, ""},
		"a name of the maximum length -> accepted": {`{ ` + strings.Repeat("a", document.MaxAlias) + `: __typename }`,
			"-"},
		"skipped fields -> accepted": {`{ feed(first: 100) @skip(if: true) { edges { node { a: content b: content c: content d: content } } } }`, "-"},
	} {
		t.Run(name, func(t *testing.T) {
			a := post(t, h, "demo:ada", tt.query, nil)
			if tt.field == "-" {
				if a.code() != "" {
					t.Error(a.body)
				}
				return
			}
			if a.code() != "QUERY_TOO_EXPENSIVE" || a.Data != nil || tt.field != "" && a.field() != tt.field {
				t.Errorf("%.500s", a.body)
			}
		})
	}
	b := smallBlog(t, Options{})
	for _, query := range []string{
		`{ feed(first: 80) { edges { node { id title excerpt content author { id username } } } } }`,
		`{ feed(first: 8) { edges { node { title comments(first: 100) { edges { node { id content author { username } } } } } } } }`,
	} {
		if a := post(t, b, "", query, nil); a.code() != "" {
			t.Errorf("%s: %.300s", query, a.body)
		}
	}
}

// aliases selects a field under n aliases of the given length.
func aliases(n, bytes int, field string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(" " + strings.Repeat("a", bytes-i%10) + strings.Repeat("b", i/10) + ": " + field)
	}
	return b.String()
}
