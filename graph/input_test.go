package graph

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"byline/internal/testkit"
)

// Invalid input has its code and field, and writes nothing.
func TestBadInput(t *testing.T) {
	b := smallBlog(t, Options{})
	const (
		createUser    = `mutation($i: CreateUserInput!) { createUser(input: $i) { user { id } } }`
		updateUser    = `mutation($i: UpdateUserInput!) { updateUser(input: $i) { user { id } } }`
		deleteUser    = `mutation($i: DeleteUserInput!) { deleteUser(input: $i) { deletedUserId } }`
		createPost    = `mutation($i: CreatePostInput!) { createPost(input: $i) { post { id } } }`
		updatePost    = `mutation($i: UpdatePostInput!) { updatePost(input: $i) { post { id } } }`
		createComment = `mutation($i: CreateCommentInput!) { createComment(input: $i) { comment { id } } }`
		likePost      = `mutation($i: LikePostInput!) { likePost(input: $i) { post { id } } }`
		deletePost    = `mutation($i: DeletePostInput!) { deletePost(input: $i) { deletedPostId } }`
		updateComment = `mutation($i: UpdateCommentInput!) { updateComment(input: $i) { comment { id } } }`
		deleteComment = `mutation($i: DeleteCommentInput!) { deleteComment(input: $i) { deletedCommentId } }`
		unlikePost    = `mutation($i: UnlikePostInput!) { unlikePost(input: $i) { post { id } } }`
	)
	type in map[string]any
	userCursor := cursorOf(t, b, `{ user(id: "<user:ada>") { posts { edges { cursor } } } }`)
	commentCursor := cursorOf(t, b, `{ post(id: "<post:moths>") { comments { edges { cursor } } } }`)
	likeCursor := cursorOf(t, b, `{ post(id: "<post:moths>") { likes { edges { cursor } } } }`)
	for name, tt := range map[string]struct {
		token string
		query string
		input in
		code  string
		field string
	}{
		"an empty title": {"ada", createPost, in{"title": "", "content": "c"}, "BAD_USER_INPUT",
			"title"},
		"a blank title": {"ada", createPost, in{"title": " ", "content": "c"}, "BAD_USER_INPUT",
			"title"},
		"a title of 201 characters": {"ada", createPost,
			in{"title": strings.Repeat("ä", 201), "content": "c"}, "BAD_USER_INPUT", "title"},
		"a title of two lines": {"ada", createPost, in{"title": "a\nb", "content": "c"},
			"BAD_USER_INPUT", "title"},
		"an empty content": {"ada", createPost, in{"title": "t", "content": ""}, "BAD_USER_INPUT",
			"content"},
		"a content of 100,001 characters": {"ada", createPost,
			in{"title": "t", "content": strings.Repeat("ä", 100_001)}, "BAD_USER_INPUT", "content"},
		"a control character": {"ada", createPost, in{"title": "t", "content": "a\x07b"},
			"BAD_USER_INPUT", "content"},
		"a line separator in a title": {"ada", createPost, in{"title": "a\u2028b", "content": "c"},
			"BAD_USER_INPUT", "title"},
		"an empty idempotency key": {"ada", createPost,
			in{"title": "t", "content": "c", "idempotencyKey": ""}, "BAD_USER_INPUT", "idempotencyKey"},
		"a key of 101 characters": {"ada", createPost,
			in{"title": "t", "content": "c", "idempotencyKey": strings.Repeat("k", 101)}, "BAD_USER_INPUT",
			"idempotencyKey"},
		"no title": {"ada", createPost, in{"content": "c"}, "BAD_USER_INPUT", "i.title"},
		"a null title": {"ada", createPost, in{"title": nil, "content": "c"}, "BAD_USER_INPUT",
			"i.title"},
		"a title that is a number": {"ada", createPost, in{"title": 1, "content": "c"}, "BAD_USER_INPUT",
			"i.title"},
		"a field that does not exist": {"ada", createPost, in{"title": "t", "content": "c", "authorId": "x"},
			"BAD_USER_INPUT", "i.authorId"},
		"an empty comment": {"ada", createComment, in{"postId": "<post:notes>", "content": ""},
			"BAD_USER_INPUT", "content"},
		"a comment of 10,001 characters": {"ada", createComment,
			in{"postId": "<post:notes>", "content": strings.Repeat("a", 10_001)}, "BAD_USER_INPUT", "content"},
		"a comment on a malformed id": {"ada", createComment, in{"postId": "nonsense", "content": "c"},
			"BAD_USER_INPUT", "postId"},
		"a comment on a user": {"ada", createComment, in{"postId": "<user:ada>", "content": "c"},
			"BAD_USER_INPUT", "postId"},
		"a comment on an unknown post": {"ada", createComment, in{"postId": missingPost, "content": "c"},
			"NOT_FOUND", ""},
		"a like of a comment": {"ada", likePost, in{"postId": "<comment:Poor thing.>"},
			"BAD_USER_INPUT", "postId"},
		"a like of an unknown post":    {"ada", likePost, in{"postId": missingPost}, "NOT_FOUND", ""},
		"an unlike of a malformed id":  {"ada", unlikePost, in{"postId": ""}, "BAD_USER_INPUT", "postId"},
		"an unlike of an unknown post": {"ada", unlikePost, in{"postId": missingPost}, "NOT_FOUND", ""},
		"an edit of a malformed id": {"ada", updatePost, in{"id": "nonsense", "title": "t"}, "BAD_USER_INPUT",
			"id"},
		"an edit of an unknown post": {"ada", updatePost, in{"id": missingPost, "title": "t"}, "NOT_FOUND", ""},
		"an edit of another user's post": {"ada", updatePost, in{"id": "<post:moths>", "title": "t"}, "FORBIDDEN",
			""},
		"an edit of a stale version": {"ada", updatePost, in{"id": "<post:notes>", "title": "t", "version": 7},
			"CONFLICT", "version"},
		"an edit without changes, of another user's post": {"ada", updatePost, in{"id": "<post:moths>"}, "FORBIDDEN", ""},
		"an edit to an empty title": {"ada", updatePost, in{"id": "<post:notes>", "title": ""},
			"BAD_USER_INPUT", "title"},
		"a version out of range": {"ada", updatePost,
			in{"id": "<post:notes>", "title": "t", "version": 3000000000}, "BAD_USER_INPUT", "i.version"},
		"a delete of a malformed id": {"ada", deletePost, in{"id": "nonsense"}, "BAD_USER_INPUT", "id"},
		"a delete of a comment as a post": {"ada", deletePost, in{"id": "<comment:Poor thing.>"}, "BAD_USER_INPUT",
			"id"},
		"a delete of an unknown post":     {"ada", deletePost, in{"id": missingPost}, "NOT_FOUND", ""},
		"a delete of another user's post": {"ada", deletePost, in{"id": "<post:moths>"}, "FORBIDDEN", ""},
		"a delete without a user":         {"new", deletePost, in{"id": "<post:moths>"}, "FORBIDDEN", ""},
		"a delete of a malformed user": {"ada", deleteUser, in{"username": "ada", "id": "nonsense"},
			"BAD_USER_INPUT", "id"},
		"a delete of a post as a user": {"ada", deleteUser, in{"username": "ada", "id": "<post:moths>"},
			"BAD_USER_INPUT", "id"},
		"a delete of another user": {"ada", deleteUser, in{"username": "grace", "id": "<user:grace>"},
			"FORBIDDEN", ""},
		"a delete of oneself without a user": {"new", deleteUser, in{"username": "new"}, "NOT_FOUND", ""},
		"an empty edit of a comment": {"ada", updateComment, in{"id": "<comment:Poor thing.>", "content": ""},
			"BAD_USER_INPUT", "content"},
		"an edit of a post as a comment": {"ada", updateComment, in{"id": "<post:moths>", "content": "c"},
			"BAD_USER_INPUT", "id"},
		"an edit of another user's comment": {"grace", updateComment,
			in{"id": "<comment:Poor thing.>", "content": "c"}, "FORBIDDEN", ""},
		"an edit of a comment, no user": {"new", updateComment, in{"id": "<comment:Poor thing.>", "content": "c"},
			"FORBIDDEN", ""},
		"a delete of a post as a comment": {"ada", deleteComment, in{"id": "<post:moths>"}, "BAD_USER_INPUT", "id"},
		"a delete of another user's comment": {"grace", deleteComment, in{"id": "<comment:Poor thing.>"}, "FORBIDDEN",
			""},
		"a delete of a comment, no user": {"new", deleteComment, in{"id": "<comment:Poor thing.>"}, "FORBIDDEN", ""},
		"a username of two characters":   {"new", createUser, in{"username": "ab"}, "BAD_USER_INPUT", "username"},
		"a username of 31 characters": {"new", createUser, in{"username": strings.Repeat("a", 31)},
			"BAD_USER_INPUT", "username"},
		"a username with a space":          {"new", createUser, in{"username": "a b c"}, "BAD_USER_INPUT", "username"},
		"a username with an accent":        {"new", createUser, in{"username": "adèle"}, "BAD_USER_INPUT", "username"},
		"a username taken in another case": {"new", createUser, in{"username": "GRACE"}, "CONFLICT", "username"},
		"a second user":                    {"ada", createUser, in{"username": "another"}, "CONFLICT", ""},
		"a rename to a name that is taken": {"ada", updateUser, in{"username": "Grace"}, "CONFLICT", "username"},
		"a rename to an invalid name":      {"ada", updateUser, in{"username": "a'b"}, "BAD_USER_INPUT", "username"},
		"a rename without a user":          {"new", updateUser, in{"username": "somebody"}, "FORBIDDEN", ""},
		"a post without a user":            {"new", createPost, in{"title": "t", "content": "c"}, "FORBIDDEN", ""},
		"an edit without a user": {"new", updatePost, in{"id": "<post:notes>", "title": "t"}, "FORBIDDEN",
			""},
		"a comment without a user": {"new", createComment, in{"postId": "<post:notes>", "content": "c"},
			"FORBIDDEN", ""},
		"a like without a user":         {"new", likePost, in{"postId": "<post:notes>"}, "FORBIDDEN", ""},
		"an unlike without a user":      {"new", unlikePost, in{"postId": "<post:notes>"}, "FORBIDDEN", ""},
		"an anonymous write":            {"", createPost, in{"title": "t", "content": "c"}, "UNAUTHENTICATED", ""},
		"a write with an invalid token": {"b a d", createPost, in{"title": "t", "content": "c"}, "UNAUTHENTICATED", ""},

		"first of 0": {"", `{ feed(first: 0) { edges { cursor } } }`, nil, "BAD_USER_INPUT", "first"},
		"first of -1": {"", `{ feed(first: -1) { edges { cursor } } }`, nil, "BAD_USER_INPUT",
			"first"},
		"first of 101": {"", `{ feed(first: 101) { edges { cursor } } }`, nil, "BAD_USER_INPUT",
			"first"},
		"first of 0 below a post": {"",
			`{ post(id: "<post:moths>") { title likes(first: 0) { edges { cursor } } } }`, nil, "BAD_USER_INPUT",
			"first"},
		"a malformed cursor": {"", `{ feed(after: "nonsense") { edges { cursor } } }`, nil, "BAD_USER_INPUT",
			"after"},
		"a cursor of another list": {"", `{ feed(after: "` + userCursor + `") { edges { cursor } } }`, nil,
			"BAD_USER_INPUT", "after"},
		"a cursor of another user": {"",
			`{ user(id: "<user:grace>") { posts(after: "` + userCursor + `") { edges { cursor } } } }`, nil,
			"BAD_USER_INPUT", "after"},
		"a cursor of another order": {"",
			`{ post(id: "<post:moths>") { comments(order: OLDEST_FIRST, after: "` + commentCursor +
				`") { edges { cursor } } } }`, nil, "BAD_USER_INPUT", "after"},
		"a cursor of another post": {"",
			`{ post(id: "<post:engines>") { comments(after: "` + commentCursor + `") { edges { cursor } } } }`, nil,
			"BAD_USER_INPUT", "after"},
		"a likes' cursor for comments": {"",
			`{ post(id: "<post:moths>") { comments(after: "` + likeCursor + `") { edges { cursor } } } }`, nil,
			"BAD_USER_INPUT", "after"},
		"a malformed id":           {"", `{ post(id: "nonsense") { title } }`, nil, "BAD_USER_INPUT", "id"},
		"a user's id for a post":   {"", `{ post(id: "<user:ada>") { title } }`, nil, "BAD_USER_INPUT", "id"},
		"a post's id for a user":   {"", `{ user(id: "<post:moths>") { username } }`, nil, "BAD_USER_INPUT", "id"},
		"a malformed id of a node": {"", `{ node(id: "nonsense") { id } }`, nil, "BAD_USER_INPUT", "id"},
		"a malformed id among nodes": {"", `{ nodes(ids: ["<user:ada>", "nonsense"]) { id } }`, nil, "BAD_USER_INPUT",
			"ids[1]"},
		"101 nodes": {"", `{ nodes(ids: [` + strings.Repeat(`"<user:ada>",`, 101) + `]) { id } }`, nil,
			"BAD_USER_INPUT", "ids"},
		"a field that is unknown": {"", `{ feed { nodes { id } } }`, nil, "GRAPHQL_VALIDATION_FAILED", ""},
		"an order that is unknown": {"",
			`{ post(id: "<post:moths>") { comments(order: RANDOM) { edges { cursor } } } }`, nil,
			"GRAPHQL_VALIDATION_FAILED", ""},
	} {
		t.Run(name, func(t *testing.T) {
			variables := map[string]any{}
			if tt.input != nil {
				input := map[string]any{}
				for k, v := range tt.input {
					if text, ok := v.(string); ok {
						v = b.fill(text)
					}
					input[k] = v
				}
				variables["i"] = input
			}
			if tt.token != "" {
				tt.token = "demo:" + tt.token
			}
			b.wire.reset()
			a := post(t, b, tt.token, b.fill(tt.query), variables)
			if a.status != http.StatusOK || a.code() != tt.code || a.field() != tt.field {
				t.Errorf("status %d, code %s, field %q; want %s, %q: %.400s", a.status, a.code(), a.field(), tt.code,
					tt.field, a.body)
			}
			if tt.code == "FORBIDDEN" && tt.token == "demo:new" &&
				!strings.Contains(a.Errors[0].Message, "createUser") {
				t.Errorf("message %q", a.Errors[0].Message)
			}
			for _, request := range b.wire.seen() {
				if !strings.HasPrefix(request, "read ") {
					// Cosmos DB itself refuses these atomically, so they write nothing either.
					if tt.code != "NOT_FOUND" && tt.code != "CONFLICT" && tt.code != "FORBIDDEN" {
						t.Errorf("sent %s", request)
					}
				}
			}
		})
	}
	t.Run("nothing was written", func(t *testing.T) {
		query := b.fill(`{
			feed { edges { node { title content version commentCount likeCount } } }
			a: user(id: "<user:ada>") { username posts { edges { node { title } } } }
			b: user(id: "<user:grace>") { username posts { edges { node { title } } } }
			c: userByUsername(username: "another") { id }
			d: userByUsername(username: "somebody") { id }
			e: post(id: "<post:notes>") { title content version commentCount likeCount comments { edges { node { content } } } }
		}`)
		want := post(t, smallBlog(t, Options{}), "", query, nil)
		if diff := cmp.Diff(string(want.Data), string(post(t, b, "", query, nil).Data)); diff != "" {
			t.Error(diff)
		}
		if u, err := b.store.User(t.Context(), subjectID("new")); u != nil || err != nil {
			t.Error(u, err)
		}
	})
}

// Null for a variable with a default is refused in a non-null position, before anything is read or written. Elsewhere
// it is null.
func TestVariables_NullWithDefault(t *testing.T) {
	testkit.Heavy(t)
	const refused = "BAD_USER_INPUT"
	for name, tt := range map[string]struct{ query, code string }{
		"@include":                     {`query($v: Boolean = true) { __typename @include(if: $v) }`, refused},
		"@skip in an object":           {`query($v: Boolean = true) { post(id: "<post:engines>") { title commentCount @skip(if: $v) } }`, refused},
		"@include of a fragment":       {`query($v: Boolean = true) { feed { edges { node { title ...F @include(if: $v) } } } } fragment F on Post { id }`, refused},
		"in a fragment":                {`query($v: Boolean = true) { feed { edges { node { ...F } } } } fragment F on Post { ... { ... @include(if: $v) { id } } }`, refused},
		"of a mutation":                {`mutation($v: Boolean = true) { likePost(input: {postId: "<post:engines>"}) @include(if: $v) { post { title } } }`, refused},
		"below a mutation":             {`mutation($v: Boolean = true) { likePost(input: {postId: "<post:engines>"}) { post { title @include(if: $v) } } }`, refused},
		"an id":                        {`query($v: ID = "x") { post(id: $v) { title } }`, refused},
		"a list of ids":                {`query($v: [ID!] = ["x"]) { nodes(ids: $v) { id } }`, refused},
		"an id in a list":              {`query($v: ID = "x") { nodes(ids: ["<user:ada>", $v]) { id } }`, refused},
		"an input":                     {`mutation($v: LikePostInput = {postId: "x"}) { likePost(input: $v) { post { id } } }`, refused},
		"a field of an input":          {`mutation($v: String = "x") { createComment(input: {postId: "<post:notes>", content: $v}) { comment { id } } }`, refused},
		"a nullable field of an input": {`mutation($v: String = "k") { createComment(input: {postId: "<post:notes>", content: "c", idempotencyKey: $v}) { comment { content } } }`, ""},
		"a nullable argument":          {`query($v: Int = 0) { feed(first: $v) { edges { cursor } } }`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, unplanned := range []bool{false, true} {
				b := smallBlog(t, Options{})
				if unplanned {
					b.Handler = unplannedHandler{b.Handler}
				}
				b.wire.reset()
				a := post(t, b, "demo:ada", b.fill(tt.query), map[string]any{"v": nil})
				if a.code() != tt.code ||
					tt.code == refused && (a.field() != "v" || a.Data != nil || len(b.wire.seen()) > 0) {
					t.Errorf("sent %v: %s", b.wire.seen(), a.body)
				}
			}
		})
	}
	_, server := liveBlog(t, Options{})
	p := dial(t, server, modern, nil).init()
	p.send(`{"id":"1","type":"subscribe","payload":{"query":"subscription($v: Boolean = true) { postPublished @include(if: $v) { id } }","variables":{"v":null}}}`)
	if got := p.receive(); !strings.Contains(got, refused) {
		t.Errorf("a subscription: %s", got)
	}
}

// Operations that share a fragment use the defaults of their own variables.
func TestVariables_DefaultsOfExecutedOperation(t *testing.T) {
	const document = `mutation Plain($c: String!, $k: String) { ...F } mutation Once($c: String!, $k: String = "once") { ...F }
		fragment F on Mutation { createComment(input: {postId: "<post:notes>", content: $c, idempotencyKey: $k}) { comment { id } } }`
	for _, unplanned := range []bool{false, true} {
		b := smallBlog(t, Options{})
		if unplanned {
			b.Handler = unplannedHandler{b.Handler}
		}
		send := func(operation string) string {
			a := postBody(t, b, "demo:ada",
				map[string]any{"query": b.fill(document), "operationName": operation,
					"variables": map[string]any{"c": "hi"}})
			if a.code() != "" {
				t.Error(a.body)
			}
			return string(a.Data)
		}
		if first, second := send("Plain"), send("Plain"); first == second {
			t.Error("without a key: got one comment, want two")
		}
		if first, second := send("Once"), send("Once"); first != second {
			t.Error("with the same key: got two comments, want one")
		}
	}
}

// Enum values in the wrong case, and Int values that are strings, fractions or out of range, are refused before
// execution. The executor alone would accept them. A number without a fraction is an integer, however JSON spells it
// (GraphQL, section 3.5).
func TestVariables_WrongTypesAreRefused(t *testing.T) {
	const (
		feed = `query($v: Int) { feed(first: $v) { edges { cursor } } }`
		edit = `mutation($v: UpdatePostInput!) { updatePost(input: $v) { post { title } } }`
		list = `query($v: SortOrder) { post(id: "<post:engines>") { id comments(order: $v) { edges { cursor } } } }`
		like = `mutation($v: SortOrder) { likePost(input: {postId: "<post:engines>"}) { post { comments(order: $v) { edges { cursor } } } } }`
	)
	for _, unplanned := range []bool{false, true} {
		b := smallBlog(t, Options{})
		if unplanned {
			b.Handler = unplannedHandler{b.Handler}
		}
		version := func(v any) map[string]any {
			return map[string]any{"id": b.names["post:notes"], "title": "1", "version": v}
		}
		for _, tt := range []struct {
			query, field string
			value        any
		}{
			{feed, "v", "1"}, {feed, "v", "nonsense"}, {feed, "v", 1.5}, {feed, "v", 1 << 31}, {feed, "v", -1<<31 - 1},
			{feed, "", 1}, {feed, "", nil},
			{edit, "v.version", version("1")}, {edit, "v.version", version(1.5)},
			{edit, "v.version", version(1 << 31)}, {edit, "", version(1)},
			{feed, "", json.Number("1.0")}, {feed, "", json.Number("2e0")}, {feed, "", json.Number("10E-1")},
			{edit, "", version(json.Number("2.0"))},
			{feed, "v", json.Number("15E-1")}, {feed, "v", json.Number("2147483648.0")},
			{feed, "v", json.Number("1e21")}, {edit, "v.version", version(json.Number("-2147483649.0"))},
			{list, "v", "oldest_first"}, {list, "v", "Newest_First"}, {list, "", "OLDEST_FIRST"}, {list, "", nil},
			{like, "v", "oldest_first"},
		} {
			b.wire.reset()
			a := post(t, b, "demo:ada", b.fill(tt.query), map[string]any{"v": tt.value})
			if a.field() != tt.field || (a.code() == "BAD_USER_INPUT") != (tt.field != "") ||
				tt.field != "" && (a.Data != nil || len(b.wire.seen()) > 0) {
				t.Errorf("%s of %v: sent %v: %s", tt.query, tt.value, b.wire.seen(), a.body)
			}
		}
		if a := post(t, b, "", feed, map[string]any{"v": 1<<31 - 1}); a.field() != "first" {
			t.Errorf("the largest Int: %s", a.body)
		}
		if a := post(t, b, "", `query($v: ID!) { node(id: $v) { id } }`,
			map[string]any{"v": 1 << 31}); string(a.Data) != `{"node":null}` || a.code() != "" {
			t.Errorf("an ID above 32 bits: %s", a.body)
		}
		for _, id := range []any{json.Number("7.0"), json.Number("70e-1"), 7} { // an item of a list
			a := post(t, b, "", `query($v: [ID!]!) { nodes(ids: $v) { id } }`, map[string]any{"v": []any{id}})
			if string(a.Data) != `{"nodes":[null]}` || a.code() != "" {
				t.Errorf("%v: %s", id, a.body)
			}
		}
	}
}

// Int literals have 32 bits, too.
func TestInt_MoreThan32BitsIsRefused(t *testing.T) {
	h := newTestHandler(t, Options{})
	for _, query := range []string{
		`{ feed(first: 2147483648) { edges { cursor } } }`,
		`{ feed(first: -2147483649) { edges { cursor } } }`,
		`query($v: Int = 2147483648) { feed(first: $v) { edges { cursor } } }`,
		`mutation { updatePost(input: {id: "x", version: 2147483648}) { post { id } } }`,
	} {
		if a := post(t, h, "demo:ada", query, nil); a.code() != "GRAPHQL_VALIDATION_FAILED" || len(a.Errors) != 1 {
			t.Errorf("%s: %s", query, a.body)
		}
	}
	if a := post(t, h, "", `{ node(id: 2147483648) { id } }`, nil); a.code() != "" {
		t.Errorf("an ID above 32 bits: %s", a.body)
	}
}

// {} is refused for a scalar or an enum.
func TestEmptyObject_ForScalarIsRefused(t *testing.T) {
	h := newTestHandler(t, Options{})
	for _, query := range []string{
		`{ __typename @include(if: {}) }`,
		`query($v: Boolean = {}) { __typename @include(if: $v) }`,
		`{ post(id: {}) { id } }`,
		`{ nodes(ids: [{}]) { id } }`,
		`{ nodes(ids: {}) { id } }`,
		`{ feed(first: {}) { edges { cursor } } }`,
		`{ post(id: "x") { comments(order: {}) { edges { cursor } } } }`,
		`mutation { likePost(input: {postId: {}}) { post { id } } }`,
	} {
		if a := post(t, h, "demo:ada", query, nil); a.code() != "GRAPHQL_VALIDATION_FAILED" {
			t.Errorf("%s: %s", query, a.body)
		}
	}
}

func cursorOf(t *testing.T, b *testBlog, query string) string {
	t.Helper()
	a := post(t, b, "", b.fill(query), nil)
	_, cursor, _ := strings.Cut(a.body, `"cursor":"`)
	cursor, _, found := strings.Cut(cursor, `"`)
	if !found {
		t.Fatal(a.body)
	}
	return cursor
}

// A retry with the same key returns the first result; with another input it is a CONFLICT.
func TestIdempotencyKeys(t *testing.T) {
	b := smallBlog(t, Options{})
	create := func(title string) testResponse {
		return post(t, b, "demo:ada",
			`mutation($t: String!) { createPost(input: {title: $t, content: "c", idempotencyKey: "k"}) { post { id } } }`, map[string]any{"t": title})
	}
	first, again, other := create("t"), create("t"), create("u")
	if first.code() != "" || string(first.Data) != string(again.Data) {
		t.Errorf("%s then %s", first.body, again.body)
	}
	if other.code() != "CONFLICT" || other.field() != "idempotencyKey" {
		t.Error(other.body)
	}
}

// A key is one of the viewer, of the mutation and, for a comment, of the post: with any other, it is another key. The
// schema says so.
func TestIdempotencyKeys_Scope(t *testing.T) {
	b := smallBlog(t, Options{Development: true})
	comment := func(viewer, on, content string) testResponse {
		return post(t, b, "demo:"+viewer,
			b.fill(`mutation($c: String!) { createComment(input: {postId: "<post:`+on+
				`>", content: $c, idempotencyKey: "k"}) {
			comment { id } post { commentCount } } }`), map[string]any{"c": content})
	}
	first := comment("ada", "notes", "c")
	for _, tt := range []struct {
		name string
		got  testResponse
		same bool   // the result is the first one
		code string // of the error
	}{
		{"a retry", comment("ada", "notes", "c"), true, ""},
		{"another content", comment("ada", "notes", "d"), false, "CONFLICT"},
		{"another post", comment("ada", "moths", "c"), false, ""},
		{"another post, again", comment("ada", "moths", "d"), false, "CONFLICT"},
		{"another viewer", comment("grace", "notes", "c"), false, ""},
		{"another mutation",
			post(t, b, "demo:ada",
				`mutation { createPost(input: {title: "t", content: "c", idempotencyKey: "k"}) { post { id } } }`,
				nil), false, ""},
	} {
		if same := string(tt.got.Data) == string(first.Data); same != tt.same || tt.got.code() != tt.code {
			t.Errorf("%s: %s after %s", tt.name, tt.got.body, first.body)
		}
	}
	a := post(t, b, "", `{ __type(name: "CreateCommentInput") { inputFields { name description } } }`, nil)
	if !strings.Contains(a.body, "on another post the same key creates another comment") {
		t.Errorf("the schema does not say so: %s", a.body)
	}
}

// Errors of Cosmos DB have different codes, and their text is not in the response.
func TestCosmosFailures(t *testing.T) {
	for status, want := range map[int]string{429: "THROTTLED", 503: "UNAVAILABLE", 403: "UNAVAILABLE",
		500: "INTERNAL"} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // requests are retried
				var log strings.Builder
				b := smallBlogInBubble(t, Options{Logger: textLogger(&log)})
				b.wire.fail = func(*http.Request) (*http.Response, error) {
					w := newResponse(status, `{"code":"secret","message":"secret"}`)
					w.Header.Set("x-ms-retry-after-ms", "70")
					return w, nil
				}
				a := post(t, b, "", b.fill(`{ post(id: "<post:moths>") { title } }`), nil)
				if a.code() != want || strings.Contains(a.body, "secret") {
					t.Errorf("code %q, want %q: %s", a.code(), want, a.body)
				}
				if retry := a.Errors[0].Extensions["retryAfterMs"]; status == 429 && retry != float64(70) ||
					status != 429 && retry != nil {
					t.Errorf("retryAfterMs %v", retry)
				}
				if strings.Count(log.String(), `msg="operation failed" op="read post"`) != 1 ||
					strings.Count(log.String(), `msg="operation failed"`) != 1 {
					t.Errorf("log %s", log.String())
				}
			})
		})
	}
}

// A request with several operations must name one; a document must have one.
func TestOperationName_SelectsOperation(t *testing.T) {
	h := newTestHandler(t, Options{})
	for query, want := range map[string]string{
		`query A { __typename } query B { __typename }`: "operationName",
		`fragment F on Query { __typename }`:            "no operation",
	} {
		if a := post(t, h, "", query, nil); a.code() != "GRAPHQL_VALIDATION_FAILED" ||
			!strings.Contains(a.Errors[0].Message, want) {
			t.Errorf("%s: %s", query, a.body)
		}
	}
}
