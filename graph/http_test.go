package graph

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/99designs/gqlgen/graphql"
	"github.com/google/go-cmp/cmp"

	"byline/graph/document"
	"byline/graph/limit"
)

func TestTransport(t *testing.T) {
	type request struct {
		method, url, contentType, accept, body, token string
	}
	const (
		typename = `{"query":"{__typename}"}`
		mutation = `mutation { likePost(input: {postId: "a"}) { post { id } } }`
		both     = "application/graphql-response+json, application/json;q=0.9"
	)
	get := func(query string) string { return "/graphql?query=" + url.QueryEscape(query) }
	for name, tt := range map[string]struct {
		request
		status int
		code   string
		field  string
		allow  string
		media  string // default application/json
		data   bool
	}{
		"a query by POST": {request: request{body: typename}, status: 200, data: true},
		"a query by GET": {request: request{method: "GET", url: get("{__typename}")},
			status: 200, data: true},
		"the newer media type is preferred": {request: request{body: typename, accept: both}, status: 200,
			data: true, media: mediaResponse},
		"any media type -> JSON": {request: request{body: typename, accept: "text/html, */*;q=0.1"},
			status: 200, data: true},
		"parameters of Accept are ignored": {request: request{body: typename,
			accept: "application/graphql-response+json; charset=utf-8"}, status: 200, data: true, media: mediaResponse},
		"JSON q=0 -> newer media type": {request: request{body: typename,
			accept: "application/json;q=0, application/graphql-response+json;q=0.1"}, status: 200, data: true,
			media: mediaResponse},
		"JSON q=0, any -> newer media type": {request: request{body: typename,
			accept: "application/json;q=0, */*"}, status: 200, data: true, media: mediaResponse},
		"any preferred to JSON -> newer media type": {request: request{body: typename,
			accept: "application/*, application/json;q=0.5"}, status: 200, data: true, media: mediaResponse},
		"any but the newer media type -> JSON": {request: request{body: typename,
			accept: "*/*, application/graphql-response+json;q=0"}, status: 200, data: true},
		"any and JSON -> JSON": {request: request{body: typename, accept: "*/*, application/json"}, status: 200,
			data: true},
		"newer media type, then any": {request: request{body: typename,
			accept: "application/graphql-response+json, */*"}, status: 200, data: true, media: mediaResponse},
		"application q=0, any -> 406": {request: request{body: typename, accept: "application/*;q=0, */*;q=0.1"},
			status: 406, code: "BAD_USER_INPUT"},
		"streams last in Accept": {request: request{body: typename,
			accept: "application/graphql-response+json, application/graphql+json, application/json, " +
				"text/event-stream, multipart/mixed"}, status: 200, data: true, media: mediaResponse},
		"HTML only -> 406": {request: request{body: typename, accept: "text/html"}, status: 406,
			code: "BAD_USER_INPUT"},

		"a mutation by GET -> 405": {request: request{method: "GET", url: get(mutation)}, status: 405,
			code: "BAD_USER_INPUT", allow: "POST"},
		"a mutation by GET, signed in -> 405": {request: request{method: "GET", url: get(mutation),
			token: "demo:ada"}, status: 405, code: "BAD_USER_INPUT", allow: "POST"},
		"a mutation among queries by GET": {request: request{method: "GET",
			url: get("query Q {__typename} mutation M { likePost(input: {postId: \"a\"}) { post { id } } }") +
				"&operationName=Q"}, status: 200, data: true},
		"PUT -> 405": {request: request{method: "PUT", body: typename}, status: 405,
			code: "BAD_USER_INPUT", allow: "GET, POST"},
		"no content type -> 415": {request: request{body: typename, contentType: "none"},
			status: 415, code: "BAD_USER_INPUT"},
		"a form -> 415": {request: request{body: "query={__typename}",
			contentType: "application/x-www-form-urlencoded"}, status: 415, code: "BAD_USER_INPUT"},
		"another charset -> 415": {request: request{body: typename,
			contentType: "application/json; charset=latin1"}, status: 415, code: "BAD_USER_INPUT"},
		"utf8 without a hyphen": {request: request{body: typename,
			contentType: "application/json; charset=utf8"}, status: 200, data: true},
		"a quoted charset": {request: request{body: typename,
			contentType: `application/json;charset="UTF8"`}, status: 200, data: true},
		"a byte order mark": {request: request{body: "\ufeff" + typename}, status: 200, data: true},
		"two byte order marks -> 400": {request: request{body: "\ufeff\ufeff" + typename}, status: 400,
			code: "BAD_USER_INPUT"},
		"a byte order mark before variables": {request: request{method: "GET",
			url: get("{__typename}") + "&variables=" + url.QueryEscape("\ufeff{}")}, status: 200, data: true},
		"utf-8 in any case": {request: request{body: typename,
			contentType: "application/json; charset=UTF-8"}, status: 200, data: true},
		"a body over the limit -> 413": {request: request{body: `{"query":"` +
			strings.Repeat(" ", limit.MaxBody) + `"}`}, status: 413, code: "BAD_USER_INPUT"},
		"a body over the limit by blanks -> 413": {request: request{body: typename + strings.Repeat(" ",
			limit.MaxBody)}, status: 413, code: "BAD_USER_INPUT"},
		"not JSON -> 400": {request: request{body: "secret{"}, status: 400,
			code: "BAD_USER_INPUT"},
		"no body -> 400": {request: request{}, status: 400, code: "BAD_USER_INPUT"},
		"a batch -> 400": {request: request{body: "[" + typename + "]"}, status: 400,
			code: "BAD_USER_INPUT"},
		"text after the object -> 400": {request: request{body: typename + "secret"}, status: 400,
			code: "BAD_USER_INPUT"},
		"two objects -> 400": {request: request{body: typename + typename}, status: 400,
			code: "BAD_USER_INPUT"},
		"no query -> 400": {request: request{body: `{}`}, status: 400,
			code: "BAD_USER_INPUT", field: "query"},
		"query in another case -> 400": {request: request{body: `{"Query":"{__typename}"}`}, status: 400,
			code: "BAD_USER_INPUT", field: "query"},
		"unknown members are ignored": {request: request{
			body: `{"query":"{__typename}","QUERY":"secret{","Variables":7}`}, status: 200, data: true},
		"a query of another type -> 400": {request: request{body: `{"query":["secret"]}`}, status: 400,
			code: "BAD_USER_INPUT", field: "query"},
		"variables of another type -> 400": {request: request{
			body: `{"query":"{__typename}","variables":"secret"}`}, status: 400, code: "BAD_USER_INPUT",
			field: "variables"},
		"null for optional members": {request: request{
			body: `{"query":"{__typename}","variables":null,"operationName":null,"extensions":null}`}, status: 200,
			data: true},
		"duplicate member: the last counts": {request: request{
			body: `{"query":"{nope}","query":"{__typename}"}`}, status: 200, data: true},
		"duplicate member: the first is null": {request: request{body: `{"query":null,"query":"{__typename}"}`},
			status: 200, data: true},
		"duplicate member: the last is null -> 400": {request: request{body: `{"query":"{__typename}","query":null}`},
			status: 400, code: "BAD_USER_INPUT", field: "query"},
		"duplicate variables: the last is null": {request: request{
			body: `{"query":"query($b: Boolean!) {__typename @include(if: $b)}","variables":{"b":true},"variables":null}`}, status: 200, code: "BAD_USER_INPUT", field: "b"},
		"variables by GET of another type -> 400": {request: request{method: "GET",
			url: get("{__typename}") + "&variables=[1]"}, status: 400, code: "BAD_USER_INPUT", field: "variables"},
		"a malformed query string -> 400": {request: request{method: "GET", url: "/graphql?query=%zz"},
			status: 400, code: "BAD_USER_INPUT"},
		"no query by GET -> 400": {request: request{method: "GET"}, status: 400,
			code: "BAD_USER_INPUT", field: "query"},
		"no query, newer media type -> 400": {request: request{body: `{}`, accept: both}, status: 400,
			code: "BAD_USER_INPUT", field: "query", media: mediaResponse},
		"does not parse": {request: request{body: `{"query":"{"}`}, status: 200,
			code: "GRAPHQL_PARSE_FAILED"},
		"does not parse, newer media type": {request: request{body: `{"query":"{"}`, accept: both}, status: 400,
			code: "GRAPHQL_PARSE_FAILED", media: mediaResponse},
		"does not validate": {request: request{body: `{"query":"{nope}"}`}, status: 200,
			code: "GRAPHQL_VALIDATION_FAILED"},
		"does not validate, newer media type": {request: request{body: `{"query":"{nope}"}`, accept: both},
			status: 400, code: "GRAPHQL_VALIDATION_FAILED", media: mediaResponse},
		"@defer is unknown": {request: request{
			body: `{"query":"{ ... @defer { __typename } }"}`}, status: 200, code: "GRAPHQL_VALIDATION_FAILED"},
		"two operations, no operationName": {request: request{
			body: `{"query":"query A {__typename} query B {__typename}"}`}, status: 200,
			code: "GRAPHQL_VALIDATION_FAILED"},
		"two operations, operationName": {request: request{
			body: `{"query":"query A {__typename} query B {__typename}","operationName":"B"}`}, status: 200,
			data: true},
		"unknown operationName": {request: request{
			body: `{"query":"query A {__typename}","operationName":"B"}`}, status: 200,
			code: "GRAPHQL_VALIDATION_FAILED"},
		"a variable of the wrong type": {request: request{
			body: `{"query":"query($n: Int) {feed(first: $n) {edges {cursor}}}","variables":{"n":"x"}}`}, status: 200,
			code: "BAD_USER_INPUT", field: "n"},
		"a variable of the wrong type, newer": {request: request{
			body: `{"query":"query($n: Int) {feed(first: $n) {edges {cursor}}}","variables":{"n":"x"}}`, accept: both},
			status: 400, code: "BAD_USER_INPUT", field: "n", media: mediaResponse},
		"a variable that is too big": {request: request{
			body: `{"query":"query($n: Int) {feed(first: $n) {edges {cursor}}}","variables":{"n":3000000000}}`},
			status: 200, code: "BAD_USER_INPUT", field: "n"},
		"a variable that is a fraction": {request: request{
			body: `{"query":"query($n: Int) {feed(first: $n) {edges {cursor}}}","variables":{"n":1.5}}`}, status: 200,
			code: "BAD_USER_INPUT", field: "n"},
		"a literal that is too big": {request: request{
			body: `{"query":"{feed(first: 3000000000) {edges {cursor}}}"}`}, status: 200,
			code: "GRAPHQL_VALIDATION_FAILED"},
		"a variable with an unknown field": {request: request{
			body: `{"query":"mutation($i: LikePostInput!) {likePost(input: $i) {post {id}}}","variables":{"i":{"postId":"a","nope":1}}}`, token: "demo:ada"}, status: 200, code: "BAD_USER_INPUT", field: "i.nope"},
		"an anonymous mutation": {request: request{
			body: `{"query":"mutation {likePost(input: {postId: \"a\"}) {post {id}}}"}`}, status: 200,
			code: "UNAUTHENTICATED"},
		"an anonymous mutation, newer media type": {request: request{
			body: `{"query":"mutation {likePost(input: {postId: \"a\"}) {post {id}}}"}`, accept: both}, status: 401,
			code: "UNAUTHENTICATED", media: mediaResponse},
		"a query with an invalid token": {request: request{body: typename, token: "nope"}, status: 200,
			code: "UNAUTHENTICATED"},
		"a query with an invalid token, newer": {request: request{body: typename, token: "nope", accept: both},
			status: 401, code: "UNAUTHENTICATED", media: mediaResponse},
		"a document of too many tokens": {request: request{body: `{"query":"{` +
			strings.Repeat(" a:__typename", document.MaxTokens) + `}"}`}, status: 200, code: "GRAPHQL_PARSE_FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.method == "" {
				tt.method = http.MethodPost
			}
			if tt.url == "" {
				tt.url = "/graphql"
			}
			if tt.media == "" {
				tt.media = mediaJSON
			}
			r := httptest.NewRequest(tt.method, tt.url, strings.NewReader(tt.body))
			switch {
			case tt.contentType == "" && tt.method != http.MethodGet:
				r.Header.Set("Content-Type", "application/json")
			case tt.contentType != "none":
				r.Header.Set("Content-Type", tt.contentType)
			}
			if tt.accept != "" {
				r.Header.Set("Accept", tt.accept)
			}
			if tt.token != "" {
				r.Header.Set("Authorization", "Bearer "+tt.token)
			}
			a := send(t, newTestHandler(t, Options{}), r)
			if a.status != tt.status || a.code() != tt.code || a.field() != tt.field {
				t.Errorf("status %d, code %q, field %q; want %d, %q, %q: %s", a.status, a.code(), a.field(), tt.status,
					tt.code, tt.field, a.body)
			}
			if got := strings.Contains(a.body, `"data":`); got != tt.data {
				t.Errorf("has a data entry: %t, want %t: %s", got, tt.data, a.body)
			}
			if strings.Contains(a.body, "secret") {
				t.Errorf("echoes the body: %s", a.body)
			}
			wants := map[string]string{"Content-Type": tt.media + "; charset=utf-8", "Allow": tt.allow,
				"Cache-Control": "no-store", "Vary": vary}
			if tt.method == http.MethodPost { // no cache stores the response
				wants["Cache-Control"], wants["Vary"] = "", ""
			}
			for header, want := range wants {
				if got := a.header.Get(header); got != want {
					t.Errorf("%s is %q, want %q", header, got, want)
				}
			}
			if a.status == http.StatusUnauthorized && a.header.Get("WWW-Authenticate") == "" {
				t.Error("401 without WWW-Authenticate")
			}
		})
	}
}

// zip compresses a text with gzip.
func zip(t testing.TB, text string) string {
	t.Helper()
	var b strings.Builder
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A body may be compressed with gzip, within the same limits. Other encodings are refused, not ignored.
func TestTransport_ContentEncoding(t *testing.T) {
	const typename = `{"query":"{__typename}"}`
	server := httptest.NewServer(newTestHandler(t, Options{}))
	defer server.Close()
	gzipped := zip(t, typename)
	damaged := []byte(gzipped)
	damaged[len(damaged)-5] ^= 1 // of the checksum
	for name, tt := range map[string]struct {
		encoding []string
		body     string
		status   int
	}{
		"identity":            {[]string{"identity"}, typename, http.StatusOK},
		"gzip":                {[]string{"gzip"}, gzipped, http.StatusOK},
		"GZIP":                {[]string{"GZIP"}, gzipped, http.StatusOK},
		"x-gzip":              {[]string{"x-gzip"}, gzipped, http.StatusOK},
		"gzip in two members": {[]string{"gzip"}, zip(t, typename[:9]) + zip(t, typename[9:]), http.StatusOK},
		"gzip at the limit": {[]string{"gzip"},
			zip(t, typename+strings.Repeat(" ", limit.MaxBody-len(typename))), http.StatusOK},
		"gzip over the limit -> 413": {[]string{"gzip"},
			zip(t, typename+strings.Repeat(" ", limit.MaxBody-len(typename)+1)), http.StatusRequestEntityTooLarge},
		"a bomb -> 413": {[]string{"gzip"}, zip(t, strings.Repeat(" ", 16*limit.MaxBody)),
			http.StatusRequestEntityTooLarge},
		"over the limit by itself": {[]string{"gzip"}, gzipped + strings.Repeat("\x00", limit.MaxBody),
			http.StatusRequestEntityTooLarge},
		"gzip, but plain -> 400":      {[]string{"gzip"}, typename, http.StatusBadRequest},
		"gzip that is cut -> 400":     {[]string{"gzip"}, gzipped[:len(gzipped)-3], http.StatusBadRequest},
		"gzip that is damaged -> 400": {[]string{"gzip"}, string(damaged), http.StatusBadRequest},
		"gzip, nothing -> 400":        {[]string{"gzip"}, "", http.StatusBadRequest},
		"gzip twice -> 415":           {[]string{"gzip, gzip"}, zip(t, gzipped), http.StatusUnsupportedMediaType},
		"gzip in two headers -> 415":  {[]string{"gzip", "gzip"}, zip(t, gzipped), http.StatusUnsupportedMediaType},
		"br, but plain -> 415":        {[]string{"br"}, typename, http.StatusUnsupportedMediaType},
		"deflate -> 415":              {[]string{"deflate"}, gzipped, http.StatusUnsupportedMediaType},
		"unknown -> 415":              {[]string{"aws-chunked"}, typename, http.StatusUnsupportedMediaType},
	} {
		for _, length := range []string{"known", "unknown"} {
			t.Run(name+", length "+length, func(t *testing.T) {
				var body io.Reader = strings.NewReader(tt.body)
				if length == "unknown" {
					body = struct{ io.Reader }{body}
				}
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/graphql", body)
				if err != nil {
					t.Fatal(err)
				}
				r.Header = http.Header{"Content-Type": {"application/json"}, "Content-Encoding": tt.encoding}
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				var a testResponse
				if err := json.NewDecoder(response.Body).Decode(&a); err != nil {
					t.Fatal(err)
				}
				code := ""
				if tt.status != http.StatusOK {
					code = "BAD_USER_INPUT"
				}
				if response.StatusCode != tt.status || a.code() != code || (a.Data != nil) != (code == "") {
					t.Errorf("status %d, want %d: %+v", response.StatusCode, tt.status, a)
				}
				if accepts := response.Header.Get(
					"Accept-Encoding") == "gzip"; accepts != (tt.status == http.StatusUnsupportedMediaType) {
					t.Errorf("Accept-Encoding is %q", response.Header.Get("Accept-Encoding"))
				}
			})
		}
	}
}

// The limit applies to a body without a Content-Length, too. The server then serves the next request.
func TestTransport_BodyOfUnknownLengthIsBounded(t *testing.T) {
	server := httptest.NewServer(newTestHandler(t, Options{}))
	defer server.Close()
	for range 2 {
		endless := struct{ *strings.Reader }{strings.NewReader(`{"query":"` + strings.Repeat("x", 4*limit.MaxBody))}
		response, err := http.Post(server.URL+"/graphql", "application/json", endless)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d, want 413", response.StatusCode)
		}
	}
}

func TestOrigins_CrossSiteMayOnlyRead(t *testing.T) {
	h := newTestHandler(t, Options{})
	foreign := func(method, target, body string) *http.Request {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Origin", "https://elsewhere.example")
		return r
	}
	if a := send(t, h, foreign("POST", "/graphql", `{"query":"{__typename}"}`)); a.status != http.StatusForbidden ||
		a.code() != "FORBIDDEN" {
		t.Errorf("POST: %d %s", a.status, a.body)
	}
	if a := send(t, h, foreign("GET", "/graphql?query={__typename}", "")); a.status != http.StatusOK {
		t.Errorf("GET: %d %s", a.status, a.body)
	}
}

func TestRequestID(t *testing.T) {
	h := newTestHandler(t, Options{})
	for name, tt := range map[string]struct {
		sent string
		kept bool
	}{
		"valid -> kept":                   {"req-1_A.9", true},
		"none -> generated":               {"", false},
		"65 characters -> generated":      {strings.Repeat("a", 65), false},
		"control characters -> generated": {"a\nb", false},
		"markup -> generated":             {"<script>", false},
		"64 characters -> kept":           {strings.Repeat("a", 64), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/graphql", strings.NewReader(`{"query":"{"}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header[requestIDHeader] = []string{tt.sent}
			a := send(t, h, r)
			id := a.header.Get(requestIDHeader)
			if id == "" || (id == tt.sent) != tt.kept {
				t.Errorf("id %q for %q", id, tt.sent)
			}
			if a.extension("requestId") != id {
				t.Errorf("requestId %q in the error, %q in the header", a.extension("requestId"), id)
			}
		})
	}
}

// A read timeout of the body is 408 with BAD_USER_INPUT.
func TestTransport_BodyReadTimeout(t *testing.T) {
	body := io.MultiReader(strings.NewReader(`{"query":`),
		iotest.ErrReader(&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}))
	r := httptest.NewRequest(http.MethodPost, "/graphql", body)
	r.Header.Set("Content-Type", "application/json")
	if a := send(t, newTestHandler(t, Options{}), r); a.status != http.StatusRequestTimeout ||
		a.code() != "BAD_USER_INPUT" {
		t.Errorf("status %d: %s", a.status, a.body)
	}
}

func TestDecodeObject(t *testing.T) {
	for text, want := range map[string]document.Object{
		`null`: nil,
		`{}`:   {},
		`{"a": 1, "b": {"c": 1, "c": 2}, "a": 3}`: {"a": int64(3), "b": map[string]any{"c": int64(2)}},
		`{"h": 1e999, "l": -1e999, "z": -0, "d": 0.0}`: {"h": math.MaxFloat64, "l": -math.MaxFloat64, "z": int64(0),
			"d": int64(0)},
		` {"i": 7, "m": -9007199254740993, "f": 1.5, "w": 1.0, "e": 1e2, "x": 10E-1, "big": 9223372036854775808, "rounded": 9007199254740993.0} `: {
			"i": int64(7), "m": int64(-9007199254740993), "f": 1.5, "w": int64(1), "e": int64(100), "x": int64(1),
			"big": json.Number("9223372036854775808"), "rounded": 9007199254740992.0},
		`{"s": "a\u00e9\n", "t": true, "n": null, "l": [1, [], {"o": {}}]}`: {
			"s": "aé\n", "t": true, "n": nil, "l": []any{int64(1), []any{}, map[string]any{"o": map[string]any{}}}},
	} {
		var got document.Object
		if err := document.Decode(text, &got); err != nil {
			t.Errorf("%s: %v", text, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", text, diff)
		}
	}
	for _, text := range []string{``, `7`, `[]`, `"a"`, `{"a":1`, `{"a":[1}`, `{"a":1}{}`, `{"a":01}`,
		`{"a":"\ud800"}`, "{\"a\":\"\xff\"}"} {
		var got document.Object
		if err := document.Decode(text, &got); err == nil {
			t.Errorf("%s: no error, but %v", text, got)
		}
	}
}

func BenchmarkReadParams(b *testing.B) {
	const body = `{"query":"mutation M($input: CreateCommentInput!) { createComment(input: $input) { comment { id content author { id username } } post { id commentCount } } }",` +
		`"variables":{"input":{"postId":"UG9zdDoxMjM0NTY3ODkw","content":"A comment of some hundred bytes, as most of them are, or so it seems to those who read them."}}}`
	b.ReportAllocs()
	for b.Loop() {
		var params graphql.RawParams
		if err := document.ReadParams(body, &params); err != nil || len(params.Variables) == 0 {
			b.Fatal(params, err)
		}
	}
}

func TestBatch_IsRefused(t *testing.T) {
	h := newTestHandler(t, Options{})
	for _, body := range []string{`[{"query":"{ __typename }"}]`, " \r\n\t[]", `[`,
		`[{"query":"{ __typename }"},{"query":"{ __typename }"}]`} {
		for _, accept := range []string{mediaJSON, mediaResponse, mediaEvents} {
			r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", accept)
			a := send(t, h, r)
			if a.status != http.StatusBadRequest || !strings.Contains(a.body, `"BAD_USER_INPUT"`) ||
				!strings.Contains(a.body,
					"batches (a list of operations) are not supported: send one operation per request") {
				t.Errorf("%q as %s: %d %s", body, accept, a.status, a.body)
			}
		}
	}
}
