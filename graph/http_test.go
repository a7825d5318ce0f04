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
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/99designs/gqlgen/graphql"
	"github.com/google/go-cmp/cmp"

	"byline/graph/document"
	"byline/graph/limit"
)

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
