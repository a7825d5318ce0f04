package graph

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"byline/graph/document"
)

// Only a response to an anonymous GET by hash, without errors or fields that depend on the viewer, is public.
func TestCacheControl(t *testing.T) {
	b := smallBlog(t, Options{})
	const feed = `query Feed($first: Int) { feed(first: $first) { edges { node { title author { username } likeCount } } } }`
	for name, tt := range map[string]struct {
		query, variables, token, accept string
		post, text                      bool
		public                          bool
	}{
		"anonymous -> public":        {query: feed, public: true},
		"with variables -> public":   {query: feed, variables: `{"first":1}`, public: true},
		"newer media type -> public": {query: feed, accept: mediaResponse, public: true},
		"unknown post, or a draft":   {query: `{ post(id: "` + postGlobalID("none") + `") { title } }`},
		"nodes -> public": {query: b.fill(
			`{ nodes(ids: ["<user:ada>", "<post:engines>"]) { id } }`), public: true},
		"nodes, one of which may be a draft": {query: b.fill(`{ nodes(ids: ["<user:ada>", "` +
			postGlobalID("none") + `"]) { id } }`)},
		"signed in":                             {query: feed, token: "demo:ada"},
		"anonymous viewer":                      {query: `{ viewer { username } }`},
		"anonymous viewerHasLiked":              {query: `{ feed { edges { node { viewerHasLiked } } } }`},
		"viewerHasLiked not included -> public": {query: `query($i: Boolean = false) { feed { edges { node { title viewerHasLiked @include(if: $i) } } } }`, public: true},
		"by POST":                               {query: feed, post: true},
		"with the text in the URL":              {query: feed, text: true},
		"with an error and data":                {query: `{ post(id: "nope") { title } feed(first: 1) { edges { node { title } } } }`},
		"with only errors":                      {query: feed, variables: `{"first":"x"}`},
		"as an event stream":                    {query: feed, accept: mediaEvents},
		"with an invalid token":                 {query: feed, token: "nope"},
		"with an empty token":                   {query: feed, token: " "},
		"not acceptable":                        {query: feed, accept: "text/html"},
	} {
		t.Run(name, func(t *testing.T) {
			hash := document.Hash(tt.query)
			if a := byHash(t, b, "demo:ada", hash, tt.query); isMiss(a) {
				t.Fatal(a.body)
			}
			target := hashURL(t, hash) + "&variables=" + url.QueryEscape(tt.variables)
			if tt.text {
				target += "&query=" + url.QueryEscape(tt.query)
			}
			method, body := http.MethodGet, ""
			if tt.post {
				method, target, body = http.MethodPost, "/graphql",
					`{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"`+hash+`"}}}`
			}
			do := func(tag string) testResponse {
				r := httptest.NewRequest(method, target, strings.NewReader(body))
				r.Header.Set("Content-Type", mediaJSON)
				if tt.accept != "" {
					r.Header.Set("Accept", tt.accept)
				}
				if tt.token != "" {
					r.Header.Set("Authorization", "Bearer "+tt.token)
				}
				if tag != "" {
					r.Header.Set("If-None-Match", tag)
				}
				return send(t, b, r)
			}
			a := do("")
			want, wantVary := "no-store", vary
			switch {
			case tt.public:
				want = "public, max-age=5"
			case tt.post: // no cache stores the response
				want, wantVary = "", ""
			}
			tag := a.header.Get("ETag")
			if got := a.header.Get("Cache-Control"); got != want || (tag != "") != tt.public ||
				a.header.Get("Vary") != wantVary {
				t.Errorf("Cache-Control %q, want %q; ETag %s, Vary %q: %d %.300s", got, want, tag,
					a.header.Get("Vary"), a.status, a.body)
			}
			if got := a.header.Get(requestIDHeader); (got == "") != tt.public {
				t.Errorf("request id %q, public %t", got, tt.public)
			}
			again := do("*")
			if tt.public {
				if again.status != http.StatusNotModified || again.body != "" || again.header.Get("ETag") != tag ||
					again.header.Get("Cache-Control") != want ||
					again.header.Get("Vary") != vary {
					t.Errorf("If-None-Match: %d %q %v", again.status, again.body, again.header)
				}
			} else if again.status == http.StatusNotModified {
				t.Error("If-None-Match: not modified")
			}
		})
	}
}

// A GET by document id is public, as one by hash is.
func TestCacheControl_TrustedDocuments(t *testing.T) {
	h := newTestHandler(t,
		Options{TrustedDocuments: trust(t,
			manifestOf(t, map[string]string{"a1": trustedQuery, "a2": trustedMutation}))})
	for _, target := range []string{"/graphql?documentId=a1", "/graphql?doc_id=a1&extensions=null",
		"/graphql?documentId=" + url.QueryEscape("sha256:"+document.Hash(trustedQuery)), hashURL(t, "a1")} {
		a := send(t, h, httptest.NewRequest(http.MethodGet, target, nil))
		if a.status != http.StatusOK || a.Data == nil || a.header.Get("Cache-Control") != "public, max-age=5" {
			t.Errorf("%s: %d %q %s", target, a.status, a.header.Get("Cache-Control"), a.body)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/graphql?documentId=a2", nil)
	r.Header.Set("Authorization", "Bearer demo:ada")
	if a := send(t, h, r); a.status != http.StatusMethodNotAllowed || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("a mutation: %d %s", a.status, a.body)
	}
}

func TestETag_ChangesWithResponse(t *testing.T) {
	b := smallBlog(t, Options{})
	query := b.fill(`{ post(id: "<post:notes>") { title likeCount } }`)
	if a := byHash(t, b, "", document.Hash(query), query); a.code() != "" {
		t.Fatal(a.body)
	}
	server := httptest.NewServer(b)
	defer server.Close()
	do := func(tag string) (status int, got string) {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, server.URL+hashURL(t, document.Hash(query)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if tag != "" {
			r.Header.Set("If-None-Match", tag)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode, response.Header.Get("ETag")
	}
	_, before := do("")
	if status, got := do(`"other", ` + before); status != http.StatusNotModified || got != before {
		t.Errorf("unchanged response: status %d, ETag %s, before %s", status, got, before)
	}
	if a := post(t, b, "demo:ada",
		b.fill(`mutation { likePost(input: {postId: "<post:notes>"}) { post { likeCount } } }`), nil); a.code() != "" {
		t.Fatal(a.body)
	}
	if status, got := do(before); status != http.StatusOK || got == before || got == "" {
		t.Errorf("changed response: status %d, ETag %s, before %s", status, got, before)
	}
}
