package graph

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"byline/graph/document"
)

const (
	trustedQuery    = `query Name { __typename }`
	trustedMutation = `mutation Like { likePost(input: {postId: "nope"}) { post { id } } }`
)

// manifestOf returns a manifest as Relay and graphql-codegen write it.
func manifestOf(t testing.TB, documents map[string]string) []byte {
	t.Helper()
	manifest, err := json.Marshal(documents)
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}

func trust(t testing.TB, manifest []byte) *document.Trusted {
	t.Helper()
	d, err := document.ParseTrusted(manifest, Schema(false))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTrustedDocuments(t *testing.T) {
	apollo, err := json.Marshal(map[string]any{"format": "apollo-persisted-query-manifest", "version": 1,
		"operations": []map[string]any{
			{"id": "a1", "name": "Name", "type": "query", "body": trustedQuery},
			{"id": "a2", "name": "Like", "type": "mutation", "body": trustedMutation},
		}})
	if err != nil {
		t.Fatal(err)
	}
	for format, manifest := range map[string][]byte{
		"by id":  manifestOf(t, map[string]string{"a1": trustedQuery, "a2": trustedMutation}),
		"Apollo": apollo,
	} {
		h := newTestHandler(t, Options{TrustedDocuments: trust(t, manifest), Development: true})
		hash := document.Hash(trustedQuery)
		for name, tt := range map[string]struct {
			body   map[string]any
			code   string
			field  string
			status int
		}{
			"documentId": {body: map[string]any{"documentId": "a1"}, status: 200},
			"doc_id":     {body: map[string]any{"doc_id": "a1"}, status: 200},
			"documentId, by hash": {body: map[string]any{"documentId": "sha256:" + hash},
				status: 200},
			"persistedQuery, by id": {body: map[string]any{"extensions": persistedExtension("a1")},
				status: 200},
			"persistedQuery, by hash": {body: map[string]any{"extensions": persistedExtension(hash)},
				status: 200},
			"the text": {body: map[string]any{"query": trustedQuery}, status: 200},
			"the text and its id": {body: map[string]any{"query": trustedQuery,
				"documentId": "a1"}, status: 200},
			"the text and its hash": {body: map[string]any{"query": trustedQuery,
				"extensions": persistedExtension(hash)}, status: 200},
			"the text and an unknown id": {body: map[string]any{"query": trustedQuery,
				"documentId": "a3"}, status: 200},
			"the text of another document": {body: map[string]any{"query": trustedMutation,
				"documentId": "a1"}, status: 400, code: "BAD_USER_INPUT", field: "query"},
			"the id of a mutation, anonymous": {body: map[string]any{"documentId": "a2"}, status: 401,
				code: "UNAUTHENTICATED"},
			"an unknown id": {body: map[string]any{"documentId": "a3"}, status: 400,
				code: "PERSISTED_QUERY_NOT_FOUND"},
			"an unknown hash": {body: map[string]any{
				"extensions": persistedExtension(document.Hash("x"))}, status: 400, code: "PERSISTED_QUERY_NOT_FOUND"},
			"nothing": {body: map[string]any{}, status: 400, code: "BAD_USER_INPUT",
				field: "query"},
			"a text": {body: map[string]any{"query": `{ __typename }`}, status: 403,
				code: "FORBIDDEN"},
			"a text that differs by a blank": {body: map[string]any{"query": trustedQuery + " "},
				status: 403, code: "FORBIDDEN"},
			"a text that does not parse": {body: map[string]any{"query": "{"}, status: 403,
				code: "FORBIDDEN"},
			"a text and its hash": {body: map[string]any{"query": persistedQuery,
				"extensions": persistedExtension(document.Hash(persistedQuery))}, status: 403, code: "FORBIDDEN"},
			"a text and the id of another": {body: map[string]any{"query": persistedQuery,
				"documentId": "a1"}, status: 400, code: "BAD_USER_INPUT", field: "query"},
			"a text and the hash of another": {body: map[string]any{"query": persistedQuery,
				"extensions": persistedExtension(hash)}, status: 400, code: "BAD_USER_INPUT", field: "query"},
			"introspection, even in development": {body: map[string]any{
				"query": "{ __schema { queryType { name } } }"}, status: 403, code: "FORBIDDEN"},
			"a malformed hash and a valid id": {body: map[string]any{"documentId": "a1",
				"extensions": map[string]any{"persistedQuery": 1}}, status: 400, code: "BAD_USER_INPUT",
				field: "extensions.persistedQuery"},
			"an unknown id and a known hash": {body: map[string]any{"documentId": "a3",
				"extensions": persistedExtension(hash)}, status: 400, code: "PERSISTED_QUERY_NOT_FOUND"},
			"an unknown operationName": {body: map[string]any{"documentId": "a1",
				"operationName": "Other"}, status: 400, code: "GRAPHQL_VALIDATION_FAILED"},
			"an id in a member id": {body: map[string]any{"id": "a1"}, status: 400,
				code: "BAD_USER_INPUT", field: "query"},
			"an id among the extensions does not count": {body: map[string]any{
				"extensions": map[string]any{"documentId": "a1"}}, status: 400, code: "BAD_USER_INPUT", field: "query"},
			"the hash of a refused text": {body: map[string]any{
				"extensions": persistedExtension(document.Hash(persistedQuery))}, status: 400,
				code: "PERSISTED_QUERY_NOT_FOUND"},
		} {
			t.Run(format+", "+name, func(t *testing.T) {
				a := postBody(t, h, "", tt.body)
				if a.status != tt.status || a.code() != tt.code || a.field() != tt.field ||
					(a.Data != nil) != (tt.code == "") {
					t.Errorf("%d, code %q, field %q; want %d, %q, %q: %s", a.status, a.code(), a.field(), tt.status,
						tt.code, tt.field, a.body)
				}
				if a.code() == "FORBIDDEN" && !strings.Contains(a.Errors[0].Message, "trusted") {
					t.Errorf("message %q", a.Errors[0].Message)
				}
			})
		}
		if page := get(t, h, "/"); page.Code != http.StatusNotFound {
			t.Errorf("the playground is served: %d", page.Code)
		}
	}
}

func TestParseTrustedDocuments(t *testing.T) {
	one := func(text string) string {
		return string(manifestOf(t, map[string]string{"bad": text, "good": trustedQuery}))
	}
	for name, tt := range map[string]struct {
		manifest      string
		introspection bool
		says          string // "" if it is valid
	}{
		"documents by id":    {manifest: one(trustedMutation)},
		"several operations": {manifest: one(`query A { __typename } query B { __typename }`)},
		"variables": {manifest: one(
			`query($n: Int!) { feed(first: $n) { edges { cursor } } }`)},
		"introspection, where it is served": {manifest: one(`{ __schema { queryType { name } } }`),
			introspection: true},
		"introspection, where it is not served": {manifest: one(`{ __schema { queryType { name } } }`),
			says: `document "bad", line 1, column 3: Cannot query field "__schema" on type "Query".`},
		"not JSON": {manifest: "query { __typename }",
			says: "the manifest is not a JSON object"},
		"a list": {manifest: "[]", says: "the manifest is not a JSON object"},
		"an object after it": {manifest: one(trustedMutation) + "{}",
			says: "the manifest is not a JSON object"},
		"an empty file": {manifest: "", says: "the manifest is not a JSON object"},
		"null":          {manifest: "null", says: "the manifest has no documents"},
		"no documents":  {manifest: "{}", says: "the manifest has no documents"},
		"a document that is not a string": {manifest: `{"bad":{"body":"{__typename}"}}`,
			says: `document "bad": not a text`},
		"a document that is null": {manifest: `{"bad":null}`, says: `document "bad": not a text`},
		"an empty id": {manifest: `{"":"{__typename}"}`,
			says: `document "": the id is empty`},
		"a document that does not parse": {manifest: one("query {"),
			says: `document "bad", line 1, column 8: Expected Name`},
		"a field that does not exist": {manifest: one("query Feed {\n  feed { nodes { id } }\n}"),
			says: `document "bad", line 2, column 10: Cannot query field "nodes" on type "PostConnection".`},
		"a fragment alone": {manifest: one("fragment F on Query { __typename }"),
			says: `document "bad": it has no operation`},
		"an empty document": {manifest: one(""), says: `document "bad": it has no operation`},
		"too many tokens": {manifest: one(
			hostileDocuments()["more than the token limit"].query), says: `document "bad"`},
		"doubling fragments": {manifest: one(hostileDocuments()["doubling"].query),
			says: `document "bad": QUERY_TOO_EXPENSIVE`},
		"a recursive fragment": {manifest: one(hostileDocuments()["a recursive fragment"].query),
			says: `document "bad", line `},
		"a subscription with two fields": {manifest: one(
			`subscription { a: postPublished { id } b: postPublished { id } }`),
			says: `document "bad", line 1, column 40: a subscription must select exactly one field`},
		"an unpaired surrogate": {manifest: one(`{ userByUsername(username: "\ud83d") { id } }`),
			says: `document "bad", line 1, column 29: invalid \u escape: unpaired surrogate`},
		"an unpaired surrogate in the manifest": {manifest: `{"bad":"{ userByUsername(username: \"\ud83d\") { id } }"}`, says: `the manifest is not text`},
		"invalid UTF-8": {manifest: "{\"bad\":\"{ userByUsername(username: \\\"\xff\\\") " +
			"{ id } }\"}", says: `the manifest is not text`},
		"a surrogate pair": {manifest: one(
			`{ userByUsername(username: "\ud83d\ude00") { id } }`)},
		"@defer": {manifest: one(`{ ... @defer { __typename } }`),
			says: `document "bad", line 1, column 7: Unknown directive "@defer".`},
		"Apollo's, of another version":             {manifest: `{"format":"apollo-persisted-query-manifest","version":2,"operations":[]}`, says: "version 2"},
		"Apollo's, without operations":             {manifest: `{"format":"apollo-persisted-query-manifest","version":1}`, says: "the manifest has no documents"},
		"Apollo's, malformed":                      {manifest: `{"format":"apollo-persisted-query-manifest","version":1,"operations":{}}`, says: "not a manifest of the format"},
		"Apollo's, an id twice":                    {manifest: `{"format":"apollo-persisted-query-manifest","version":1,"operations":[{"id":"bad","body":"{a:__typename}"},{"id":"bad","body":"{b:__typename}"}]}`, says: `document "bad": the id`},
		"Apollo's, an id twice, same text":         {manifest: `{"format":"apollo-persisted-query-manifest","version":1,"operations":[{"id":"a","body":"{__typename}"},{"id":"a","body":"{__typename}"}]}`},
		"Apollo's, without an id":                  {manifest: `{"format":"apollo-persisted-query-manifest","version":1,"operations":[{"body":"{__typename}"}]}`, says: `document "": the id is empty`},
		"two invalid documents -> the first by id": {manifest: `{"b":"{nope}","a":"{no}"}`, says: `document "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := document.ParseTrusted([]byte(tt.manifest), Schema(tt.introspection))
			if tt.says == "" {
				if err != nil || d == nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v; want %s", err, tt.says)
			}
		})
	}
}
