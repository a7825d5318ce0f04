package graph

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"byline/graph/document"
)

// What caches may keep is what a GET without a text got for nobody in particular, and
// nothing else.
func TestWhatCachesMayKeep(t *testing.T) {
	b := smallBlog(t, Options{})
	const feed = `query Feed($first: Int) { feed(first: $first) { edges { node { title author { username } likeCount } } } }`
	for name, tt := range map[string]struct {
		query, variables, token, accept string
		post, text                      bool
		public                          bool
	}{
		"nobody's feed":                       {query: feed, public: true},
		"of another size":                     {query: feed, variables: `{"first":1}`, public: true},
		"as the newer media type":             {query: feed, accept: mediaResponse, public: true},
		"a post that does not exist":          {query: `{ post(id: "` + postGlobalID("none") + `") { title } }`, public: true},
		"somebody's feed":                     {query: feed, token: "demo:ada"},
		"the viewer, who is nobody":           {query: `{ viewer { username } }`},
		"what nobody likes":                   {query: `{ feed { edges { node { viewerHasLiked } } } }`},
		"what nobody likes, not asked":        {query: `query($i: Boolean = false) { feed { edges { node { title viewerHasLiked @include(if: $i) } } } }`, public: true},
		"by POST":                             {query: feed, post: true},
		"with the text in the URL":            {query: feed, text: true},
		"with an error beside the data":       {query: `{ post(id: "nope") { title } feed(first: 1) { edges { node { title } } } }`},
		"with nothing but errors":             {query: feed, variables: `{"first":"x"}`},
		"as an event stream":                  {query: feed, accept: mediaEvents},
		"for somebody whose token is no good": {query: feed, token: "nope"},
		"with an empty token":                 {query: feed, token: " "},
		"acceptable to nobody":                {query: feed, accept: "text/html"},
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
				method, target, body = http.MethodPost, "/graphql", `{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"`+hash+`"}}}`
			}
			ask := func(tag string) answer {
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
			a := ask("")
			want := "no-store"
			if tt.public {
				want = "public, max-age=5"
			}
			tag := a.header.Get("ETag")
			if got := a.header.Get("Cache-Control"); got != want || (tag != "") != tt.public || a.header.Get("Vary") != vary {
				t.Errorf("Cache-Control %q, want %q; ETag %s, Vary %q: %d %.300s", got, want, tag, a.header.Get("Vary"), a.status, a.body)
			}
			if got := a.header.Get(requestIDHeader); (got == "") != tt.public {
				t.Errorf("a request id of %q", got)
			}
			again := ask("*")
			if tt.public {
				if again.status != http.StatusNotModified || again.body != "" || again.header.Get("ETag") != tag || again.header.Get("Cache-Control") != want ||
					again.header.Get("Vary") != vary {
					t.Errorf("again: %d %q %v", again.status, again.body, again.header)
				}
			} else if again.status == http.StatusNotModified {
				t.Error("again: not modified")
			}
		})
	}
}

// An id is as good as a hash to caches.
func TestTrustedDocumentsByGET(t *testing.T) {
	h := deaf(t, Options{TrustedDocuments: trust(t, manifestOf(t, map[string]string{"a1": trustedQuery, "a2": trustedMutation}))})
	for _, target := range []string{"/graphql?documentId=a1", "/graphql?doc_id=a1&extensions=null", "/graphql?documentId=" + url.QueryEscape("sha256:"+document.Hash(trustedQuery)), hashURL(t, "a1")} {
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
	ask := func(tag string) (status int, got string) {
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
	_, before := ask("")
	if status, got := ask(`"other", W/` + before); status != http.StatusNotModified || got != before {
		t.Errorf("the same answer: %d %s, before %s", status, got, before)
	}
	if a := post(t, b, "demo:ada", b.fill(`mutation { likePost(input: {postId: "<post:notes>"}) { post { likeCount } } }`), nil); a.code() != "" {
		t.Fatal(a.body)
	}
	if status, got := ask(before); status != http.StatusOK || got == before || got == "" {
		t.Errorf("another answer: %d %s, before %s", status, got, before)
	}
}

func TestIfNoneMatch(t *testing.T) {
	const tag = `"abc"`
	for name, tt := range map[string]struct {
		header []string
		want   bool
	}{
		"none":                       {nil, false},
		"empty":                      {[]string{""}, false},
		"the tag":                    {[]string{tag}, true},
		"weak":                       {[]string{"W/" + tag}, true},
		"any":                        {[]string{"*"}, true},
		"another":                    {[]string{`"abd"`}, false},
		"without quotes":             {[]string{"abc"}, false},
		"any, in quotes":             {[]string{`"*"`}, false},
		"in a list":                  {[]string{`"x",W/"y" ,	"abc"`}, true},
		"in a second line":           {[]string{`"x"`, `"abc"`}, true},
		"not in a list":              {[]string{`"x", "abcd", "ab"`}, false},
		"a comma within another tag": {[]string{`"x,abc"`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := matches(tt.header, tag); got != tt.want {
				t.Errorf("%t", got)
			}
		})
	}
}
