package graph

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"byline/graph/document"
	"byline/internal/testkit"
)

// hostileDocuments returns documents that are made to cost far more than their length. code is the error code of the
// response, "" if a document is as cheap as others of its length. None of them needs the store.
func hostileDocuments() map[string]struct{ query, code string } {
	chain := func(n int, on, inside string) string { // F0 to Fn, each with the next where inside has %d
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, " fragment F%d on %s { %s }", i, on, strings.ReplaceAll(inside, "%d", fmt.Sprint(i+1)))
		}
		return b.String()
	}
	many := func(n int, text string) string { // with i where text has %d
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(text, "%d", fmt.Sprint(i)) + " ")
		}
		return b.String()
	}
	const author = `posts { edges { node { author { ...F%d } } } }`
	return map[string]struct{ query, code string }{
		"one field repeated":             {`{ viewer { ` + many(3900, "id") + `} }`, ""},
		"one alias repeated":             {`{ viewer { ` + many(1300, "a: id") + `} }`, "QUERY_TOO_EXPENSIVE"},
		"many aliases":                   {`{ viewer { ` + many(1300, "a%d: id") + `} }`, "QUERY_TOO_EXPENSIVE"},
		"as many aliases as are allowed": {`{ viewer { ` + many(document.MaxAliases, "a%d: id") + `} }`, ""},
		"aliases in fragments": {`{ viewer { ` + many(document.MaxAliases/10+1, "b: posts { ...F }") +
			`} } fragment F on PostConnection { ` + many(10, "a%d: __typename") + `}`, "QUERY_TOO_EXPENSIVE"},
		"deeply nested lists": {`{ nodes(ids: ` + strings.Repeat("[", 1900) + `"a"` +
			strings.Repeat("]", 1900) + `) { id } }`, "GRAPHQL_PARSE_FAILED"},
		"a page of pages of pages": {`{ feed(first: 100) { edges { node { comments(first: 100) { edges { node { author { posts(first: 100) { edges { cursor } } } } } } } } } }`, "QUERY_TOO_EXPENSIVE"},
		"one field with different arguments": {`{ viewer { ` + many(400, "posts(first: %d) { __typename }") + `} }`,
			"GRAPHQL_VALIDATION_FAILED"},
		"one object repeated": {`{ viewer { ` +
			many(190, "posts { edges { cursor node { id author { id username } } } }") + `} }`, ""},
		"one fragment repeated": {`{ viewer { ` + many(1900, "...F") + `} } fragment F on User { id }`,
			""},
		"inline fragments repeated": {`{ viewer { ` + many(600, "... on User { id }") + `} }`, ""},
		"many fragments with one field": {`{ viewer { ` + many(390, "...F%d") + `} } ` +
			many(390, "fragment F%d on User { id }"), ""},
		"many fragments with distinct fields": {`{ viewer { ` + many(320, "...F%d") + `} } ` +
			many(320, "fragment F%d on User { a%d: id }"), "QUERY_TOO_EXPENSIVE"},
		"a long fragment in many places": {`{ viewer { ` + many(30, "posts { ...F "+many(30, "...F")+"}") +
			`} } fragment F on PostConnection { ` + many(1900, "__typename") + `}`, "QUERY_TOO_EXPENSIVE"},
		"a long fragment in many queries": {many(250, "query Q%d { ...F }") + `fragment F on Query { ` +
			many(1900, "__typename") + `}`, "QUERY_TOO_EXPENSIVE"},
		"a long chain of fragments": {`{ viewer { ...F0 } }` + chain(400, "User", "id ...F%d") +
			` fragment F400 on User { id }`, "QUERY_TOO_EXPENSIVE"},
		"doubling": {`{ viewer { ...F0 } }` + chain(24, "User", "...F%d ...F%d") +
			` fragment F24 on User { id }`, "QUERY_TOO_EXPENSIVE"},
		"doubling, below a field": {`{ viewer { ...F0 } }` + chain(24, "User", author+" "+author) +
			` fragment F24 on User { id }`, "QUERY_TOO_EXPENSIVE"},
		"doubling, below aliases": {`{ viewer { ...F0 } }` + chain(24, "User", "a: "+author+" b: "+author) +
			` fragment F24 on User { id }`, "QUERY_TOO_EXPENSIVE"},
		"doubling, in introspection": {`{ __schema { ...F0 } }` + chain(24, "__Schema", "...F%d ...F%d") +
			` fragment F24 on __Schema { __typename }`, "QUERY_TOO_EXPENSIVE"},
		"doubling, 200 times": {`{ viewer { ...F0 } }` + chain(200, "User", "...F%d ...F%d") +
			` fragment F200 on User { id }`, "QUERY_TOO_EXPENSIVE"},
		"a recursive fragment": {`{ viewer { ...F0 } }` + chain(24, "User", "...F%d ...F%d") +
			` fragment F24 on User { ...F0 }`, "GRAPHQL_VALIDATION_FAILED"},
		"a recursive fragment, below fields": {`{ viewer { ...F0 } }` + chain(24, "User", author) +
			` fragment F24 on User { ...F0 }`, "GRAPHQL_VALIDATION_FAILED"},
		"deeply nested": {`{ viewer { ` + many(240, "posts { edges { node { author {") + "id" +
			strings.Repeat("}", 4*240) + `} }`, "QUERY_TOO_EXPENSIVE"},
		"many directives": {`{ viewer { id ` + many(500, "@include(if: true)") + `} }`,
			"GRAPHQL_VALIDATION_FAILED"},
		"the most tokens allowed": {`query Q { ...F } ` + many(4, "query Q%d { ...F }") +
			`fragment F on Query { ` + many(1650, "__typename") + `}`, "GRAPHQL_VALIDATION_FAILED"},
		"many arguments in many places": {many(250, "query Q%d { ...F }") + `fragment F on Query { nodes(ids: [` +
			many(1900, "1") + `]) { id } }`, "QUERY_TOO_EXPENSIVE"},
		"fields that do not exist":  {`{ viewer { ` + many(3900, "usernam") + `} }`, "GRAPHQL_VALIDATION_FAILED"},
		"more than the token limit": {`{ viewer { ` + many(document.MaxTokens, "id") + `} }`, "GRAPHQL_PARSE_FAILED"},
	}
}

func TestHostileDocuments(t *testing.T) {
	testkit.Heavy(t)
	for _, development := range []bool{false, true} {
		h := newTestHandler(t, Options{Development: development})
		for name, tt := range hostileDocuments() {
			t.Run(fmt.Sprintf("%s, development %t", name, development), func(t *testing.T) {
				a := post(t, h, "", tt.query, nil)
				if a.code() != tt.code {
					t.Errorf("code %q, want %q: %.300s", a.code(), tt.code, a.body)
				}
				if limit := 4*len(tt.query) + 4000; len(a.body) > limit {
					t.Errorf("a response of %d bytes to a document of %d", len(a.body), len(tt.query))
				}
			})
		}
	}
}

// 2 KB of fragments that each spread the next one twice, below lists, are refused within 5 ms. The fastest of 20
// attempts counts, as the machine may be busy.
func TestDoublingFragments_AreRefusedWithin5ms(t *testing.T) {
	var query strings.Builder
	query.WriteString(`{ feed { edges { node { author { ...F0 } } } } }`)
	const n = 16
	for i := range n {
		fmt.Fprintf(&query,
			` fragment F%d on User { a: posts { edges { node { author { ...F%d } } } } b: posts { edges { node { author { ...F%d } } } } }`, i, i+1, i+1)
	}
	fmt.Fprintf(&query, ` fragment F%d on User { id }`, n)
	if size := query.Len(); size < 2000 || size > 2200 {
		t.Fatalf("%d bytes", size)
	}
	h := newTestHandler(t, Options{})
	fastest := time.Hour
	for range 20 {
		start := time.Now()
		a := post(t, h, "", query.String(), nil)
		fastest = min(fastest, time.Since(start))
		if a.code() != "QUERY_TOO_EXPENSIVE" {
			t.Fatal(a.body)
		}
	}
	t.Logf("%d bytes are refused in %s", query.Len(), fastest)
	if fastest > 5*time.Millisecond {
		t.Errorf("took %s, want at most 5ms", fastest)
	}
}

// Excessive requests are refused with a code, while requests of other clients succeed.
func TestHostileRequests(t *testing.T) {
	testkit.Heavy(t)
	b := smallBlog(t, Options{})
	send := func(body io.Reader) (a testResponse, err error) {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/graphql", body)
		r.Header.Set("Content-Type", "application/json")
		b.ServeHTTP(w, r)
		a.status = w.Code
		return a, json.Unmarshal(w.Body.Bytes(), &a)
	}
	query := func(document string) string { return `{"query":"` + document + `"}` }
	const ids = `{"query":"query($ids: [ID!]!) { nodes(ids: $ids) { id } }","variables":{"ids":`
	for name, tt := range map[string]struct {
		body    string
		chunked bool
		code    string
	}{
		"a million aliases": {query("{" + strings.Repeat(" a:__typename", 1_000_000) + "}"), false,
			"BAD_USER_INPUT"},
		"a body full of aliases": {query("{" + strings.Repeat(" a:__typename", 80_000) + "}"), false,
			"GRAPHQL_PARSE_FAILED"},
		"10 MB":                   {query(strings.Repeat(" ", 10<<20)), false, "BAD_USER_INPUT"},
		"10 MB of unknown length": {query(strings.Repeat(" ", 10<<20)), true, "BAD_USER_INPUT"},
		"a deep list in the document": {query(`{ nodes(ids: ` + strings.Repeat("[", 500_000) + `) { id } }`),
			false, "GRAPHQL_PARSE_FAILED"},
		"a deep list in a variable": {ids + strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000) + `}}`,
			false, "BAD_USER_INPUT"},
		"the deepest list that JSON allows": {ids + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + `}}`,
			false, "BAD_USER_INPUT"},
		"a long list in a variable": {ids + `["a"` + strings.Repeat(`,"a"`, 250_000) + `]}}`, false, "BAD_USER_INPUT"},
		"deep objects":              {query(strings.Repeat("{a", 300_000)), false, "GRAPHQL_PARSE_FAILED"},
		"comments alone":            {query(strings.Repeat(`#\n`, 300_000)), false, "GRAPHQL_PARSE_FAILED"},
		"pages of pages": {query(
			`{ feed(first: 100) { edges { node { likes(first: 100) { edges { node { user { posts(first: 100) { edges { cursor } } } } } } } } } }`), false, "QUERY_TOO_EXPENSIVE"},
	} {
		t.Run(name, func(t *testing.T) {
			var work sync.WaitGroup
			for range 3 {
				work.Go(func() {
					body := io.Reader(strings.NewReader(tt.body))
					if tt.chunked {
						body = io.MultiReader(body) // hides the length
					}
					a, err := send(body)
					if err != nil || a.code() != tt.code || a.Data != nil && string(a.Data) != "null" {
						t.Errorf("status %d, code %q, want %q, %v", a.status, a.code(), tt.code, err)
					}
				})
			}
			for range 3 {
				a, err := send(strings.NewReader(query(b.fill(`{ post(id: \"<post:moths>\") { title } }`))))
				if err != nil || string(a.Data) != `{"post":{"title":"moths"}}` {
					t.Errorf("another client gets %s, %v", a.Data, err)
				}
			}
			work.Wait()
		})
	}
}

// Each field of each item fails, but a response and each event has at most maxErrors errors.
func TestErrors_AreAtMostMaxErrors(t *testing.T) {
	b, server := liveBlog(t, Options{})
	var fields strings.Builder
	for i := range 60 {
		fmt.Fprintf(&fields, " a%d: comments(first: 0) { edges { cursor } }", i)
	}
	query := `{ feed { edges { node {` + fields.String() + `} } } }`
	if a := post(t, b, "", query, nil); len(a.Errors) != maxErrors || a.code() != "BAD_USER_INPUT" {
		t.Errorf("%d errors, want %d: %.300s", len(a.Errors), maxErrors, a.body)
	}
	p := dial(t, server, modern, nil).init()
	p.subscribe("subscribe", "1",
		`subscription { postPublished { author { posts { edges { node {`+fields.String()+`} } } } } }`)
	opened(t, b, 1)
	for i := range 3 {
		b.post(t, "ada", fmt.Sprint("News ", i), "Something.")
		var m struct {
			Payload struct{ Errors []any }
		}
		if err := json.Unmarshal([]byte(p.receive()), &m); err != nil || len(m.Payload.Errors) != maxErrors {
			t.Errorf("event %d: %d errors, %v", i, len(m.Payload.Errors), err)
		}
	}
}

// BenchmarkHostileDocument measures the cost of a document before it reads anything.
//
//	go test -run '^$' -bench HostileDocument ./graph
func BenchmarkHostileDocument(b *testing.B) {
	h := newTestHandler(b, Options{Development: true})
	for name, tt := range hostileDocuments() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if a := post(b, h, "", tt.query, nil); a.code() != tt.code {
					b.Fatalf("code %q, want %q", a.code(), tt.code)
				}
			}
		})
	}
}
