package graph

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"byline/graph/refusal"
	"byline/internal/testkit"
)

// FuzzHandler sends arbitrary bodies, and arbitrary text as the parts of an operation, to a handler on a blog. Each
// response is valid and not INTERNAL; no request panics or leaks a goroutine.
//
//	go test -run '^$' -fuzz '^FuzzHandler$' -fuzztime 60s -fuzzminimizetime 10x ./graph
func FuzzHandler(f *testing.F) {
	b := smallBlog(f, Options{Development: true})
	for _, text := range []string{"", "{", "null", "[]", `""`, "0", "{}", `{"query":null}`, `{"query":""}`,
		`{"query":"{__typename}"}`, `[{"query":"{__typename}"}]`,
		`{"query":"{__typename}"}{"query":"{__typename}"}`,
		`{"query":"{ __typename }","variables":[],"extensions":{}}`, "\x00", "\xff\xfe", "{\"query\":\"{ \xff }\"}",
		`{"query":"query($a:String){userByUsername(username:$a){id}}","variables":{"a":"\u0000"}}`,
		`{"query":"query($a:Int){feed(first:$a){edges{cursor}}}","variables":{"a":1e400}}`,
		`{"query":"{__proto__}","__proto__":{"query":"{constructor}"}}`,
		`{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"x"}}}`, `{"documentId":"x"}`,
		`{"query":"query A{__typename} query B{viewer{id}}","operationName":"B"}`,
		`{"query":"subscription{postPublished{id}}"}`, `{"query":"{__schema{types{name}}}"}`,
		`{"query":"{ feed(after: \"x\") { edges { cursor } } }"}`,
		`{"query":"{ a: __typename @skip(if: true) @include(if: $b) }","variables":{"b":{}}}`} {
		f.Add([]byte(text), uint8(0))
	}
	for i, query := range []string{
		`{ feed(first: 3) { edges { cursor node { id title excerpt content author { id username createdAt } commentCount likeCount viewerHasLiked createdAt updatedAt version } } pageInfo { endCursor hasNextPage } } }`,
		`{ post(id: "<post:engines>") { comments(first: 2, order: OLDEST_FIRST) { edges { cursor node { id content author { username } post { title } } } } likes { edges { node { user { username posts { edges { node { id } } } } } } } } }`,
		`{ nodes(ids: ["<post:engines>", "<user:ada>", "<comment:Poor thing.>", "<like:ada>", "x"]) { id ... on Post { title } ... on User { username } } }`,
		`{ userByUsername(username: "ada") { id posts(first: 1, after: "x") { edges { cursor } } } }`,
		`mutation { createPost(input: {title: "t", content: "c", idempotencyKey: "k"}) { post { id version } } }`,
		`mutation { createComment(input: {postId: "<post:moths>", content: "c"}) { comment { id } post { commentCount } } }`,
		`mutation { updatePost(input: {id: "<post:notes>", title: "t", version: 1}) { post { id } } }`,
		`mutation { likePost(input: {postId: "<post:notes>"}) { like { id } } unlikePost(input: {postId: "<post:notes>"}) { post { likeCount } } }`,
		`mutation { updateUser(input: {username: "ada"}) { user { id } } }`,
		`query($ids: [ID!]!) { nodes(ids: $ids) { id } }`,
	} {
		query = b.fill(query)
		f.Add(appendJSON(nil, map[string]any{"query": query, "variables": map[string]any{"ids": []any{1, "a", nil}}}),
			uint8(0))
		f.Add([]byte(query), uint8(i+1))
	}
	for _, hostile := range hostileDocuments() {
		if len(hostile.query) < 1000 { // mutating long ones is slow
			f.Add([]byte(hostile.query), uint8(1))
		}
	}
	before := runtime.NumGoroutine()
	f.Cleanup(func() {
		testkit.Until(f, func() error {
			if after := runtime.NumGoroutine(); after > before+10 {
				return fmt.Errorf("%d goroutines, then %d", before, after)
			}
			return nil
		})
	})
	f.Fuzz(func(t *testing.T, text []byte, how uint8) {
		r := fuzzRequest(text, how)
		w := httptest.NewRecorder()
		b.ServeHTTP(w, r)
		check := func(body []byte) {
			t.Helper()
			var a struct {
				Data   json.RawMessage
				Errors []struct {
					Extensions struct{ Code, RequestID string }
				}
			}
			if err := json.Unmarshal(body, &a); err != nil || !utf8.Valid(body) {
				t.Fatalf("%d %q: %v", w.Code, body, err)
			}
			for _, e := range a.Errors {
				if !slices.Contains(fuzzedCodes, refusal.Code(e.Extensions.Code)) {
					t.Errorf("%d %s", w.Code, body)
				}
			}
			if a.Data == nil && len(a.Errors) == 0 {
				t.Errorf("neither data nor errors: %d %s", w.Code, body)
			}
		}
		switch media := w.Header().Get("Content-Type"); {
		case w.Code >= 500:
			t.Errorf("%d %s", w.Code, w.Body)
		case w.Code == http.StatusNotModified:
		case strings.HasPrefix(media, mediaEvents):
			for line := range strings.Lines(w.Body.String()) {
				if data, ok := strings.CutPrefix(line, "data: {"); ok {
					check([]byte("{" + data))
				}
			}
		default:
			check(w.Body.Bytes())
		}
	})
}

// fuzzedCodes are the error codes that a response may have while the server works.
var fuzzedCodes = []refusal.Code{refusal.BadUserInput, refusal.Unauthenticated, refusal.Forbidden, refusal.NotFound,
	refusal.Conflict, refusal.QueryTooExpensive, refusal.ParseFailed, refusal.ValidationFailed,
	refusal.PersistedNotFound}

// fuzzRequest returns a request with text as its body or as a part of its operation, chosen by how.
func fuzzRequest(text []byte, how uint8) *http.Request {
	operation := map[string]any{"query": "query Q($v: String) { userByUsername(username: $v) { id } }",
		"operationName": "Q"}
	s := string(text)
	switch how % 8 {
	case 0:
	case 1:
		operation = map[string]any{"query": s}
	case 2:
		operation["operationName"] = s
	case 3:
		operation["variables"] = map[string]any{"v": s}
	case 4:
		operation["extensions"] = map[string]any{"persistedQuery": map[string]any{"version": 1, "sha256Hash": s}}
	case 5:
		operation = map[string]any{
			"query": `mutation M($v: String!) { createPost(input: {title: $v, content: $v}) { post { title content } } }`, "variables": map[string]any{"v": s}}
	case 6:
		operation = map[string]any{
			"query":     `query Q($v: ID!) { node(id: $v) { id } feed(after: "") { edges { cursor } } }`,
			"variables": map[string]any{"v": s}}
	case 7:
		operation = map[string]any{"query": fmt.Sprintf(`{ feed(after: %q) { edges { cursor } } }`, s)}
	}
	body := string(appendJSON(nil, operation))
	if how%8 == 0 {
		body = s
	}
	r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(body))
	if how&8 != 0 {
		r = httptest.NewRequest(http.MethodGet, "/graphql?query="+url.QueryEscape(s)+"&variables="+url.QueryEscape(s),
			nil)
	}
	r.Header.Set("Content-Type", mediaJSON)
	if how&16 != 0 {
		r.Header.Set("Authorization", "Bearer demo:ada")
	}
	if how&32 != 0 {
		r.Header.Set("Accept", mediaResponse)
	}
	if how&64 != 0 && how%8 != 0 && !strings.Contains(strings.ToLower(s), "subscription") { // which would not end
		r.Header.Set("Accept", mediaEvents)
	}
	return r
}
