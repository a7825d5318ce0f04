package graph

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"byline/graph/document"
	"byline/internal/testkit"
)

// compressed sends a request of a client that accepts the codings, and returns the response with its body as text.
func compressed(t testing.TB, h http.Handler, r *http.Request, accept string) (header http.Header, text string) {
	t.Helper()
	r.Header.Set("Accept-Encoding", accept)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	header = w.Result().Header
	if n := header.Get("Content-Length"); n != "" && n != strconv.Itoa(w.Body.Len()) {
		t.Errorf("Content-Length %s, body %d bytes", n, w.Body.Len())
	}
	var body io.Reader = bytes.NewReader(w.Body.Bytes())
	var err error
	switch header.Get("Content-Encoding") {
	case "gzip":
		body, err = gzip.NewReader(body)
	case "zstd":
		body, err = zstd.NewReader(body)
	}
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return header, string(all)
}

// Responses of 1 KB and more are compressed for clients that accept it, whether they are executed or cached, and all
// clients get the same text.
func TestCompression(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	const long, short = `{ feed { edges { node { id title content author { id username } createdAt } } } }`,
		`{ feed { edges { node { title } } } }`
	wrong := b.fill(
		`{ post(id: "nope") { title } feed { edges { node { id title content author { id username } createdAt } } } }`)
	mutation := b.fill(
		`mutation { likePost(input: {postId: "<post:engines>"}) { post { a: content b: content c: content } } }`)
	for name, tt := range map[string]struct{ query, accept, want string }{
		"a browser":               {long, "gzip, deflate, br, zstd", "zstd"},
		"gzip only":               {long, "gzip", "gzip"},
		"without the header":      {long, "", ""},
		"others only":             {long, "br", ""},
		"a short response":        {short, "gzip, zstd", ""},
		"with an error, and data": {wrong, "gzip", "gzip"},
		"a mutation":              {mutation, "gzip", "gzip"},
		"a refusal":               {`{ nope }`, "gzip", ""},
	} {
		t.Run(name, func(t *testing.T) {
			do := func(accept string) (http.Header, string) {
				return compressed(t, i, newPost(t, "demo:ada", tt.query, nil), accept)
			}
			header, text := do(tt.accept)
			for range 3 { // of which some are cached
				again, same := do(tt.accept)
				if got := again.Get("Content-Encoding"); got != tt.want || !strings.HasPrefix(same, `{"`) {
					t.Errorf("Content-Encoding %q, want %q: %.100s", got, tt.want, same)
				}
			}
			if got := header.Get("Content-Encoding"); got != tt.want {
				t.Errorf("Content-Encoding %q, want %q: %.300s", got, tt.want, text)
			}
			if _, plain := do(""); withoutIDs(plain) != withoutIDs(text) {
				t.Errorf("got %.500s, want %.500s", text, plain)
			}
		})
	}
}

// withoutIDs returns a response without the request's id.
func withoutIDs(body string) string {
	before, after, found := strings.Cut(body, `"requestId":"`)
	if !found {
		return body
	}
	_, after, _ = strings.Cut(after, `"`)
	return before + after
}

// A public response has one ETag in all codings, and Vary says that it depends on Accept-Encoding.
func TestCompression_ETag(t *testing.T) {
	b := smallBlog(t, Options{})
	i := newInstance(t, b, "one", 5*time.Millisecond)
	const query = `{ feed { edges { node { id title content author { id username } createdAt } } } }`
	byHash(t, i, "demo:ada", document.Hash(query), query)
	do := func(accept, tag string) http.Header {
		r := httptest.NewRequest(http.MethodGet, hashURL(t, document.Hash(query))+"&variables="+url.QueryEscape("{}"),
			nil)
		r.Header.Set("If-None-Match", tag)
		header, _ := compressed(t, i, r, accept)
		return header
	}
	tag := do("", "").Get("ETag")
	if !strings.HasPrefix(tag, `W/"`) {
		t.Errorf("ETag %s is not weak", tag)
	}
	testkit.WaitFor(t, func() bool { return !i.executes(t, func() { do("", "") }) })
	for accept, want := range map[string]string{"": "", "gzip": "gzip", "zstd": "zstd"} {
		h := do(accept, "")
		if h.Get("Content-Encoding") != want || h.Get("ETag") != tag ||
			!strings.Contains(h.Get("Vary"), "Accept-Encoding") {
			t.Errorf("%q: %v", accept, h)
		}
		if h := do(accept, tag); h.Get("Content-Encoding") != "" || h.Get("ETag") != tag ||
			h.Get("Content-Length") != "" {
			t.Errorf("%q, not modified: %v", accept, h)
		}
	}
}

// An event stream is not compressed: a proxy or a client could wait for more before it shows an event.
func TestCompression_EventStream(t *testing.T) {
	b := smallBlog(t, Options{})
	r := newPost(t, "demo:ada", `{ feed { edges { node { id title content author { id username } createdAt } } } }`,
		nil)
	r.Header.Set("Accept", mediaEvents)
	header, text := compressed(t, b, r, "gzip, zstd")
	if header.Get("Content-Encoding") != "" || header.Get("Cache-Control") != "no-store" ||
		!strings.HasPrefix(text, "event: next\n") {
		t.Errorf("%v %.200s", header, text)
	}
}
