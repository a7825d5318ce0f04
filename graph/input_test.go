package graph

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"byline/internal/testkit"
)

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

// Errors of Cosmos DB have different codes, and their text is not in the response.
func TestCosmosFailures(t *testing.T) {
	for status, want := range map[int]string{429: "THROTTLED", 503: "UNAVAILABLE", 403: "UNAVAILABLE",
		500: "INTERNAL"} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // requests are retried
				var log strings.Builder
				b := smallBlogInBubble(t, Options{Logger: textLogger(&log)})
				b.wire.setFail(func(*http.Request) (*http.Response, error) {
					w := newResponse(status, `{"code":"secret","message":"secret"}`)
					w.Header.Set("x-ms-retry-after-ms", "70")
					return w, nil
				})
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
