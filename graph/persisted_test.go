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

	"byline/graph/document"
	"byline/internal/testkit"
)

const persistedQuery = `query { __typename }`

// persistedExtension is what clients send to name a document by its hash.
func persistedExtension(hash string) map[string]any {
	return map[string]any{"persistedQuery": map[string]any{"version": 1, "sha256Hash": hash}}
}

// postBody posts any JSON.
func postBody(t testing.TB, h http.Handler, token string, body any) testResponse {
	t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(string(encoded)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", mediaResponse)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return send(t, h, r)
}

// byHash sends a hash and, unless it is "", a text.
func byHash(t testing.TB, h http.Handler, token, hash, text string) testResponse {
	t.Helper()
	body := map[string]any{"extensions": persistedExtension(hash)}
	if text != "" {
		body["query"] = text
	}
	return postBody(t, h, token, body)
}

// hashURL returns the URL for a GET of a document by its hash.
func hashURL(t testing.TB, hash string) string {
	t.Helper()
	extensions, err := json.Marshal(persistedExtension(hash))
	if err != nil {
		t.Fatal(err)
	}
	return "/graphql?extensions=" + url.QueryEscape(string(extensions))
}

func isMiss(a testResponse) bool {
	return a.code() == "PERSISTED_QUERY_NOT_FOUND" && a.Errors[0].Message == "PersistedQueryNotFound" && a.Data == nil
}

func TestPersisted_ByHash(t *testing.T) {
	h := newTestHandler(t, Options{})
	hash := document.Hash(persistedQuery)
	if a := byHash(t, h, "", hash, ""); !isMiss(a) || a.status != http.StatusBadRequest {
		t.Errorf("unknown: %d %s", a.status, a.body)
	}
	miss := httptest.NewRequest(http.MethodGet, hashURL(t, hash), nil)
	miss.Header.Set("Accept", mediaJSON)
	if a := send(t, h, miss); !isMiss(a) || a.status != http.StatusOK || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("unknown, as application/json: %d %s", a.status, a.body)
	}
	if a := byHash(t, h, "", hash, persistedQuery); a.code() != "" || a.Data == nil {
		t.Fatalf("with its text: %s", a.body)
	}
	if a := byHash(t, h, "", hash, ""); a.code() != "" || string(a.Data) != `{"__typename":"Query"}` {
		t.Errorf("by POST: %s", a.body)
	}
	if a := send(t, h, httptest.NewRequest(http.MethodGet, hashURL(t, hash), nil)); a.code() != "" ||
		string(a.Data) != `{"__typename":"Query"}` {
		t.Errorf("by GET: %s", a.body)
	}
	// A text without its hash is executed but not cached.
	other := persistedQuery + " "
	if a := post(t, h, "", other, nil); a.code() != "" {
		t.Error(a.body)
	}
	if a := byHash(t, h, "", document.Hash(other), ""); !isMiss(a) {
		t.Errorf("cached without its hash: %s", a.body)
	}
}

// A refused document is not cached under its hash, and no text is cached under another hash.
func TestPersisted_RefusedDocumentIsNotCached(t *testing.T) {
	const mutation = `mutation { likePost(input: {postId: "a"}) { post { id } } }`
	for name, tt := range map[string]struct {
		text, hash, code, field string
	}{
		"the hash of another text": {text: persistedQuery, hash: document.Hash("another"), code: "BAD_USER_INPUT",
			field: "extensions.persistedQuery.sha256Hash"},
		"the hash in capitals": {text: persistedQuery, hash: strings.ToUpper(document.Hash(persistedQuery)),
			code: "BAD_USER_INPUT", field: "extensions.persistedQuery.sha256Hash"},
		"does not parse":        {text: "{", code: "GRAPHQL_PARSE_FAILED"},
		"does not validate":     {text: "{ nope }", code: "GRAPHQL_VALIDATION_FAILED"},
		"no operation":          {text: "fragment F on Query { __typename }", code: "GRAPHQL_VALIDATION_FAILED"},
		"an anonymous mutation": {text: mutation, code: "UNAUTHENTICATED"},
		"too expensive":         {text: `{ feed(first: 100) { edges { node { comments(first: 100) { edges { cursor } } } } } }`, code: "QUERY_TOO_EXPENSIVE", field: "feed.edges.node.comments"},
		"doubling fragments":    {text: hostileDocuments()["doubling"].query, code: "QUERY_TOO_EXPENSIVE"},
		"too many tokens": {text: hostileDocuments()["more than the token limit"].query,
			code: "GRAPHQL_PARSE_FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newTestHandler(t, Options{})
			if tt.hash == "" {
				tt.hash = document.Hash(tt.text)
			}
			if a := byHash(t, h, "", tt.hash, tt.text); a.code() != tt.code || a.field() != tt.field ||
				a.Data != nil || a.status/100 != 4 {
				t.Fatalf("%d, code %q, field %q; want %q, %q: %.300s", a.status, a.code(), a.field(), tt.code,
					tt.field, a.body)
			}
			for _, hash := range []string{tt.hash, document.Hash(tt.text)} {
				if a := byHash(t, h, "demo:ada", hash, ""); !isMiss(a) {
					t.Errorf("cached: %s", a.body)
				}
			}
		})
	}
}

// A text over MaxPersisted is executed but not cached. The cache of shorter ones is bounded.
func TestPersisted_CacheIsBounded(t *testing.T) {
	testkit.Heavy(t)
	h := newTestHandler(t, Options{})
	long := persistedQuery + strings.Repeat(" ", document.MaxPersisted)
	if a := byHash(t, h, "", document.Hash(long), long); a.code() != "" {
		t.Fatal(a.body)
	}
	if a := byHash(t, h, "", document.Hash(long), ""); !isMiss(a) {
		t.Errorf("a long text was cached: %.300s", a.body)
	}
	texts := make([]string, 2*document.PersistedBytes/document.MaxPersisted)
	for i := range texts {
		texts[i] = persistedQuery + fmt.Sprintf("#%0*d", document.MaxPersisted-len(persistedQuery)-1, i)
		if a := byHash(t, h, "", document.Hash(texts[i]), texts[i]); a.code() != "" {
			t.Fatalf("%.300s", a.body)
		}
	}
	cached := 0
	for _, text := range texts {
		if !isMiss(byHash(t, h, "", document.Hash(text), "")) {
			cached++
		}
	}
	if cached != document.PersistedBytes/document.MaxPersisted-1 { // the hashes and entries take the memory of one
		t.Errorf("%d texts of %d bytes are cached", cached, document.MaxPersisted)
	}
}

// The caches of persisted texts and documents do not retain the long URL that a short text came in.
func TestPersisted_CacheHoldsNoURL(t *testing.T) {
	h := newTestHandler(t, Options{})
	const urls, padding = 40, 512 << 10
	before := heap()
	for i := range urls {
		text := fmt.Sprintf("{a%d:__typename}", i)
		target := hashURL(t, document.Hash(text)) + "&query=" + text + "&padding=" + strings.Repeat("x", padding)
		if a := send(t, h, httptest.NewRequest(http.MethodGet, target, nil)); a.code() != "" {
			t.Fatal(a.body)
		}
		if a := byHash(t, h, "", document.Hash(text), ""); a.code() != "" {
			t.Fatal(a.body)
		}
	}
	if took := int64(heap()) - int64(before); took > urls*padding/4 {
		t.Errorf("%d documents take %d bytes", urls, took)
	}
	runtime.KeepAlive(h)
}

func TestPersisted_MalformedExtensions(t *testing.T) {
	h := newTestHandler(t, Options{})
	if a := byHash(t, h, "", document.Hash(persistedQuery), persistedQuery); a.code() != "" {
		t.Fatal(a.body)
	}
	known := document.Hash(persistedQuery)
	for name, tt := range map[string]struct {
		members string // of the body
		code    string
		field   string
	}{
		"known": {`"extensions":{"persistedQuery":{"version":1,"sha256Hash":"` + known + `"}}`,
			"", ""},
		"other members are ignored": {`"extensions":{"x":[],"persistedQuery":{"miss":true,"version":1,"sha256Hash":"` +
			known + `"}}`, "", ""},
		"null, with a text": {`"query":"{__typename}","extensions":{"persistedQuery":null}`, "", ""},
		"null":              {`"extensions":{"persistedQuery":null}`, "BAD_USER_INPUT", "query"},
		"no extensions":     {`"extensions":null`, "BAD_USER_INPUT", "query"},
		"a string": {`"extensions":{"persistedQuery":"secret"}`, "BAD_USER_INPUT",
			"extensions.persistedQuery"},
		"a list": {`"extensions":{"persistedQuery":[{"version":1}]}`, "BAD_USER_INPUT",
			"extensions.persistedQuery"},
		"false": {`"extensions":{"persistedQuery":false}`, "BAD_USER_INPUT",
			"extensions.persistedQuery"},
		"an empty object": {`"extensions":{"persistedQuery":{}}`, "BAD_USER_INPUT",
			"extensions.persistedQuery.version"},
		"without a version": {`"extensions":{"persistedQuery":{"sha256Hash":"` + known + `"}}`,
			"BAD_USER_INPUT", "extensions.persistedQuery.version"},
		"version 2": {`"extensions":{"persistedQuery":{"version":2,"sha256Hash":"` + known + `"}}`,
			"BAD_USER_INPUT", "extensions.persistedQuery.version"},
		"version as a string": {`"extensions":{"persistedQuery":{"version":"1","sha256Hash":"` + known + `"}}`,
			"BAD_USER_INPUT", "extensions.persistedQuery.version"},
		"version 1e999": {`"extensions":{"persistedQuery":{"version":1e999,"sha256Hash":"` + known +
			`"}}`, "BAD_USER_INPUT", "extensions.persistedQuery.version"},
		"no hash": {`"extensions":{"persistedQuery":{"version":1}}`, "BAD_USER_INPUT",
			"extensions.persistedQuery.sha256Hash"},
		"an empty hash": {`"extensions":{"persistedQuery":{"version":1,"sha256Hash":""}}`,
			"BAD_USER_INPUT", "extensions.persistedQuery.sha256Hash"},
		"a hash that is a number": {`"extensions":{"persistedQuery":{"version":1,"sha256Hash":1}}`,
			"BAD_USER_INPUT", "extensions.persistedQuery.sha256Hash"},
		"an unknown hash": {`"extensions":{"persistedQuery":{"version":1,"sha256Hash":"secret"}}`,
			"PERSISTED_QUERY_NOT_FOUND", ""},
		"malformed, with a text": {`"query":"{__typename}","extensions":{"persistedQuery":[]}`, "BAD_USER_INPUT",
			"extensions.persistedQuery"},
		"an id":                      {`"documentId":"secret"`, "PERSISTED_QUERY_NOT_FOUND", ""},
		"an id with a text":          {`"documentId":"secret","query":"{__typename}"`, "", ""},
		"an id among extensions":     {`"extensions":{"documentId":"` + known + `"}`, "BAD_USER_INPUT", "query"},
		"documentId of another type": {`"documentId":["secret"]`, "BAD_USER_INPUT", "documentId"},
		"doc_id of another type":     {`"doc_id":1`, "BAD_USER_INPUT", "doc_id"},
	} {
		t.Run(name, func(t *testing.T) {
			a := postBody(t, h, "", json.RawMessage("{"+tt.members+"}"))
			if a.code() != tt.code || a.field() != tt.field || (a.Data == nil) != (tt.code != "") ||
				strings.Contains(a.body, "secret") {
				t.Errorf("code %q, field %q; want %q, %q: %s", a.code(), a.field(), tt.code, tt.field, a.body)
			}
			if want := a.status == http.StatusOK; want != (tt.code == "") {
				t.Errorf("status %d: %s", a.status, a.body)
			}
		})
	}
}

// FuzzPersistedExtensions checks that no extensions cause an error of the server.
func FuzzPersistedExtensions(f *testing.F) {
	f.Add(`{"persistedQuery":{"version":1,"sha256Hash":"`+document.Hash(persistedQuery)+`"}}`, persistedQuery)
	f.Add(`{"persistedQuery":{"version":1,"sha256Hash":"`+document.Hash(persistedQuery)+`"}}`, "")
	f.Add(`{"persistedQuery":{"version":1.0,"sha256Hash":null}}`, "")
	f.Add(`{"persistedQuery":[1]}`, "{")
	f.Add(`{"documentId":"a"}`, "")
	f.Add(`null`, "")
	h := newTestHandler(f, Options{})
	f.Fuzz(func(t *testing.T, extensions, query string) {
		target := "/graphql?" + url.Values{"extensions": {extensions}, "query": {query}}.Encode()
		a := send(t, h, httptest.NewRequest(http.MethodGet, target, nil))
		switch a.code() {
		case "BAD_USER_INPUT", "PERSISTED_QUERY_NOT_FOUND", "GRAPHQL_PARSE_FAILED", "GRAPHQL_VALIDATION_FAILED":
		case "":
			if a.Data == nil {
				t.Errorf("%d %s", a.status, a.body)
			}
		default:
			if !strings.ContainsAny(query, "{") { // other documents may need the store, which panics
				t.Errorf("%d %s", a.status, a.body)
			}
		}
	})
}

// A subscription may be sent by its hash, and a miss does not close the connection.
func TestPersisted_OverWebSocket(t *testing.T) {
	for _, d := range []struct{ protocol, subscribe, next string }{{modern, "subscribe", "next"},
		{legacy, "start", "data"}} {
		t.Run(d.protocol, func(t *testing.T) {
			b, server := liveBlog(t, Options{})
			p := dial(t, server, d.protocol, nil).init()
			const text = `subscription { postPublished { title } }`
			subscribe := func(id, query string) {
				t.Helper()
				p.send(`{"id":%q,"type":%q,"payload":{%s"extensions":{"persistedQuery":{"version":1,"sha256Hash":%q}}}}`,
					id, d.subscribe, query, document.Hash(text))
			}
			subscribe("1", "")
			if got := p.receive(); !strings.HasPrefix(got, `{"type":"error","id":"1","payload":`) ||
				!strings.Contains(got, `"message":"PersistedQueryNotFound"`) ||
				!strings.Contains(got, `"code":"PERSISTED_QUERY_NOT_FOUND"`) {
				t.Fatal(got)
			}
			subscribe("2", fmt.Sprintf(`"query":%q,`, text))
			opened(t, b, 1)
			subscribe("3", "")
			opened(t, b, 2)
			b.post(t, "ada", "news", "text")
			received := []string{p.receive(), p.receive()}
			slices.Sort(received)
			for i, id := range []string{"2", "3"} {
				if want := fmt.Sprintf(`{"type":%q,"id":%q,"payload":{"data":{"postPublished":{"title":"news"}}}}`,
					d.next, id); received[i] != want {
					t.Errorf("got %s\nwant %s", received[i], want)
				}
			}
		})
	}
}
